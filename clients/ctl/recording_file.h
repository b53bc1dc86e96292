/* A recording as hilbertctl sees it: its first message, and what is in it by topic. */
#ifndef HB_CTL_RECORDING_FILE_H
#define HB_CTL_RECORDING_FILE_H

#include "hilbert.pb-c.h"
#include "mcap/mcap_reader.h"
#include "recording.h"

typedef struct ctl_recording {
    hb_mcap_reader *reader;
    Hilbert__V1__Recording *head; /* NULL: none was found */
    uint64_t size;                /* bytes of the file */
    uint64_t count[HB_NTOPICS];
    uint64_t start, end;  /* of log_time, ns */
    uint64_t gaps, lost;  /* places where messages are missing, and how many */
    uint64_t replies[16]; /* by ActionStatus */
    bool cut, damaged;
    uint64_t cut_at;
    hb_error damage;
} ctl_recording;

/* Reads the whole file once. -errno when nothing of it can be read. */
int ctl_recording_open(ctl_recording *ret, const char *path, hb_error *err);
void ctl_recording_close(ctl_recording *r);

#endif
