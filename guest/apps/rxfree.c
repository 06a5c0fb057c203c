/* rxfree: receives packets and gives their buffers back at once, unread. What the receive path alone can do, and what the
 * way back to the pool costs: by rte_pktmbuf_free, packet by packet, or a whole burst straight into the pool. */
#include "port.h"

#include <stdio.h>
#include <string.h>
#include <rte_mempool.h>

enum { FREE = 1 };
static int whole;

static int take(int option, const char *value)
{
    if (option != FREE || (strcmp(value, "packet") != 0 && strcmp(value, "burst") != 0)) {
        fprintf(stderr, "--free %s: packet or burst\n", value);
        return -1;
    }
    whole = value[0] == 'b';
    return 0;
}

static void burst(struct worker *w, struct rte_mbuf **packets, uint16_t n)
{
    (void)w;
    if (whole) {
        rte_mempool_put_bulk(packets[0]->pool, (void **)packets, n);
        return;
    }
    for (uint16_t i = 0; i < n; i++)
        rte_pktmbuf_free(packets[i]);
}

/* A burst goes back as it is only if each packet is one buffer of the pool. */
static void check(uint16_t port)
{
    struct rte_eth_rxq_info queue;
    struct rte_eth_burst_mode mode;

    if (rte_eth_rx_queue_info_get(port, 0, &queue) == 0 && queue.scattered_rx)
        rte_exit(2, "--free burst: frames of %u B take several buffers of port %u\n", settings.max_pkt_len, port);
    if (rte_eth_rx_burst_mode_get(port, 0, &mode) == 0 && strstr(mode.info, "MPRQ") != NULL)
        rte_exit(2, "--free burst: port %u puts several packets into a buffer\n", port);
}

int main(int argc, char **argv)
{
    static const struct option own[] = { { "free", required_argument, NULL, FREE }, { 0 } };

    if (start(argc, argv, own, take) != 0)
        return 2;
    open_ports(0);
    if (whole) {
        uint16_t port;

        RTE_ETH_FOREACH_DEV(port)
            check(port);
    }
    return run(burst, NULL, NULL);
}
