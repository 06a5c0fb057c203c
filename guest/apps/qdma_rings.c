/* The rings while packets flow. */
#include "qdma.h"

#include <rte_io.h>

/* Doorbells of a queue, and what a completion doorbell says beside the index: count 64, 30 ticks, both, status on. */
enum { H2C_PIDX = 1, C2H_PIDX = 2, COMPLETION_CIDX = 3 };
#define MODERATION (7u << 16 | 9u << 20 | 5u << 24 | 1u << 27)

#define H2C_FIRST 1
#define H2C_LAST 2

static inline uint32_t behind(uint32_t index, uint32_t by, uint32_t entries)
{
    uint32_t next = index + by;

    return next >= entries ? next - entries : next;
}

static inline uint32_t distance(uint32_t from, uint32_t to, uint32_t entries)
{
    return to >= from ? to - from : to + entries - from;
}

/* Takes `n` buffers from the pool straight into the list, and posts them; all or none of a piece. */
static inline int post_piece(struct qdma_queue *q, uint32_t n)
{
    uint32_t at = q->rx_pidx;

    if (rte_mempool_get_bulk(q->pool, (void **)&q->posted[at], n) != 0)
        return -1;
    for (uint32_t i = 0; i < n; i++, at++) {
        struct rte_mbuf *m = q->posted[at];

        m->data_off = RTE_PKTMBUF_HEADROOM;
        q->c2h[at] = m->buf_iova + RTE_PKTMBUF_HEADROOM;
    }
    q->rx_pidx = behind(q->rx_pidx, n, q->rx_entries);
    return 0;
}

/* Posts as many buffers as have been taken; those that the pool does not have, the next time. */
static void refill(struct qdma_queue *q)
{
    uint32_t before = q->rx_pidx, wanted = q->rx_entries - 2 - distance(q->rx_taken, before, q->rx_entries);
    uint32_t straight = RTE_MIN(wanted, q->rx_entries - before);

    if (straight != 0 && post_piece(q, straight) == 0 && wanted > straight)
        post_piece(q, wanted - straight);
    if (q->rx_pidx != before)
        rte_write32(q->rx_pidx | 1 << 16, &q->doorbells[C2H_PIDX]);
}

void qdma_receive_begins(struct qdma_queue *q)
{
    rte_write32(q->rx_cidx | MODERATION, &q->doorbells[COMPLETION_CIDX]);
    refill(q);
    if (q->rx_pidx == 0)
        rte_exit(1, "too few buffers for a ring of %u\n", q->rx_entries);
}

/* A packet of so many bytes out of the buffers that come next. */
static inline struct rte_mbuf *packet(struct qdma_queue *q, uint32_t length)
{
    struct rte_mbuf *first = q->posted[q->rx_taken], *last = first;

    first->pkt_len = length;
    first->nb_segs = 1;
    first->packet_type = 0;
    first->ol_flags = 0;
    first->port = 0;
    first->vlan_tci = 0;
    for (;;) {
        uint32_t part = RTE_MIN(length, q->buffer);

        rte_mbuf_refcnt_set(last, 1);
        last->data_len = part;
        length -= part;
        q->rx_taken = behind(q->rx_taken, 1, q->rx_entries);
        if (likely(length == 0))
            break;
        last->next = q->posted[q->rx_taken];
        last = last->next;
        first->nb_segs++;
    }
    last->next = NULL;
    return first;
}

uint16_t qdma_receive(struct qdma_queue *q, struct rte_mbuf **packets, uint16_t n)
{
    uint32_t available = distance(q->rx_cidx, q->completed->pidx, q->rx_entries);
    uint16_t lengths[QDMA_BURST_MAX];

    n = RTE_MIN(n, (uint16_t)RTE_MIN(available, (uint32_t)QDMA_BURST_MAX));
    if (n == 0)
        return 0;
    rte_rmb();
    /* The device may use the entries again as soon as they are copied. */
    for (uint16_t i = 0; i < n; i++) {
        lengths[i] = q->completions[q->rx_cidx].word >> 4;
        q->rx_cidx = behind(q->rx_cidx, 1, q->rx_entries);
    }
    rte_write32(q->rx_cidx | MODERATION, &q->doorbells[COMPLETION_CIDX]);
    for (uint16_t i = 0; i < n; i++)
        packets[i] = packet(q, lengths[i]);
    refill(q);
    return n;
}

static void reclaim(struct qdma_queue *q, uint32_t upto)
{
    if (upto < q->tx_cidx) {
        rte_pktmbuf_free_bulk(&q->sending[q->tx_cidx], q->tx_entries - q->tx_cidx);
        q->tx_cidx = 0;
    }
    if (upto > q->tx_cidx)
        rte_pktmbuf_free_bulk(&q->sending[q->tx_cidx], upto - q->tx_cidx);
    q->tx_cidx = upto;
}

uint16_t qdma_send(struct qdma_queue *q, struct rte_mbuf **packets, uint16_t n)
{
    uint32_t room;
    uint16_t count;

    reclaim(q, q->sent->cidx);
    room = q->tx_entries - 1 - distance(q->tx_cidx, q->tx_pidx, q->tx_entries);
    for (count = 0; count < n && packets[count]->nb_segs <= room; count++) {
        uint16_t flags = H2C_FIRST;

        room -= packets[count]->nb_segs;
        for (struct rte_mbuf *m = packets[count], *next; m != NULL; m = next) {
            struct qdma_h2c *to = &q->h2c[q->tx_pidx];

            next = m->next;
            /* Each segment is freed by itself once it has been sent. */
            m->next = NULL;
            m->nb_segs = 1;
            to->user = 0;
            to->payload = m->data_len;
            to->length = m->data_len;
            to->flags = flags | (next == NULL ? H2C_LAST : 0);
            to->address = rte_mbuf_data_iova(m);
            q->sending[q->tx_pidx] = m;
            q->tx_pidx = behind(q->tx_pidx, 1, q->tx_entries);
            flags = 0;
        }
    }
    if (count != 0)
        rte_write32(q->tx_pidx, &q->doorbells[H2C_PIDX]);
    return count;
}
