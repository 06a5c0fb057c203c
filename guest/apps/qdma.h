/* A QDMA's physical function, driven as Xilinx's poll-mode driver for DPDK drives it (dma_ip_drivers 2023.1.2, streaming):
 * registers, contexts, and rings of packets. Our own code; names of registers and fields are the product guides' (PG347).
 *
 * Each queue pair has three rings of `entries` entries and one more, in which the device tells how far it has come:
 * descriptors of buffers to fill (C2H, 8 bytes), completions of packets (16), descriptors of packets to send (H2C, 16).
 * One entry of each stays free. A loop writes three doorbells: completions read, buffers posted, packets posted. */
#ifndef QDMA_H
#define QDMA_H

#include <stdint.h>
#include <rte_mbuf.h>

#define QDMA_QUEUES_MAX 512
/* Most packets that one call takes, as in the driver. */
#define QDMA_BURST_MAX 128

struct qdma_status {
    volatile uint16_t pidx, cidx;
    uint32_t rest;
};

struct qdma_completion {
    uint64_t word, user;
};

struct qdma_h2c {
    uint16_t user, payload, length, flags;
    uint64_t address;
};

/* Receive and transmit rings of a queue. */
struct qdma_queue {
    volatile uint32_t *doorbells;   /* H2C PIDX, C2H PIDX, completion CIDX follow the first */
    struct rte_mempool *pool;
    uint32_t buffer;                /* bytes of a buffer */

    volatile uint64_t *c2h;
    const struct qdma_completion *completions;
    const struct qdma_status *completed;
    struct rte_mbuf **posted;
    uint32_t rx_entries;
    uint32_t rx_pidx, rx_taken, rx_cidx;

    struct qdma_h2c *h2c;
    const struct qdma_status *sent;
    struct rte_mbuf **sending;
    uint32_t tx_entries;
    uint32_t tx_pidx, tx_cidx;
} __rte_cache_aligned;

struct qdma {
    volatile uint8_t *config;       /* BAR 0 */
    char address[16];               /* of the function on the bus */
    uint32_t queues;
    struct qdma_queue queue[QDMA_QUEUES_MAX];
};

/* Finds function `index` of those that are a QDMA, switches it on and checks what it says of itself. Returns NULL where there
 * is none; ends the program where it is not what this driver knows. */
struct qdma *qdma_open(unsigned int index);

/* Fills the device's tables, for rings of so many entries and buffers of so many bytes. */
void qdma_configure(struct qdma *d, uint32_t rx_entries, uint32_t tx_entries, uint32_t buffer);

/* Sets up a queue pair and posts its buffers; ends the program where there is no memory. */
void qdma_start(struct qdma *d, uint32_t queue, struct rte_mempool *pool);

/* Tells the device where reading starts, and posts the first buffers. */
void qdma_receive_begins(struct qdma_queue *q);

/* Switches a queue pair off. */
void qdma_stop(struct qdma *d, uint32_t queue);

/* Takes up to `n` packets. */
uint16_t qdma_receive(struct qdma_queue *q, struct rte_mbuf **packets, uint16_t n);

/* Sends packets and frees what has been sent; returns how many the ring took. */
uint16_t qdma_send(struct qdma_queue *q, struct rte_mbuf **packets, uint16_t n);

#endif
