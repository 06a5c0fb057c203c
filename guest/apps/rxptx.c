/* rxptx: receives a burst, works for a given time, sends the burst. A dial for processing time.
 *
 *   --interval NS     time of the work
 *   --per WHAT        packet (default) or burst
 *   --work KIND       chain: a chain of dependent instructions of that length, calibrated when packets come, and anew
 *                     where its time has changed since (default); counter: turns until the counter says so, exact to a tick and a turn;
 *                     published: what the gem5 study ran: NS / 10 ticks of the counter, once a burst
 */
#include "port.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <rte_cycles.h>

enum { INTERVAL, PER, WORK };
enum kind { CHAIN, COUNTER, PUBLISHED };

/* Of the calibration: lengths of two chains, and how often each runs; some hundred microseconds in all. */
#define SHORT_CHAIN 64
#define LONG_CHAIN 1088
#define RUNS 64
/* The chain's time is looked at in one burst of so many: after so much whether it is far off, as when the clock is another
 * one; after so much of bursts that are long enough to tell whether it is right. */
#define LOOK_EVERY 16
#define QUICK_NS 500.0
#define FAR_OFF 2.0
#define JUDGE_NS 50000.0
#define LONG_BURST 4
/* Beyond this it is calibrated anew; below, the number of turns is corrected. */
#define TOLERANCE 0.05

static uint64_t interval = 100;
static enum kind kind = CHAIN;
static int per_packet = 1;

/* Of a worker: turns of the chain for an interval; what has been seen of its time; turns of the counter's loop. */
struct chain {
    uint64_t calibrated;    /* how often */
    uint64_t turns;
    double turn, rest, look;        /* ns: a turn, all else of a chain, and what looking at the clock adds to what it shows */
    uint64_t bursts;
    double seen, expected, quickly_seen, quickly_expected;      /* ns */
    uint64_t waits, wait_turns, wait_ticks;
};

static struct chain chains[RTE_MAX_LCORE] __rte_cache_aligned;

static const struct option options[] = {
    { "interval", required_argument, NULL, INTERVAL },
    { "per", required_argument, NULL, PER },
    { "work", required_argument, NULL, WORK },
    { NULL, 0, NULL, 0 },
};

static int choose(const char *option, const char *text, const char *const *names, int *chosen)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            *chosen = i;
            return 0;
        }
    }
    fprintf(stderr, "--%s %s: unknown\n", option, text);
    return -1;
}

static int take(int option, const char *value)
{
    static const char *const pers[] = { "burst", "packet", NULL };
    static const char *const kinds[] = { "chain", "counter", "published", NULL };
    int chosen = CHAIN;

    switch (option) {
    case INTERVAL:
        interval = number("interval", value, 0, 100000000);
        return 0;
    case PER:
        return choose("per", value, pers, &per_packet);
    default:
        if (choose("work", value, kinds, &chosen) != 0)
            return -1;
        kind = (enum kind)chosen;
        if (kind == PUBLISHED)
            per_packet = 0;
        return 0;
    }
}

/* So that work neither begins before what is in front of it nor reaches into what follows. */
static inline void fence(void)
{
#ifdef RTE_ARCH_ARM64
    asm volatile("isb" ::: "memory");
#else
    rte_mb();
#endif
}

static __rte_noinline void chain(uint64_t turns)
{
    uint64_t x = 1;

    fence();
    for (uint64_t i = 0; i < turns; i++) {
        x = x * 3 + i;
        asm volatile("" : "+r"(x));
    }
    fence();
}

static uint64_t ticks_of(uint64_t turns)
{
    uint64_t begin = rte_rdtsc_precise();

    for (int i = 0; i < RUNS; i++)
        chain(turns);
    return rte_rdtsc_precise() - begin;
}

static uint64_t ticks_of_looks(void)
{
    uint64_t begin = rte_rdtsc_precise();

    for (int i = 0; i < RUNS - 1; i++)
        rte_rdtsc_precise();
    return rte_rdtsc_precise() - begin;
}

/* A chain takes a + b * turns: both from two lengths. */
static void calibrate(struct worker *w)
{
    struct chain *c = w->state;
    double hz = (double)rte_get_tsc_hz(), few, many, turn, rest;

    ticks_of(SHORT_CHAIN);
    c->look = ticks_of_looks() / hz / RUNS * 1e9;
    few = ticks_of(SHORT_CHAIN) / hz / RUNS * 1e9;
    many = ticks_of(LONG_CHAIN) / hz / RUNS * 1e9;
    turn = (many - few) / (LONG_CHAIN - SHORT_CHAIN);
    rest = few - turn * SHORT_CHAIN;
    c->turns = interval > rest && turn > 0 ? (uint64_t)((interval - rest) / turn + 0.5) : 0;
    c->calibrated++;
    c->turn = turn;
    c->rest = rest;
    c->seen = c->expected = c->quickly_seen = c->quickly_expected = 0;
}

static void wait_ticks(struct chain *c, uint64_t ticks)
{
    uint64_t begin = rte_rdtsc(), turns = 0, waited;

    do {
        waited = rte_rdtsc() - begin;
        turns++;
    } while (waited < ticks);
    c->waits++;
    c->wait_turns += turns;
    c->wait_ticks += waited;
}

/* Clocks change, and a simulator's time before the load may be coarse: a chain that takes another time is calibrated. */
static void judge(struct worker *w, uint64_t ticks, uint64_t pieces)
{
    struct chain *c = w->state;
    double seen = ticks * 1e9 / rte_get_tsc_hz() - c->look, expected = (double)interval * pieces;

    c->quickly_seen += seen;
    c->quickly_expected += expected;
    if (c->quickly_seen >= QUICK_NS || c->quickly_expected >= QUICK_NS) {
        bool far = c->quickly_seen > c->quickly_expected * FAR_OFF || c->quickly_expected > c->quickly_seen * FAR_OFF;

        c->quickly_seen = c->quickly_expected = 0;
        if (far && (c->turns > 0 || seen < expected)) {
            calibrate(w);
            return;
        }
    }
    /* Of short bursts too much of what is seen is looking. */
    if (pieces < LONG_BURST && per_packet)
        return;
    c->seen += seen;
    c->expected += expected;
    if (c->expected < JUDGE_NS && c->seen < JUDGE_NS)
        return;
    if ((c->turns > 0 && c->seen > c->expected * (1 + TOLERANCE)) || c->seen < c->expected * (1 - TOLERANCE)) {
        calibrate(w);
    } else {
        double turns = c->turns + (c->expected - c->seen) / (c->expected / interval) / c->turn;

        c->turns = turns > 0 ? (uint64_t)(turns + 0.5) : 0;
    }
    c->seen = c->expected = 0;
}

static void work(struct worker *w)
{
    struct chain *c = w->state;

    switch (kind) {
    case CHAIN:
        if (unlikely(!c->calibrated))
            calibrate(w);
        if (interval != 0)
            chain(c->turns);
        break;
    case COUNTER:
        wait_ticks(c, (interval * rte_get_tsc_hz() + 999999999) / 1000000000);
        break;
    case PUBLISHED:
        wait_ticks(c, interval / 10);
        break;
    }
}

static void burst(struct worker *w, struct rte_mbuf **packets, uint16_t n)
{
    struct chain *c = w->state;
    uint16_t pieces = per_packet ? n : 1;
    bool look = kind == CHAIN && interval != 0 && c->bursts++ % LOOK_EVERY == 0;
    uint64_t begin = look ? rte_rdtsc_precise() : 0;

    for (uint16_t i = 0; i < pieces; i++)
        work(w);
    if (look)
        judge(w, rte_rdtsc_precise() - begin, pieces);
    for (uint16_t i = 0; i < n; i++)
        swap_ethernet(rte_pktmbuf_mtod(packets[i], struct rte_ether_hdr *));
    send_burst(w, packets, n);
}

static void *prepare(unsigned int worker)
{
    return &chains[worker];
}

int main(int argc, char **argv)
{
    struct chain sum = { 0 };
    uint64_t hz;
    int done;

    if (start(argc, argv, options, take) != 0)
        return 2;
    open_ports(0);
    hz = rte_get_tsc_hz();
    printf("rxptx: %lu ns a %s; a tick of the counter is %.1f ns\n", interval, per_packet ? "packet" : "burst", 1e9 / hz);
    done = run(burst, NULL, prepare);
    for (int i = 0; i < RTE_MAX_LCORE; i++) {
        const struct chain *c = &chains[i];

        if (c->calibrated > 0)
            printf("rxptx: worker %d: a turn of the chain takes %.3f ns, the rest %.1f ns: %lu turns; calibrated %lu times\n", i,
                   c->turn, c->rest, c->turns, c->calibrated);
        sum.waits += chains[i].waits;
        sum.wait_turns += chains[i].wait_turns;
        sum.wait_ticks += chains[i].wait_ticks;
    }
    if (sum.waits > 0)
        printf("rxptx: by the counter %.1f ns on average; a turn of its loop takes %.1f ns\n",
               sum.wait_ticks * 1e9 / hz / sum.waits, sum.wait_ticks * 1e9 / hz / RTE_MAX(sum.wait_turns, 1u));
    return done;
}
