/* Runs other programs and waits for them. */
#ifndef HB_CHILD_H
#define HB_CHILD_H

typedef struct hb_child {
    char *const *arguments;    /* the program first, found as a shell would; NULL ends them */
    int input, output, errors; /* file descriptors; negative: empty input, and this process's own output and errors */
} hb_child;

/* The exit code, or -1 when it could not be run or was ended by a signal. */
int hb_child_run(const hb_child *c);

#endif
