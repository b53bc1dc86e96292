/* The built-in quadrotor (lib/model/nominal_quadrotor.c), written as expressions with the same names and parameters. */
#ifndef HB_UNIT_QUADROTOR_EXPRESSIONS_H
#define HB_UNIT_QUADROTOR_EXPRESSIONS_H

#include "model/nominal.h"
#include "model/physics.h"

static char quadrotor_state[][HB_NAME_SIZE] = {"x",  "vx", "y",  "vy", "z",  "vz", "qx",
                                               "qy", "qz", "qw", "wx", "wy", "wz"};
static char quadrotor_control[][HB_NAME_SIZE] = {"f0", "f1", "f2", "f3"};
static char quadrotor_parameter[][HB_NAME_SIZE] = {"mass", "ixx", "iyy", "izz", "arm", "torque_ratio", "gravity"};

static const char quadrotor_text[] = "push = (f0 + f1 + f2 + f3) / (mass * (qx^2 + qy^2 + qz^2 + qw^2))\n"
                                     "lever = arm / sqrt(2)\n"
                                     "x' = vx\n"
                                     "vx' = push * 2 * (qx * qz + qw * qy)\n"
                                     "y' = vy\n"
                                     "vy' = push * 2 * (qy * qz - qw * qx)\n"
                                     "z' = vz\n"
                                     "vz' = push * (qw^2 + qz^2 - qx^2 - qy^2) - gravity\n"
                                     "qx' = (qw * wx + qy * wz - qz * wy) / 2\n"
                                     "qy' = (qw * wy + qz * wx - qx * wz) / 2\n"
                                     "qz' = (qw * wz + qx * wy - qy * wx) / 2\n"
                                     "qw' = -(qx * wx + qy * wy + qz * wz) / 2\n"
                                     "wx' = ((f0 + f1 - f2 - f3) * lever + (iyy - izz) * wy * wz) / ixx\n"
                                     "wy' = ((-f0 + f1 + f2 - f3) * lever + (izz - ixx) * wz * wx) / iyy\n"
                                     "wz' = ((-f0 + f1 - f2 + f3) * torque_ratio + (ixx - iyy) * wx * wy) / izz\n";

/* With the built-in one's parameters. */
static inline hb_physics_source quadrotor_expressions(void)
{
    return (hb_physics_source){.nx = 13,
                               .nu = 4,
                               .state = quadrotor_state,
                               .control = quadrotor_control,
                               .nparameters = 7,
                               .parameter = quadrotor_parameter,
                               .value = hb_nominal_find("quadrotor")->parameter_default,
                               .text = quadrotor_text};
}

#endif
