/* An in-memory store whose values lie in packet buffers, ready to be sent: an item is the text of its answer.
 *
 * Any worker reads and writes. Readers take no lock; what a writer replaces is kept until no worker can still be at it
 * (quiescent states, rte_rcu_qsbr). Nothing is evicted and nothing expires: a full store refuses. */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_mbuf.h>

#include "text.h"

/* "END" and its line end lie behind every item's text: the last value of an answer is sent with it. */
#define END_TEXT "END\r\n"
#define END_LENGTH (sizeof(END_TEXT) - 1)

/* Makes the store; ends the program where there is no memory. */
void store_open(uint32_t items, uint32_t item_size, unsigned int workers);

/* A worker begins. */
void store_enter(unsigned int worker);

/* The value of a key, END included, or NULL. Valid until the worker's next `store_turn`; attach to keep it. */
struct rte_mbuf *store_get(const struct span *key);

/* Sets a value; returns what the client is told. */
const char *store_set(unsigned int worker, const struct request *r);

/* The worker holds nothing that it got: what was replaced is freed where nobody does. */
void store_turn(unsigned int worker);

#endif
