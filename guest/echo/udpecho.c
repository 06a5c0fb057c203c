/* udpecho: sends every datagram back through the kernel's sockets. One socket and one process; BATCH datagrams a
 * system call at most (recvmmsg, sendmmsg). Its buffer is as large as the kernel allows: net.core.rmem_max, 208 KiB. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH_MAX 64
#define DATAGRAM 65536

static volatile sig_atomic_t ending;

static void on_signal(int signal)
{
    (void)signal;
    ending = 1;
}

static int usage(void)
{
    fprintf(stderr, "usage: udpecho PORT [BATCH]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static unsigned char bytes[BATCH_MAX][DATAGRAM];
    static struct sockaddr_in6 peers[BATCH_MAX];
    struct sockaddr_in6 here = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
    struct sigaction action = { .sa_handler = on_signal };
    struct mmsghdr messages[BATCH_MAX];
    struct iovec vectors[BATCH_MAX];
    int port = argc > 1 ? atoi(argv[1]) : 0, batch = argc > 2 ? atoi(argv[2]) : 1;
    int buffer = 4 << 20, s;
    unsigned long received = 0, sent = 0;

    if (port < 1 || port > 65535 || batch < 1 || batch > BATCH_MAX)
        return usage();
    here.sin6_port = htons((uint16_t)port);
    s = socket(AF_INET6, SOCK_DGRAM, 0);
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) != 0 ||
        bind(s, (struct sockaddr *)&here, sizeof(here)) != 0) {
        perror("udpecho");
        return 1;
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    while (!ending) {
        int n, done;

        for (int i = 0; i < batch; i++) {
            vectors[i] = (struct iovec){ .iov_base = bytes[i], .iov_len = DATAGRAM };
            messages[i].msg_hdr = (struct msghdr){ .msg_name = &peers[i], .msg_namelen = sizeof(peers[i]),
                                                   .msg_iov = &vectors[i], .msg_iovlen = 1 };
        }
        n = recvmmsg(s, messages, (unsigned int)batch, MSG_WAITFORONE, NULL);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            perror("udpecho: recvmmsg");
            return 1;
        }
        received += (unsigned long)n;
        for (int i = 0; i < n; i++)
            vectors[i].iov_len = messages[i].msg_len;
        done = sendmmsg(s, messages, (unsigned int)n, 0);
        if (done > 0)
            sent += (unsigned long)done;
    }
    printf("statistics: received %lu sent %lu dropped %lu\n", received, sent, received - sent);
    return 0;
}
