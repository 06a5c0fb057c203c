/* qdmafwd: forwards packets of a QDMA's queues as testpmd does on Xilinx's poll-mode driver: receives a burst, sends it by the
 * same queue.
 *
 *   --forward-mode MODE   io (default: no packet is looked at), macswap (addresses swapped), rxonly (packets are dropped) */
#include "ending.h"
#include "port.h"
#include "qdma.h"

#include <stdio.h>
#include <string.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

enum { FORWARD_MODE };
enum mode { IO, MACSWAP, RXONLY };

#define DEVICES_MAX 8
#define CACHE 256

static enum mode mode = IO;
static struct qdma *devices[DEVICES_MAX];
static unsigned int device_count, worker_count;
static struct worker *workers[RTE_MAX_LCORE];

static const struct option options[] = {
    { "forward-mode", required_argument, NULL, FORWARD_MODE },
    { NULL, 0, NULL, 0 },
};

static int take(int option, const char *value)
{
    static const char *const modes[] = { "io", "macswap", "rxonly" };

    (void)option;
    for (size_t i = 0; i < RTE_DIM(modes); i++) {
        if (strcmp(value, modes[i]) == 0) {
            mode = (enum mode)i;
            return 0;
        }
    }
    fprintf(stderr, "--forward-mode %s: io, macswap, rxonly\n", value);
    return -1;
}

static void open_devices(void)
{
    if (rte_eal_iova_mode() != RTE_IOVA_PA)
        rte_exit(1, "needs physical addresses (--iova-mode=pa)\n");
    pool = rte_pktmbuf_pool_create("packets", settings.mbufs, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (pool == NULL)
        rte_exit(1, "no memory for %u buffers\n", settings.mbufs);
    while (device_count < DEVICES_MAX && (devices[device_count] = qdma_open(device_count)) != NULL) {
        struct qdma *d = devices[device_count++];

        if (settings.queues > d->queues)
            rte_exit(2, "--rxq %u: %s has %u\n", settings.queues, d->address, d->queues);
        qdma_configure(d, settings.rxd, settings.txd, RTE_MBUF_DEFAULT_DATAROOM);
        for (uint32_t queue = 0; queue < settings.queues; queue++)
            qdma_start(d, queue, pool);
    }
    if (device_count == 0)
        rte_exit(1, "there is no QDMA\n");
}

static inline void forward(struct worker *w, struct qdma_queue *q, struct rte_mbuf **packets, uint16_t n)
{
    uint16_t sent;

    if (mode == RXONLY) {
        rte_pktmbuf_free_bulk(packets, n);
        return;
    }
    if (mode == MACSWAP)
        for (uint16_t i = 0; i < n; i++)
            swap_ethernet(rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *));
    sent = qdma_send(q, packets, n);
    w->sent += sent;
    if (unlikely(sent < n)) {
        w->dropped += n - sent;
        rte_pktmbuf_free_bulk(packets + sent, n - sent);
    }
}

/* The queues of all functions go to the workers in turn. */
static int work(void *arg)
{
    struct worker *w = arg;
    struct rte_mbuf *packets[BURST_MAX];
    struct qdma_queue *mine[QDMA_QUEUES_MAX];
    unsigned int count = 0, slot = 0;

    for (unsigned int d = 0; d < device_count; d++)
        for (unsigned int q = 0; q < settings.queues; q++)
            if (slot++ % worker_count == w->index && count < RTE_DIM(mine))
                mine[count++] = &devices[d]->queue[q];
    while (!ending) {
        for (unsigned int i = 0; i < count; i++) {
            uint16_t n = qdma_receive(mine[i], packets, settings.burst);

            if (n == 0)
                continue;
            w->received += n;
            forward(w, mine[i], packets, n);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t received = 0, sent = 0, dropped = 0;
    unsigned int lcore, count = 0;

    settings.mbufs = 16384;
    if (start(argc, argv, options, take) != 0)
        return 2;
    if (rte_lcore_count() < 2)
        rte_exit(2, "needs two lcores (-l): one waits, the others work\n");
    open_devices();
    worker_count = RTE_MIN(rte_lcore_count() - 1, (unsigned int)settings.queues * device_count);
    RTE_LCORE_FOREACH_WORKER(lcore) {
        struct worker *w;

        if (count == worker_count)
            break;
        w = rte_zmalloc("worker", sizeof(*w), RTE_CACHE_LINE_SIZE);
        if (w == NULL)
            rte_exit(1, "no memory\n");
        w->index = count;
        workers[count++] = w;
        rte_eal_remote_launch(work, w, lcore);
    }
    wait_for_the_end();
    rte_eal_mp_wait_lcore();
    for (unsigned int i = 0; i < worker_count; i++) {
        received += workers[i]->received;
        sent += workers[i]->sent;
        dropped += workers[i]->dropped;
    }
    for (unsigned int d = 0; d < device_count; d++)
        for (uint32_t queue = 0; queue < settings.queues; queue++)
            qdma_stop(devices[d], queue);
    printf("statistics: received %lu sent %lu dropped %lu\n", received, sent, dropped);
    fflush(stdout);
    rte_eal_cleanup();
    return 0;
}
