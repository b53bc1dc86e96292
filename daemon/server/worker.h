/* The planner's thread. It takes one job at a time, which is handed over without a lock.
 *
 *     server                     worker
 *     IDLE   -- post -------->   POSTED -- runs the job -->  DONE
 *       ^                                                     |
 *       +------------ collect <-------------------------------+
 *
 * While it is IDLE the planning side of the controller belongs to the server, which may then call it itself
 * (fallback, retune, corrections) between hold and release; from post to collect it belongs to the worker. Each side
 * wakes the other by an eventfd.
 *
 * Behind a command the worker prepares for the next one, without being asked and until something is posted: that waits
 * for one piece of work at most. */
#ifndef HB_WORKER_H
#define HB_WORKER_H

#include <sys/types.h>

#include "controller/controller.h"

typedef enum { HB_JOB_COMMAND, HB_JOB_PREDICT } hb_job_kind;

/* A stretch of trajectories to predict, as far as one slice of time allows. */
typedef struct hb_prediction {
    int count, steps;
    double dt;
    double *state;        /* count x nx: where each starts */
    double *control;      /* count x steps x nu */
    double *predicted;    /* count x (steps + 1) x nx */
    int trajectory, step; /* how far it has come; done when trajectory = count */
    bool failed;
    hb_error error;
} hb_prediction;

typedef struct hb_plan_order {
    hb_job_kind kind;
    const hb_request *request;   /* HB_JOB_COMMAND */
    const hb_command *command;   /* its answer */
    double started, finished;    /* hb_now */
    hb_prediction *prediction;   /* HB_JOB_PREDICT */
    const hb_prepared *prepared; /* before it, */
    uint64_t snapshot;           /* and the estimate that it was made with */
} hb_plan_order;

typedef struct hb_worker hb_worker;

typedef struct hb_worker_settings {
    hb_controller *controller;
    const hb_model *model;
    hb_clock clock;
    hb_clock processor; /* time that the calling thread has had a processor: preparing is charged with that */
    bool stepped;       /* no thread: its owner calls hb_worker_run, _deliver and _prepare, in the place of one */
    void (*started)(void *context); /* on the new thread, for its name, place and priority */
    /* Called by the thread that posts and collects: raises the worker's priority while a request waits for it, and
     * lowers it while it only prepares. */
    void (*hurry)(void *context, pid_t thread, bool on);
    void *context;
} hb_worker_settings;

int hb_worker_new(hb_worker **ret, const hb_worker_settings *s, hb_error *err);
void hb_worker_free(hb_worker *w); /* lets it finish its current work */

bool hb_worker_idle(const hb_worker *w);
void hb_worker_post(hb_worker *w, const hb_plan_order *job); /* while idle */
/* Has it stop preparing after the piece of work in hand. */
void hb_worker_interrupt(hb_worker *w);
/* Whether it is preparing. */
bool hb_worker_prepares(const hb_worker *w);
/* While idle: until release, nothing is prepared; waits for the current piece of work. */
void hb_worker_hold(hb_worker *w);
void hb_worker_release(hb_worker *w);
/* While held: does a job on the calling thread, and leaves the preparing behind it to the worker's. */
void hb_worker_do(hb_worker *w, hb_plan_order *job);
/* While held: commands and predictions come from another controller from now on. */
void hb_worker_use(hb_worker *w, hb_controller *controller, const hb_model *model);
/* The job that has come back, valid until the next post; NULL when there is none. */
const hb_plan_order *hb_worker_collect(hb_worker *w);
int hb_worker_fd(const hb_worker *w); /* readable when there is something to collect */
/* Grows with each job and, while idle, several times a second: a proof of life. */
unsigned long hb_worker_beats(const hb_worker *w);

/* What the thread does, piece by piece. */

/* Does the job that is posted; false when there is none. */
bool hb_worker_run(hb_worker *w);
/* Hands it back. */
void hb_worker_deliver(hb_worker *w);
/* Prepares for the next command, until something is posted or held, or all is prepared. */
void hb_worker_prepare(hb_worker *w);

enum { HB_WORKER_BEAT_MS = 50, HB_WORKER_RETRY_MS = 1 };

#endif
