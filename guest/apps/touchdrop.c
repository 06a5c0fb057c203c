/* touchdrop: reads every byte of every packet and drops it. What a receiver costs that answers nothing. */
#include "port.h"
#include "touch.h"

static volatile uint8_t found[RTE_MAX_LCORE];

static void burst(struct worker *w, struct rte_mbuf **packets, uint16_t n)
{
    for (uint16_t i = 0; i < n; i++)
        touch(packets[i], &found[w->index]);
    rte_pktmbuf_free_bulk(packets, n);
}

int main(int argc, char **argv)
{
    if (start(argc, argv, NULL, NULL) != 0)
        return 2;
    open_ports(0);
    return run(burst, NULL, NULL);
}
