/* How a program learns that it is to end: a signal, or a line or the end of its input. */
#ifndef ENDING_H
#define ENDING_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

static volatile bool ending;

static void on_signal(int signal)
{
    (void)signal;
    ending = true;
}

static void wait_for_the_end(void)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    while (!ending) {
        char line[64];

        /* A line or the end of the input ends the program too. */
        if (poll(&input, 1, 1000) > 0 && read(STDIN_FILENO, line, sizeof(line)) >= 0)
            ending = true;
    }
}

#endif
