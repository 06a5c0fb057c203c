/* The function: how it is found, what it says, its tables and contexts. */
#include "qdma.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_io.h>
#include <rte_malloc.h>
#include <rte_memzone.h>
#include <rte_string_fns.h>

#define PCI_DEVICES "/sys/bus/pci/devices"
#define XILINX 0x10ee
#define CONFIG_SIZE (256u << 10)
#define DOORBELLS 0x18000u

/* Registers. */
#define IDENTIFIER 0x000u
#define ENGINES 0x118u
#define STREAMS (3u << 16) /* from the host and to it */
#define QUEUE_COUNT 0x120u
#define VERSION 0x134u
#define RING_SIZES 0x204u
#define DESCRIPTOR_CONFIG 0x250u
#define CONTEXT_DATA 0x804u
#define CONTEXT_MASK 0x824u
#define CONTEXT_COMMAND 0x844u
#define TIMERS 0xa00u
#define COUNTS 0xa40u
#define PREFETCH_THRESHOLDS 0xa80u
#define PREFETCH_CONFIG 0xa84u
#define BUFFER_SIZES 0xab0u
#define TIMER_TICK 0xb0cu
#define COALESCE 0xb50u
#define PREFETCH_DEPTH 0xbe0u
#define COALESCE_DEPTH 0xbe4u
#define H2C_THROTTLE 0xe24u

/* Contexts and what is done with them. */
enum { SW_C2H = 0, SW_H2C = 1, HW_C2H = 2, HW_H2C = 3, CREDIT_C2H = 4, CREDIT_H2C = 5, COMPLETION = 6, PREFETCH = 7, FMAP = 12 };
enum { CLEAR = 0, WRITE = 1, READ = 2, INVALIDATE = 3 };
#define CONTEXT_WORDS 8
#define BUSY_TURNS 1000

/* Completions: a status at 64 entries or 30 ticks after the first. */
#define TRIGGER_TIMER_AND_COUNT 5u
#define COUNT_INDEX 7u
#define TIMER_INDEX 9u
#define TICK 50u

static const uint16_t counts[16] = { 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192 };
static const uint16_t timers[16] = { 1, 2, 4, 5, 8, 10, 15, 20, 25, 30, 50, 75, 100, 125, 150, 200 };

static uint32_t get(const struct qdma *d, uint32_t offset)
{
    return rte_read32(d->config + offset);
}

static void put(struct qdma *d, uint32_t offset, uint32_t value)
{
    rte_write32(value, d->config + offset);
}

static int open_file(const char *device, const char *name, int flags)
{
    char path[320];

    snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", device, name);
    return open(path, flags);
}

static uint32_t number_in(const char *device, const char *name)
{
    char text[32] = "";
    int file = open_file(device, name, O_RDONLY);

    if (file < 0)
        return 0;
    if (read(file, text, sizeof(text) - 1) < 0)
        text[0] = '\0';
    close(file);
    return strtoul(text, NULL, 16);
}

/* Memory decoding and bus mastering. */
static void switch_on(const char *device)
{
    uint16_t command = 0;
    int file = open_file(device, "config", O_RDWR);

    if (file < 0 || pread(file, &command, sizeof(command), 4) != sizeof(command))
        rte_exit(1, "%s: cannot read its configuration\n", device);
    command |= 1 << 1 | 1 << 2;
    if (pwrite(file, &command, sizeof(command), 4) != sizeof(command))
        rte_exit(1, "%s: cannot be switched on\n", device);
    close(file);
}

static int is_function(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && number_in(entry->d_name, "vendor") == XILINX;
}

static void check(struct qdma *d)
{
    if (get(d, IDENTIFIER) >> 16 != 0x1fd3)
        rte_exit(1, "%s: not a QDMA: its identifier is 0x%08x\n", d->address, get(d, IDENTIFIER));
    if (get(d, VERSION) >> 28 != 2)
        rte_exit(1, "%s: device type %u, of which this driver knows nothing (CPM5: 2)\n", d->address,
                 get(d, VERSION) >> 28);
    if ((get(d, ENGINES) & STREAMS) != STREAMS)
        rte_exit(1, "%s: no streams both ways\n", d->address);
}

struct qdma *qdma_open(unsigned int index)
{
    struct dirent **functions;
    struct qdma *d = NULL;
    int file, n = scandir(PCI_DEVICES, &functions, is_function, alphasort);
    void *config;

    if (n > 0 && index < (unsigned int)n) {
        d = rte_zmalloc("qdma", sizeof(*d), RTE_CACHE_LINE_SIZE);
        if (d == NULL)
            rte_exit(1, "no memory\n");
        strlcpy(d->address, functions[index]->d_name, sizeof(d->address));
        switch_on(d->address);
        file = open_file(d->address, "resource0", O_RDWR | O_SYNC);
        config = file < 0 ? MAP_FAILED : mmap(NULL, CONFIG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (config == MAP_FAILED)
            rte_exit(1, "%s: its registers cannot be mapped\n", d->address);
        close(file);
        d->config = config;
        d->queues = get(d, QUEUE_COUNT) & 0xfff;
        check(d);
    }
    for (int i = 0; i < n; i++)
        free(functions[i]);
    if (n >= 0)
        free(functions);
    return d;
}

static void command(struct qdma *d, uint32_t selector, uint32_t queue, uint32_t operation)
{
    put(d, CONTEXT_COMMAND, selector << 1 | operation << 5 | queue << 7);
    for (int i = 0; get(d, CONTEXT_COMMAND) & 1; i++)
        if (i == BUSY_TURNS)
            rte_exit(1, "%s: context %u of queue %u stays busy\n", d->address, selector, queue);
}

static void write_context(struct qdma *d, uint32_t selector, uint32_t queue, const uint32_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < CONTEXT_WORDS; i++) {
        put(d, CONTEXT_DATA + 4 * i, i < count ? words[i] : 0);
        put(d, CONTEXT_MASK + 4 * i, UINT32_MAX);
    }
    command(d, selector, queue, WRITE);
}

void qdma_configure(struct qdma *d, uint32_t rx_entries, uint32_t tx_entries, uint32_t buffer)
{
    uint32_t prefetch_depth = get(d, PREFETCH_DEPTH), coalesce_depth = get(d, COALESCE_DEPTH);
    uint32_t functions[2] = { 0, d->queues };

    /* The first ring size is of what goes to the host, the second of what comes from it; their status entries count. */
    put(d, RING_SIZES, rx_entries + 1);
    put(d, RING_SIZES + 4, tx_entries + 1);
    put(d, BUFFER_SIZES, buffer);
    for (uint32_t i = 0; i < 16; i++) {
        put(d, TIMERS + 4 * i, timers[i]);
        put(d, COUNTS + 4 * i, counts[i]);
    }
    put(d, TIMER_TICK, TICK);
    /* Fetches of up to 32 descriptors; a status every 64 from the host. */
    put(d, DESCRIPTOR_CONFIG, 2 << 3 | 5);
    put(d, PREFETCH_THRESHOLDS, (prefetch_depth - 4) | (prefetch_depth - 8) << 16);
    put(d, PREFETCH_CONFIG, 16);
    /* Half of them in the buffer, 25 cycles in all, gather up to 63 completions. */
    put(d, COALESCE, (coalesce_depth - 1) << 26 | 25 << 14 | 5 << 2);
    put(d, H2C_THROTTLE, 1u << 31 | 192 << 19 | 1 << 18 | 57344);
    write_context(d, FMAP, 0, functions, 2);
}

/* A ring of so many entries and one, in memory that is one piece for the device. */
static void *ring(const char *what, uint32_t queue, const char *device, uint32_t entries, uint32_t size, uint64_t *at)
{
    char name[RTE_MEMZONE_NAMESIZE];
    const struct rte_memzone *zone;

    snprintf(name, sizeof(name), "%s_%s_%u", device + 5, what, queue);
    zone = rte_memzone_reserve_aligned(name, (size_t)(entries + 1) * size, SOCKET_ID_ANY, RTE_MEMZONE_IOVA_CONTIG, 4096);
    if (zone == NULL)
        rte_exit(1, "%s: no memory for the rings of queue %u\n", device, queue);
    memset(zone->addr, 0, (size_t)(entries + 1) * size);
    *at = zone->iova;
    return zone->addr;
}

static struct rte_mbuf **buffers_of(uint32_t entries)
{
    struct rte_mbuf **list = rte_zmalloc("buffers", entries * sizeof(*list), RTE_CACHE_LINE_SIZE);

    if (list == NULL)
        rte_exit(1, "no memory\n");
    return list;
}

static void clear(struct qdma *d, uint32_t queue)
{
    static const uint32_t selectors[] = { SW_C2H, HW_C2H, CREDIT_C2H, SW_H2C, HW_H2C, CREDIT_H2C, COMPLETION, PREFETCH };

    for (size_t i = 0; i < RTE_DIM(selectors); i++)
        command(d, selectors[i], queue, CLEAR);
}

void qdma_start(struct qdma *d, uint32_t queue, struct rte_mempool *pool)
{
    struct qdma_queue *q = &d->queue[queue];
    uint64_t c2h, h2c, completions;
    uint32_t tags;

    q->pool = pool;
    q->rx_entries = get(d, RING_SIZES) - 1;
    q->tx_entries = get(d, RING_SIZES + 4) - 1;
    q->buffer = get(d, BUFFER_SIZES);
    q->doorbells = (volatile uint32_t *)(d->config + DOORBELLS + 16 * queue);
    q->c2h = ring("c2h", queue, d->address, q->rx_entries, sizeof(*q->c2h), &c2h);
    q->completions = ring("cmpt", queue, d->address, q->rx_entries, sizeof(*q->completions), &completions);
    q->h2c = ring("h2c", queue, d->address, q->tx_entries, sizeof(*q->h2c), &h2c);
    q->completed = (const struct qdma_status *)(q->completions + q->rx_entries);
    q->sent = (const struct qdma_status *)(q->h2c + q->tx_entries);
    q->posted = buffers_of(q->rx_entries);
    q->sending = buffers_of(q->tx_entries);

    clear(d, queue);
    write_context(d, PREFETCH, queue, (uint32_t[]){ 1 << 27, 1 << 13 }, 2);
    tags = 1 | TRIGGER_TIMER_AND_COUNT << 2 | COUNT_INDEX << 17 | TIMER_INDEX << 21 | 1u << 27;
    completions >>= 6;
    write_context(d, COMPLETION, queue,
                  (uint32_t[]){ tags, completions, completions >> 32 | 1 << 26, 1 << 28 }, 4);
    /* On, with credits: 8 bytes a descriptor. */
    write_context(d, SW_C2H, queue, (uint32_t[]){ 0, 1 | 1 << 1, c2h, c2h >> 32 }, 4);
    /* On, with a status when empty and at intervals: 16 bytes, the second size. */
    write_context(d, SW_H2C, queue,
                  (uint32_t[]){ 0, 1 | 1 << 2 | 1 << 3 | 1 << 12 | 1 << 16 | 1 << 20, h2c, h2c >> 32 }, 4);
    qdma_receive_begins(q);
}

void qdma_stop(struct qdma *d, uint32_t queue)
{
    static const uint32_t selectors[] = { SW_C2H, SW_H2C, COMPLETION, PREFETCH };

    for (size_t i = 0; i < RTE_DIM(selectors); i++)
        command(d, selectors[i], queue, INVALIDATE);
}
