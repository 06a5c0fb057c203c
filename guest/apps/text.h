/* memcached's text protocol, as far as this server speaks it: get, gets, set, version. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_MAX 250
/* Keys of a get; more are refused. */
#define KEYS_MAX 64

enum verb { VERB_GET, VERB_GETS, VERB_SET, VERB_VERSION, VERB_REFUSED };

struct span {
    const char *text;
    size_t length;
};

/* A request as it lies in its datagram. */
struct request {
    enum verb verb;
    unsigned int keys;
    struct span key[KEYS_MAX];
    struct span flags, bytes;   /* of a set, as the client wrote them */
    struct span data;           /* with the line end behind it */
    bool quiet;                 /* noreply */
    const char *refusal;        /* what the client is told instead */
};

/* Reads one request. */
void read_request(const char *text, size_t length, struct request *r);

#endif
