#include "quadrotor_model.h"
#include "../models/usual_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* numbers that squares are taken of are scaled down by this, where a tanh(a/2) is a^2/2 */
static const double shrink = 0.1;
/* thrust is carried in units of this, newtons; the basis function in units of this acceleration per 1/kg */
static const double thrust_unit = 0.26, coefficient_unit = 10;

enum { VX = 1, VY = 3, VZ = 5, QX = 6, NINPUTS = 4, NX = 13, NU = 4 };

const hb_cost quadrotor_hover_cost = {
    .nterms = 4,
    .term = {{.kind = HB_COST_DISTANCE, .weight = 3, .terminal = 10, .nindices = 3, .index = {0, 2, 4}},
             {.kind = HB_COST_TILT, .weight = 5, .terminal = 10, .nindices = 4, .index = {6, 7, 8, 9}},
             {.kind = HB_COST_VELOCITY, .weight = 1, .terminal = 10, .nindices = 3, .index = {1, 3, 5}},
             {.kind = HB_COST_IMBALANCE, .weight = 2000, .terminal = 1, .nindices = 4, .index = {0, 2, 1, 3}}},
};

const double quadrotor_hover_target[NX] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0};

double quadrotor_model_coefficient(double mass)
{
    return (1 / mass - 1 / 0.027) / coefficient_unit;
}

/* A number made of the units of one layer: constant + sum of weight[i] * unit i. */
typedef struct expression {
    double constant, weight[32];
} expression;

static expression combine(double a, const expression *x, double b, const expression *y)
{
    expression sum = {.constant = a * x->constant + b * y->constant};

    for (int i = 0; i < 32; i++)
        sum.weight[i] = a * x->weight[i] + b * y->weight[i];
    return sum;
}

/* a layer under construction: weight (nout x nin), then bias */
typedef struct layer {
    hb_real *weight, *bias;
    int nin, used;
} layer;

static int add_unit(layer *l, double scale, const expression *x)
{
    for (int i = 0; i < l->nin && i < 32; i++)
        l->weight[l->used * l->nin + i] = (hb_real)(scale * x->weight[i]);
    l->bias[l->used] = (hb_real)(scale * x->constant);
    return l->used++;
}

/* units u, v with silu(u) - silu(v) = x */
static expression carried(layer *l, const expression *x)
{
    expression of = {0};

    of.weight[add_unit(l, 1, x)] = 1;
    of.weight[add_unit(l, -1, x)] = -1;
    return of;
}

static expression squared(layer *l, const expression *x)
{
    expression of = {0};

    of.weight[add_unit(l, shrink, x)] = 2 / (shrink * shrink);
    of.weight[add_unit(l, -shrink, x)] = 2 / (shrink * shrink);
    return of;
}

static expression product(layer *l, const expression *x, const expression *y)
{
    expression sum = combine(1, x, 1, y), difference = combine(1, x, -1, y);
    expression a = squared(l, &sum), b = squared(l, &difference);

    return combine(0.25, &a, -0.25, &b);
}

static void set_normalisation(hb_model *m)
{
    static const double std[NX] = {0.5, 1, 0.5, 1, 0.5, 1, 0.2, 0.2, 0.2, 0.2, 3, 3, 1};

    memcpy(m->state_std, std, sizeof std);
    m->state_mean[4] = 1;
    m->state_mean[QX + 3] = 1;
    for (int i = 0; i < NU; i++) {
        m->control_mean[i] = m->control_trim[i] = 0.0662;
        m->control_std[i] = 0.02;
        m->control_min[i] = 0.03;
        m->control_max[i] = 0.15;
    }
}

static void set_parameters(hb_model *m, int width)
{
    layer l[4];
    hb_real *parameter = m->parameter;

    for (int i = 0; i < 4; i++) {
        int nin = i == 0 ? NINPUTS + NU : width, nout = i == 3 ? NX : width;
        l[i] = (layer){.weight = parameter, .bias = parameter + nout * nin, .nin = nin};
        parameter = l[i].bias + nout;
    }

    /* the inputs in physical units */
    expression q[4] = {{0}}, thrust = {0};
    for (int i = 0; i < 4; i++) {
        q[i].constant = m->state_mean[QX + i];
        q[i].weight[i] = m->state_std[QX + i];
        thrust.constant += m->control_mean[i] / thrust_unit;
        thrust.weight[NINPUTS + i] = m->control_std[i] / thrust_unit;
    }

    /* first layer: R(q) e_z = (2 (qx qz + qw qy), 2 (qy qz - qw qx), 1 - 2 (qx^2 + qy^2)) */
    expression a, b, up[3];
    a = product(&l[0], &q[0], &q[2]);
    b = product(&l[0], &q[3], &q[1]);
    up[0] = combine(2, &a, 2, &b);
    a = product(&l[0], &q[1], &q[2]);
    b = product(&l[0], &q[3], &q[0]);
    up[1] = combine(2, &a, -2, &b);
    a = squared(&l[0], &q[0]);
    b = squared(&l[0], &q[1]);
    up[2] = combine(-2, &a, -2, &b);
    up[2].constant = 1;
    thrust = carried(&l[0], &thrust);

    /* second: times thrust; third: carried on; head: on the velocities */
    static const int row[3] = {VX, VY, VZ};
    for (int i = 0; i < 3; i++) {
        up[i] = product(&l[1], &up[i], &thrust);
        up[i] = carried(&l[2], &up[i]);
        l[3].used = row[i];
        add_unit(&l[3], coefficient_unit * thrust_unit / m->state_std[row[i]], &up[i]);
    }
}

hb_model *quadrotor_model(int width, hb_error *err)
{
    int input[NINPUTS] = {QX, QX + 1, QX + 2, QX + 3};
    hb_model shape = {
        HB_USUAL_SHARED_MODEL,
        .nx = NX,
        .nu = NU,
        .nb = 1,
        .activation = HB_SILU,
        .average = HB_AVERAGE_NOMINAL,
        .shape = HB_VECTOR,
        .ridge = 1e-6,
        .dt = 0.04,
        .ninputs = NINPUTS,
        .input = input,
        .basis = {.nlayers = 4, .width = {0, width, width, width}},
        .nominal = hb_nominal_find("quadrotor"),
    };
    hb_model *m = NULL;

    memcpy(shape.nominal_parameter, shape.nominal->parameter_default, sizeof shape.nominal_parameter);
    if (width < QUADROTOR_MODEL_WIDTH || hb_model_new(&m, &shape, "the direction of mass, by hand", err))
        return NULL;
    set_normalisation(m);
    set_parameters(m, width);
    hb_model_seal(m);
    return m;
}

int quadrotor_pilot_new(quadrotor_pilot *ret, hb_model *m, hb_planner_settings s, int nthreads, hb_error *err)
{
    static const double direction[3 * 4] = {1, 1, 1, 1, 1, 0, -1, 0, 0, 1, 0, -1};

    *ret = (quadrotor_pilot){.m = m};
    if (!m)
        return -err->code;
    s.ndirections = 3;
    memcpy(s.direction, direction, sizeof direction);
    int r = hb_pool_new(&ret->pool, nthreads, NULL, NULL, err);
    if (!r)
        r = hb_predictor_new(&ret->predictor, m, err);
    return r ? r : hb_planner_new(&ret->planner, m, &s, &quadrotor_hover_cost, ret->pool, err);
}

void quadrotor_pilot_free(quadrotor_pilot *p)
{
    hb_planner_free(p->planner);
    hb_predictor_free(p->predictor);
    hb_pool_free(p->pool);
    hb_model_free(p->m);
}

double quadrotor_hover_distance(const double *x)
{
    return sqrt(x[0] * x[0] + x[2] * x[2] + (x[4] - 1) * (x[4] - 1));
}

void quadrotor_flight_add(quadrotor_flight *f, const double *x, int step, int steps, int change_at, double period)
{
    double distance = quadrotor_hover_distance(x);

    f->crashed = !(x[4] > 0 && distance < 5);
    if (!(distance < 0.05))
        f->settled = step + 1 < steps ? (step + 1) * period : INFINITY;
    if (step >= change_at)
        f->strayed = fmax(f->strayed, distance);
    if (step >= steps - 25)
        f->farthest = fmax(f->farthest, distance);
}
