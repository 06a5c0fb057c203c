#include "ending.h"
#include "port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

/* Options of our own come behind those of the programs. */
enum { RXD = 1000, TXD, RXQ, BURST, MBUFS, MAX_PKT_LEN };

/* Where a program runs out of buffers its ring stands still: both rings of every queue can be full. */
#define CACHE 256
#define SPARE_BUFFERS 1024
#define LINK_WAIT_MS 9000

/* A frame lies in one buffer: an 82599 takes whole KiB of its room, and its driver wants room for two VLAN tags besides. */
#define KIB 1024
#define TAGS 8

struct settings settings = { .rxd = 1024, .txd = 1024, .queues = 1, .burst = 32, .max_pkt_len = 1518 };
struct rte_mempool *pool;

static burst_fn take_burst;
static turn_fn take_turn;
static struct worker *workers[RTE_MAX_LCORE];
static unsigned int worker_count;

static const struct option common[] = {
    { "rxd", required_argument, NULL, RXD },     { "txd", required_argument, NULL, TXD },
    { "rxq", required_argument, NULL, RXQ },     { "burst", required_argument, NULL, BURST },
    { "mbufs", required_argument, NULL, MBUFS }, { "max-pkt-len", required_argument, NULL, MAX_PKT_LEN },
};

uint64_t number(const char *option, const char *text, uint64_t low, uint64_t high)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value < low || value > high)
        rte_exit(2, "--%s %s: allowed are %llu to %llu\n", option, text, (unsigned long long)low,
                 (unsigned long long)high);
    return value;
}

static void common_option(int option, const char *text)
{
    switch (option) {
    case RXD: settings.rxd = number("rxd", text, 32, 4096); break;
    case TXD: settings.txd = number("txd", text, 32, 4096); break;
    case RXQ: settings.queues = number("rxq", text, 1, 64); break;
    case BURST: settings.burst = number("burst", text, 1, BURST_MAX); break;
    case MBUFS: settings.mbufs = number("mbufs", text, 64, 1 << 24); break;
    case MAX_PKT_LEN: settings.max_pkt_len = number("max-pkt-len", text, 64, 9728); break;
    }
}

int start(int argc, char **argv, const struct option *own, int (*take)(int option, const char *value))
{
    struct option all[32] = { 0 };
    size_t n = 0;
    int eal, option;

    eal = rte_eal_init(argc, argv);
    if (eal < 0) {
        fprintf(stderr, "EAL does not start\n");
        return -1;
    }
    argc -= eal;
    argv += eal;
    for (size_t i = 0; i < RTE_DIM(common); i++)
        all[n++] = common[i];
    for (; own != NULL && own->name != NULL && n < RTE_DIM(all) - 1; own++)
        all[n++] = *own;
    while ((option = getopt_long(argc, argv, "", all, NULL)) != -1) {
        if (option == '?')
            return -1;
        if (option >= RXD)
            common_option(option, optarg);
        else if (take == NULL || take(option, optarg) != 0)
            return -1;
    }
    if (optind < argc) {
        fprintf(stderr, "%s: not an option\n", argv[optind]);
        return -1;
    }
    return 0;
}

static void open_port(uint16_t port, uint64_t *offloads)
{
    struct rte_eth_dev_info info;
    struct rte_eth_conf conf = { 0 };
    uint16_t rxd = settings.rxd, txd = settings.txd;

    if (rte_eth_dev_info_get(port, &info) != 0)
        rte_exit(1, "port %u tells nothing\n", port);
    if (settings.queues > info.max_rx_queues || settings.queues > info.max_tx_queues)
        rte_exit(2, "--rxq %u: port %u has %u\n", settings.queues, port, info.max_rx_queues);
    *offloads &= info.tx_offload_capa;
    conf.txmode.offloads = *offloads;
    if (settings.max_pkt_len > RTE_ETHER_MAX_LEN)
        conf.rxmode.mtu = settings.max_pkt_len - RTE_ETHER_HDR_LEN - RTE_ETHER_CRC_LEN;
    if (settings.queues > 1) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf =
            (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP) & info.flow_type_rss_offloads;
    }
    if (rte_eth_dev_configure(port, settings.queues, settings.queues, &conf) != 0 ||
        rte_eth_dev_adjust_nb_rx_tx_desc(port, &rxd, &txd) != 0)
        rte_exit(1, "port %u cannot be configured\n", port);
    for (uint16_t q = 0; q < settings.queues; q++) {
        struct rte_eth_txconf tx = info.default_txconf;

        tx.offloads = conf.txmode.offloads;
        if (rte_eth_rx_queue_setup(port, q, rxd, SOCKET_ID_ANY, NULL, pool) != 0 ||
            rte_eth_tx_queue_setup(port, q, txd, SOCKET_ID_ANY, &tx) != 0)
            rte_exit(1, "port %u: queue %u cannot be set up\n", port, q);
    }
    if (rte_eth_dev_start(port) != 0)
        rte_exit(1, "port %u does not start\n", port);
    rte_eth_promiscuous_enable(port);
}

uint64_t open_ports(uint64_t offloads)
{
    uint32_t rings = (settings.rxd + settings.txd + settings.burst) * settings.queues * rte_eth_dev_count_avail();
    uint32_t mbufs = rings + rte_lcore_count() * CACHE * 2 + SPARE_BUFFERS;
    uint32_t longest = RTE_MAX(settings.max_pkt_len, (uint32_t)RTE_ETHER_MAX_LEN) + TAGS;
    uint32_t room = RTE_MAX(RTE_ALIGN_CEIL(longest, KIB), (uint32_t)RTE_MBUF_DEFAULT_DATAROOM);
    uint32_t size = room + RTE_PKTMBUF_HEADROOM;
    uint16_t port;

    if (rte_eth_dev_count_avail() == 0)
        rte_exit(1, "there is no port\n");
    if (settings.mbufs != 0)
        mbufs = settings.mbufs;
    pool = rte_pktmbuf_pool_create("packets", mbufs, CACHE, 0, size, SOCKET_ID_ANY);
    if (pool == NULL)
        rte_exit(1, "no memory for %u buffers of %u B\n", mbufs, size);
    RTE_ETH_FOREACH_DEV(port)
        open_port(port, &offloads);
    return offloads;
}

/* The queues of all ports go to the workers in turn. */
static int work(void *arg)
{
    struct worker *w = arg;
    struct rte_mbuf *packets[BURST_MAX];
    struct { uint16_t port, queue; } mine[RTE_MAX_ETHPORTS * 64];
    unsigned int count = 0, slot = 0;
    uint16_t port;

    RTE_ETH_FOREACH_DEV(port) {
        for (uint16_t q = 0; q < settings.queues; q++, slot++) {
            if (slot % worker_count != w->index || count >= RTE_DIM(mine))
                continue;
            mine[count].port = port;
            mine[count++].queue = q;
        }
    }
    while (!ending) {
        for (unsigned int i = 0; i < count; i++) {
            uint16_t n = rte_eth_rx_burst(mine[i].port, mine[i].queue, packets, settings.burst);

            if (n == 0)
                continue;
            w->port = mine[i].port;
            w->queue = mine[i].queue;
            w->received += n;
            take_burst(w, packets, n);
        }
        if (take_turn != NULL)
            take_turn(w);
    }
    return 0;
}

int run(burst_fn burst, turn_fn turn, void *(*prepare)(unsigned int worker))
{
    uint64_t received = 0, sent = 0, dropped = 0;
    unsigned int lcore, count = rte_lcore_count() - 1;
    uint16_t port;

    if (count == 0)
        rte_exit(2, "needs two lcores (-l): one waits, the others work\n");
    take_burst = burst;
    take_turn = turn;
    worker_count = RTE_MIN(count, (unsigned int)settings.queues * rte_eth_dev_count_avail());
    count = 0;
    RTE_LCORE_FOREACH_WORKER(lcore) {
        struct worker *w;

        if (count == worker_count)
            break;
        w = rte_zmalloc("worker", sizeof(*w), RTE_CACHE_LINE_SIZE);
        if (w == NULL)
            rte_exit(1, "no memory\n");
        w->index = count;
        w->state = prepare != NULL ? prepare(count) : NULL;
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
    RTE_ETH_FOREACH_DEV(port)
        rte_eth_dev_stop(port);
    printf("statistics: received %lu sent %lu dropped %lu\n", received, sent, dropped);
    fflush(stdout);
    rte_eal_cleanup();
    return 0;
}
