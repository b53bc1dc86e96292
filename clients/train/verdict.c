#include "train/verdict.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "data/headings.h"

enum { STARTS = 30, TEN = 1 }; /* of a function; index of ten steps */
enum { ZERO, PRIOR, ONE_SECOND, FIVE_SECONDS, NOW };

static const double worth = 0.9, harm = 1.1; /* of the better of what needs no data */
static const double rare = 0.02;             /* out-of-span on vehicles like those trained on */

/* Standard deviation of a state's noise from third differences, in which smooth motion hardly shows: of white noise
 * they have 1 + 9 + 9 + 1 times its variance. */
static double noise_of(const hb_dataset *d, const int *function, int nfunctions, int state)
{
    double sum = 0, count = 0;
    size_t nx = (size_t)d->header.nx;

    for (int f = 0; f < nfunctions; f++) {
        const hb_function *of = &d->function[function[f]];
        for (int k = 0; k < of->nepisodes; k++) {
            const hb_episode *e = &d->episode[of->episode + k];
            const double *x = e->x + state;
            for (size_t i = 3; i <= (size_t)e->nsteps; i++) {
                double third = x[i * nx] - 3 * x[(i - 1) * nx] + 3 * x[(i - 2) * nx] - x[(i - 3) * nx];
                sum += third * third;
                count++;
            }
        }
    }
    return count > 0 ? sqrt(sum / (20 * count)) : 0;
}

/* Does the model know what does not depend on the heading? */
static int measure_turned(hb_verdict *v, const hb_model *m, const hb_dataset *d, const hb_online_settings *given,
                          hb_pool *pool, hb_error *err)
{
    hb_online_settings s = *given;
    hb_headings headings;
    hb_dataset turned;
    int status;

    s.long_run = NULL;
    v->can_turn = !hb_headings_of(&headings, d->header.nx, d->header.state_name, NULL);
    if (!v->can_turn || (status = hb_headings_turned(&turned, d, given->function, given->nfunctions, M_PI / 2, err)))
        return v->can_turn ? status : 0;
    status = hb_online_measure(&v->turned, m, &turned, &s, pool, err);
    hb_headings_free_turned(&turned);
    return status;
}

int hb_verdict_measure(hb_verdict *ret, hb_model *m, const hb_dataset *d, const int *function, int nfunctions,
                       hb_pool *pool, hb_error *err)
{
    hb_online_settings s = {.estimator = hb_estimator_defaults,
                            .starts = STARTS,
                            .function = function,
                            .nfunctions = nfunctions,
                            .long_run = m->reference_noise};
    hb_verdict v = {0};

    s.estimator.method = m->method;
    s.estimator.actuators = hb_online_acting;
    int status = hb_online_measure(&v.online, m, d, &s, pool, err);
    if (status)
        return status;
    for (int q = 0; q < v.online.nquantities; q++) {
        const hb_online_quantity *of = &v.online.quantity[q];
        double square = 0;
        for (int i = 0; i < of->n; i++)
            square += pow(noise_of(d, function, nfunctions, of->state[i]), 2);
        /* a difference of two noisy states; a quaternion's is half an angle */
        v.noise[q] = sqrt(2 * square) * (of->n == 4 ? 2 : 1);
    }
    status = measure_turned(&v, m, d, &s, pool, err);
    v.known = v.online.starts > 0;
    if (!status)
        *ret = v;
    return status;
}

static void print_turned(const hb_verdict *v, FILE *out)
{
    const hb_online *o = &v->online, *t = &v->turned;
    bool goes_with_it = false;

    fprintf(out, "  turned a quarter, after %d steps:", hb_online_steps[TEN]);
    for (int q = 0; q < o->nquantities; q++) {
        double as_logged = o->error[NOW][TEN][q], turned = t->error[NOW][TEN][q];
        fprintf(out, "%s %s %.3g %s instead of %.3g", q ? "," : "", o->quantity[q].name, turned, o->quantity[q].unit,
                as_logged);
        goes_with_it = goes_with_it || turned > harm * as_logged || (isnan(turned) && !isnan(as_logged));
    }
    fprintf(out, "\n");
    if (goes_with_it)
        fprintf(out,
                "  warning: it took what is the vehicle's for the world's, at the headings of its data: train with "
                "--headings any\n");
}

void hb_verdict_print(const hb_verdict *v, FILE *out)
{
    const hb_online *o = &v->online;
    int pays = 0, hurts = 0, n = 0;

    if (!v->known)
        return;
    hb_online_print(o, "verdict, functions that were not trained on", out);
    for (int q = 0; q < o->nquantities; q++) {
        const char *name = o->quantity[q].name, *unit = o->quantity[q].unit;
        double zero = o->error[ZERO][TEN][q], prior = o->error[PRIOR][TEN][q], now = o->error[NOW][TEN][q];
        double without = isnan(prior) ? zero : isnan(zero) ? prior : fmin(prior, zero);
        double one = o->error[ONE_SECOND][TEN][q], five = o->error[FIVE_SECONDS][TEN][q];
        if (!isfinite(now) || !isfinite(without))
            continue;
        n++;
        pays += now < worth * without;
        hurts += now > harm * without;
        fprintf(out, "  %s: adapting %s: after %d steps %.3g %s, %.3g without; 1 s of data gives %.3g, 5 s %.3g", name,
                now > harm * without    ? "HURTS"
                : now < worth * without ? "pays"
                                        : "brings little",
                hb_online_steps[TEN], now, unit, without, one, five);
        /* where motion is fast for the period, third differences show it, not noise */
        if (o->error[NOW][0][q] > 0.7 * v->noise[q] && v->noise[q] > 0)
            fprintf(out, "; one step is off by %.1f times the data's noise", o->error[NOW][0][q] / v->noise[q]);
        fprintf(out, "\n");
    }
    if (v->can_turn)
        print_turned(v, out);
    if (hurts)
        fprintf(out, "  warning: with this model a new vehicle is better predicted without its data: more functions, "
                     "longer rollouts (--rollout 8 --rollout-growth 0.5), or fewer basis functions\n");
    else if (n && !pays)
        fprintf(out,
                "  functions hardly differ, or the basis does not say how: a model without adaptation does as well\n");
    if (o->ran_away[NOW] > 0)
        fprintf(out,
                "  warning: %d of %d predictions of %d steps ran away: train with longer rollouts (--rollout 8 "
                "--rollout-growth 0.5)\n",
                o->ran_away[NOW], o->starts, hb_online_steps[HB_ONLINE_STEPS - 1]);
    if (o->out_of_span > rare)
        fprintf(out, "  warning: such vehicles would be out-of-span %.1f %% of the time\n", 100 * o->out_of_span);
}
