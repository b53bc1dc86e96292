#include "mass.h"

#include "check.h"

#include <stdlib.h>
#include <string.h>

static hb_model *new_mass(void)
{
    hb_model shape = {.nx = NX,
                      .nu = NU,
                      .nb = 1,
                      .architecture = HB_SHARED,
                      .average = HB_AVERAGE_HEAD,
                      .integration = HB_COMBINED,
                      .substeps = 1,
                      .volume = 1,
                      .dt = period,
                      .basis = {.nlayers = 1}};
    hb_model *m = NULL;
    hb_error err;

    if (hb_model_new(&m, &shape, NULL, &err))
        fail_msg("%s", err.text);
    const double mean[NX] = {0.3, -0.1}, std[NX] = {2, 0.5};
    memcpy(m->state_mean, mean, sizeof mean);
    memcpy(m->state_std, std, sizeof std);
    m->control_mean[0] = 0.25;
    m->control_std[0] = 0.5;
    m->control_min[0] = -2;
    m->control_max[0] = 3;
    m->control_trim[0] = 0.1;

    /* rows: basis x, basis v, average x, average v; columns: z_x, z_v, u; then biases */
    hb_real *w = m->parameter, *b = m->parameter + 4 * 3;
    w[1 * 3 + 2] = w[3 * 3 + 2] = (hb_real)(m->control_std[0] / std[1]);
    b[1] = b[3] = (hb_real)(m->control_mean[0] / std[1]);
    w[2 * 3 + 1] = (hb_real)(std[1] / std[0]);
    b[2] = (hb_real)(mean[1] / std[0]);
    hb_model_seal(m);
    return m;
}

void move(double *x, double lightness, double u, double dt)
{
    double a = (1 + lightness) * u;

    x[0] += x[1] * dt + 0.5 * a * dt * dt;
    x[1] += a * dt;
}

double test_clock_look(void *context)
{
    test_clock *c = context;

    c->time += c->tick;
    return c->time;
}

void start(fixture *f)
{
    hb_error err;

    hb_controller_free(f->c);
    f->c = NULL;
    if (hb_controller_new(&f->c, f->m, &f->s, f->pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
}

int mass_set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    hb_error err;

    f->m = new_mass();
    if (hb_pool_new(&f->pool, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    f->s = hb_controller_defaults();
    f->s.planner.samples = 8;
    f->s.planner.horizon = 6;
    f->s.estimator.window = 100 * f->m->dt;
    f->s.estimator.warmup = 10 * f->m->dt;
    f->s.estimator.actuators.identify = false; /* commands act at once here */
    f->s.cost =
        (hb_cost){.nterms = 2,
                  .term = {{.kind = HB_COST_SQUARED, .weight = 1, .terminal = 5, .nindices = 1, .index = {0}},
                           {.kind = HB_COST_VELOCITY, .weight = 0.1, .terminal = 1, .nindices = 1, .index = {1}}}};
    f->s.ntarget = NX;
    f->s.target[0] = 1;
    f->clock.clock = (hb_clock){.now = test_clock_look, .context = &f->clock};
    f->clock.time = 1000;
    f->time_us = 5000000;
    start(f);
    *state = f;
    return 0;
}

int mass_tear_down(void **state)
{
    fixture *f = *state;

    hb_controller_free(f->c);
    hb_pool_free(f->pool);
    hb_model_free(f->m);
    free(f);
    return 0;
}

hb_request request(const fixture *f)
{
    return (hb_request){.time_us = f->time_us, .x = f->x, .nx = NX, .received = f->clock.time, .tick = f->tick};
}

const hb_command *command(fixture *f)
{
    hb_request r = request(f);

    f->tick++;
    const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
    assert_true(reply->action[0] >= f->m->control_min[0] && reply->action[0] <= f->m->control_max[0]);
    return reply;
}

hb_reason observe(fixture *f)
{
    return hb_controller_observe(
        f->c, &(hb_observation){.time_us = f->time_us, .x = f->x, .nx = NX, .u = f->u, .nu = NU}, f->clock.time);
}

void pass(fixture *f, double seconds)
{
    f->clock.time += seconds;
    f->time_us += (int64_t)llround(seconds * 1e6);
}

void fly(fixture *f, int periods, double lightness)
{
    for (int k = 0; k < periods; k++) {
        f->u[0] = sin(0.7 * (double)(f->time_us / 50000)) + 0.2;
        observe(f);
        move(f->x, lightness, f->u[0], period);
        pass(f, period);
    }
    observe(f);
}

hb_counters counters(const fixture *f)
{
    hb_counters n;

    hb_controller_counters(f->c, &n);
    return n;
}
