/* Writes a robot's first YAML file from its model, with all that was found in it, and a first configuration of
 * hilbertd. What is a guess says so. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/robot_parts.h"

typedef struct describer {
    const char *path;
    mjModel *m;
    mjData *d;
    mjData *rest; /* the pose; of what stands, where it comes to rest while its actuators hold the pose */
    FILE *out, *config;
    char stem[HB_NAME_SIZE];
    int keyframe, root; /* -1: none */
    bool stands;        /* on the ground, or a little above it */
    double dt;
    int nx, nu;
    char state[HB_PLANT_STATES][HB_NAME_SIZE], control[HB_PLANT_CONTROLS][HB_NAME_SIZE];
    bool place[HB_PLANT_STATES], rate[HB_PLANT_STATES], angle[HB_PLANT_STATES], attitude[HB_PLANT_STATES];
} describer;

/* A name of our own for an object of the model: letters, digits and '_', none twice. */
static void make_name(const char *wanted, const char *suffix, int n, char (*taken)[HB_NAME_SIZE], char *ret)
{
    const int room = HB_NAME_SIZE - 1 - (int)strlen(suffix) - 3; /* for a number as well */
    char name[HB_NAME_SIZE + 12];

    for (int again = 1; again < 1000; again++) {
        bool used = false;
        if (again == 1)
            snprintf(name, sizeof name, "%.*s%s", room, wanted, suffix);
        else
            snprintf(name, sizeof name, "%.*s%s%d", room, wanted, suffix, again);
        for (char *c = name; *c; c++)
            if (!isalnum((unsigned char)*c) && *c != '_')
                *c = '_';
        for (int i = 0; i < n; i++)
            used = used || strcmp(taken[i], name) == 0;
        if (!used)
            break;
    }
    snprintf(ret, HB_NAME_SIZE, "%.*s", HB_NAME_SIZE - 1, name);
}

/* The name in the model; of what has none, that of what it belongs to; or else a number. */
static void object_word(const describer *s, int object, int id, const char *kind, char *ret, size_t size)
{
    const mjModel *m = s->m;
    const char *name = mj_id2name(m, object, id);

    if ((!name || !*name) && object == mjOBJ_JOINT)
        name = mj_id2name(m, mjOBJ_BODY, m->jnt_bodyid[id]);
    if ((!name || !*name) && object == mjOBJ_ACTUATOR) {
        const int type = m->actuator_trntype[id];
        const int of = type == mjTRN_TENDON ? mjOBJ_TENDON
                       : type == mjTRN_SITE ? mjOBJ_SITE
                       : type == mjTRN_BODY ? mjOBJ_BODY
                                            : mjOBJ_JOINT;
        name = mj_id2name(m, of, m->actuator_trnid[2 * id]);
    }
    if (name && *name)
        snprintf(ret, size, "%s", name);
    else
        snprintf(ret, size, "%.15s%d", kind, id);
}

/* in quotation marks where YAML wants them */
static const char *quoted(const describer *s, int object, int id, char *text, size_t size)
{
    char name[200];

    robot_object_name(s->m, object, id, name, sizeof name);
    const bool plain =
        isalpha((unsigned char)name[0]) &&
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-") == strlen(name);
    const char *const words[] = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"};
    bool word = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        word = word || strcasecmp(words[i], name) == 0;
    snprintf(text, size, plain && !word ? "%s" : "\"%s\"", name);
    return text;
}

/* ---- states ---- */

/* Room for one more state, and its name. */
static char *next_state(describer *s, const char *wanted, const char *suffix, hb_error *err)
{
    if (s->nx == HB_PLANT_STATES) {
        hb_fail(err, EINVAL, "%s: more than %d positions and velocities", s->path, HB_PLANT_STATES);
        return NULL;
    }
    make_name(wanted, suffix, s->nx, s->state, s->state[s->nx]);
    return s->state[s->nx++];
}

/* The quaternion comes in the order x, y, z, w. */
static int in_order(const mjModel *m, int joint, bool velocity, int i)
{
    const int first = m->jnt_type[joint] == mjJNT_FREE ? 3 : 0;

    if (velocity || m->jnt_type[joint] >= mjJNT_SLIDE || i < first)
        return i;
    return first + (i - first + 1) % 4;
}

static int write_joint_states(describer *s, bool velocity, hb_error *err)
{
    for (int j = 0; j < s->m->njnt; j++) {
        const int n = robot_joint_nparts(s->m, j, velocity), type = s->m->jnt_type[j];
        char word[HB_NAME_SIZE], reference[210], wanted[2 * HB_NAME_SIZE];
        object_word(s, mjOBJ_JOINT, j, "joint", word, sizeof word);
        for (int i = 0; i < n; i++) {
            const char *part = robot_joint_part(s->m, j, velocity, in_order(s->m, j, velocity, i));
            /* the root's parts are what they are called everywhere; others carry their joint's name */
            snprintf(wanted, sizeof wanted, "%s%s%s", j == s->root ? "" : word, j != s->root && *part ? "_" : "", part);
            const char *name = next_state(s, wanted, velocity && !*part ? "_rate" : "", err);
            if (!name)
                return -EINVAL;
            s->rate[s->nx - 1] = velocity;
            s->attitude[s->nx - 1] = !velocity && *part == 'q';
            s->place[s->nx - 1] = !velocity && *part != 'q';
            s->angle[s->nx - 1] = !velocity && type == mjJNT_HINGE && !s->m->jnt_limited[j];
            fprintf(s->out, "  %s: {%s: %s", name, velocity ? "velocity" : "position",
                    quoted(s, mjOBJ_JOINT, j, reference, sizeof reference));
            if (*part)
                fprintf(s->out, ", part: %s", part);
            fprintf(s->out, ", unit: %s}", robot_joint_unit(s->m, j, velocity, in_order(s->m, j, velocity, i)));
            if (!velocity && type >= mjJNT_SLIDE && s->m->jnt_limited[j])
                fprintf(s->out, "   # %g to %g", s->m->jnt_range[2 * j], s->m->jnt_range[2 * j + 1]);
            fprintf(s->out, "\n");
        }
    }
    return 0;
}

static int write_states(describer *s, hb_error *err)
{
    int status;

    fprintf(s->out, "\nstates:\n");
    if ((status = write_joint_states(s, false, err)) || (status = write_joint_states(s, true, err)))
        return status;
    for (int i = s->m->nu - s->m->na; i < s->m->nu; i++) {
        char word[HB_NAME_SIZE], reference[210];
        object_word(s, mjOBJ_ACTUATOR, i, "actuator", word, sizeof word);
        const char *name = next_state(s, word, "_act", err);
        if (!name)
            return -EINVAL;
        fprintf(s->out, "  %s: {activation: %s}\n", name, quoted(s, mjOBJ_ACTUATOR, i, reference, sizeof reference));
    }
    if (s->nx == 0)
        return hb_fail(err, EINVAL, "%s: the model has no joints: there is nothing that moves", s->path);
    for (int i = 0; i < s->m->nsensor; i++) {
        char reference[210], word[HB_NAME_SIZE], plain[HB_NAME_SIZE];
        object_word(s, mjOBJ_SENSOR, i, "sensor", word, sizeof word);
        make_name(word, "", 0, NULL, plain);
        for (int k = 0; k < s->m->sensor_dim[i]; k++)
            fprintf(s->out, "# %s_%d: {sensor: %s, part: %d}   # read, never set\n", plain, k,
                    quoted(s, mjOBJ_SENSOR, i, reference, sizeof reference), k);
    }
    return 0;
}

/* ---- controls ---- */

static const char *control_unit(const mjModel *m, int i)
{
    const int joint = m->actuator_trntype[i] == mjTRN_JOINT ? m->actuator_trnid[2 * i] : -1;
    const bool slide = joint >= 0 && m->jnt_type[joint] == mjJNT_SLIDE;

    if (m->actuator_biastype[i] == mjBIAS_AFFINE && joint >= 0)
        return m->actuator_biasprm[mjNBIAS * i + 1] != 0 ? (slide ? "m" : "rad") : slide ? "m/s" : "rad/s";
    if (m->actuator_gainprm[mjNGAIN * i] == 1 && fabs(m->actuator_gear[6 * i]) == 1 && joint >= 0)
        return slide ? "N" : "N m";
    return "1";
}

/* Whether a joint carries the whole robot, as the slides and the hinge of one that moves in a plane do. */
static bool carries(const describer *s, int j)
{
    for (int i = 0; i < s->m->nu; i++)
        if (s->m->actuator_trntype[i] == mjTRN_JOINT && s->m->actuator_trnid[2 * i] == j)
            return false;
    return s->m->body_parentid[s->m->jnt_bodyid[j]] == 0 && !s->m->jnt_limited[j];
}

static bool is_height(const describer *s, int j, int part)
{
    return j == s->root ? part == 2
                        : carries(s, j) && s->m->jnt_type[j] == mjJNT_SLIDE && fabs(s->m->jnt_axis[3 * j + 2]) > 0.9;
}

/* A pose may be a little within the ground or above it, and actuators give way: where it stands is another height. Its
 * joints and its height are taken, if it stands still and upright by then. */
static void find_rest(describer *s)
{
    enum { SETTLES = 2 /* s */ };
    const mjModel *m = s->m;
    const double still = 0.05; /* m/s, rad/s */
    bool rests = true;

    for (double end = s->d->time + SETTLES; s->d->time < end;)
        mj_step(m, s->d);
    for (int i = 0; i < m->nv; i++) /* a tail may swing on */
        rests = rests && (m->jnt_type[m->dof_jntid[i]] == mjJNT_BALL || fabs(s->d->qvel[i]) < still);
    for (int j = 0; j < m->njnt; j++) {
        const double *now = s->d->qpos + m->jnt_qposadr[j], *pose = s->rest->qpos + m->jnt_qposadr[j];
        if (j == s->root)
            rests = rests && fabs(mju_dot(now + 3, pose + 3, 4)) > cos(0.1); /* turned by less than 0.2 rad */
        else if (carries(s, j) && m->jnt_type[j] == mjJNT_HINGE)
            rests = rests && fabs(now[0] - pose[0]) < 0.2;
    }
    for (int j = 0; rests && j < m->njnt; j++) {
        const int at = m->jnt_qposadr[j];
        if (j == s->root)
            s->rest->qpos[at + 2] = s->d->qpos[at + 2];
        else if (m->jnt_type[j] >= mjJNT_SLIDE && (!carries(s, j) || is_height(s, j, 0)))
            s->rest->qpos[at] = s->d->qpos[at];
    }
}

/* Poses are often drawn a little above the ground: what may fall, and touches it within 0.2 s of its trim, stands. */
static bool find_stand(describer *s, const double *trim)
{
    const double steps = 0.2 / s->m->opt.timestep;
    bool touches = s->d->ncon > 0, falls = s->root >= 0;

    for (int j = 0; j < s->m->njnt; j++)
        falls = falls || is_height(s, j, 0);
    if (!falls)
        return false;
    for (int i = 0; i < s->m->nu; i++)
        s->d->ctrl[i] = trim[i];
    for (int i = 0; !touches && i < steps; i++) {
        mj_step(s->m, s->d);
        touches = s->d->ncon > 0;
    }
    if (touches)
        find_rest(s);
    robot_pose(s->m, s->d, s->keyframe);
    return touches;
}

static int write_controls(describer *s, hb_error *err)
{
    const mjModel *m = s->m;
    double *low = calloc(3 * (size_t)m->nu + 1, sizeof *low), *high = low ? low + m->nu : NULL,
           *trim = low ? high + m->nu : NULL;

    if (!low)
        return hb_fail(err, ENOMEM, "out of memory");
    if (m->nu == 0 || m->nu > HB_PLANT_CONTROLS) {
        free(low);
        return hb_fail(err, EINVAL, "%s: the model has %d actuators: expected 1 to %d", s->path, m->nu,
                       HB_PLANT_CONTROLS);
    }
    fprintf(s->out, "\ncontrols:\n");
    for (int i = 0; i < m->nu; i++)
        robot_control_range(m, i, &low[i], &high[i]);
    robot_trim(m, s->d, s->keyframe, low, high, trim);
    s->stands = find_stand(s, trim);
    for (int i = 0; i < m->nu; i++) {
        char word[HB_NAME_SIZE], reference[210], range[80];
        bool shared = false;
        const bool limited = robot_control_range(m, i, &low[i], &high[i]);
        object_word(s, mjOBJ_ACTUATOR, i, "control", word, sizeof word);
        /* motors are often called what their joint is; tables of flights have a column for each */
        for (int k = 0; k < s->nx; k++)
            shared = shared || strcmp(s->state[k], word) == 0;
        make_name(word, shared ? "_command" : "", s->nu, s->control, s->control[s->nu]);
        snprintf(range, sizeof range, "[%.6g, %.6g]", low[i], high[i]);
        fprintf(s->out, "  %s: {actuator: %s, range: %s, trim: %.6g, unit: %s}%s\n", s->control[s->nu],
                quoted(s, mjOBJ_ACTUATOR, i, reference, sizeof reference), range,
                fmin(fmax(trim[i], strtod(range + 1, NULL)), strtod(strchr(range, ',') + 1, NULL)), control_unit(m, i),
                limited ? "" : "   # the range is a guess: the model has none");
        s->nu++;
    }
    free(low);
    return 0;
}

/* ---- hidden ---- */

/* Is a body moved by joints? */
static bool moves(const mjModel *m, int body)
{
    return body > 0 && m->body_weldid[body] != 0;
}

static bool any(const describer *s, int object, const char *attribute)
{
    const robot_attribute *a = robot_attribute_find(object, attribute);

    for (int i = 0; i < robot_object_count(s->m, object); i++)
        if (a->get(s->m, i) != 0)
            return true;
    return false;
}

static void write_hidden(describer *s)
{
    const mjModel *m = s->m;
    char reference[210], word[HB_NAME_SIZE], taken[HB_PLANT_PARAMETERS + 1][HB_NAME_SIZE];
    double heaviest = 0;
    int n = 0, active = 0;

    for (int i = 1; i < m->nbody; i++)
        heaviest = moves(m, i) ? fmax(heaviest, m->body_mass[i]) : heaviest;
    fprintf(
        s->out,
        "\nhidden:                  # what differs from robot to robot, and nobody tells: what varies in service\n");
    for (int i = 1; i < m->nbody && n < HB_PLANT_PARAMETERS; i++) {
        if (!moves(m, i) || m->body_mass[i] <= 0)
            continue;
        /* at first the heaviest alone: others wait for who wants them */
        const bool on = m->body_mass[i] > 0.3 * heaviest && active < 4;
        object_word(s, mjOBJ_BODY, i, "body", word, sizeof word);
        make_name(word, "_mass", n, taken, taken[n]);
        fprintf(s->out, "%s %s: {body: %s, attribute: mass, scale: [0.7, 1.3]}   # %.4g kg, inertia with it\n",
                on ? " " : "#", taken[n], quoted(s, mjOBJ_BODY, i, reference, sizeof reference), m->body_mass[i]);
        n++;
        active += on;
    }
    fprintf(s->out, "  strength: {actuator: \"*\", attribute: strength, scale: [0.8, 1.2]}   # of all together\n");
    for (int i = 0; i < m->nu && n < HB_PLANT_PARAMETERS; i++) {
        object_word(s, mjOBJ_ACTUATOR, i, "control", word, sizeof word);
        make_name(word, "_strength", n, taken, taken[n]);
        fprintf(s->out, "# %s: {actuator: %s, attribute: strength, scale: [0.8, 1.2]}\n", taken[n++],
                quoted(s, mjOBJ_ACTUATOR, i, reference, sizeof reference));
    }
    if (any(s, mjOBJ_JOINT, "damping"))
        fprintf(s->out, "  damping: {joint: \"*\", attribute: damping, scale: [0.5, 2]}\n");
    if (any(s, mjOBJ_JOINT, "frictionloss"))
        fprintf(s->out, "# dry_friction: {joint: \"*\", attribute: frictionloss, scale: [0.5, 2]}\n");
    if (m->ngeom > 0)
        fprintf(s->out, "%s friction: {geom: \"*\", attribute: friction, scale: [0.5, 1.5]}\n", s->stands ? " " : "#");
    fprintf(s->out, "# gravity: {option: gravity, scale: [1, 1]}\n");
}

/* ---- the rest ---- */

/* Where starts are drawn: near the pose, within the joints' limits. */
/* What is lower has fallen: of a free body's height. */
static double lowest(const describer *s)
{
    const double z = s->d->qpos[s->m->jnt_qposadr[s->root] + 2];

    return z > 0.1 ? 0.4 * z : z - 2;
}

static void write_start(describer *s)
{
    const double around =
        s->stands || s->d->ncon > 0 ? 0.05 : 0.3; /* m, rad: what stands must not begin within the ground */
    int k = 0;

    fprintf(s->out, "\nstart:                   # values or [low, high]; what is not here is as in the pose\n");
    for (int j = 0; j < s->m->njnt; j++)
        for (int i = 0; i < robot_joint_nparts(s->m, j, false); i++, k++) {
            const double at = s->d->qpos[s->m->jnt_qposadr[j] + in_order(s->m, j, false, i)];
            double low = at - around, high = at + around;
            if (s->attitude[k] || (s->stands && is_height(s, j, i)))
                continue;
            if (s->m->jnt_type[j] >= mjJNT_SLIDE && s->m->jnt_limited[j]) {
                low = fmax(low, s->m->jnt_range[2 * j]);
                high = fmin(high, s->m->jnt_range[2 * j + 1]);
            }
            /* no further down than half of what ends a flight */
            if (s->root == j && i == 2)
                low = fmax(low, 0.5 * (at + lowest(s)));
            if (low < high)
                fprintf(s->out, "  %s: [%.4g, %.4g]\n", s->state[k], low, high);
        }
    for (; k < s->nx; k++)
        if (s->rate[k])
            fprintf(s->out, "  %s: [-0.1, 0.1]\n", s->state[k]);
    if (s->root >= 0)
        fprintf(s->out, "  tilt: %g              # radians, about any horizontal axis\n# yaw: 3.14\n",
                s->stands ? 0.05 : 0.2);
}

static void write_end(describer *s)
{
    fprintf(s->out, "\nend:                     # beyond, an episode or a flight is over\n");
    if (s->root >= 0) {
        const double z = s->d->qpos[s->m->jnt_qposadr[s->root] + 2];
        fprintf(s->out, "  z: [%.4g, %.4g]\n  tilt: 1.2\n", lowest(s), z + 3);
        return;
    }
    bool none = true;
    for (int j = 0, k = 0; j < s->m->njnt; k += robot_joint_nparts(s->m, j++, false)) {
        const double at = s->d->qpos[s->m->jnt_qposadr[j]], z = s->d->xpos[3 * s->m->jnt_bodyid[j] + 2];
        const bool tips =
            s->stands && carries(s, j) && s->m->jnt_type[j] == mjJNT_HINGE && fabs(s->m->jnt_axis[3 * j + 2]) < 0.5;
        if (s->stands && is_height(s, j, 0))
            fprintf(s->out, "  %s: [%.4g, %.4g]\n", s->state[k], at - 0.6 * z, at + 3);
        else if (tips)
            fprintf(s->out, "  %s: [%.4g, %.4g]\n", s->state[k], at - 1.2, at + 1.2);
        else if (s->m->jnt_type[j] == mjJNT_SLIDE && !s->m->jnt_limited[j])
            fprintf(s->out, "  %s: [-5, 5]\n", s->state[k]);
        else
            continue;
        none = false;
    }
    if (none)
        fprintf(s->out, "  {}\n");
}

/* Lists of states or controls that a configuration's term runs over, some at a time. */
static void write_terms(FILE *out, const char *kind, const char *over, const char *rest, int n,
                        char (*name)[HB_NAME_SIZE], const bool *chosen)
{
    enum { MOST = 32 };
    int in_term = 0;

    for (int i = 0; i < n; i++) {
        if (chosen && !chosen[i])
            continue;
        if (in_term == 0)
            fprintf(out, "  - {kind: %s, %s: [%s", kind, over, name[i]);
        else
            fprintf(out, ", %s", name[i]);
        if (++in_term == MOST) {
            fprintf(out, "], %s}\n", rest);
            in_term = 0;
        }
    }
    if (in_term)
        fprintf(out, "], %s}\n", rest);
}

static void write_config(describer *s)
{
    FILE *out = s->config;
    /* a second: what balances must see its way back */
    const int horizon = (int)fmin(50, fmax(10, round(1 / s->dt)));
    int q = -1;

    for (int i = s->nx - 1; i >= 0; i--)
        if (s->attitude[i] && strcmp(s->state[i], "qx") == 0)
            q = i;
    fprintf(out,
            "# First settings of hilbertd for %s, made by hilbert-sim describe. Weights and horizon are guesses: fly, "
            "look, turn.\n"
            "# hilbertd.yaml(5) has all keys.\nname: %s\nmodel: ./%s.safetensors\n\nestimator:\n  window: "
            "%g\n\nplanner:\n  horizon: %d\n  samples: 64\n\ncost:\n",
            s->path, s->stem, s->stem, fmax(5, 100 * s->dt), horizon);
    write_terms(out, "squared", "states", "weight: 1, terminal: 5", s->nx, s->state, s->place);
    write_terms(out, "squared", "states", "weight: 0.05", s->nx, s->state, s->rate);
    if (q >= 0)
        fprintf(out, "  - {kind: attitude, states: [qx, qy, qz, qw], weight: 0.3}\n");
    write_terms(out, "effort", "controls", "weight: 0.01", s->nu, s->control, NULL);
    fprintf(out, "\ntarget:                  # hilbert-sim's is in %s.yaml\n", s->stem);
    for (int j = 0, k = 0; j < s->m->njnt; j++)
        for (int i = 0; i < robot_joint_nparts(s->m, j, false); i++, k++)
            fprintf(out, "  %s: %.4g\n", s->state[k],
                    s->rest->qpos[s->m->jnt_qposadr[j] + in_order(s->m, j, false, i)]);
    fprintf(out, "\nlatency:\n  budget: %g\n", fmin(0.02, s->dt / 2));
}

static void write_excitation(describer *s)
{
    const mjModel *m = s->m;
    const bool floats = s->root >= 0 && !s->stands;
    bool motors = false;
    double force = 0;

    for (int i = 0; i < m->nu; i++)
        motors = motors || m->actuator_biastype[i] == mjBIAS_NONE;
    for (int i = 0; i < m->nv; i++)
        force = fmax(force, fabs(s->d->qfrc_bias[i]));
    fprintf(s->out, "\nexcitation:              # what moves it while data are collected\n");
    if (floats)
        fprintf(s->out,
                "  {noise: 0.1, time: %g, hold: lqr, wander: 1}   # a regulator keeps it near places within start\n",
                2 * s->dt);
    else if (motors && (s->root >= 0 || m->nu >= m->nv))
        fprintf(s->out,
                "  {noise: 0.2, time: %g, hold: pd, kp: %.3g, kd: %.3g, wander: 1}   # each joint by its own motor\n",
                2 * s->dt, fmax(1, 3 * force), fmax(0.05, 0.1 * force));
    else if (motors)
        fprintf(s->out, "  {noise: 0.5, time: %g}   # hold: lqr would keep it near the pose\n", 5 * s->dt);
    else
        fprintf(s->out, "  {noise: 0.15, time: %g}   # around the pose that the actuators hold\n", 5 * s->dt);
}

static void write_target(describer *s)
{
    fprintf(s->out, "\ntarget:                  # where hilbert-sim fly goes\n");
    for (int j = 0, k = 0; j < s->m->njnt; j++)
        for (int i = 0; i < robot_joint_nparts(s->m, j, false); i++, k++)
            fprintf(s->out, "  %s: %.4g\n", s->state[k],
                    s->rest->qpos[s->m->jnt_qposadr[j] + in_order(s->m, j, false, i)]);
}

static void write_next_steps(describer *s)
{
    const char *sep = "";

    fprintf(s->out,
            "#   hilbert-sim list %s\n#   hilbert-sim collect %s -o %s.h5\n#   hilbert-train --data %s.h5 --output "
            "%s.safetensors",
            s->path, s->path, s->stem, s->stem, s->stem);
    for (int i = 0; i < s->nx; i++)
        if (s->angle[i]) {
            fprintf(s->out, "%s%s", *sep ? "," : " --angles ", s->state[i]);
            sep = ",";
        }
    fprintf(s->out, "\n#   hilbert-sim fly %s --in-process --config %s-control.yaml --plot flight\n", s->path, s->stem);
}

/* The keyframe that robots stand in. */
static int choose_keyframe(const mjModel *m)
{
    static const char *const name[] = {"home", "stand", "hover", "standing"};

    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (mj_name2id(m, mjOBJ_KEY, name[i]) >= 0)
            return mj_name2id(m, mjOBJ_KEY, name[i]);
    return m->nkey > 0 ? 0 : -1;
}

int hb_robot_describe(const char *path, FILE *out, FILE *config, char *warning, size_t size, hb_error *err)
{
    describer *s = calloc(1, sizeof *s);
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char missing[256], reference[210];
    hb_mujoco sim = {0};
    int nmissing = 0, status = s ? hb_mujoco_load_file(&sim, path, &nmissing, missing, sizeof missing, err)
                                 : hb_fail(err, ENOMEM, "out of memory");

    *warning = 0;
    if (status) {
        free(s);
        return status;
    }
    if (nmissing > 0)
        snprintf(warning, size, "%s: %d files are missing (%s ...): small cubes stand in for shapes", path, nmissing,
                 missing);
    *s = (describer){.path = path, .m = sim.model, .d = sim.data, .out = out, .config = config, .root = -1};
    snprintf(s->stem, sizeof s->stem, "%.*s", (int)strlen(base) - 4, base);
    for (int j = s->m->njnt - 1; j >= 0; j--)
        s->root = s->m->jnt_type[j] == mjJNT_FREE ? j : s->root;
    s->keyframe = choose_keyframe(s->m);
    robot_pose(s->m, s->d, s->keyframe);
    s->rest = mj_makeData(s->m);
    mj_copyData(s->rest, s->m, s->d);
    s->dt = fmax(0.02, s->m->opt.timestep);

    /* states and controls come first, because names of the steps to take depend on them */
    char *body = NULL;
    size_t length = 0;
    s->out = open_memstream(&body, &length);
    if (!s->out)
        status = hb_fail(err, ENOMEM, "out of memory");
    if (!status && !(status = write_states(s, err)) && !(status = write_controls(s, err))) {
        write_hidden(s);
        write_start(s);
        write_end(s);
        write_target(s);
        write_excitation(s);
        fprintf(s->out,
                "\nnoise: {}                # standard deviations of sensors, by state\ndelay: 0                 # "
                "seconds until a command acts\nlag: 0                   # time constant of the actuators, seconds\n");
    }
    if (s->out)
        fclose(s->out);
    s->out = out;
    if (!status) {
        fprintf(out,
                "# What hilbert-sim takes from %s (hilbert-sim(1), ROBOTS). Made by hilbert-sim describe; a '#' before "
                "a line leaves it out.\n# Next:\n",
                base);
        write_next_steps(s);
        fprintf(out, "\ndt: %g                 # control period, seconds\nepisode: 125\n", s->dt);
        if (s->keyframe >= 0)
            fprintf(out, "pose: %s\n",
                    mj_id2name(s->m, mjOBJ_KEY, s->keyframe) && *mj_id2name(s->m, mjOBJ_KEY, s->keyframe)
                        ? quoted(s, mjOBJ_KEY, s->keyframe, reference, sizeof reference)
                        : "0");
        fputs(body, out);
        write_config(s);
    }
    mj_deleteData(s->rest);
    free(body);
    free(s);
    hb_mujoco_free(&sim);
    return status;
}
