/* The XDP programs. */
#ifndef WIRETIME_PROGRAMS_H
#define WIRETIME_PROGRAMS_H

#include <linux/bpf.h>

enum { PROGRAM_MAX = 128, QUEUES_MAX = 64 };

enum action { DROP, TX, REDIRECT, ROUTE };

/* What programs share with their loader, by descriptor: which verdict (array of one), packets (per core, one), packets by
 * queue (per core), and devices to send by, by the number of the interface that a packet came in by (redirect) or is to
 * leave by (route). */
struct maps {
    int config, packets, queues, devices;
};

/* Write a program's instructions to `code`; returns how many. `touch`: it reads of every packet what kind it is. */
int program_of(enum action action, int touch, const struct maps *maps, struct bpf_insn code[PROGRAM_MAX]);

#endif
