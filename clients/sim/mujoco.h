/* MuJoCo models from text in memory and from files. MuJoCo's own handlers exit or write MUJOCO_LOG.TXT: ours do neither lightly. */
#ifndef HB_MUJOCO_H
#define HB_MUJOCO_H

#include <mujoco/mujoco.h>

#include "base/base.h"

/* A model and its data; freed together. */
struct hb_mujoco {
    mjModel *model;
    mjData *data;
};
typedef struct hb_mujoco hb_mujoco;

/* Compiles MJCF. Safe to call from several threads. */
int hb_mujoco_load(hb_mujoco *ret, const char *name, const char *xml, hb_error *err);
/* Compiles an MJCF file with all that it includes. Shapes and pictures that are missing are replaced by small cubes and
 * grey; *ret_missing counts them, and `missing` names the first. Errors are FILE:LINE: what is wrong. */
int hb_mujoco_load_file(hb_mujoco *ret, const char *path, int *ret_missing, char *missing, size_t size, hb_error *err);
void hb_mujoco_free(hb_mujoco *m);

/* Advances by dt seconds in equal steps of about `step` seconds. */
int hb_mujoco_steps(hb_mujoco *m, double dt, double step);

/* What the simulation complained about since the last reset (a NaN, an overflow), or NULL. */
const char *hb_mujoco_failure(const hb_mujoco *m);

/* MJCF with its {PLACEHOLDERS} filled in; each is a sum of products of numbers and parameter names, e.g.
 * {0.5*torso+0.1}. Free the result. NULL on failure. */
char *hb_mujoco_expand(const char *xml, int n, const char *const *name, const double *value, hb_error *err);

#endif
