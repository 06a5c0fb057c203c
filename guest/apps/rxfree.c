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
    /* Frames are of one segment here: the ports take no scattered ones. */
    if (whole) {
        rte_mempool_put_bulk(packets[0]->pool, (void **)packets, n);
        return;
    }
    for (uint16_t i = 0; i < n; i++)
        rte_pktmbuf_free(packets[i]);
}

int main(int argc, char **argv)
{
    static const struct option own[] = { { "free", required_argument, NULL, FREE }, { 0 } };

    if (start(argc, argv, own, take) != 0)
        return 2;
    open_ports(0);
    return run(burst, NULL, NULL);
}
