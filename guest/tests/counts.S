// A kernel image of its own: device accesses in the middle of blocks, data aborts, page faults and system calls, no
// interrupts. A page that faults is mapped by the handler, and its access is executed again; then it is taken away.
// The number of instructions that it executes does not depend on how QEMU cuts it into blocks.
        .section .text
        .global _start
_start:
        b       begin
        .long   0
        .quad   0                       // arm64 Linux image header: load offset, size, flags
        .quad   end - _start
        .quad   0xa
        .quad   0, 0, 0
        .ascii  "ARM\x64"
        .long   0
begin:
        adr     x0, vectors
        msr     vbar_el1, x0
        adr     x11, table
        msr     ttbr0_el1, x11
        movz    x0, #0xff00             // attributes: 0 device, 1 memory with write-back
        msr     mair_el1, x0
        movz    x0, #0x3519             // 39 bits of address, 4 KiB pages, tables in write-back memory
        movk    x0, #0x1, lsl #32       // 36 bits of physical address
        msr     tcr_el1, x0
        isb
        mrs     x0, sctlr_el1
        movz    x9, #0x1005             // translation and caches on
        orr     x0, x0, x9
        msr     sctlr_el1, x0
        isb
        movz    x10, #0x8000, lsl #16   // the page that faults
        movz    x1, #0x900, lsl #16     // the UART
        movz    x2, #0x4, lsl #32       // nothing is there: aborts
        mov     x3, #200
loop:
        add     x4, x4, #1
        strb    w4, [x1]                // in mid-block
        add     x4, x4, #1
        ldr     w5, [x1, #0x18]
        add     x4, x4, #1
        ldr     x6, [x2]                // faults in mid-block
        add     x4, x4, #1
        svc     #0
        add     x4, x4, #1
        ldr     x7, [x10]               // a page fault in mid-block, then what it wanted
        add     x4, x4, #1
        str     xzr, [x11, #16]
        dsb     ish
        tlbi    vmalle1
        dsb     ish
        isb
        ldp     x6, x7, [sp]
        subs    x3, x3, #1
        b.ne    loop
        movz    x0, #0x8400, lsl #16    // PSCI SYSTEM_OFF
        movk    x0, #8
        hvc     #0
        b       .

        .align  11
vectors:
        .rept   4
        .align  7
        b       .
        .endr
        .align  7                       // synchronous, this level, own stack
        mrs     x9, esr_el1
        lsr     x9, x9, #26
        cmp     x9, #0x15               // a system call returns behind itself
        b.eq    1f
        mrs     x9, far_el1
        cmp     x9, x10
        b.eq    2f
        mrs     x9, elr_el1
        add     x9, x9, #4
        msr     elr_el1, x9
1:      eret
2:      ldr     x9, [x11, #8]           // mapped to the first of memory
        str     x9, [x11, #16]
        dsb     ishst
        isb
        eret
        .align  12
table:                                  // GiB by GiB: devices, memory, the page, and where nothing is
        .quad   0x401
        .quad   0x40000705
        .quad   0
        .rept   13
        .quad   0
        .endr
        .quad   0x400000401
        .rept   495
        .quad   0
        .endr
end:
