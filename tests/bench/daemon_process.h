/* A hilbertd of one's own to measure: started in a folder of its own, ended when it has served. */
#ifndef HB_DAEMON_PROCESS_H
#define HB_DAEMON_PROCESS_H

#include <sys/types.h>

#include "hilbert.pb-c.h"
#include "bench.h"
#include "model/model.h"

typedef struct daemon_process {
    char folder[64];
    char telemetry[128], actions[128], control[128]; /* endpoints */
    int notify;                                      /* the socket on which it says READY */
    pid_t pid;
    double started, ready; /* bench_now */
} daemon_process;

/* Makes the folder, saves the model there, and writes the configuration: sockets, the model, and `more`. */
void daemon_process_prepare(daemon_process *d, const hb_model *m, const char *more);
/* Starts it and waits for READY. Ends the run when that does not come. */
void daemon_process_start(daemon_process *d);
void daemon_process_stop(daemon_process *d, int signal);
/* Removes the folder. */
void daemon_process_clean(daemon_process *d);

/* What it says of itself; to be freed with hilbert__v1__control_reply__free_unpacked. */
Hilbert__V1__ControlReply *daemon_process_status(const daemon_process *d);
/* "fifo" or "other": whether its wish for real-time scheduling was granted. */
const char *daemon_process_scheduling(const daemon_process *d);
/* Whether its wish was granted that processors do not sleep. */
bool daemon_process_keeps_awake(const daemon_process *d);
double daemon_process_rss_mb(const daemon_process *d);

/* The model that is shipped, where it is there; else one of its size with random weights. Says which. */
hb_model *daemon_process_quadrotor(bench *b);

#endif
