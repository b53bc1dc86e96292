/* Messages of others, made fit to be shown: whoever sent them may be of another version, or mean harm. */
#ifndef HB_RECEIVED_H
#define HB_RECEIVED_H

#include <stdbool.h>
#include <stddef.h>

#include "hilbert.pb-c.h"

/* Control characters (C0 but for tab, DEL, and C1 in UTF-8) become question marks: they could command a terminal. */
void hb_text_clean(char *text, size_t size);
/* The same for all strings of a message that was unpacked with malloc, and of those in it. */
void hb_message_clean(ProtobufCMessage *m);
/* Of a Status that was unpacked with malloc: messages in it that are absent become empty ones, except shadow and
 * recorder, which may be. False without memory. */
bool hb_status_complete(Hilbert__V1__Status *s);

#endif
