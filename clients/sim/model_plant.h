/* A rehearsal: a learned model as the plant. Its vehicles are drawn from the population of coefficients in its file,
 * and may change in flight; sensors are as noisy as the model's steps, commands wait and act as its actuators do.
 *
 * Hidden parameters:  vehicle  0: the mean of the population; any other number: a vehicle of it, the same for the same
 *                              number
 *                     spread   how far vehicles are from the mean, relative to the population
 *                     noise    of sensors, relative to what the model leaves of a step
 *                     delay, lag  of the actuators, seconds
 *
 * A model's own world is kinder than the real one: what the model does not know does not happen in it. */
#ifndef HB_MODEL_PLANT_H
#define HB_MODEL_PLANT_H

#include "sim/plant.h"

/* Is this the name of a basis file? */
bool hb_model_plant_named(const char *name);

/* The plant of a basis file, with the target of a configuration (NULL: none). It lives until hb_model_plant_free, after
 * all plants of it. */
int hb_model_plant_new(const hb_plant_type **ret, const char *path, const char *config, hb_error *err);
/* NULL and types of others are left alone. */
void hb_model_plant_free(const hb_plant_type *type);

#endif
