/* What there is in a MuJoCo model, by name, and what holds it in its pose. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/robot_parts.h"

int robot_object_count(const mjModel *m, int object)
{
    switch (object) {
    case mjOBJ_BODY:
        return m->nbody;
    case mjOBJ_JOINT:
        return m->njnt;
    case mjOBJ_GEOM:
        return m->ngeom;
    case mjOBJ_SITE:
        return m->nsite;
    case mjOBJ_TENDON:
        return m->ntendon;
    case mjOBJ_ACTUATOR:
        return m->nu;
    case mjOBJ_SENSOR:
        return m->nsensor;
    case mjOBJ_KEY:
        return m->nkey;
    default:
        return 0;
    }
}

int robot_object_find(const mjModel *m, int object, const char *name)
{
    char *end;

    if (name[0] != '#')
        return mj_name2id(m, object, name);
    const long id = strtol(name + 1, &end, 10);
    return end != name + 1 && !*end && id >= 0 && id < robot_object_count(m, object) ? (int)id : -1;
}

const char *robot_object_name(const mjModel *m, int object, int id, char *text, size_t size)
{
    const char *name = mj_id2name(m, object, id);

    if (name && *name)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, "#%d", id);
    return text;
}

/* ---- joints ---- */

int robot_joint_nparts(const mjModel *m, int joint, bool velocity)
{
    switch (m->jnt_type[joint]) {
    case mjJNT_FREE:
        return velocity ? 6 : 7;
    case mjJNT_BALL:
        return velocity ? 3 : 4;
    default:
        return 1;
    }
}

const char *robot_joint_part(const mjModel *m, int joint, bool velocity, int part)
{
    static const char *const position[] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
    static const char *const rate[] = {"vx", "vy", "vz", "wx", "wy", "wz"};

    switch (m->jnt_type[joint]) {
    case mjJNT_FREE:
        return velocity ? rate[part] : position[part];
    case mjJNT_BALL:
        return velocity ? rate[3 + part] : position[3 + part];
    default:
        return "";
    }
}

const char *robot_joint_unit(const mjModel *m, int joint, bool velocity, int part)
{
    const int type = m->jnt_type[joint];

    if (type == mjJNT_SLIDE || (type == mjJNT_FREE && part < 3))
        return velocity ? "m/s" : "m";
    return velocity ? "rad/s" : type == mjJNT_HINGE ? "rad" : "1";
}

/* ---- poses ---- */

int robot_keyframe_find(const mjModel *m, const char *name)
{
    char *end;
    const long number = strtol(name, &end, 10);

    if (end != name && !*end)
        return number >= 0 && number < m->nkey ? (int)number : -1;
    return robot_object_find(m, mjOBJ_KEY, name);
}

void robot_pose(const mjModel *m, mjData *d, int keyframe)
{
    if (keyframe >= 0)
        mj_resetDataKeyframe(m, d, keyframe);
    else
        mj_resetData(m, d);
    mj_forward(m, d);
}

/* ---- controls ---- */

/* Does it pull its length towards the control? */
static bool is_position(const mjModel *m, int i)
{
    return m->actuator_gaintype[i] == mjGAIN_FIXED && m->actuator_biastype[i] == mjBIAS_AFFINE &&
           m->actuator_biasprm[mjNBIAS * i + 1] != 0 && m->actuator_gainprm[mjNGAIN * i] != 0;
}

static bool is_velocity(const mjModel *m, int i)
{
    return !is_position(m, i) && m->actuator_biastype[i] == mjBIAS_AFFINE && m->actuator_biasprm[mjNBIAS * i + 2] != 0;
}

bool robot_control_range(const mjModel *m, int i, double *low, double *high)
{
    const int joint = m->actuator_trntype[i] == mjTRN_JOINT ? m->actuator_trnid[2 * i] : -1;
    const double gain = m->actuator_gainprm[mjNGAIN * i];

    if (m->actuator_ctrllimited[i] && m->actuator_ctrlrange[2 * i] < m->actuator_ctrlrange[2 * i + 1]) {
        *low = m->actuator_ctrlrange[2 * i];
        *high = m->actuator_ctrlrange[2 * i + 1];
        return true;
    }
    *low = -1;
    *high = 1;
    if (is_position(m, i)) {
        const bool limited = joint >= 0 && m->jnt_limited[joint] && m->jnt_type[joint] >= mjJNT_SLIDE;
        *low = limited ? m->jnt_range[2 * joint] : -M_PI;
        *high = limited ? m->jnt_range[2 * joint + 1] : M_PI;
    } else if (is_velocity(m, i)) {
        *low = -10;
        *high = 10;
    } else if (m->actuator_forcelimited[i] && m->actuator_gaintype[i] == mjGAIN_FIXED && gain > 0) {
        *low = m->actuator_forcerange[2 * i] / gain;
        *high = m->actuator_forcerange[2 * i + 1] / gain;
    } else if (m->actuator_gaintype[i] == mjGAIN_MUSCLE) {
        *low = 0;
    }
    return false;
}

/* Force for each unit of the control of an actuator that is nothing but a force; 0: it is more. */
static double force_of(const mjModel *m, size_t i)
{
    const bool force = m->actuator_gaintype[i] == mjGAIN_FIXED && m->actuator_biastype[i] == mjBIAS_NONE &&
                       (m->actuator_dyntype[i] == mjDYN_NONE || m->actuator_dyntype[i] == mjDYN_FILTER);

    return force ? m->actuator_gainprm[mjNGAIN * i] : 0;
}

/* Controls of these, so that with them nothing accelerates; they stay as they are where that cannot be. */
static void solve_forces(const mjModel *m, const mjData *d, double *trim)
{
    const size_t nu = (size_t)m->nu, nv = (size_t)m->nv;
    double *normal = calloc(nu * nu + nu + nv + 1, sizeof *normal), total = 0, left = 0;

    if (!normal)
        return;
    double *right = normal + nu * nu, *wanted = right + nu;
    for (size_t k = 0; k < nv; k++) {
        wanted[k] = d->qfrc_bias[k] - d->qfrc_passive[k];
        total += wanted[k] * wanted[k];
    }
    for (size_t i = 0; i < nu; i++) {
        for (size_t k = 0; k < nv; k++) {
            const double effect = force_of(m, i) * d->actuator_moment[i * nv + k];
            right[i] += effect * wanted[k];
            for (size_t j = 0; j <= i; j++)
                normal[i * nu + j] += effect * force_of(m, j) * d->actuator_moment[j * nv + k];
        }
        /* of all that do it, the smallest */
        normal[i * nu + i] += 1e-9 * (1 + normal[i * nu + i]);
    }
    if (nu > 0 && total > 0 && hb_cholesky((int)nu, normal) == 0) {
        hb_cholesky_solve((int)nu, normal, 1, right);
        for (size_t k = 0; k < nv; k++) {
            double rest = wanted[k];
            for (size_t i = 0; i < nu; i++)
                rest -= force_of(m, i) * d->actuator_moment[i * nv + k] * right[i];
            left += rest * rest;
        }
        for (size_t i = 0; i < nu && left < 0.01 * total; i++)
            if (force_of(m, i) != 0)
                trim[i] = right[i];
    }
    free(normal);
}

void robot_trim(const mjModel *m, mjData *d, int keyframe, const double *low, const double *high, double *trim)
{
    bool given = false;

    for (int i = 0; i < m->nu; i++) {
        trim[i] = keyframe >= 0 ? m->key_ctrl[keyframe * m->nu + i] : 0;
        given = given || trim[i] != 0;
    }
    if (!given) {
        for (int i = 0; i < m->nu; i++)
            if (is_position(m, i)) /* no force where it is */
                trim[i] =
                    -(m->actuator_biasprm[mjNBIAS * i] + m->actuator_biasprm[mjNBIAS * i + 1] * d->actuator_length[i]) /
                    m->actuator_gainprm[mjNGAIN * i];
        solve_forces(m, d, trim);
    }
    for (int i = 0; i < m->nu; i++)
        trim[i] = fmin(fmax(trim[i], low[i]), high[i]);
}
