/* Micro-benchmarks for the tests: each reports figures through the control page.
 *
 *   micro chain N       N dependent 64-bit multiplications; reports counter ticks
 *   micro adds N        N dependent additions; reports counter ticks
 *   micro prefetch N    N software prefetches of distinct lines
 *   micro zero N        N lines zeroed by DC ZVA
 *   micro pairs N       N LDP, N LD1 of four registers
 *   micro atomics N     N LDADD, N CAS
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MARK = 0, FIGURE = 3, PAGE = 4096, LINE = 64 };

static volatile uint32_t *control;

static uint64_t now(void)
{
    uint64_t t;
    __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(t) : : "memory");
    return t;
}

#define TEN(x) x x x x x x x x x x

/* Each turn of the loop is 100 dependent instructions; the loop itself hides behind them. */
static uint64_t chain(uint64_t turns)
{
    uint64_t x = 3, y = 5, t = now();
    for (uint64_t i = 0; i < turns; i++)
        __asm__ volatile(TEN(TEN("mul %0, %0, %1\n")) : "+r"(x) : "r"(y));
    return now() - t;
}

static uint64_t adds(uint64_t turns)
{
    uint64_t x = 3, y = 5, t = now();
    for (uint64_t i = 0; i < turns; i++)
        __asm__ volatile(TEN(TEN("add %0, %0, %1\n")) : "+r"(x) : "r"(y));
    return now() - t;
}

/* The shortest of some: without a timer interrupt in it, and with warm caches. */
static uint64_t least(uint64_t (*measure)(uint64_t), uint64_t turns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t t = measure(turns);
        best = t < best ? t : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 0) : 0, ticks = 0;
    size_t size = (n + 64) * LINE;
    int fd = open("/run/control", O_RDWR | O_SYNC);
    char *buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    control = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED || buffer == MAP_FAILED) {
        perror("micro");
        return 1;
    }
    control[MARK] = 1;
    for (uint64_t t = now(), end = t + 100000; t < end; t = now()) /* until full timing has begun */
        ;
    if (!strcmp(what, "chain")) {
        ticks = least(chain, n / 100);
    } else if (!strcmp(what, "adds")) {
        ticks = least(adds, n / 100);
    } else if (!strcmp(what, "prefetch")) {
        for (uint64_t i = 0; i < n; i++)
            __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(buffer + i * LINE));
    } else if (!strcmp(what, "zero")) {
        for (uint64_t i = 0; i < n; i++)
            __asm__ volatile("dc zva, %0" : : "r"(buffer + i * LINE) : "memory");
    } else if (!strcmp(what, "pairs")) {
        for (uint64_t i = 0; i < n; i++)
            __asm__ volatile("ldp x9, x10, [%0]\n ld1 {v0.16b-v3.16b}, [%0]"
                             : : "r"(buffer + i * LINE) : "x9", "x10", "v0", "v1", "v2", "v3", "memory");
    } else if (!strcmp(what, "atomics")) {
        for (uint64_t i = 0; i < n; i++)
            __asm__ volatile(".arch_extension lse\n ldadd x9, x10, [%0]\n cas x9, x10, [%0]"
                             : : "r"(buffer + i * LINE) : "x9", "x10", "memory");
    } else {
        fprintf(stderr, "micro: what?\n");
        return 2;
    }
    control[FIGURE] = (uint32_t)ticks;
    return 0;
}
