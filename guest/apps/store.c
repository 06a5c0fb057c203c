#include "store.h"

#include <string.h>
#include <rte_hash.h>
#include <rte_jhash.h>
#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>
#include <rte_spinlock.h>

#define LOCKS 256
/* Replaced items that a worker may wait for. */
#define OLD_MAX 4096

struct item {
    uint16_t key_at, key_length;
};

struct old {
    struct rte_mbuf *item;
    uint64_t token;
};

/* What a worker has replaced, first in, first out. */
struct worker_state {
    struct old old[OLD_MAX];
    uint32_t head, tail;
} __rte_cache_aligned;

static struct rte_hash *table;
static struct rte_mempool *items_pool;
static struct rte_rcu_qsbr *grace;
static struct worker_state *states;
/* Writers of a key take turns. */
static rte_spinlock_t locks[LOCKS];

void store_open(uint32_t items, uint32_t item_size, unsigned int workers)
{
    struct rte_hash_parameters parameters = {
        .name = "items", .entries = items, .key_len = sizeof(uint64_t), .hash_func = rte_jhash,
        .extra_flag = RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF | RTE_HASH_EXTRA_FLAGS_MULTI_WRITER_ADD,
    };
    size_t size = rte_rcu_qsbr_get_memsize(workers);

    table = rte_hash_create(&parameters);
    items_pool = rte_pktmbuf_pool_create("items", items + workers * OLD_MAX, 256,
                                         RTE_ALIGN(sizeof(struct item), RTE_MBUF_PRIV_ALIGN),
                                         RTE_ALIGN_CEIL(item_size, 64), SOCKET_ID_ANY);
    grace = rte_zmalloc("grace", size, RTE_CACHE_LINE_SIZE);
    states = rte_zmalloc("states", workers * sizeof(*states), RTE_CACHE_LINE_SIZE);
    if (table == NULL || items_pool == NULL || grace == NULL || states == NULL)
        rte_exit(1, "no memory for %u items of %u B\n", items, item_size);
    rte_rcu_qsbr_init(grace, workers);
    for (int i = 0; i < LOCKS; i++)
        rte_spinlock_init(&locks[i]);
}

void store_enter(unsigned int worker)
{
    rte_rcu_qsbr_thread_register(grace, worker);
    rte_rcu_qsbr_thread_online(grace, worker);
}

static struct item *about(struct rte_mbuf *m)
{
    return rte_mbuf_to_priv(m);
}

/* 64 bits stand for the key; the key itself is compared where it lies. */
static uint64_t digest(const struct span *key)
{
    uint32_t a = 0, b = 0x9e3779b9;

    rte_jhash_2hashes(key->text, (uint32_t)key->length, &a, &b);
    return (uint64_t)a << 32 | b;
}

static bool has_key(struct rte_mbuf *m, const struct span *key)
{
    const struct item *i = about(m);

    return i->key_length == key->length &&
           memcmp(rte_pktmbuf_mtod_offset(m, const char *, i->key_at), key->text, key->length) == 0;
}

struct rte_mbuf *store_get(const struct span *key)
{
    uint64_t d = digest(key);
    void *found;

    if (rte_hash_lookup_data(table, &d, &found) < 0 || !has_key(found, key))
        return NULL;
    return found;
}

static char *put(char *to, const char *text, size_t length)
{
    memcpy(to, text, length);
    return to + length;
}

/* "VALUE key flags bytes", the data, "END". */
static struct rte_mbuf *make(const struct request *r)
{
    const struct span *key = &r->key[0];
    size_t length = sizeof("VALUE   \r\n") - 1 + key->length + r->flags.length + r->bytes.length + r->data.length + END_LENGTH;
    struct rte_mbuf *m = rte_pktmbuf_alloc(items_pool);
    char *at;

    if (m == NULL)
        return NULL;
    at = rte_pktmbuf_append(m, (uint16_t)RTE_MIN(length, (size_t)UINT16_MAX));
    if (at == NULL) {
        rte_pktmbuf_free(m);
        return NULL;
    }
    about(m)->key_at = sizeof("VALUE ") - 1;
    about(m)->key_length = (uint16_t)key->length;
    at = put(at, "VALUE ", 6);
    at = put(at, key->text, key->length);
    at = put(at, " ", 1);
    at = put(at, r->flags.text, r->flags.length);
    at = put(at, " ", 1);
    at = put(at, r->bytes.text, r->bytes.length);
    at = put(at, "\r\n", 2);
    at = put(at, r->data.text, r->data.length);
    put(at, END_TEXT, END_LENGTH);
    return m;
}

const char *store_set(unsigned int worker, const struct request *r)
{
    struct worker_state *s = &states[worker];
    uint64_t d = digest(&r->key[0]);
    rte_spinlock_t *lock = &locks[d % LOCKS];
    struct rte_mbuf *m;
    void *old = NULL;
    int done;

    if (s->tail - s->head >= OLD_MAX)
        return "SERVER_ERROR out of memory storing object\r\n";
    m = make(r);
    if (m == NULL)
        return r->data.length > rte_pktmbuf_data_room_size(items_pool) / 2
                   ? "SERVER_ERROR object too large for cache\r\n"
                   : "SERVER_ERROR out of memory storing object\r\n";
    rte_spinlock_lock(lock);
    if (rte_hash_lookup_data(table, &d, &old) < 0)
        old = NULL;
    done = rte_hash_add_key_data(table, &d, m);
    rte_spinlock_unlock(lock);
    if (done != 0) {
        rte_pktmbuf_free(m);
        return "SERVER_ERROR out of memory storing object\r\n";
    }
    if (old != NULL) {
        s->old[s->tail % OLD_MAX].item = old;
        s->old[s->tail++ % OLD_MAX].token = rte_rcu_qsbr_start(grace);
    }
    return "STORED\r\n";
}

void store_turn(unsigned int worker)
{
    struct worker_state *s = &states[worker];

    rte_rcu_qsbr_quiescent(grace, worker);
    while (s->head != s->tail && rte_rcu_qsbr_check(grace, s->old[s->head % OLD_MAX].token, false) == 1)
        rte_pktmbuf_free(s->old[s->head++ % OLD_MAX].item);
}
