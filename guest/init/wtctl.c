/* wtctl: what guest programs and the simulator tell each other, through the control page.
 *
 *   wtctl mark N        announce a point of the run
 *   wtctl wait-stop     return when the simulator wants the application to end
 *   wtctl exit STATUS   report the application's exit status
 *   wtctl report N      report a figure
 *   wtctl files         print the archive of what is to run, once the simulator has it
 *   wtctl seed          tell the kernel that its random numbers are seeded
 */
#include <fcntl.h>
#include <linux/random.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MARK = 0, PHASE = 1, EXIT = 2, FIGURE = 3, FILES = 4, FRAME = 5, PAGE = 4096 };

/* Often enough to end soon; seldom enough not to slow down what starts beside it: untimed instructions are slow, and
 * half a millisecond between polls had cost a tenth of the boot. */
static const struct timespec interval = { .tv_nsec = 1500 * 1000 };

/* A guest that is the same each time has no entropy, and a kernel without extracts it anew for every random number: a
 * fifth of a UDP server's time. On real machines the firmware has seeded it by now. */
static int seed(void)
{
    struct {
        struct rand_pool_info info;
        unsigned char bytes[32];
    } pool = { .info = { .entropy_count = 256, .buf_size = 32 }, .bytes = "wiretime: the same in every run" };
    int fd = open("/dev/random", O_WRONLY);

    if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) != 0) {
        perror("wtctl: /dev/random");
        return 1;
    }
    return 0;
}

/* The number of the frame of memory that a page is in. */
static uint64_t frame_of(const void *at)
{
    uint64_t entry = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY);

    if (fd < 0 || pread(fd, &entry, sizeof entry, (off_t)((uintptr_t)at / PAGE * sizeof entry)) != sizeof entry)
        return 0;
    close(fd);
    return entry & ((UINT64_C(1) << 55) - 1);
}

/* The simulator writes a page at a time to memory: an access that traps for each. */
static int files(volatile uint32_t *control)
{
    uint32_t left;
    uint64_t frame;
    char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);

    if (page == MAP_FAILED || (frame = frame_of(page)) == 0) {
        perror("wtctl: files");
        return 1;
    }
    control[FILES] = 1;
    while ((left = control[FILES]) == 0)
        nanosleep(&interval, NULL);
    while (left != 0) {
        uint32_t length = left < PAGE ? left : PAGE, done = 0;

        control[FRAME] = (uint32_t)frame;
        while (done < length) {
            ssize_t n = write(STDOUT_FILENO, page + done, length - done);

            if (n <= 0) {
                perror("wtctl: files");
                return 1;
            }
            done += (uint32_t)n;
        }
        left -= length;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint32_t value = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 0;
    int fd;
    volatile uint32_t *page;

    if (!strcmp(what, "seed"))
        return seed();
    fd = open("/run/control", O_RDWR | O_SYNC);
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
    } else if (!strcmp(what, "files")) {
        return files(page);
    } else if (!strcmp(what, "wait-stop")) {
        while (page[PHASE] == 0)
            nanosleep(&interval, NULL);
    } else {
        fprintf(stderr, "usage: wtctl mark N | wait-stop | exit STATUS | report N | files | seed\n");
        return 2;
    }
    return 0;
}
