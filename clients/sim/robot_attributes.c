/* Attributes of a model that may be hidden. A value replaces what is there, a scale (not negative) multiplies it. */
#include <math.h>
#include <string.h>

#include "sim/robot_parts.h"

/* of one number in an array of the model */
#define ONE(function, array, stride, at)                                                                               \
    static double function##_get(const mjModel *m, int id)                                                             \
    {                                                                                                                  \
        return m->array[(stride)*id + (at)];                                                                           \
    }                                                                                                                  \
    static void function##_set(mjModel *m, int id, double value, double scale)                                         \
    {                                                                                                                  \
        m->array[(stride)*id + (at)] = scale >= 0 ? scale * m->array[(stride)*id + (at)] : value;                      \
    }

ONE(com_x, body_ipos, 3, 0)
ONE(com_y, body_ipos, 3, 1)
ONE(com_z, body_ipos, 3, 2)
ONE(slide, geom_friction, 3, 0)
ONE(spin, geom_friction, 3, 1)
ONE(roll, geom_friction, 3, 2)
ONE(stiffness, jnt_stiffness, 1, 0)
ONE(tendon_stiffness, tendon_stiffness, 1, 0)
ONE(tendon_damping, tendon_damping, 1, 0)
ONE(tendon_friction, tendon_frictionloss, 1, 0)
ONE(time_constant, actuator_dynprm, mjNDYN, 0)

/* inertia follows the mass */
static double mass_get(const mjModel *m, int id)
{
    return m->body_mass[id];
}
static void mass_set(mjModel *m, int id, double value, double scale)
{
    const double by = scale >= 0 ? scale : m->body_mass[id] > 0 ? value / m->body_mass[id] : 1;

    m->body_mass[id] = scale >= 0 ? scale * m->body_mass[id] : value;
    for (int i = 3 * id; i < 3 * id + 3; i++)
        m->body_inertia[i] *= by; /* on top of a scale of its own */
}

static double inertia_get(const mjModel *m, int id)
{
    return m->body_inertia[3 * id];
}
static void inertia_set(mjModel *m, int id, double value, double scale)
{
    (void)value;
    for (int i = 3 * id; i < 3 * id + 3; i++)
        m->body_inertia[i] *= scale;
}

/* joints have as many degrees of freedom as they have; all of a joint are alike */
#define OF_JOINT(function, array)                                                                                      \
    static double function##_get(const mjModel *m, int id)                                                             \
    {                                                                                                                  \
        return m->array[m->jnt_dofadr[id]];                                                                            \
    }                                                                                                                  \
    static void function##_set(mjModel *m, int id, double value, double scale)                                         \
    {                                                                                                                  \
        static const int dofs[] = {[mjJNT_FREE] = 6, [mjJNT_BALL] = 3, [mjJNT_SLIDE] = 1, [mjJNT_HINGE] = 1};          \
        const int first = m->jnt_dofadr[id], n = dofs[m->jnt_type[id]];                                                \
        for (int i = first; i < first + n; i++)                                                                        \
            m->array[i] = scale >= 0 ? scale * m->array[i] : value;                                                    \
    }

OF_JOINT(damping, dof_damping)
OF_JOINT(armature, dof_armature)
OF_JOINT(frictionloss, dof_frictionloss)

static double gear_get(const mjModel *m, int id)
{
    return m->actuator_gear[6 * id];
}
static void gear_set(mjModel *m, int id, double value, double scale)
{
    for (int i = 6 * id; i < 6 * id + 6; i++)
        m->actuator_gear[i] = scale >= 0 ? scale * m->actuator_gear[i] : i == 6 * id ? value : m->actuator_gear[i];
}

/* the force of everything that an actuator does, and its limit */
static double strength_get(const mjModel *m, int id)
{
    return m->actuator_gainprm[mjNGAIN * id];
}
static void strength_set(mjModel *m, int id, double value, double scale)
{
    (void)value;
    for (int i = 0; i < mjNGAIN && m->actuator_gaintype[id] != mjGAIN_MUSCLE; i++)
        m->actuator_gainprm[mjNGAIN * id + i] = scale * m->actuator_gainprm[mjNGAIN * id + i];
    for (int i = 0; i < mjNBIAS && m->actuator_biastype[id] == mjBIAS_AFFINE; i++)
        m->actuator_biasprm[mjNBIAS * id + i] = scale * m->actuator_biasprm[mjNBIAS * id + i];
    /* a muscle's largest force */
    if (m->actuator_gaintype[id] == mjGAIN_MUSCLE) {
        m->actuator_gainprm[mjNGAIN * id + 2] = scale * m->actuator_gainprm[mjNGAIN * id + 2];
        m->actuator_biasprm[mjNBIAS * id + 2] = scale * m->actuator_biasprm[mjNBIAS * id + 2];
    }
    for (int i = 2 * id; i < 2 * id + 2; i++)
        m->actuator_forcerange[i] = scale * m->actuator_forcerange[i];
}

/* options of the physics have no id */
#define OPTION(function, member)                                                                                       \
    static double function##_get(const mjModel *m, int id)                                                             \
    {                                                                                                                  \
        (void)id;                                                                                                      \
        return m->opt.member;                                                                                          \
    }                                                                                                                  \
    static void function##_set(mjModel *m, int id, double value, double scale)                                         \
    {                                                                                                                  \
        (void)id;                                                                                                      \
        m->opt.member = scale >= 0 ? scale * m->opt.member : value;                                                    \
    }

OPTION(gravity, gravity[2])
OPTION(wind_x, wind[0])
OPTION(wind_y, wind[1])
OPTION(density, density)
OPTION(viscosity, viscosity)

#define ROW(name, unit, object, structural, scaled, function, help)                                                    \
    {                                                                                                                  \
        name, unit, help, object, structural, scaled, function##_get, function##_set                                   \
    }

static const robot_attribute attributes[] = {
    ROW("mass", "kg", mjOBJ_BODY, true, false, mass, "mass, with the inertia in proportion"),
    ROW("inertia", "1", mjOBJ_BODY, true, true, inertia, "inertia alone"),
    ROW("com_x", "m", mjOBJ_BODY, true, false, com_x, "centre of mass, in the body's frame"),
    ROW("com_y", "m", mjOBJ_BODY, true, false, com_y, "centre of mass, in the body's frame"),
    ROW("com_z", "m", mjOBJ_BODY, true, false, com_z, "centre of mass, in the body's frame"),
    ROW("friction", "1", mjOBJ_GEOM, false, false, slide, "sliding friction"),
    ROW("friction_torsional", "m", mjOBJ_GEOM, false, false, spin, "torsional friction"),
    ROW("friction_rolling", "m", mjOBJ_GEOM, false, false, roll, "rolling friction"),
    ROW("damping", "", mjOBJ_JOINT, false, false, damping, "damping"),
    ROW("armature", "", mjOBJ_JOINT, true, false, armature, "inertia of the motor, seen at the joint"),
    ROW("frictionloss", "", mjOBJ_JOINT, false, false, frictionloss, "dry friction"),
    ROW("stiffness", "", mjOBJ_JOINT, false, false, stiffness, "of the joint's spring"),
    ROW("gear", "1", mjOBJ_ACTUATOR, true, false, gear, "gear"),
    ROW("strength", "1", mjOBJ_ACTUATOR, false, true, strength, "force of all that it does, with its limit"),
    ROW("time_constant", "s", mjOBJ_ACTUATOR, false, false, time_constant, "of an actuator with dynamics"),
    ROW("stiffness", "N/m", mjOBJ_TENDON, false, false, tendon_stiffness, "of the tendon's spring"),
    ROW("damping", "N s/m", mjOBJ_TENDON, false, false, tendon_damping, "damping"),
    ROW("frictionloss", "N", mjOBJ_TENDON, false, false, tendon_friction, "dry friction"),
    ROW("gravity", "m/s^2", mjOBJ_UNKNOWN, false, false, gravity, "gravity along z"),
    ROW("wind_x", "m/s", mjOBJ_UNKNOWN, false, false, wind_x, "wind, where the medium has a density"),
    ROW("wind_y", "m/s", mjOBJ_UNKNOWN, false, false, wind_y, "wind, where the medium has a density"),
    ROW("density", "kg/m^3", mjOBJ_UNKNOWN, false, false, density, "of the medium"),
    ROW("viscosity", "Pa s", mjOBJ_UNKNOWN, false, false, viscosity, "of the medium"),
};

const robot_attribute *robot_attribute_at(int index)
{
    return index < (int)(sizeof attributes / sizeof *attributes) ? &attributes[index] : NULL;
}

const robot_attribute *robot_attribute_find(int object, const char *name)
{
    for (int i = 0; robot_attribute_at(i); i++)
        if (attributes[i].object == object && strcmp(attributes[i].name, name) == 0)
            return &attributes[i];
    return NULL;
}
