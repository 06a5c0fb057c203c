/* memcached_dpdk: a key-value store that speaks memcached's UDP protocol (text commands get, gets, set, version).
 *
 * Answers are sent without copying values: the request's buffer becomes the headers, and the value's own buffer is
 * attached behind it. Requests are spread over cores by RSS; every core reads and writes one store (store.h).
 * Answers above 1400 B go in several datagrams, as memcached's do; requests in several datagrams are refused, as its are.
 *
 *   --items N          items that fit (default 65536)
 *   --item-size B      longest answer of one key (default 2048)
 *   --port N           UDP port (default 11211)
 *   --address A.B.C.D  that ARP requests are answered for (default 10.0.0.2)
 *
 * Left out: IPv6, expiry, eviction, cas, the binary protocol.
 */
#include "port.h"
#include "store.h"
#include "text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <rte_arp.h>
#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_udp.h>

enum { ITEMS, ITEM_SIZE, PORT, ADDRESS };

/* In front of every datagram (memcached's doc/protocol.txt). */
struct frame {
    rte_be16_t request, sequence, total, reserved;
};

struct headers {
    struct rte_ether_hdr eth;
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
    struct frame frame;
};
_Static_assert(sizeof(struct headers) == 14 + 20 + 8 + 8, "headers have no gaps");

/* Bytes of an answer in a datagram. */
#define DATA_MAX (1400 - (int)sizeof(struct frame))
#define VERSION_TEXT "VERSION 1.6-wiretime\r\n"

/* Part of an answer: of a value, or text of ours. */
struct piece {
    struct rte_mbuf *item;
    const char *text;
    uint32_t length;
};

/* Datagrams of a worker that wait to be sent. */
struct out {
    struct rte_mbuf *packets[BURST_MAX];
    uint16_t n;
};

static uint32_t items = 65536, item_size = 2048;
static rte_be16_t udp_port = RTE_BE16(11211);
static struct in_addr address;
static uint64_t offloads;

static const struct option options[] = {
    { "items", required_argument, NULL, ITEMS },
    { "item-size", required_argument, NULL, ITEM_SIZE },
    { "port", required_argument, NULL, PORT },
    { "address", required_argument, NULL, ADDRESS },
    { NULL, 0, NULL, 0 },
};

static int take(int option, const char *value)
{
    switch (option) {
    case ITEMS:
        items = (uint32_t)number("items", value, 16, 1 << 24);
        return 0;
    case ITEM_SIZE:
        item_size = (uint32_t)number("item-size", value, 512, 32768);
        return 0;
    case PORT:
        udp_port = rte_cpu_to_be_16((uint16_t)number("port", value, 1, 65535));
        return 0;
    default:
        if (inet_pton(AF_INET, value, &address) == 1)
            return 0;
        fprintf(stderr, "--address %s: no IPv4 address\n", value);
        return -1;
    }
}

static void flush(struct worker *w)
{
    struct out *out = w->state;

    if (out->n > 0)
        send_burst(w, out->packets, out->n);
    out->n = 0;
}

static void push(struct worker *w, struct rte_mbuf *m)
{
    struct out *out = w->state;

    if (out->n == BURST_MAX)
        flush(w);
    out->packets[out->n++] = m;
}

/* Puts bytes of a piece behind a datagram; false where there is no buffer. */
static bool add(struct rte_mbuf *head, const struct piece *p, uint32_t from, uint32_t length)
{
    struct rte_mbuf *m;

    if (p->item == NULL) {
        char *at = rte_pktmbuf_append(head, (uint16_t)length);

        if (at != NULL) {
            memcpy(at, p->text + from, length);
            return true;
        }
    }
    m = rte_pktmbuf_alloc(pool);
    if (m == NULL)
        return false;
    if (p->item != NULL) {
        rte_pktmbuf_attach(m, p->item);
        rte_pktmbuf_adj(m, (uint16_t)from);
        rte_pktmbuf_trim(m, (uint16_t)(rte_pktmbuf_data_len(m) - length));
    } else {
        memcpy(rte_pktmbuf_append(m, (uint16_t)length), p->text + from, length);
    }
    if (rte_pktmbuf_chain(head, m) != 0) {
        rte_pktmbuf_free(m);
        return false;
    }
    return true;
}

static void finish(struct rte_mbuf *m)
{
    struct headers *h = rte_pktmbuf_mtod(m, struct headers *);

    h->ip.total_length = rte_cpu_to_be_16((uint16_t)(m->pkt_len - sizeof(h->eth)));
    h->udp.dgram_len = rte_cpu_to_be_16((uint16_t)(m->pkt_len - sizeof(h->eth) - sizeof(h->ip)));
    h->ip.hdr_checksum = 0;
    h->udp.dgram_cksum = 0;
    m->l2_len = sizeof(h->eth);
    m->l3_len = sizeof(h->ip);
    m->ol_flags |= RTE_MBUF_F_TX_IPV4;
    if (offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM)
        m->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
    else
        h->ip.hdr_checksum = rte_ipv4_cksum(&h->ip);
    /* Without help the datagram has no checksum, which IPv4 allows: values are not read here. */
    if (offloads & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) {
        m->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM;
        h->udp.dgram_cksum = rte_ipv4_phdr_cksum(&h->ip, m->ol_flags);
    }
}

/* The request's buffer becomes the first datagram's headers. */
static void turn_round(struct rte_mbuf *m)
{
    struct headers *h = rte_pktmbuf_mtod(m, struct headers *);
    rte_be32_t from = h->ip.src_addr;
    rte_be16_t port = h->udp.src_port;

    swap_ethernet(&h->eth);
    h->ip.src_addr = h->ip.dst_addr;
    h->ip.dst_addr = from;
    h->ip.version_ihl = RTE_IPV4_VHL_DEF;
    h->ip.time_to_live = 64;
    h->ip.fragment_offset = rte_cpu_to_be_16(RTE_IPV4_HDR_DF_FLAG);
    h->udp.src_port = h->udp.dst_port;
    h->udp.dst_port = port;
    h->frame.reserved = 0;
    m->ol_flags = 0;
    rte_pktmbuf_trim(m, (uint16_t)(m->pkt_len - sizeof(*h)));
}

static void answer(struct worker *w, struct rte_mbuf *request, const struct piece *pieces, unsigned int n)
{
    uint32_t total = 0, datagrams, done = 0;
    struct headers headers;
    struct rte_mbuf *m = request;

    turn_round(request);
    headers = *rte_pktmbuf_mtod(request, struct headers *);
    for (unsigned int i = 0; i < n; i++)
        total += pieces[i].length;
    datagrams = RTE_MAX(1u, (total + DATA_MAX - 1) / DATA_MAX);
    headers.frame.total = rte_cpu_to_be_16((uint16_t)datagrams);
    for (uint32_t d = 0, i = 0; d < datagrams; d++) {
        uint32_t room = DATA_MAX;

        if (d > 0) {
            m = rte_pktmbuf_alloc(pool);
            if (m == NULL) {
                w->dropped++;
                return;
            }
            rte_pktmbuf_append(m, sizeof(headers));
        }
        headers.frame.sequence = rte_cpu_to_be_16((uint16_t)d);
        *rte_pktmbuf_mtod(m, struct headers *) = headers;
        while (room > 0 && i < n) {
            uint32_t length = RTE_MIN(room, pieces[i].length - done);

            if (!add(m, &pieces[i], done, length)) {
                rte_pktmbuf_free(m);
                w->dropped++;
                return;
            }
            room -= length;
            done += length;
            if (done == pieces[i].length) {
                done = 0;
                i++;
            }
        }
        finish(m);
        push(w, m);
    }
}

static void say(struct worker *w, struct rte_mbuf *request, const char *text)
{
    struct piece p = { .text = text, .length = (uint32_t)strlen(text) };

    answer(w, request, &p, 1);
}

static void get(struct worker *w, struct rte_mbuf *request, const struct request *r)
{
    struct piece pieces[KEYS_MAX + 1];
    unsigned int n = 0;

    for (unsigned int i = 0; i < r->keys; i++) {
        struct rte_mbuf *item = store_get(&r->key[i]);

        if (item != NULL) {
            pieces[n].item = item;
            pieces[n].text = NULL;
            pieces[n++].length = item->data_len - END_LENGTH;
        }
    }
    if (n > 0)
        pieces[n - 1].length += END_LENGTH;
    else
        pieces[n++] = (struct piece){ .text = END_TEXT, .length = END_LENGTH };
    answer(w, request, pieces, n);
}

static void serve(struct worker *w, struct rte_mbuf *m)
{
    struct headers *h = rte_pktmbuf_mtod(m, struct headers *);
    const char *text = (const char *)(h + 1);
    size_t length = rte_be_to_cpu_16(h->udp.dgram_len);
    struct request r;

    if (length < sizeof(h->udp) + sizeof(h->frame) ||
        length + sizeof(h->eth) + sizeof(h->ip) > rte_pktmbuf_data_len(m)) {
        rte_pktmbuf_free(m);
        w->dropped++;
        return;
    }
    length -= sizeof(h->udp) + sizeof(h->frame);
    if (h->frame.total != RTE_BE16(1)) {
        say(w, m, "SERVER_ERROR multi-packet request not supported\r\n");
        return;
    }
    read_request(text, length, &r);
    switch (r.verb) {
    case VERB_GET:
        get(w, m, &r);
        return;
    case VERB_SET: {
        const char *said = store_set(w->index, &r);

        if (r.quiet)
            rte_pktmbuf_free(m);
        else
            say(w, m, said);
        return;
    }
    case VERB_VERSION:
        say(w, m, VERSION_TEXT);
        return;
    case VERB_GETS:
        say(w, m, "SERVER_ERROR gets is left out here\r\n");
        return;
    case VERB_REFUSED:
        say(w, m, r.refusal);
        return;
    }
}

/* "Who has this address": we do. */
static bool arp(struct worker *w, struct rte_mbuf *m)
{
    struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
    struct rte_arp_hdr *a = (struct rte_arp_hdr *)(eth + 1);

    if (rte_pktmbuf_data_len(m) < sizeof(*eth) + sizeof(*a) || a->arp_opcode != RTE_BE16(RTE_ARP_OP_REQUEST) ||
        a->arp_data.arp_tip != address.s_addr)
        return false;
    a->arp_opcode = RTE_BE16(RTE_ARP_OP_REPLY);
    a->arp_data.arp_tha = a->arp_data.arp_sha;
    a->arp_data.arp_tip = a->arp_data.arp_sip;
    rte_eth_macaddr_get(w->port, &a->arp_data.arp_sha);
    a->arp_data.arp_sip = address.s_addr;
    eth->dst_addr = eth->src_addr;
    eth->src_addr = a->arp_data.arp_sha;
    m->ol_flags = 0;
    push(w, m);
    return true;
}

static void one(struct worker *w, struct rte_mbuf *m)
{
    struct headers *h = rte_pktmbuf_mtod(m, struct headers *);

    if (h->eth.ether_type == RTE_BE16(RTE_ETHER_TYPE_ARP) && arp(w, m))
        return;
    if (rte_pktmbuf_data_len(m) >= sizeof(*h) && h->eth.ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4) &&
        h->ip.version_ihl == RTE_IPV4_VHL_DEF && h->ip.next_proto_id == IPPROTO_UDP &&
        (h->ip.fragment_offset & RTE_BE16(0x3fff)) == 0 && h->udp.dst_port == udp_port && m->nb_segs == 1) {
        serve(w, m);
        return;
    }
    rte_pktmbuf_free(m);
    w->dropped++;
}

static void burst(struct worker *w, struct rte_mbuf **packets, uint16_t n)
{
    for (uint16_t i = 0; i < n; i++)
        rte_prefetch0(rte_pktmbuf_mtod(packets[i], void *));
    for (uint16_t i = 0; i < n; i++)
        one(w, packets[i]);
    flush(w);
}

static void turn(struct worker *w)
{
    store_turn(w->index);
}

static void *prepare(unsigned int worker)
{
    store_enter(worker);
    return rte_zmalloc("out", sizeof(struct out), RTE_CACHE_LINE_SIZE);
}

int main(int argc, char **argv)
{
    inet_pton(AF_INET, "10.0.0.2", &address);
    if (start(argc, argv, options, take) != 0)
        return 2;
    offloads = open_ports(RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM);
    store_open(items, item_size, rte_lcore_count());
    return run(burst, turn, prepare);
}
