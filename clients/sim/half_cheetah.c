/* Half-Cheetah: a planar runner with hidden friction, lengths and motor gears. As in gym and in the paper
 * (models/half_cheetah.xml), and a variant whose mass follows its lengths and which starts on its feet
 * (models/half_cheetah_standing.xml). */
#include "models.h"
#include "sim/walker.h"

enum { NX = 18, NU = 6, JOINTS = 6, Z = 1, FIRST_RATE = 9 };

#define LENGTH(name)                                                                                                   \
    {                                                                                                                  \
        name, "1", "length of the " name " relative to nominal", 1, 0.5, 1.5, 0.2, 3, false                            \
    }
#define GEAR(name)                                                                                                     \
    {                                                                                                                  \
        "gear_" name, "1", "strength of the " name " motor relative to nominal", 1, 0, 1.5, 0, 3, false                \
    }

static const hb_plant_parameter parameters[] = {
    {"friction", "1", "sliding friction on the ground", 0.4, 0, 1, 0, 3, false},
    LENGTH("torso"),
    LENGTH("back_thigh"),
    LENGTH("back_shin"),
    LENGTH("back_foot"),
    LENGTH("front_thigh"),
    LENGTH("front_shin"),
    LENGTH("front_foot"),
    GEAR("back_thigh"),
    GEAR("back_shin"),
    GEAR("back_foot"),
    GEAR("front_thigh"),
    GEAR("front_shin"),
    GEAR("front_foot"),
};

static const char *const state_name[NX] = {
    "x",
    "z",
    "pitch",
    "back_thigh",
    "back_shin",
    "back_foot",
    "front_thigh",
    "front_shin",
    "front_foot",
    "vx",
    "vz",
    "pitch_rate",
    "back_thigh_rate",
    "back_shin_rate",
    "back_foot_rate",
    "front_thigh_rate",
    "front_shin_rate",
    "front_foot_rate",
};
static const char *const state_unit[NX] = {
    "m",   "m",   "rad",   "rad",   "rad",   "rad",   "rad",   "rad",   "rad",
    "m/s", "m/s", "rad/s", "rad/s", "rad/s", "rad/s", "rad/s", "rad/s", "rad/s",
};
static const char *const control_name[NU] = {"back_thigh",  "back_shin",  "back_foot",
                                             "front_thigh", "front_shin", "front_foot"};
static const char *const control_unit[NU] = {"1", "1", "1", "1", "1", "1"};
static const double control_min[NU] = {-1, -1, -1, -1, -1, -1};
static const double control_max[NU] = {1, 1, 1, 1, 1, 1};
static const double control_trim[NU] = {0};

static int create(hb_plant *p, hb_error *err)
{
    return hb_walker_create(p, hb_model_xml_half_cheetah, -1, err);
}

static int create_standing(hb_plant *p, hb_error *err)
{
    return hb_walker_create(p, hb_model_xml_half_cheetah_standing, -1, err);
}

/* As gym's reset: the torso at 0.7 m, whatever the legs are. */
static int start(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    static const double rest[NX] = {[Z] = 0.7};

    (void)p;
    (void)err;
    hb_walker_scatter(d, NX, FIRST_RATE, rest, x);
    return 0;
}

/* On its feet, joints a little off. */
static int start_standing(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    for (int i = 0; i < NX; i++)
        x[i] = hb_draw_uniform(d, -0.1, 0.1);
    x[0] = x[Z] = 0;
    return hb_walker_stand(p, Z, x, err);
}

const hb_plant_type hb_plant_half_cheetah = {
    .name = "half-cheetah",
    .help = "planar runner in MuJoCo, as in gym and the paper; friction, seven lengths and six gears hidden",
    HB_PLANT_TABLES,
    .dt = 0.05,
    .episode_steps = HB_WALKER_EPISODE,
    .create = create,
    .start = start,
    HB_WALKER_FUNCTIONS,
};

const hb_plant_type hb_plant_half_cheetah_standing = {
    .name = "half-cheetah-standing",
    .help = "the same, its mass following its lengths; starts on its feet",
    HB_PLANT_TABLES,
    .dt = 0.05,
    .create = create_standing,
    .start = start_standing,
    HB_WALKER_FUNCTIONS,
};
