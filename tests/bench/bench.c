#include "bench.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/numeric.h"
#include "base/pool.h"
#include "base/statistics.h"
#include "common/options.h"

struct bench {
    const char *name; /* of the case that runs */
    bool json;
    json_t *object;
    char **asked;
    int nasked;
};

static const bench_case *const tables[] = {
    bench_basis_cases,   bench_estimator_cases, bench_planner_cases, bench_feedback_cases,
#ifdef HB_WITH_DAEMON
    bench_latency_cases, bench_daemon_cases,
#endif
#ifdef HB_WITH_TRAIN
    bench_train_cases,
#endif
};

void bench_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("hilbert-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* --- the peak: independent chains of multiply-adds in registers --- */

enum { CHAINS = 12, STEPS = 400000 };

#define DEFINE_PEAK(name, attribute, bytes)                                                                            \
    attribute static void name(void)                                                                                   \
    {                                                                                                                  \
        typedef float vector __attribute__((vector_size(bytes)));                                                      \
        vector x[CHAINS];                                                                                              \
        for (int c = 0; c < CHAINS; c++)                                                                               \
            x[c] = (float)c - (vector){0};                                                                             \
        for (int i = 0; i < STEPS; i++)                                                                                \
            _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) x[c] = x[c] * 0.999f + 0.001f;                   \
        for (int c = 1; c < CHAINS; c++)                                                                               \
            x[0] += x[c];                                                                                              \
        volatile float keep = x[0][0];                                                                                 \
        (void)keep;                                                                                                    \
    }

DEFINE_PEAK(peak_generic, , 16)
#ifdef __x86_64__
DEFINE_PEAK(peak_avx2, __attribute__((target("avx2,fma"))), 32)
DEFINE_PEAK(peak_avx512, __attribute__((target("avx512f"))), 64)
#endif

/* context: the least seconds of each thread so far */
static void run_peak(void *context, int part, int thread)
{
    double *least = context;
    const double start = hb_now();

    (void)part;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        peak_avx512();
    else if (__builtin_cpu_supports("avx2"))
        peak_avx2();
    else
#endif
        peak_generic();
    least[thread] = fmin(least[thread], hb_now() - start);
}

static double peak_flops(void)
{
    double lanes = 4;
#ifdef __x86_64__
    lanes = __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("avx2") ? 8 : 4;
#endif
    return 2.0 * lanes * CHAINS * STEPS;
}

/* Operations a second that `nthreads` can do on processors of their own, all at work: by the best of many short pieces,
 * because what else a machine does only ever takes from it. */
static double measure_peak(hb_pool *pool, int nthreads)
{
    enum { RUNS = 50, MOST_THREADS = 64 };
    double least[MOST_THREADS], best = INFINITY;

    if (nthreads > MOST_THREADS)
        bench_fail("%d threads: at most %d", nthreads, MOST_THREADS);
    for (int i = 0; i < nthreads; i++)
        least[i] = INFINITY;
    for (int i = 0; i < RUNS; i++)
        hb_pool_run(pool, nthreads, run_peak, least);
    for (int i = 0; i < nthreads; i++)
        best = fmin(best, least[i]);
    return peak_flops() * nthreads / best;
}

/* --- measuring --- */

static double median_seconds(void (*work)(void *context), void *context, double *cpu)
{
    enum { MOST = 1001 };
    static const double enough = 0.5;
    double seconds[MOST], cpu_seconds[MOST], total = 0;
    int n = 0, calls = 1;

    /* so many calls at a time that the clock does not matter */
    for (;;) {
        const double start = hb_now();
        for (int i = 0; i < calls; i++)
            work(context);
        const double took = hb_now() - start;
        if (took > 1e-3 || calls > 1 << 20)
            break;
        calls *= 2;
    }
    while (n < MOST && (total < enough || n < 5)) {
        const double start = hb_now(), cpu_start = bench_cpu();
        for (int i = 0; i < calls; i++)
            work(context);
        const double took = hb_now() - start;
        total += took;
        cpu_seconds[n] = (bench_cpu() - cpu_start) / calls;
        seconds[n++] = took / calls;
    }
    *cpu = hb_quantile(cpu_seconds, n, 0.5);
    return hb_quantile(seconds, n, 0.5);
}

double bench_time(bench *b, void (*work)(void *context), void *context, int nthreads, double flops)
{
    hb_error err;
    hb_pool *pool;
    double before, after, seconds, cpu;
    int repeats = 0;

    if (hb_pool_new(&pool, nthreads, NULL, NULL, &err))
        bench_fail("%s", err.text);
    for (;;) {
        before = measure_peak(pool, nthreads);
        seconds = median_seconds(work, context, &cpu);
        after = measure_peak(pool, nthreads);
        if (fabs(before - after) <= 0.2 * fmax(before, after) || repeats == 5)
            break;
        repeats++;
    }
    hb_pool_free(pool);
    bench_set_int(b, "threads", nthreads);
    bench_set_number(b, "seconds", seconds);
    if (nthreads == 1)
        bench_set_number(b, "cpu_seconds", cpu);
    if (flops > 0) {
        const double peak = fmax(before, after);
        bench_set_number(b, "gflops", flops / seconds / 1e9);
        bench_set_number(b, "peak_gflops", peak / 1e9);
        bench_set_number(b, "fraction_of_peak", flops / seconds / peak);
    }
    if (repeats)
        bench_set_int(b, "repeats", repeats);
    return seconds;
}

static json_t *object(bench *b)
{
    if (!b->object) {
        b->object = json_object();
        json_object_set_new(b->object, "name", json_string(b->name));
    }
    return b->object;
}

void bench_set_int(bench *b, const char *key, int64_t value)
{
    json_object_set_new(object(b), key, json_integer(value));
}

void bench_set_number(bench *b, const char *key, double value)
{
    json_object_set_new(object(b), key, json_real(value));
}

void bench_set_text(bench *b, const char *key, const char *value)
{
    json_object_set_new(object(b), key, json_string(value));
}

void bench_emit(bench *b)
{
    if (b->json) {
        json_dumpf(object(b), stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        putchar('\n');
    } else {
        const char *key;
        json_t *value;
        json_object_foreach(object(b), key, value)
        {
            if (strcmp(key, "name") == 0)
                printf("%-18s", json_string_value(value));
            else if (json_is_real(value))
                printf("  %s %.4g", key, json_real_value(value));
            else if (json_is_integer(value))
                printf("  %s %lld", key, (long long)json_integer_value(value));
            else
                printf("  %s", json_string_value(value));
        }
        putchar('\n');
    }
    fflush(stdout);
    json_decref(b->object);
    b->object = NULL;
}

int bench_asked_for(const bench *b, const char *name)
{
    for (int i = 0; i < b->nasked; i++)
        if (strcmp(b->asked[i], name) == 0)
            return 1;
    return 0;
}

/* --- the program --- */

static void list_cases(FILE *to)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const bench_case *c = tables[t]; c->name; c++)
            fprintf(to, "  %-20s %s\n", c->name, c->help);
}

static void print_help(void)
{
    printf("usage: hilbert-bench [--json] [NAME...]\n\n"
           "Measures the named cases, or all of them: one line each, as text or as JSON objects.\n\n"
           "  --json     one JSON object per line\n"
           "  --list     print the names of the cases\n"
           "  --help     this text\n\ncases:\n");
    list_cases(stdout);
}

int main(int argc, char **argv)
{
    bench b = {0};
    bool list = false;
    const hb_option options[] = {{"json", HB_OPTION_FLAG, &b.json, 0, 0, 0}, {"list", HB_OPTION_FLAG, &list, 0, 0, 0}};
    int code = hb_options_command("hilbert-bench", options, sizeof options / sizeof *options, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (list) {
        list_cases(stdout);
        return 0;
    }
    b.asked = argv + optind;
    b.nasked = argc - optind;
    hb_numeric_single_thread();

    int ran = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const bench_case *c = tables[t]; c->name; c++)
            if (b.nasked == 0 || bench_asked_for(&b, c->name)) {
                b.name = c->name;
                c->run(&b);
                ran++;
            }
    if (ran < b.nasked || ran == 0) {
        fputs("hilbert-bench: no such case; there are:\n", stderr);
        list_cases(stderr);
        return 2;
    }
    return 0;
}
