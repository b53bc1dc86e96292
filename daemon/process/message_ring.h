/* Messages from one thread to another through a ring of bytes, fixed: nobody waits, allocates or makes a system call.
 */
#ifndef HB_MESSAGE_RING_H
#define HB_MESSAGE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HB_MESSAGE_RING = 1 << 22 }; /* bytes, a power of two: minutes of an ordinary flight */

/* What stands before a message's bytes, which are padded to 8. */
typedef struct hb_ring_message {
    uint32_t size;
    uint32_t topic;
    uint64_t log_time, publish_time;
} hb_ring_message;

typedef struct hb_message_ring {
    uint8_t *bytes;
    size_t largest;           /* of a message */
    _Atomic uint64_t in, out; /* bytes put in and taken out, ever */
} hb_message_ring;

/* 0, or -ENOMEM. */
int hb_message_ring_new(hb_message_ring *r, size_t largest);
void hb_message_ring_free(hb_message_ring *r);

/* The putting thread: a message of m->size bytes, na of them from a and the others from b; false: there is no room, or
 * it is larger than the largest. */
bool hb_message_ring_put(hb_message_ring *r, const hb_ring_message *m, const void *a, size_t na, const void *b);
/* The taking thread: the oldest message, its bytes to `data` (of the largest size); false: there is none. */
bool hb_message_ring_take(hb_message_ring *r, hb_ring_message *ret, void *data);

#endif
