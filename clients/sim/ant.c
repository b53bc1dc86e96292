/* Ant: a ball on four legs with hidden leg and foot lengths. As in the paper (models/ant.xml: gym's, with weaker
 * motors), and a variant with gym's motors, fixed stubs and shorter legs that starts on its feet
 * (models/ant_standing.xml). */
#include <math.h>

#include "models.h"
#include "sim/walker.h"

enum { NX = 29, NU = 8, JOINTS = 8, Z = 2, QX = 3, QW = 6, FIRST_JOINT = 7, FIRST_RATE = 15 };

#define LENGTH(name, what, shortest)                                                                                   \
    {                                                                                                                  \
        name, "1", "length of " what " relative to nominal", 1, shortest, 1.5, 0.2, 3, false                           \
    }
#define LENGTHS(shortest_leg)                                                                                          \
    LENGTH("leg1", "leg 1", shortest_leg), LENGTH("leg2", "leg 2", shortest_leg),                                      \
        LENGTH("leg3", "leg 3", shortest_leg), LENGTH("leg4", "leg 4", shortest_leg), LENGTH("foot1", "foot 1", 0.5),  \
        LENGTH("foot2", "foot 2", 0.5), LENGTH("foot3", "foot 3", 0.5), LENGTH("foot4", "foot 4", 0.5)

static const hb_plant_parameter parameters[] = {LENGTHS(1)}, standing_parameters[] = {LENGTHS(0.5)};

static const char *const state_name[NX] = {
    "x",           "y",         "z",           "qx",        "qy",          "qz",        "qw",          "hip1",
    "ankle1",      "hip2",      "ankle2",      "hip3",      "ankle3",      "hip4",      "ankle4",      "vx",
    "vy",          "vz",        "wx",          "wy",        "wz",          "hip1_rate", "ankle1_rate", "hip2_rate",
    "ankle2_rate", "hip3_rate", "ankle3_rate", "hip4_rate", "ankle4_rate",
};
static const char *const state_unit[NX] = {
    "m",     "m",     "m",     "1",     "1",     "1",     "1",     "rad",   "rad",   "rad",
    "rad",   "rad",   "rad",   "rad",   "rad",   "m/s",   "m/s",   "m/s",   "rad/s", "rad/s",
    "rad/s", "rad/s", "rad/s", "rad/s", "rad/s", "rad/s", "rad/s", "rad/s", "rad/s",
};
static const char *const control_name[NU] = {"hip1", "ankle1", "hip2", "ankle2", "hip3", "ankle3", "hip4", "ankle4"};
static const char *const control_unit[NU] = {"1", "1", "1", "1", "1", "1", "1", "1"};
static const double control_min[NU] = {-1, -1, -1, -1, -1, -1, -1, -1};
static const double control_max[NU] = {1, 1, 1, 1, 1, 1, 1, 1};
static const double control_trim[NU] = {0};

static int create(hb_plant *p, hb_error *err)
{
    return hb_walker_create(p, hb_model_xml_ant, QX, err);
}

static int create_standing(hb_plant *p, hb_error *err)
{
    return hb_walker_create(p, hb_model_xml_ant_standing, QX, err);
}

/* As gym's reset: above the ground with straight ankles, which their limits bend at once. */
static int start(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    static const double rest[NX] = {[Z] = 0.75, [QW] = 1};

    (void)p;
    (void)err;
    hb_walker_scatter(d, NX, FIRST_RATE, rest, x);
    double norm = sqrt(x[QX] * x[QX] + x[QX + 1] * x[QX + 1] + x[QX + 2] * x[QX + 2] + x[QW] * x[QW]);
    for (int i = QX; i <= QW; i++)
        x[i] /= norm;
    return 0;
}

/* On its feet, ankles bent by about a radian. */
static int start_standing(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    for (int i = 0; i < NX; i++)
        x[i] = i < FIRST_JOINT ? 0 : hb_draw_uniform(d, -0.1, 0.1);
    for (int i = 0; i < 4; i++)
        x[FIRST_JOINT + 2 * i + 1] += 0.9;
    x[QW] = 1;
    return hb_walker_stand(p, Z, x, err);
}

const hb_plant_type hb_plant_ant = {
    .name = "ant",
    .help = "four-legged walker in MuJoCo, as in the paper; eight leg and foot lengths hidden",
    HB_PLANT_TABLES,
    .dt = 0.05,
    .episode_steps = HB_WALKER_EPISODE,
    .create = create,
    .start = start,
    HB_WALKER_FUNCTIONS,
};

const hb_plant_type hb_plant_ant_standing = {
    .name = "ant-standing",
    .help = "the same with stronger motors, shorter legs and fixed stubs; starts on its feet",
    HB_PLANT_TABLES_WITH(standing_parameters),
    .dt = 0.05,
    .create = create_standing,
    .start = start_standing,
    HB_WALKER_FUNCTIONS,
};
