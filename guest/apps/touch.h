/* Reading a packet's whole payload, as network functions do that look into it. */
#ifndef TOUCH_H
#define TOUCH_H

#include <stdint.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>

/* What is looked for, byte by byte, as the gem5 study's touchfwd does. */
enum { LOOKED_FOR = 255 };

/* Writes what it finds to a place that is looked at: the compiler may neither leave the search out nor widen it. No byte
 * waits for the one before. */
static inline void touch(const struct rte_mbuf *packet, volatile uint8_t *found)
{
    for (; packet != NULL; packet = packet->next) {
        const uint8_t *byte = rte_pktmbuf_mtod(packet, const uint8_t *);
        const uint8_t *end = byte + rte_pktmbuf_data_len(packet);

        for (; byte < end; byte++)
            if (unlikely(*byte == LOOKED_FOR)) /* or the two programs differ by where the compiler puts this */
                *found = *byte;
    }
}

#endif
