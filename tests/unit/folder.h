/* A test's own folder, and names of files in it. */
#ifndef HB_TEST_FOLDER_H
#define HB_TEST_FOLDER_H

#include <stdio.h>

static char folder[64]; /* for mkdtemp */

/* Valid until 64 further calls. */
static inline const char *in_folder(const char *name)
{
    static char path[64][256];
    static int next;
    char *p = path[next++ % 64];

    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

#endif
