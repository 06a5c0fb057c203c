/* touchfwd: reads every byte of every packet and sends it back. A network function that looks into payloads: bound by
 * the core at every packet size. */
#include "port.h"
#include "touch.h"

static volatile uint8_t found[RTE_MAX_LCORE];

static void burst(struct worker *w, struct rte_mbuf **packets, uint16_t n)
{
    for (uint16_t i = 0; i < n; i++) {
        touch(packets[i], &found[w->index]);
        swap_ethernet(rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *));
    }
    send_burst(w, packets, n);
}

int main(int argc, char **argv)
{
    if (start(argc, argv, NULL, NULL) != 0)
        return 2;
    open_ports(0);
    return run(burst, NULL, NULL);
}
