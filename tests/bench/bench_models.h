/* The models that are measured: the paper's, and shared ones. Random weights, seeded. */
#ifndef HB_BENCH_MODELS_H
#define HB_BENCH_MODELS_H

#include "base/batch.h"
#include "bench.h"
#include "model/model.h"

/* 100 networks and an average of 17-51x4-13, ReLU, separate, per-state inner product */
hb_model *bench_paper_model(void);
/* shared 17-widthx3-13 with an average head */
hb_model *bench_shared_model(int nb, int width, hb_activation activation, hb_shape shape);

/* Those that steps and plans are measured with, by number from 0; NULL at the end. */
hb_model *bench_model(int i);
/* Sets what tells them apart. */
void bench_describe(bench *b, const hb_model *m);
/* Multiply-adds (times two) of one step of one sample with the coefficients set: four stages of RK4. Its adjoint
 * costs the same. */
double bench_step_flops(const hb_model *m);

/* Multiply-adds (times two) of one evaluation of a network for one sample. */
double bench_network_flops(const hb_mlp *shape);

/* Rows of HB_STRIDE, aligned, filled with small random numbers. */
hb_real *bench_rows(int rows, uint64_t seed);
hb_real *bench_constant_row(double value);

#endif
