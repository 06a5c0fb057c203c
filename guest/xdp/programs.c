/* The XDP programs. Each does what the kernel's samples for measuring do (xdp_rxq_info, xdp_redirect_map, xdp_fwd): it
 * looks up what to do, counts the packet in all and by queue, and then drops it, swaps its MAC addresses and sends it back,
 * sends it by another interface, or asks the kernel's routes where to. */
#include "programs.h"

#include "bpf.h"

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <sys/socket.h>

enum { R0, R1, R2, R3, R4, R5, CONTEXT, DATA, END, OTHER, FRAME };

/* The stack: a key, and the parameters of a look-up of routes. */
enum { KEY = -4, FIB = -8 - (int)sizeof(struct bpf_fib_lookup) };

/* A program being written. Jumps to its end are filled in when it is known. */
struct writer {
    struct bpf_insn *code;
    int length;
    int giving_up[16];
    int jumps;
};

#define PUT(w, ...) put(w, (const struct bpf_insn[]){ __VA_ARGS__ }, sizeof((struct bpf_insn[]){ __VA_ARGS__ }) / sizeof(struct bpf_insn))

static void put(struct writer *w, const struct bpf_insn *code, size_t n)
{
    memcpy(&w->code[w->length], code, n * sizeof(*code));
    w->length += (int)n;
}

/* Leave the packet to the kernel where a condition holds. */
static void give_up(struct writer *w, struct bpf_insn jump)
{
    w->giving_up[w->jumps++] = w->length;
    put(w, &jump, 1);
}

/* One more at R0, the entry of a map whose key is on the stack. */
static void count(struct writer *w, int map)
{
    PUT(w, MAP(R1, map), MOV(R2, FRAME), ADD_I(R2, KEY), CALL(BPF_FUNC_map_lookup_elem));
    give_up(w, JUMP_I(BPF_JEQ, R0, 0, 0));
    PUT(w, LOAD(BPF_DW, R1, R0, 0), ADD_I(R1, 1), STORE(BPF_DW, R0, 0, R1));
}

static void swap_addresses(struct writer *w)
{
    for (int i = 0; i < ETH_ALEN; i += 2)
        PUT(w, LOAD(BPF_H, R1, DATA, i), LOAD(BPF_H, R2, DATA, ETH_ALEN + i), STORE(BPF_H, DATA, i, R2),
            STORE(BPF_H, DATA, ETH_ALEN + i, R1));
}

/* R0 becomes the verdict of sending by the device whose key is in R2. */
static void redirect(struct writer *w, int devices)
{
    PUT(w, MAP(R1, devices), MOV_I(R3, XDP_PASS), CALL(BPF_FUNC_redirect_map));
}

/* Asks for the route of an IPv4 packet, writes the addresses of the next hop, and counts its time to live down. */
static void route(struct writer *w, int devices)
{
    enum { IP = ETH_HLEN };
    const int type = offsetof(struct ethhdr, h_proto), ttl = IP + (int)offsetof(struct iphdr, ttl);
    const int sum = IP + (int)offsetof(struct iphdr, check);
    struct { int size, from, to; } fields[] = {
        { BPF_B, IP + offsetof(struct iphdr, tos), offsetof(struct bpf_fib_lookup, tos) },
        { BPF_B, IP + offsetof(struct iphdr, protocol), offsetof(struct bpf_fib_lookup, l4_protocol) },
        { BPF_W, IP + offsetof(struct iphdr, saddr), offsetof(struct bpf_fib_lookup, ipv4_src) },
        { BPF_W, IP + offsetof(struct iphdr, daddr), offsetof(struct bpf_fib_lookup, ipv4_dst) },
    };

    PUT(w, LOAD(BPF_H, R1, DATA, type));
    give_up(w, JUMP_I(BPF_JNE, R1, __builtin_bswap16(ETH_P_IP), 0));
    PUT(w, MOV(R1, DATA), ADD_I(R1, IP + (int)sizeof(struct iphdr)));
    give_up(w, JUMP(BPF_JGT, R1, END, 0));
    PUT(w, LOAD(BPF_B, R1, DATA, ttl));
    give_up(w, JUMP_I(BPF_JLE, R1, 1, 0));
    for (size_t at = 0; at < sizeof(struct bpf_fib_lookup); at += 8)
        PUT(w, STORE_I(BPF_DW, FRAME, FIB + (int)at, 0));
    PUT(w, STORE_I(BPF_B, FRAME, FIB + (int)offsetof(struct bpf_fib_lookup, family), AF_INET));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        PUT(w, LOAD(fields[i].size, R1, DATA, fields[i].from), STORE(fields[i].size, FRAME, FIB + fields[i].to, R1));
    PUT(w, LOAD(BPF_H, R1, DATA, IP + (int)offsetof(struct iphdr, tot_len)),
        INSN(BPF_ALU | BPF_END | BPF_TO_BE, R1, 0, 0, 16),
        STORE(BPF_H, FRAME, FIB + (int)offsetof(struct bpf_fib_lookup, tot_len), R1),
        LOAD(BPF_W, R1, CONTEXT, offsetof(struct xdp_md, ingress_ifindex)),
        STORE(BPF_W, FRAME, FIB + (int)offsetof(struct bpf_fib_lookup, ifindex), R1), MOV(R1, CONTEXT), MOV(R2, FRAME),
        ADD_I(R2, FIB), MOV_I(R3, sizeof(struct bpf_fib_lookup)), MOV_I(R4, BPF_FIB_LOOKUP_DIRECT),
        CALL(BPF_FUNC_fib_lookup));
    give_up(w, JUMP_I(BPF_JNE, R0, BPF_FIB_LKUP_RET_SUCCESS, 0));
    /* The checksum's change for one less in the upper byte of a word (RFC 1624), with its carry. */
    PUT(w, LOAD(BPF_H, R1, DATA, sum), ADD_I(R1, __builtin_bswap16(0x0100)), MOV(R2, R1), RSH_I(R2, 16), ADD(R1, R2),
        STORE(BPF_H, DATA, sum, R1), LOAD(BPF_B, R1, DATA, ttl), ADD_I(R1, -1), STORE(BPF_B, DATA, ttl, R1));
    for (int i = 0; i < ETH_ALEN; i += 2)
        PUT(w, LOAD(BPF_H, R1, FRAME, FIB + (int)offsetof(struct bpf_fib_lookup, dmac) + i), STORE(BPF_H, DATA, i, R1),
            LOAD(BPF_H, R1, FRAME, FIB + (int)offsetof(struct bpf_fib_lookup, smac) + i),
            STORE(BPF_H, DATA, ETH_ALEN + i, R1));
    PUT(w, LOAD(BPF_W, R2, FRAME, FIB + (int)offsetof(struct bpf_fib_lookup, ifindex)));
    redirect(w, devices);
}

int program_of(enum action action, int touch, const struct maps *maps, struct bpf_insn code[PROGRAM_MAX])
{
    struct writer w = { .code = code };

    PUT(&w, MOV(CONTEXT, R1), LOAD(BPF_W, DATA, R1, offsetof(struct xdp_md, data)),
        LOAD(BPF_W, END, R1, offsetof(struct xdp_md, data_end)), STORE_I(BPF_W, FRAME, KEY, 0), MAP(R1, maps->config),
        MOV(R2, FRAME), ADD_I(R2, KEY), CALL(BPF_FUNC_map_lookup_elem));
    give_up(&w, JUMP_I(BPF_JEQ, R0, 0, 0));
    PUT(&w, LOAD(BPF_W, OTHER, R0, 0));
    count(&w, maps->packets);
    PUT(&w, LOAD(BPF_W, R1, CONTEXT, offsetof(struct xdp_md, rx_queue_index)), STORE(BPF_W, FRAME, KEY, R1));
    count(&w, maps->queues);
    PUT(&w, MOV(R1, DATA), ADD_I(R1, ETH_HLEN));
    give_up(&w, JUMP(BPF_JGT, R1, END, 0));
    if (touch) {
        PUT(&w, LOAD(BPF_H, R1, DATA, offsetof(struct ethhdr, h_proto)));
        give_up(&w, JUMP_I(BPF_JEQ, R1, __builtin_bswap16(ETH_P_ARP), 0));
    }
    if (action == TX || action == REDIRECT)
        swap_addresses(&w);
    if (action == REDIRECT) {
        PUT(&w, LOAD(BPF_W, R2, CONTEXT, offsetof(struct xdp_md, ingress_ifindex)));
        redirect(&w, maps->devices);
    } else if (action == ROUTE) {
        route(&w, maps->devices);
    } else {
        PUT(&w, MOV(R0, OTHER));
    }
    PUT(&w, EXIT);
    for (int i = 0; i < w.jumps; i++)
        code[w.giving_up[i]].off = (short)(w.length - w.giving_up[i] - 1);
    PUT(&w, MOV_I(R0, XDP_PASS), EXIT);
    return w.length;
}
