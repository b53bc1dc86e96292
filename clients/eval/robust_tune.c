/* One procedure for everybody's gains: clients/sim/gains.h says what it does. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/progress.h"
#include "eval/robust.h"
#include "sim/gains.h"

/* vehicles of the search are none of the tables' */
static const uint64_t away = 0x74756e65;
static const double crash = 10; /* metres that it counts as */
static const double wide = 3, narrow = 1.5;

static bool counts(const hb_robust_row *row, const hb_plant_type *plant)
{
    return row->plant == plant && (row->groups & HB_ROBUST_QUICK || strcmp(row->name, "step2") == 0);
}

/* Mean logarithm of the errors with some factors. */
static int score(const hb_robust_settings *s, hb_robust_controller c, hb_plant *p, double *ret, hb_error *err)
{
    static const hb_robust_measure on[] = {HB_MEASURE_FIRST, HB_MEASURE_LATER};
    double sum = 0;
    int n = 0, status = 0;

    for (int i = 0; hb_robust_row_at(i) && !status; i++) {
        const hb_robust_row *row = hb_robust_row_at(i);
        hb_robust_flight flight;
        if (!counts(row, p->type))
            continue;
        status = hb_robust_fly(s, row, c, n, p, &flight, err);
        for (int k = 0; k < 2 && !status; k++, n++)
            sum += log(fmin(flight.value[on[k]], crash));
    }
    *ret = n > 0 ? sum / n : NAN;
    return status;
}

int hb_robust_tune(const hb_robust_settings *given, const hb_plant_type *plant, hb_robust_controller c, int draws,
                   FILE *out, hb_error *err)
{
    double best[HB_NFACTORS], trial[HB_NFACTORS], least = INFINITY, value;
    hb_draws d = {.key = {.seed = given->seed ^ away, .stream = 1}};
    hb_robust_settings s = *given;
    hb_progress progress;
    hb_plant *p = NULL;
    int status = hb_plant_new(&p, plant, err);

    s.seed = given->seed ^ away;
    s.factor = trial;
    for (int i = 0; i < HB_NFACTORS; i++)
        best[i] = trial[i] = 1;
    hb_progress_start(&progress, "tune");
    for (int k = 0; k < 2 * draws && !status; k++) {
        double middle[HB_NFACTORS], spread = k < draws ? wide : narrow;
        for (int i = 0; i < HB_NFACTORS; i++) {
            middle[i] = k < draws ? 1 : best[i];
            /* the first draw is what there was */
            trial[i] = middle[i] * (k == 0 ? 1 : exp(hb_draw_uniform(&d, -log(spread), log(spread))));
        }
        status = score(&s, c, p, &value, err);
        if (!status && k == 0)
            fprintf(out, "%s %s: error %.4f m\n", plant->name, hb_robust_controller_name[c], exp(value));
        if (!status && value < least) {
            least = value;
            memcpy(best, trial, sizeof best);
        }
        hb_progress_update(&progress, (k + 1.0) / (2 * draws), hb_robust_controller_name[c]);
    }
    hb_progress_end(&progress);
    hb_plant_free(p);
    if (status)
        return status;
    fprintf(out, "after %d draws: %.4f m; factors of %s:", 2 * draws, exp(least),
            hb_robust_on_board(c) ? "gains" : "weights of the cost's terms");
    for (int i = 0; i < (hb_robust_on_board(c) ? HB_NGAINS : 8); i++)
        fprintf(out, " %s%s%.3f", hb_robust_on_board(c) ? hb_gains_name[i] : "", hb_robust_on_board(c) ? " " : "",
                best[i]);
    fprintf(out, "\n");
    return 0;
}
