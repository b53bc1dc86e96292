/* CURVE keys as files: one line of 40 characters (Z85). A secret key's file must be readable by its owner alone. */
#ifndef HILBERT_KEYS_H
#define HILBERT_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum { HB_KEY_SIZE = 41 }; /* with the end of the string */

/* Returns 0 or a negative errno value with the reason in `text`. */
int hb_key_read(const char *path, bool secret, char key[HB_KEY_SIZE], char *text, size_t size);
/* Writes a new file (never over an old one): mode 0600 for a secret key, 0644 for a public one. */
int hb_key_write(const char *path, bool secret, const char *key, char *text, size_t size);
/* Has a client's socket speak CURVE with the daemon whose public key is in `server_key`, as the owner of the secret key
 * in `client_key`. Returns 0 or a negative errno value with the reason in `text`. */
int hb_keys_use(void *socket, const char *server_key, const char *client_key, char *text, size_t size);

#endif
