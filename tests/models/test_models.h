/* Small models for tests of the whole: exact by construction or seeded, so that nothing must be trained. */
#ifndef HB_TEST_MODELS_H
#define HB_TEST_MODELS_H

#include "model/model.h"

/* A cart on a rail: states position and velocity, control force; dt 0.02 s.
 *
 *     position' = velocity        velocity' = force + c0 velocity + c1 force + c2
 *
 * The network is exact, so that the coefficients of a cart with known drag, weak motor and slope are known. */
int hb_test_cart(hb_model **ret, hb_error *err);

/* The same with a motor that is thought too weak, and with c0 alone, so that nothing makes up for it; states are in other
 * units. */
int hb_test_wrong_cart(hb_model **ret, hb_error *err);

/* The paper's quadrotor with the nominal model as its average and nb basis functions with small random weights. */
int hb_test_quadrotor(hb_model **ret, int nb, int width, hb_error *err);

/* The paper's architecture and size: nb independent networks of 4 x 51, random weights. */
int hb_test_paper(hb_model **ret, int nb, hb_error *err);

#endif
