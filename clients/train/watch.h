/* What a long pass is watched by: somebody who may ask it to stop, and a line of progress. */
#ifndef HB_WATCH_H
#define HB_WATCH_H

#include <errno.h>
#include <signal.h>

#include "base/base.h"
#include "common/progress.h"

typedef struct hb_watch {
    const volatile sig_atomic_t *stop; /* not zero: end; may be NULL */
    hb_progress *progress;             /* NULL: nobody looks */
} hb_watch;

/* Says how much of a pass is done, 0..1, and whether to end it: -EINTR. w may be NULL. */
static inline int hb_watch_at(const hb_watch *w, double fraction, hb_error *err)
{
    if (w && w->stop && *w->stop)
        return hb_fail(err, EINTR, "stopped");
    if (w && w->progress)
        hb_progress_update(w->progress, fraction, NULL);
    return 0;
}

#endif
