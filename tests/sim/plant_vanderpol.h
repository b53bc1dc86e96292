/* The Van der Pol oscillator, x'' = mu (1 - x^2) x' - x, integrated by RK4 in double at 1 ms or finer. */
#ifndef HB_PLANT_VANDERPOL_H
#define HB_PLANT_VANDERPOL_H

enum { VANDERPOL_NX = 2 };

/* Replaces x = (x, x') by the state `seconds` later. */
void plant_vanderpol_step(double mu, double *x, double seconds);

#endif
