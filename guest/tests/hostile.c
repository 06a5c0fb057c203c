/* What a guest that means harm can do to a device model: random words of every width into whatever BAR it may map, and
 * into the huge pages of a DPDK program, where rings, buffers and doorbell records are. `hostile WORDS SEED [PID]`. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES "/sys/bus/pci/devices"

enum { BARS = 6, MOST = 64, MEMORY_BAR = 0x200 };

static uint64_t state;

static uint64_t any(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* A BAR that can be written. */
struct bar {
    volatile uint8_t *at;
    uint64_t size;
};

/* The device by which programs end a run: to write there is no harm, but the end. */
static int is_control(const char *device) {
    char path[512], vendor[16] = "";
    snprintf(path, sizeof(path), DEVICES "/%s/vendor", device);
    FILE *file = fopen(path, "r");
    if (file != NULL && fgets(vendor, sizeof(vendor), file) == NULL)
        vendor[0] = 0;
    if (file != NULL)
        fclose(file);
    return strncmp(vendor, "0x1234", 6) == 0;
}

static int open_bars(const char *device, struct bar *bars, int count) {
    char path[512];
    snprintf(path, sizeof(path), DEVICES "/%s/resource", device);
    FILE *list = fopen(path, "r");
    if (list == NULL)
        return count;
    for (int i = 0; i < BARS; i++) {
        uint64_t start, end, flags;
        if (fscanf(list, "%" SCNx64 " %" SCNx64 " %" SCNx64, &start, &end, &flags) != 3)
            break;
        if (end <= start || (flags & MEMORY_BAR) == 0)
            continue;
        snprintf(path, sizeof(path), DEVICES "/%s/resource%d", device, i);
        int file = open(path, O_RDWR | O_SYNC);
        if (file < 0) {
            perror(path);
            continue;
        }
        void *at = mmap(NULL, end - start + 1, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (at == MAP_FAILED) {
            perror(path);
            continue;
        }
        bars[count].at = at;
        bars[count].size = end - start + 1;
        printf("hostile: %s BAR %d, %" PRIu64 " bytes\n", device, i, end - start + 1);
        count++;
    }
    fclose(list);
    return count;
}

/* Memory of another process. */
struct area {
    uint64_t start, size;
};

static int find_pages(const char *process, struct area *areas, int most) {
    char path[64], line[512];
    snprintf(path, sizeof(path), "/proc/%s/maps", process);
    FILE *maps = fopen(path, "r");
    int count = 0;
    while (maps != NULL && count < most && fgets(line, sizeof(line), maps) != NULL) {
        uint64_t end;
        if (strstr(line, "huge") == NULL ||
            sscanf(line, "%" SCNx64 "-%" SCNx64, &areas[count].start, &end) != 2)
            continue;
        areas[count].size = end - areas[count].start;
        count++;
    }
    if (maps != NULL)
        fclose(maps);
    printf("hostile: %d areas of huge pages\n", count);
    return count;
}

int main(int argc, char **argv) {
    uint64_t words = argc > 1 ? strtoull(argv[1], NULL, 0) : 100000;
    state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    struct bar bars[MOST];
    int count = 0;
    DIR *devices = opendir(DEVICES);
    struct dirent *entry;
    while (devices != NULL && (entry = readdir(devices)) != NULL && count + BARS <= MOST)
        if (entry->d_name[0] != '.' && !is_control(entry->d_name))
            count = open_bars(entry->d_name, bars, count);
    printf("hostile: %d BARs\n", count);
    fflush(stdout);
    struct area areas[MOST];
    int pages = 0, memory = -1;
    if (argc > 3) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/%s/mem", argv[3]);
        memory = open(path, O_RDWR);
        pages = find_pages(argv[3], areas, MOST);
    }
    fflush(stdout);
    if (count == 0)
        return 1;
    uint64_t n, written = 0;
    for (n = 0; n < words; n++) {
        struct bar *bar = &bars[any() % (uint64_t)count];
        uint64_t offset = any() % bar->size;
        if (any() % 4 != 0)
            offset %= 0x6000 < bar->size ? 0x6000 : bar->size;
        uint64_t value = any();
        if (any() % 2 != 0)
            value &= 0xfff;
        if (pages > 0 && any() % 16 == 0) {
            struct area *area = &areas[any() % (uint64_t)pages];
            uint64_t at = area->start + any() % area->size / 8 * 8;
            /* Not all of an area is there: huge pages come when they are touched first. */
            if (pwrite(memory, &value, sizeof(value), (off_t)at) > 0)
                written++;
        }
        switch (any() % 8) {
        case 0:
            bar->at[offset] = (uint8_t)value;
            break;
        case 1:
            *(volatile uint16_t *)(bar->at + (offset & ~1ull)) = (uint16_t)value;
            break;
        case 2:
            *(volatile uint64_t *)(bar->at + (offset & ~7ull)) = value;
            break;
        case 3:
            (void)*(volatile uint32_t *)(bar->at + (offset & ~3ull));
            break;
        default:
            *(volatile uint32_t *)(bar->at + (offset & ~3ull)) = (uint32_t)value;
        }
    }
    printf("hostile: %" PRIu64 " words, and %" PRIu64 " into memory\n", n, written);
    fflush(stdout);
    return 0;
}
