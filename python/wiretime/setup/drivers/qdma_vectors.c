/* The driver's paths with vectors are for x86 alone, but it names them everywhere: its plain ones in their place. */
#include "qdma.h"
#include "qdma_devops.h"

uint16_t qdma_recv_pkts_vec(void *rx_queue, struct rte_mbuf **rx_pkts, uint16_t nb_pkts)
{
	return qdma_recv_pkts(rx_queue, rx_pkts, nb_pkts);
}

uint16_t qdma_xmit_pkts_vec(void *tx_queue, struct rte_mbuf **tx_pkts, uint16_t nb_pkts)
{
	return qdma_xmit_pkts(tx_queue, tx_pkts, nb_pkts);
}
