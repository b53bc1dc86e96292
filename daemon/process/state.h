/* Memory that outlives the process: the window lives in it, and the target.
 *
 *     under systemd    a memfd in the service manager's keeping (FDSTORE), handed back at the next start
 *     state_file       a file mapped shared: the kernel keeps what a killed process wrote
 *     neither          plain memory
 *
 * What is in it is the estimator's to judge (its header names model and settings, and it has a checksum). */
#ifndef HB_STATE_H
#define HB_STATE_H

#include "process/notify.h"
#include "base/base.h"

typedef struct hb_state {
    void *memory; /* the window, */
    void *target; /* and behind it the target that was set, see kept_target.h */
    size_t size;
    int fd;         /* of the state file, which it locks; else -1 */
    bool kept;      /* it came from before a restart */
    char where[64]; /* for the log: "service manager", "state file ..." */
} hb_state;

/* For a window of `size` bytes; `file` may be empty. The size of a block from before must be the same, else it is given
 * up and made again; *ret_note then says so (its text is empty otherwise). */
int hb_state_open(hb_state *ret, size_t size, const hb_inherited *inherited, const char *file, hb_error *ret_note,
                  hb_error *err);
/* Whether `file` can be opened so: it is there and ours (or empty), or can be made. A file that is not ours is never
 * written to. hb_state_open asks it too. */
int hb_state_check(const char *file, size_t size, hb_error *err);
/* Whether the state file was cut short since the last call. Its pages are plain memory from then on, and empty: what
 * was in them must be forgotten. */
bool hb_state_lost(void);
void hb_state_close(hb_state *s); /* the memory stays where it is kept */

#endif
