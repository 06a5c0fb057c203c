/* wtctl: what guest programs and the simulator tell each other, through the control page.
 *
 *   wtctl mark N        announce a point of the run
 *   wtctl wait-stop     return when the simulator wants the application to end
 *   wtctl exit STATUS   report the application's exit status
 *   wtctl report N      report a figure
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MARK = 0, PHASE = 1, EXIT = 2, FIGURE = 3, PAGE = 4096 };

/* Often enough to end soon; seldom enough not to slow down what starts beside it: untimed instructions are slow, and
 * half a millisecond between polls had cost a tenth of the boot. */
static const struct timespec interval = { .tv_nsec = 1500 * 1000 };

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint32_t value = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 0;
    int fd = open("/run/control", O_RDWR | O_SYNC);
    volatile uint32_t *page;

    if (fd < 0) {
        perror("wtctl: /run/control");
        return 1;
    }
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        perror("wtctl: mmap");
        return 1;
    }
    if (!strcmp(what, "mark")) {
        page[MARK] = value;
    } else if (!strcmp(what, "exit")) {
        page[EXIT] = value + 1;
    } else if (!strcmp(what, "report")) {
        page[FIGURE] = value;
    } else if (!strcmp(what, "wait-stop")) {
        while (page[PHASE] == 0)
            nanosleep(&interval, NULL);
    } else {
        fprintf(stderr, "usage: wtctl mark N | wait-stop | exit STATUS | report N\n");
        return 2;
    }
    return 0;
}
