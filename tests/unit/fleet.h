/* A fleet of vehicles that a small model itself makes: what is fitted to them has a known answer. */
#ifndef HB_TEST_FLEET_H
#define HB_TEST_FLEET_H

#include "data/dataset.h"
#include "model/model.h"

enum { FLEET_NX = 3, FLEET_NU = 1, FLEET_NB = 5, FLEET_FUNCTIONS = 12 };

/* Random parameters; least squares with next to no ridge. */
hb_model *fleet_model(hb_architecture architecture, hb_integration integration, hb_average average, hb_shape shape,
                      double dt);

/* The coefficients of a vehicle (the model's shape): on two directions of the five. */
void fleet_coefficients(const hb_model *m, int function, hb_real *c);

/* One-step episodes from random states, one function per vehicle. The names are the model's. */
hb_dataset fleet_data(const hb_model *m);
void fleet_data_free(hb_dataset *d);

#endif
