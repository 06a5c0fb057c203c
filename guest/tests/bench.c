/* Micro-benchmarks of the simulated machine. Each has a closed form in the platform's parameters (tests/closed_form.py).
 *
 *   bench NAME ARGUMENT NAME ARGUMENT ...
 *
 * Buffers are filled before the timing starts; each benchmark warms up, then reports picoseconds an operation through
 * the control page. The counter must run at 1 GHz.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MARK = 0, SPARE = 8, FIGURE = 3, PAGE = 4096, LINE = 64, HUGE_PAGE = 2 << 20, SPREAD = 64 << 20, MAX = 64 };

/* Small pages that follow each other, between places that do not: the tens that Linux's allocator gives on machines in use
 * (Pham and others, CoLT, MICRO 2012). */
enum { RUN = 16 };

/* What just fits an L2 or does not is measured in several places, since it depends on which it got, and longer before: tree
 * pseudo-LRU takes its time to find out what nobody reads any more. */
enum { PLACES = 8, EDGE = 512 << 10, SETTLED = 1 << 20, ROUNDS = 12 };

static volatile uint32_t *control;

struct job {
    const char *name;
    uint64_t argument;
    char *buffer;
    size_t size;
    /* Several where it is measured in several places. */
    int places;
    char *buffers[PLACES];
    uint64_t *starts[PLACES];
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now(void)
{
    uint64_t t;
    __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(t) : : "memory");
    return t;
}

static void barrier(void)
{
    __asm__ volatile("dsb sy" : : : "memory");
}

static char *memory(size_t size, int huge)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0);
    char *p;
    if (huge)
        size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (p == MAP_FAILED)
        fail("mmap");
    if (!huge)
        madvise(p, size, MADV_NOHUGEPAGE); /* before the first touch */
    memset(p, 1, size);
    return p;
}

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void shuffled(uint32_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = next_random() % (i + 1);
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

/* Small pages in runs from all over SPREAD more memory than they take, as a kernel that has run for a while gives them: the
 * first free ones are those that were given back. A fresh kernel's all follow each other, and fill a physically indexed
 * cache evenly. */
static char *scattered(size_t size)
{
    size_t runs = (size + SPREAD) / (RUN * PAGE);
    uint32_t *order = malloc(runs * sizeof(*order));
    char *all = memory(size + SPREAD, 0), *p;
    if (!order)
        fail("malloc");
    shuffled(order, runs);
    for (size_t i = 0; i * RUN * PAGE < size; i++)
        madvise(all + (size_t)order[i] * RUN * PAGE, RUN * PAGE, MADV_DONTNEED);
    free(order);
    p = memory(size, 0);
    munmap(all, size + SPREAD);
    return p;
}

/* One cycle through `count` places, `stride` bytes apart, in random order. `spread` takes another line of every 32nd
 * page, so that pages do not share cache sets. */
static uint64_t *permutation(char *base, size_t count, size_t stride, int spread)
{
    uint32_t *order = malloc(count * sizeof(*order));
    uint64_t *first;
    if (!order)
        fail("malloc");
    shuffled(order, count);
#define AT(i) ((uint64_t *)(base + order[i] * stride + (spread ? order[i] / 32 * LINE % PAGE : 0)))
    for (size_t i = 0; i < count; i++)
        *AT(i) = (uint64_t)AT((i + 1) % count);
    first = AT(0);
    free(order);
    return first;
}

static int at_an_edge(size_t size)
{
    return size >= EDGE && size <= SETTLED;
}

static void prepare(struct job *j)
{
    const char *n = j->name;
    if (!strcmp(n, "random") || !strcmp(n, "random4k")) {
        j->size = j->argument << 10;
        j->places = !strcmp(n, "random4k") && at_an_edge(j->size) ? PLACES : 1;
        for (int i = 0; i < j->places; i++) {
            j->buffers[i] = !strcmp(n, "random") ? memory(j->size, 1) : scattered(j->size);
            memset(j->buffers[i], 0, j->size);
        }
    } else if (!strcmp(n, "chase") || !strcmp(n, "chase4k")) {
        j->size = j->argument << 10;
        j->places = !strcmp(n, "chase4k") && at_an_edge(j->size) ? PLACES : 1;
        for (int i = 0; i < j->places; i++) {
            j->buffers[i] = !strcmp(n, "chase") ? memory(j->size, 1) : scattered(j->size);
            j->starts[i] = permutation(j->buffers[i], j->size / LINE, LINE, 0);
        }
    } else if (!strcmp(n, "walk")) {
        j->size = j->argument * PAGE;
        j->buffer = memory(j->size + PAGE, 0);
        j->places = 1;
        j->starts[0] = permutation(j->buffer, j->argument, PAGE, 1);
    } else if (!strcmp(n, "prefetched")) {
        j->size = 32 << 20;
        j->buffer = memory(j->size, 1);
        memset(j->buffer, 0, j->size);
    } else if (!strcmp(n, "read") || !strcmp(n, "copy")) {
        j->size = j->argument << 10;
        j->buffer = memory(2 * j->size, 1);
    } else if (!strcmp(n, "taken4") || !strcmp(n, "taken16") || !strcmp(n, "taken64")) {
        /* `argument` branches, each to the next; the last one returns. */
        size_t stride = (size_t)atoi(n + 5);
        uint32_t *code;
        j->size = (j->argument + 1) * stride;
        j->buffer = mmap(NULL, j->size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (j->buffer == MAP_FAILED)
            fail("mmap");
        for (size_t i = 0; i < j->argument; i++) {
            code = (uint32_t *)(j->buffer + i * stride);
            *code = 0x14000000u | (uint32_t)(stride / 4);
        }
        code = (uint32_t *)(j->buffer + j->argument * stride);
        *code = 0xd65f03c0u;
        __builtin___clear_cache(j->buffer, j->buffer + j->size);
    } else if (!strcmp(n, "branches")) {
        /* 0: never taken; 1: taken one time in four, in turn; 2: random. */
        j->size = 1 << 16;
        j->buffer = memory(j->size, 0);
        for (size_t i = 0; i < j->size; i++)
            j->buffer[i] = (char)(j->argument == 0 ? 0 : j->argument == 1 ? i % 4 == 3 : next_random() >> 60 & 1);
    } else {
        j->buffer = memory(PAGE, 0);
    }
}

#define TEN(x) x x x x x x x x x x
#define HUNDRED(x) TEN(TEN(x))
#define OPERATIONS 20000u

/* Dependent: each result feeds the next. Independent: none does. */
#define CHAIN(label, text)                                                                                             \
    if (!strcmp(name, label)) {                                                                                        \
        t = now();                                                                                                     \
        for (uint64_t i = 0; i < OPERATIONS / 100; i++)                                                                \
            __asm__ volatile(HUNDRED(text "\n") : "+r"(x), "+w"(v) : "r"(y), "w"(w) : "x9", "x10", "x11", "x12", "v9", \
                             "v10", "v11", "v12", "cc");                                                               \
        t = now() - t;                                                                                                 \
        operations = OPERATIONS;                                                                                       \
    }
/* Five in a row without a dependence: a hundred times five. */
#define FREE(label, text)                                                                                              \
    if (!strcmp(name, label)) {                                                                                        \
        t = now();                                                                                                     \
        for (uint64_t i = 0; i < OPERATIONS / 500; i++)                                                                \
            __asm__ volatile(TEN(TEN(text)) : "+r"(x), "+w"(v) : "r"(y), "w"(w) : "x9", "x10", "x11", "x12", "x13",    \
                             "v9", "v10", "v11", "v12", "v13", "cc");                                                  \
        t = now() - t;                                                                                                 \
        operations = OPERATIONS;                                                                                       \
    }

static uint64_t chains(const char *name, uint64_t *count)
{
    uint64_t x = 3, y = 5, t = 0, operations = 1;
    double v = 1.0, w = 1.0;
    CHAIN("add", "add %0, %0, %2")
    CHAIN("add-shifted", "add %0, %0, %2, lsl #8")
    CHAIN("mul32", "mul %w0, %w0, %w2")
    CHAIN("mul64", "mul %0, %0, %2")
    CHAIN("div32", "udiv %w0, %w0, %w2")
    CHAIN("div64", "udiv %0, %0, %2")
    CHAIN("crc", "crc32x %w0, %w0, %2")
    CHAIN("fadd", "fadd %d1, %d1, %d3")
    CHAIN("fmul", "fmul %d1, %d1, %d3")
    CHAIN("fmadd", "fmadd %d1, %d1, %d3, %d3")
    CHAIN("fdiv", "fdiv %d1, %d1, %d3")
    CHAIN("simd-add", "add %1.4s, %1.4s, %3.4s")
    CHAIN("simd-mul", "mul %1.4s, %1.4s, %3.4s")
    FREE("adds", "add x9, %2, #1\n add x10, %2, #2\n add x11, %2, #3\n add x12, %2, #4\n add x13, %2, #5\n")
    FREE("muls", "mul x9, %2, %2\n mul x10, %2, %2\n mul x11, %2, %2\n mul x12, %2, %2\n mul x13, %2, %2\n")
    FREE("divs", "udiv x9, %2, %2\n udiv x10, %2, %2\n udiv x11, %2, %2\n udiv x12, %2, %2\n udiv x13, %2, %2\n")
    FREE("fadds", "fadd d9, %d3, %d3\n fadd d10, %d3, %d3\n fadd d11, %d3, %d3\n fadd d12, %d3, %d3\n fadd d13, %d3, %d3\n")
    *count = operations;
    return t;
}

static uint64_t *chase(uint64_t *p, uint64_t loads)
{
    for (uint64_t i = 0; i < loads / 10; i++)
        __asm__ volatile(TEN("ldr %0, [%0]\n") : "+r"(p) : : "memory");
    return p;
}

/* Dependent reads at random addresses: some hit what earlier ones brought. */
static uint64_t random_reads(const char *p, uint64_t mask, uint64_t reads)
{
    uint64_t x = 12345, value = 0;
    for (uint64_t i = 0; i < reads; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u + value;
        value = *(const volatile uint64_t *)(p + ((x >> 24) & mask));
    }
    return x;
}

/* Dependent reads at random addresses, each announced eight reads before, or not. */
enum { AHEAD = 8, READS = 20000 };
#define NEXT(x) ((x) * 6364136223846793005u + 1442695040888963407u)

static void announced_reads(const char *p, uint64_t mask, int prefetch)
{
    uint64_t x = now(), y = x;
    for (int i = 0; i < AHEAD; i++)
        y = NEXT(y);
    for (int i = 0; i < READS; i++) {
        if (prefetch)
            __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(p + (y >> 24 & mask)));
        x = NEXT(x) + *(const volatile uint64_t *)(p + (x >> 24 & mask));
        y = NEXT(y);
    }
}

static void read_lines(const char *p, size_t size)
{
    for (const char *end = p + size; p < end; p += 2 * LINE)
        __asm__ volatile("ldp q0, q1, [%0]\n ldp q2, q3, [%0, #32]\n ldp q4, q5, [%0, #64]\n ldp q6, q7, [%0, #96]\n"
                         : : "r"(p) : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "memory");
}

static void copy_lines(char *to, const char *p, size_t size)
{
    for (const char *end = p + size; p < end; p += LINE, to += LINE)
        __asm__ volatile("ldp q0, q1, [%0]\n ldp q2, q3, [%0, #32]\n stp q0, q1, [%1]\n stp q2, q3, [%1, #32]\n"
                         : : "r"(p), "r"(to) : "v0", "v1", "v2", "v3", "memory");
}

static uint64_t count_taken(const char *p, size_t size)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < size; i++)
        __asm__ volatile("ldrb w9, [%1, %2]\n cbz w9, 1f\n add %0, %0, #1\n 1:\n"
                         : "+r"(taken) : "r"(p), "r"(i) : "w9", "memory");
    return taken;
}

/* Two threads add to words `distance` bytes apart. */
enum { ADDITIONS = 4000 };
static volatile int go;

static void add_many(volatile uint64_t *word)
{
    for (int i = 0; i < ADDITIONS; i++)
        __asm__ volatile(".arch_extension lse\n ldadd %0, x9, [%1]\n" : : "r"(1ul), "r"(word) : "x9", "memory");
}

static void *other(void *word)
{
    while (!go)
        ;
    add_many(word);
    return NULL;
}

static uint64_t share(struct job *j, uint64_t *count)
{
    pthread_t thread;
    pthread_attr_t attributes;
    cpu_set_t set;
    uint64_t t;
    go = 0;
    CPU_ZERO(&set);
    CPU_SET(1, &set);
    pthread_attr_init(&attributes);
    if (pthread_attr_setaffinity_np(&attributes, sizeof(set), &set) ||
        pthread_create(&thread, &attributes, other, j->buffer + j->argument))
        fail("pthread_create");
    for (t = now() + 2000000; now() < t;) /* until the other one stands by */
        ;
    go = 1;
    t = now();
    add_many((uint64_t *)j->buffer);
    t = now() - t;
    pthread_join(thread, NULL);
    *count = ADDITIONS;
    return t;
}

static uint64_t measure(struct job *j, uint64_t *count)
{
    const char *n = j->name;
    uint64_t t, turns;
    if (!strcmp(n, "chase") || !strcmp(n, "chase4k") || !strcmp(n, "walk")) {
        size_t lines = !strcmp(n, "walk") ? j->argument : j->size / LINE;
        uint64_t loads = lines < 20000 ? 20000 : lines, all = 0;
        uint64_t before = j->size <= SETTLED ? ROUNDS * lines + 100 : lines < 20000 ? 2 * lines + 100 : lines;
        for (int i = 0; i < j->places; i++) {
            uint64_t *p = chase(j->starts[i], before);
            t = now();
            p = chase(p, loads);
            all += p ? now() - t : 0;
        }
        *count = j->places * (loads / 10 * 10);
        return all;
    }
    if (!strcmp(n, "prefetched")) {
        t = now();
        announced_reads(j->buffer, (j->size - 1) & ~(uint64_t)(LINE - 1), (int)j->argument);
        *count = READS;
        return now() - t;
    }
    if (!strcmp(n, "random") || !strcmp(n, "random4k")) {
        uint64_t mask = (j->size - 1) & ~(uint64_t)(LINE - 1), reads = 20000 + j->size / LINE / 4;
        uint64_t all = 0;
        for (int i = 0; i < j->places; i++) {
            random_reads(j->buffers[i], mask, 4 * reads + (j->size <= SETTLED ? 2 * ROUNDS * j->size / LINE : 0));
            t = now();
            random_reads(j->buffers[i], mask, reads);
            all += now() - t;
        }
        *count = j->places * reads;
        return all;
    }
    if (!strcmp(n, "read") || !strcmp(n, "copy")) {
        int copies = !strcmp(n, "copy");
        turns = j->size < 1 << 20 ? (1 << 20) / j->size : 1;
        for (int pass = 0; pass < 2; pass++) {
            t = now();
            for (uint64_t i = 0; i < turns; i++) {
                if (copies)
                    copy_lines(j->buffer + j->size, j->buffer, j->size);
                else
                    read_lines(j->buffer, j->size);
            }
            barrier();
            t = now() - t;
        }
        *count = turns * (j->size / LINE);
        return t;
    }
    if (!strncmp(n, "taken", 5)) {
        void (*run)(void);
        memcpy(&run, &j->buffer, sizeof(run));
        turns = 1 + 20000 / j->argument;
        for (uint64_t i = 0; i < 3; i++)
            run();
        t = now();
        for (uint64_t i = 0; i < turns; i++)
            run();
        *count = turns * (j->argument + 3); /* call, return and the loop are branches too */
        return now() - t;
    }
    if (!strcmp(n, "branches")) {
        count_taken(j->buffer, j->size);
        t = now();
        count_taken(j->buffer, j->size);
        *count = j->size;
        return now() - t;
    }
    if (!strcmp(n, "share"))
        return share(j, count);
    if (!strcmp(n, "doorbell")) {
        t = now();
        for (int i = 0; i < 200; i++)
            control[SPARE] = (uint32_t)i;
        barrier();
        *count = 200;
        return now() - t;
    }
    if (!strcmp(n, "mmio-read")) {
        t = now();
        for (int i = 0; i < 200; i++)
            (void)control[SPARE];
        *count = 200;
        return now() - t;
    }
    if (!strcmp(n, "atomic")) {
        add_many((uint64_t *)j->buffer);
        t = now();
        add_many((uint64_t *)j->buffer);
        *count = ADDITIONS;
        return now() - t;
    }
    if (!strcmp(n, "exclusive")) {
        t = now();
        for (int i = 0; i < ADDITIONS; i++)
            __asm__ volatile("1: ldxr x9, [%0]\n add x9, x9, #1\n stxr w10, x9, [%0]\n cbnz w10, 1b\n"
                             : : "r"(j->buffer) : "x9", "x10", "memory");
        *count = ADDITIONS;
        return now() - t;
    }
    if (!strcmp(n, "forward")) {
        uint64_t x = 1;
        t = now();
        for (int i = 0; i < ADDITIONS / 10; i++)
            __asm__ volatile(TEN("str %0, [%1]\n ldr %0, [%1]\n") : "+r"(x) : "r"(j->buffer) : "memory");
        *count = ADDITIONS;
        return now() - t;
    }
    (void)chains(n, count); /* warm */
    return chains(n, count);
}

int main(int argc, char **argv)
{
    static struct job jobs[MAX];
    int count = 0, fd = open("/run/control", O_RDWR | O_SYNC);
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof(set), &set);
    control = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED)
        fail("/run/control");
    for (int i = 1; i + 1 < argc && count < MAX; i += 2, count++) {
        jobs[count].name = argv[i];
        jobs[count].argument = strtoull(argv[i + 1], NULL, 0);
        prepare(&jobs[count]);
    }
    control[MARK] = 1;
    for (uint64_t t = now(), end = t + 100000; t < end; t = now()) /* until full timing has begun */
        ;
    for (int i = 0; i < count; i++) {
        uint64_t operations = 1, best = UINT64_MAX;
        /* The shorter of two, where short: without a timer interrupt in it. */
        for (int turn = 0; turn < (jobs[i].size > 4 << 20 ? 1 : 2); turn++) {
            uint64_t t = measure(&jobs[i], &operations) * 1000 / operations;
            best = t < best ? t : best;
        }
        control[FIGURE] = (uint32_t)best;
    }
    return 0;
}
