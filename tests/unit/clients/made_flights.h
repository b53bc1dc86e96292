/* Flights of a quadrotor integrated here, by formulas of its own: delayed and lagging rotors that turn the other way
 * round than in the nominal model, one of them weak, two masses, noise, and disturbances that nobody measures. */
#ifndef HB_TEST_MADE_FLIGHTS_H
#define HB_TEST_MADE_FLIGHTS_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "folder.h"

#include "base/numeric.h"
#include "data/dataset.h"

enum { NX = 13, NU = 4, FLIGHTS = 6, STEPS = 600, PART = 20 }; /* of 20 ms, integrated in parts of 1 ms */

static const double dt = 0.02, delay = 0.024, lag = 0.045, light = 0.03, heavy = 0.06;
static const double inertia[3] = {1.4e-5, 1.4e-5, 2.17e-5}, arm = 0.0397, ratio = -0.02, gravity = 9.81;

static inline double mass_of(int flight)
{
    return flight % 2 ? heavy : light;
}

/* x vx y vy z vz qx qy qz qw wx wy wz; forces of the rotors */
static inline void rate(double mass, const double *x, const double *f, double *to)
{
    const double *q = x + 6, *w = x + 10;
    double size = mass / light, sum = f[0] + f[1] + f[2] + f[3], l = arm / sqrt(2);
    double torque[3] = {(f[0] + f[1] - f[2] - f[3]) * l, (f[1] + f[2] - f[0] - f[3]) * l,
                        (f[1] + f[3] - f[0] - f[2]) * ratio};

    to[0] = x[1], to[2] = x[3], to[4] = x[5];
    to[1] = sum / mass * 2 * (q[0] * q[2] + q[3] * q[1]);
    to[3] = sum / mass * 2 * (q[1] * q[2] - q[3] * q[0]);
    to[5] = sum / mass * (1 - 2 * (q[0] * q[0] + q[1] * q[1])) - gravity;
    to[6] = 0.5 * (q[3] * w[0] + q[1] * w[2] - q[2] * w[1]);
    to[7] = 0.5 * (q[3] * w[1] + q[2] * w[0] - q[0] * w[2]);
    to[8] = 0.5 * (q[3] * w[2] + q[0] * w[1] - q[1] * w[0]);
    to[9] = -0.5 * (q[0] * w[0] + q[1] * w[1] + q[2] * w[2]);
    for (int i = 0; i < 3; i++) {
        int a = (i + 1) % 3, b = (i + 2) % 3;
        to[10 + i] = torque[i] / (size * inertia[i]) + (inertia[a] - inertia[b]) / inertia[i] * w[a] * w[b];
    }
}

static inline void integrate(double mass, double *x, const double *f, double h)
{
    double k[NX], half[NX];

    rate(mass, x, f, k);
    for (int i = 0; i < NX; i++)
        half[i] = x[i] + 0.5 * h * k[i];
    rate(mass, half, f, k);
    for (int i = 0; i < NX; i++)
        x[i] += h * k[i];
    double length = sqrt(x[6] * x[6] + x[7] * x[7] + x[8] * x[8] + x[9] * x[9]);
    for (int i = 6; i < 10; i++)
        x[i] /= length;
}

/* What nobody measures, and the controller cancels. */
typedef struct unseen {
    double turning; /* rad/s^2, by a turn that is ever different */
    double air;     /* rad/s^2 for each m/s of the velocity in the body, as air turns what moves through it */
} unseen;

/* A flight near hover, held level by weak feedback, with commands that jump about. One rotor is 3 % weak. */
static inline void fly(int flight, double noise, unseen by, double *x, double *u)
{
    hb_random_key key = {.seed = 7, .stream = (uint64_t)flight};
    double mass = mass_of(flight), hover = mass * gravity / 4, state[NX] = {[4] = 1, [9] = 1}, acting[NU];
    double told[STEPS][NU];
    uint64_t draw = 0;

    for (int i = 0; i < NU; i++)
        acting[i] = hover;
    for (int k = 0; k <= STEPS; k++) {
        for (int i = 0; i < NX; i++)
            x[k * NX + i] = state[i] + noise * hb_random_normal(key, draw++);
        if (k == STEPS)
            return;
        double p = -0.02 * state[6] - 0.0025 * state[10], r = -0.02 * state[7] - 0.0025 * state[11],
               up = -0.3 * state[5];
        double yaw = 0.001 * state[12]; /* ratio is negative */
        const double *q = state + 6, v[3] = {state[1], state[3], state[5]};
        double along = (1 - 2 * (q[1] * q[1] + q[2] * q[2])) * v[0] + 2 * (q[0] * q[1] + q[2] * q[3]) * v[1] +
                       2 * (q[0] * q[2] - q[1] * q[3]) * v[2];
        double across = 2 * (q[0] * q[1] - q[2] * q[3]) * v[0] + (1 - 2 * (q[0] * q[0] + q[2] * q[2])) * v[1] +
                        2 * (q[1] * q[2] + q[0] * q[3]) * v[2];
        double about_x = by.turning * sin(2.0 * k * dt + flight) + by.air * across;
        double about_y = by.turning * cos(2.7 * k * dt + flight) - by.air * along;
        p -= about_x * inertia[0] * sqrt(2) / (4 * arm);
        r -= about_y * inertia[1] * sqrt(2) / (4 * arm);
        for (int i = 0; i < NU; i++) {
            static const double roll[] = {1, 1, -1, -1}, pitch[] = {-1, 1, 1, -1}, turn[] = {-1, 1, -1, 1};
            told[k][i] = hover * (1 + 0.1 * up + 0.04 * hb_random_normal(key, draw++)) +
                         mass / light * (roll[i] * p + pitch[i] * r + turn[i] * yaw);
            u[k * NU + i] = told[k][i];
        }
        for (int part = 0; part < PART; part++) {
            double t = (k + (part + 0.5) / PART) * dt - delay, h = dt / PART, push[NU];
            int of = (int)floor(t / dt);
            for (int i = 0; i < NU; i++) {
                double now = of < 0 ? hover : told[of][i];
                acting[i] += (now - acting[i]) * (1 - exp(-h / lag));
                push[i] = acting[i] * (i == 2 ? 0.97 : 1);
            }
            integrate(mass, state, push, h);
            state[10] += h * about_x;
            state[11] += h * about_y;
        }
    }
}

static inline void write_flights(const char *path, bool known, double noise, unseen by)
{
    char state[NX][HB_NAME_SIZE] = {"x", "vx", "y", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
    char unit[NX][HB_NAME_SIZE] = {"m", "m/s", "m", "m/s", "m", "m/s", "1", "1", "1", "1", "rad/s", "rad/s", "rad/s"};
    char control[NU][HB_NAME_SIZE] = {"f0", "f1", "f2", "f3"}, newton[NU][HB_NAME_SIZE] = {"N", "N", "N", "N"};
    char hidden[1][HB_NAME_SIZE] = {"mass"};
    hb_dataset_header h = {.nx = NX,
                           .nu = NU,
                           .dt = dt,
                           .plant = "quadrotor",
                           .state_name = state,
                           .state_unit = unit,
                           .control_name = control,
                           .control_unit = newton,
                           .nhidden = 1,
                           .hidden_name = hidden,
                           .parameters_known = known};
    hb_dataset_writer *w = NULL;
    hb_error err = {0};
    static double x[(STEPS + 1) * NX], u[STEPS * NU];

    assert_int_equal(hb_dataset_writer_new(&w, path, &h, &err), 0);
    for (int f = 0; f < FLIGHTS; f++) {
        double mass = mass_of(f);
        fly(f, noise, by, x, u);
        if (hb_dataset_writer_append(w, f, STEPS, x, u, NULL, &mass, &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(hb_dataset_writer_close(w, &err), 0);
}

static inline hb_dataset *read_flights(const char *name)
{
    hb_dataset *d = NULL;
    hb_error err = {0};

    if (hb_dataset_read(&d, in_folder(name), NULL, &err))
        fail_msg("%s", err.text);
    return d;
}

#endif
