/* xdp: attaches an XDP program to every interface of the host, and leaves the packets to it until told to end.
 *
 *   xdp drop|tx|redirect|route [--touch]
 *
 * drop: every packet is dropped in the driver. tx: it leaves by where it came from, MAC addresses swapped. redirect: it
 * leaves by the next interface. route: the kernel's routes say by which, and to whom. --touch: its type is read. Where a
 * driver cannot run such programs, the kernel does, behind it. */
#define _GNU_SOURCE
#include "bpf.h"
#include "programs.h"

#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CORES_MAX = 256, DEVICES_MAX = 64 };

static const char *const names[] = { [DROP] = "drop", [TX] = "tx", [REDIRECT] = "redirect", [ROUTE] = "route" };
static const uint32_t verdicts[] = { [DROP] = XDP_DROP, [TX] = XDP_TX, [REDIRECT] = XDP_REDIRECT, [ROUTE] = XDP_PASS };

static int failed(const char *what)
{
    fprintf(stderr, "xdp: %s: %s\n", what, strerror(errno));
    return -1;
}

static int map_of(enum bpf_map_type type, unsigned int value, unsigned int entries)
{
    union bpf_attr a = { .map_type = type, .key_size = 4, .value_size = value, .max_entries = entries };
    int map = bpf(BPF_MAP_CREATE, &a);

    return map < 0 ? failed("a map") : map;
}

static int set(int map, uint32_t key, const void *value)
{
    union bpf_attr a = { .map_fd = (uint32_t)map, .key = (uintptr_t)&key, .value = (uintptr_t)value };

    return bpf(BPF_MAP_UPDATE_ELEM, &a) == 0 ? 0 : failed("a map's entry");
}

static int load(enum action action, int touch, const struct maps *maps)
{
    static char log[65536];
    struct bpf_insn code[PROGRAM_MAX];
    union bpf_attr a = { .prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)code, .license = (uintptr_t) "GPL",
                         .log_buf = (uintptr_t)log, .log_size = sizeof(log), .log_level = 1 };
    int program;

    a.insn_cnt = (uint32_t)program_of(action, touch, maps, code);
    program = bpf(BPF_PROG_LOAD, &a);
    if (program < 0)
        fprintf(stderr, "%s", log);
    return program < 0 ? failed("the program") : program;
}

static int attach(int program, unsigned int interface)
{
    union bpf_attr a = { .link_create = { .prog_fd = (uint32_t)program, .target_ifindex = interface,
                                          .attach_type = BPF_XDP } };

    return bpf(BPF_LINK_CREATE, &a) < 0 ? failed("attaching") : 0;
}

/* Packets of all cores. */
static uint64_t packets(int map)
{
    static uint64_t counts[CORES_MAX];
    uint32_t key = 0;
    uint64_t sum = 0;
    union bpf_attr a = { .map_fd = (uint32_t)map, .key = (uintptr_t)&key, .value = (uintptr_t)counts };

    if (bpf(BPF_MAP_LOOKUP_ELEM, &a) != 0)
        return 0;
    for (int i = 0; i < CORES_MAX; i++)
        sum += counts[i];
    return sum;
}

/* Ethernet interfaces of the host, in their order; returns how many. */
static int interfaces(unsigned int found[DEVICES_MAX])
{
    struct if_nameindex *all = if_nameindex();
    int n = 0;

    for (struct if_nameindex *i = all; i && i->if_index && n < DEVICES_MAX; i++)
        if (!strncmp(i->if_name, "eth", 3) && i->if_index < DEVICES_MAX)
            found[n++] = i->if_index;
    if (all)
        if_freenameindex(all);
    return n;
}

static int usage(void)
{
    fprintf(stderr, "usage: xdp drop|tx|redirect|route [--touch]\n");
    return 2;
}

int main(int argc, char **argv)
{
    unsigned int found[DEVICES_MAX];
    int touch = argc > 2 && !strcmp(argv[2], "--touch"), n = interfaces(found), program, signal;
    struct maps maps;
    sigset_t ends;
    size_t action;

    for (action = 0; action < sizeof(names) / sizeof(names[0]); action++)
        if (argc > 1 && !strcmp(argv[1], names[action]))
            break;
    if (action == sizeof(names) / sizeof(names[0]) || argc > 2 + touch)
        return usage();
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    maps.config = map_of(BPF_MAP_TYPE_ARRAY, 4, 1);
    maps.packets = map_of(BPF_MAP_TYPE_PERCPU_ARRAY, 8, 1);
    maps.queues = map_of(BPF_MAP_TYPE_PERCPU_ARRAY, 8, QUEUES_MAX);
    maps.devices = map_of(BPF_MAP_TYPE_DEVMAP, 4, DEVICES_MAX);
    if (maps.config < 0 || maps.packets < 0 || maps.queues < 0 || maps.devices < 0 ||
        set(maps.config, 0, &verdicts[action]) != 0)
        return 1;
    program = load((enum action)action, touch, &maps);
    if (program < 0)
        return 1;
    for (int i = 0; i < n; i++)
        if (set(maps.devices, found[i], &found[action == REDIRECT ? (i + 1) % n : i]) != 0 || attach(program, found[i]) != 0)
            return 1;
    printf("xdp: %s on %d interfaces\n", names[action], n);
    fflush(stdout);
    sigwait(&ends, &signal);
    printf("xdp: %llu packets\n", (unsigned long long)packets(maps.packets));
    return 0;
}
