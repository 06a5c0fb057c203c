// A kernel image of its own: device accesses in the middle of blocks, data aborts and system calls, no interrupts.
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
        isb
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
        mrs     x9, elr_el1
        add     x9, x9, #4
        msr     elr_el1, x9
1:      eret
        .align  11
end:
