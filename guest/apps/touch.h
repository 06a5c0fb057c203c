/* Reading a packet's whole payload, as network functions do that look into it. */
#ifndef TOUCH_H
#define TOUCH_H

#include <stdint.h>
#include <rte_mbuf.h>

/* A load for each byte: the compiler may not merge them. */
static inline uint64_t touch(const struct rte_mbuf *packet)
{
    uint64_t sum = 0;

    for (; packet != NULL; packet = packet->next) {
        const volatile uint8_t *byte = rte_pktmbuf_mtod(packet, const volatile uint8_t *);
        const volatile uint8_t *end = byte + rte_pktmbuf_data_len(packet);

        for (; byte < end; byte++)
            sum += *byte;
    }
    return sum;
}

#endif
