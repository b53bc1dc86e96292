/* The estimator's settings: rows, defaults and checks. */
#include <errno.h>

#include "base/batch.h"
#include "estimate/estimator.h"

/* type, key, member, default, least, most, ends, live, help: base/setting_rows.h */
#define ROWS(X)                                                                                                        \
    X(INT, "estimator.window", window, 2000, 1, 100000, HB_CLOSED, HB_FIXED,                                           \
      "Transitions that are kept to estimate from.")                                                                   \
    X(INT, "estimator.warmup", warmup, 25, 1, 100000, HB_CLOSED, HB_FIXED,                                             \
      "Transitions before the coefficients are used; at most the window.")                                             \
    X(INT, "estimator.solve_every", solve_every, 1, 1, 100000, HB_CLOSED, HB_FIXED,                                    \
      "Samples in which all coefficients are solved for once; those of different states take turns.")                  \
    X(REAL, "estimator.ridge", ridge, -1, -1, 1e6, HB_CLOSED, HB_FIXED,                                                \
      "Ridge of the least squares; -1: the model's.")                                                                  \
    X(REAL, "estimator.forgetting", forgetting, 1, 0.01, 1, HB_CLOSED, HB_FIXED,                                       \
      "Weight of a sample relative to the next newer one; 1: none is forgotten within the window.")                    \
    X(INT, "estimator.relinearise", relinearise, 7, 0, HB_STRIDE - HB_ESTIMATOR_TOGETHER, HB_CLOSED, HB_FIXED,         \
      "Window entries re-evaluated along the present model with each sample (shared models).")                         \
    X(BOOL, "estimator.detect_changes", detect_changes, true, 0, 1, HB_CLOSED, HB_LIVE,                                \
      "Shorten the window when the one-step error jumps: a payload was picked up or dropped.")                         \
    X(REAL, "estimator.change_threshold", change_threshold, 150, 0, 1e6, HB_ABOVE, HB_LIVE,                            \
      "Of the change statistic; higher: fewer alarms.")                                                                \
    X(REAL, "estimator.span_threshold", span_threshold, 0.5, 0, 1, HB_ABOVE, HB_LIVE,                                  \
      "Unexplained fraction of the residual from which the status is out-of-span.")

const hb_estimator_settings hb_estimator_defaults = {.method = HB_LEAST_SQUARES, ROWS(HB_SETTING_DEFAULT)};

#define STRUCT hb_estimator_settings
static const hb_setting row[] = {ROWS(HB_SETTING_ROW)};
#undef STRUCT

hb_setting_rows hb_estimator_rows(void)
{
    return (hb_setting_rows){row, (int)(sizeof row / sizeof *row)};
}

double hb_estimator_memory(const hb_model *m, const hb_estimator_settings *s)
{
    /* the window, and the evaluated rows of its transitions */
    return (double)hb_estimator_memory_size(m, s) + (double)s->window * m->nx * (m->nb + 1.0) * sizeof(double);
}

int hb_estimator_check(const hb_model *m, const hb_estimator_settings *s, hb_error *err)
{
    int r = hb_setting_rows_check(hb_estimator_rows(), s, err);

    if (!r && s->warmup > s->window)
        r = hb_fail(err, EINVAL,
                    "estimator.warmup: %d is above estimator.window (%d): the coefficients would never be used",
                    s->warmup, s->window);
    if (!r && hb_model_allows(m, s->method, err))
        r = hb_fail_in(err, "estimator.method", -EINVAL);
    return r;
}
