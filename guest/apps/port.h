/* What the poll-mode programs share: options, ports and queues, worker loops, the end, and statistics.
 *
 * Each queue of each port is polled by one worker lcore; the main lcore waits for a signal or the end of its input. A
 * program gives the loop a function that takes a burst. */
#ifndef PORT_H
#define PORT_H

#include <getopt.h>
#include <stdint.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define BURST_MAX 512

/* What every program can be asked for. */
struct settings {
    uint16_t rxd, txd;      /* descriptors of a ring */
    uint16_t queues;        /* of each port and direction */
    uint16_t burst;         /* packets taken at once */
    uint32_t mbufs;         /* of all ports */
    uint32_t max_pkt_len;   /* of a frame, FCS included */
};

/* A worker and what it has seen. On cache lines of its own. */
struct worker {
    uint64_t received, sent, dropped;
    unsigned int index;     /* of the worker, from 0 */
    uint16_t port, queue;   /* of the burst in hand */
    void *state;            /* the program's own */
} __rte_cache_aligned;

typedef void (*burst_fn)(struct worker *w, struct rte_mbuf **packets, uint16_t n);
/* Called in every turn of the loop, packets or not; may be NULL. */
typedef void (*turn_fn)(struct worker *w);

extern struct settings settings;
extern struct rte_mempool *pool;

/* Takes the common options out of the command line and starts EAL. `own` are the program's own options and `take` what
 * is called for each; returns 0, or -1 after a message. */
int start(int argc, char **argv, const struct option *own, int (*take)(int option, const char *value));

/* A number of an option, between bounds; ends the program where it is none. */
uint64_t number(const char *option, const char *text, uint64_t low, uint64_t high);

/* Configures and starts all ports. `offloads` of transmission are asked for where the port has them; returns those in
 * force on all ports. */
uint64_t open_ports(uint64_t offloads);

/* Runs the workers to the end of the program and prints the statistics. */
int run(burst_fn burst, turn_fn turn, void *(*prepare)(unsigned int worker));

/* Sends packets by the queue of the burst in hand; what the ring does not take is dropped and counted. */
static inline void send_burst(struct worker *w, struct rte_mbuf **packets, uint16_t n)
{
    uint16_t sent = rte_eth_tx_burst(w->port, w->queue, packets, n);

    w->sent += sent;
    if (unlikely(sent < n)) {
        w->dropped += n - sent;
        rte_pktmbuf_free_bulk(packets + sent, n - sent);
    }
}

/* Sends a frame back to where it came from. */
static inline void swap_ethernet(struct rte_ether_hdr *eth)
{
    struct rte_ether_addr from = eth->src_addr;

    eth->src_addr = eth->dst_addr;
    eth->dst_addr = from;
}

#endif
