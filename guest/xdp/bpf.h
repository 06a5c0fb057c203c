/* Instructions of eBPF, as the kernel's own assembler-like macros write them, and the system call that loads them. With
 * these few programs a compiler for BPF and a loader library would be most of the guest's image. */
#ifndef WIRETIME_BPF_H
#define WIRETIME_BPF_H

#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INSN(op, dst, src, offset, value) \
    ((struct bpf_insn){ .code = (op), .dst_reg = (dst), .src_reg = (src), .off = (offset), .imm = (value) })
#define MOV(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define MOV_I(dst, value) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define ADD_I(dst, value) INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value)
#define ADD(dst, src) INSN(BPF_ALU64 | BPF_ADD | BPF_X, dst, src, 0, 0)
#define RSH_I(dst, value) INSN(BPF_ALU64 | BPF_RSH | BPF_K, dst, 0, 0, value)
#define LOAD(size, dst, src, offset) INSN(BPF_LDX | (size) | BPF_MEM, dst, src, offset, 0)
#define STORE(size, dst, offset, src) INSN(BPF_STX | (size) | BPF_MEM, dst, src, offset, 0)
#define STORE_I(size, dst, offset, value) INSN(BPF_ST | (size) | BPF_MEM, dst, 0, offset, value)
#define JUMP(test, dst, src, offset) INSN(BPF_JMP | (test) | BPF_X, dst, src, offset, 0)
#define JUMP_I(test, dst, value, offset) INSN(BPF_JMP | (test) | BPF_K, dst, 0, offset, value)
#define CALL(function) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* Two instructions long. */
#define MAP(dst, descriptor) \
    INSN(BPF_LD | BPF_DW | BPF_IMM, dst, BPF_PSEUDO_MAP_FD, 0, descriptor), INSN(0, 0, 0, 0, 0)

static inline int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

#endif
