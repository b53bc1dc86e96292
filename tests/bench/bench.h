/* hilbert-bench: measurements, one JSON object per line.
 *
 * A case describes itself with bench_set_*, measures with bench_time, which adds seconds (median), on one thread
 * cpu_seconds, gflops and fraction_of_peak, and ends with bench_emit:
 *
 *     bench_set_int(b, "nb", 100);
 *     bench_time(b, work, context, nthreads, flops);
 *     bench_emit(b);
 *
 * The peak is a loop of fused multiply-adds on the same number of threads, measured just before and just after: on a
 * shared host a core comes and goes within seconds. Where the two differ by more than 20 %, the case is measured again
 * and says so (`repeats`). */
#ifndef HB_BENCH_H
#define HB_BENCH_H

#include <stdint.h>

#include "base/monotonic.h"

typedef struct bench bench;

typedef struct bench_case {
    const char *name, *help;
    void (*run)(bench *b);
} bench_case;

/* The tables of cases, one per file; each ends with a NULL name. */
extern const bench_case bench_basis_cases[], bench_estimator_cases[], bench_planner_cases[], bench_feedback_cases[];
extern const bench_case bench_daemon_cases[], bench_latency_cases[]; /* with HB_WITH_DAEMON */
extern const bench_case bench_train_cases[];                         /* with HB_WITH_TRAIN */

/* Of bench_feedback.c: flights that are prepared and corrected, as lines of the case that asks. */
void bench_scenarios(bench *b);

void bench_set_int(bench *b, const char *key, int64_t value);
void bench_set_number(bench *b, const char *key, double value);
void bench_set_text(bench *b, const char *key, const char *value);
/* Prints what was set since the last one, under the name of the case. */
void bench_emit(bench *b);

/* Calls work until its time is known well; flops are those of one call, 0 if that says nothing. Returns seconds. */
double bench_time(bench *b, void (*work)(void *context), void *context, int nthreads, double flops);

/* Seconds of processor time of this thread: what work costs on a machine that others use as well. */
static inline double bench_cpu(void)
{
    return hb_clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

/* Did the caller name this very case? Costly parts can be left out otherwise. */
int bench_asked_for(const bench *b, const char *name);
/* Ends the run with a message: for set-up that cannot fail. */
void bench_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
