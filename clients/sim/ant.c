/* Ant: a ball on four legs with hidden leg and foot lengths; models/ant.xml. */
#include "models.h"
#include "sim/walker.h"

enum { NX = 29, NU = 8, JOINTS = 8, Z = 2, QX = 3, QW = 6, FIRST_JOINT = 7, FIRST_RATE = 15 };

#define LENGTH(name, what)                                                                                             \
    {                                                                                                                  \
        name, "1", "length of " what " relative to nominal", 1, 0.5, 1.5, 0.2, 3, false                                \
    }

static const hb_plant_parameter parameters[] = {
    LENGTH("leg1", "leg 1"),   LENGTH("leg2", "leg 2"),   LENGTH("leg3", "leg 3"),   LENGTH("leg4", "leg 4"),
    LENGTH("foot1", "foot 1"), LENGTH("foot2", "foot 2"), LENGTH("foot3", "foot 3"), LENGTH("foot4", "foot 4"),
};

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

/* On its feet, ankles bent by about a radian. */
static int start(hb_plant *p, hb_draws *d, double *x, hb_error *err)
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
    .help = "four-legged walker in MuJoCo, eight motors; eight leg and foot lengths hidden",
    HB_PLANT_TABLES,
    .dt = 0.05,
    .create = create,
    .start = start,
    HB_WALKER_FUNCTIONS,
};
