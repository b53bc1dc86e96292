/* Other programs, run to their end. */
#ifndef HB_CHILD_H
#define HB_CHILD_H

typedef struct hb_child {
    char *const *arguments;    /* the program first, found as a shell would; NULL ends them */
    int input, output, errors; /* file descriptors; negative: nothing to read, what is written is this process's own */
} hb_child;

/* The exit code, or -1 when it could not be run or was ended by a signal. */
int hb_child_run(const hb_child *c);

#endif
