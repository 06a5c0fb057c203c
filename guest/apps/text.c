#include "text.h"

#include <string.h>

#define FORMAT "CLIENT_ERROR bad command line format\r\n"
#define CHUNK "CLIENT_ERROR bad data chunk\r\n"
#define WORDS_MAX (KEYS_MAX + 1)

static bool is(const struct span *word, const char *text)
{
    return word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

static bool whole_number(const struct span *word, uint64_t most, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < word->length; i++) {
        if (word->text[i] < '0' || word->text[i] > '9')
            return false;
        *value = *value * 10 + (uint64_t)(word->text[i] - '0');
        if (*value > most)
            return false;
    }
    return word->length > 0;
}

static void refuse(struct request *r, const char *text)
{
    r->verb = VERB_REFUSED;
    r->refusal = text;
}

/* What follows a line that makes no sense is read as a command by memcached, which it is not. */
#define REFUSE_BEFORE(r, left, text) refuse(r, (left) > 0 ? text "ERROR\r\n" : text)

static void read_set(struct request *r, const struct span *words, unsigned int n, const char *rest, size_t left)
{
    struct span expiry;
    uint64_t value, bytes;

    r->verb = VERB_SET;
    if (n != 5 && !(n == 6 && is(&words[5], "noreply"))) {
        refuse(r, "ERROR\r\n");
        return;
    }
    r->quiet = n == 6;
    r->key[0] = words[1];
    r->keys = 1;
    r->flags = words[2];
    r->bytes = words[4];
    expiry = words[3];
    if (expiry.length > 1 && expiry.text[0] == '-') {
        expiry.text++;
        expiry.length--;
    }
    if (words[1].length > KEY_MAX || !whole_number(&r->flags, UINT32_MAX, &value) ||
        !whole_number(&expiry, INT32_MAX, &value) || !whole_number(&r->bytes, INT32_MAX, &bytes)) {
        REFUSE_BEFORE(r, left, FORMAT);
        return;
    }
    if (left < 2 || bytes != left - 2 || memcmp(rest + bytes, "\r\n", 2) != 0) {
        REFUSE_BEFORE(r, left, CHUNK);
        return;
    }
    r->data.text = rest;
    r->data.length = left;
}

void read_request(const char *text, size_t length, struct request *r)
{
    const char *end = memchr(text, '\n', length), *at = text, *line_end;
    struct span words[WORDS_MAX];
    unsigned int n = 0;

    memset(r, 0, offsetof(struct request, key));
    r->quiet = false;
    r->refusal = NULL;
    if (end == NULL) {
        refuse(r, "ERROR\r\n");
        return;
    }
    line_end = end > text && end[-1] == '\r' ? end - 1 : end;
    while (at < line_end) {
        const char *begin;

        while (at < line_end && *at == ' ')
            at++;
        begin = at;
        while (at < line_end && *at != ' ')
            at++;
        if (at == begin)
            break;
        if (n == WORDS_MAX) {
            refuse(r, "SERVER_ERROR too many keys\r\n");
            return;
        }
        words[n].text = begin;
        words[n++].length = (size_t)(at - begin);
    }
    if (n >= 2 && (is(&words[0], "get") || is(&words[0], "gets"))) {
        r->verb = is(&words[0], "get") ? VERB_GET : VERB_GETS;
        for (unsigned int i = 1; i < n; i++) {
            if (words[i].length > KEY_MAX) {
                refuse(r, FORMAT);
                return;
            }
            r->key[r->keys++] = words[i];
        }
    } else if (n >= 1 && is(&words[0], "set")) {
        read_set(r, words, n, end + 1, length - (size_t)(end + 1 - text));
    } else if (n == 1 && is(&words[0], "version")) {
        r->verb = VERB_VERSION;
    } else {
        refuse(r, "ERROR\r\n");
    }
}
