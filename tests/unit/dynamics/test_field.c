/* The integrator on a linear field, whose Runge-Kutta step is known in closed form: for z' = A z + b with b held
 *
 *     z(h) = z + (h + h^2 A / 2 + h^3 A^2 / 6 + h^4 A^3 / 24) (A z + b)
 *
 * and its adjoint is the transposed matrix. A network of one layer is such a field. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "base/numeric.h"
#include "dynamics/field.h"
#include "models.h"

#ifdef HB_DOUBLE
static const double tolerance = 1e-13;
#else
static const double tolerance = 2e-6;
#endif

enum { NX = 3, NU = 2, NTERMS = 2, SAMPLES = 21 };

/* Two linear networks, of which the second one's rates are scaled for each state. */
typedef struct fixture {
    hb_model *m;
    hb_workspace *w;
    hb_term term[NTERMS];
    hb_field field;
    hb_real scale[NX];
    double a[NX][NX], b[NX][NU], constant[NX]; /* z' = a z + b u + constant */
    sample_block in;
} fixture;

static fixture new_fixture(hb_integration integration, int substeps, bool angle)
{
    const hb_model shape = {.nx = NX,
                            .nu = NU,
                            .nb = NTERMS,
                            .architecture = HB_INDEPENDENT,
                            .activation = HB_TANH,
                            .average = HB_AVERAGE_NONE,
                            .integration = integration,
                            .substeps = substeps,
                            .method = HB_LEAST_SQUARES,
                            .shape = HB_VECTOR,
                            .ridge = 1e-3,
                            .volume = 1,
                            .dt = 0.05,
                            .basis = {.nlayers = 1},
                            .ninputs = NX};
    fixture f = {.scale = {(hb_real)0.5, -2, (hb_real)1.5}};

    assert_int_equal(hb_model_new(&f.m, &shape, NULL, NULL), 0);
    for (size_t p = 0; p < f.m->nparameters; p++)
        f.m->parameter[p] = (hb_real)hb_random_normal((hb_random_key){11, 0}, p);
    f.m->angle[1] = angle;
    hb_model_seal(f.m);
    assert_int_equal(hb_workspace_new(&f.w, f.m, true, NULL), 0);
    for (int t = 0; t < NTERMS; t++) {
        const hb_real *p = f.m->parameter + (size_t)t * f.m->basis.nparameters;
        f.term[t] = (hb_term){.shape = &f.m->basis, .parameter = p, .belongs_to = HB_OF_BASIS};
        for (int r = 0; r < NX; r++) {
            const double scale = t ? (double)f.scale[r] : 1;
            for (int i = 0; i < NX; i++)
                f.a[r][i] += scale * (double)p[r * (NX + NU) + i];
            for (int i = 0; i < NU; i++)
                f.b[r][i] += scale * (double)p[r * (NX + NU) + NX + i];
            f.constant[r] += scale * (double)p[NX * (NX + NU) + r];
        }
    }
    f.in = random_block(f.m, SAMPLES, 12);
    return f;
}

/* The field points into the fixture, which must stay where it is. */
static void aim(fixture *f)
{
    f->term[1].scale = f->scale;
    f->field = (hb_field){.model = f->m, .nterms = NTERMS, .term = f->term};
}

static void free_fixture(fixture *f)
{
    sample_block_free(&f->in);
    hb_workspace_free(f->w);
    hb_model_free(f->m);
}

/* y += factor A x, or A^T x */
static void add_product(const fixture *f, double factor, bool transposed, const double *x, double *y)
{
    for (int r = 0; r < NX; r++)
        for (int i = 0; i < NX; i++)
            y[r] += factor * (transposed ? f->a[i][r] : f->a[r][i]) * x[i];
}

/* x + h^2/2 A x ...: (h + h^2 A / 2 + h^3 A^2 / 6 + h^4 A^3 / 24) x, by Horner's scheme */
static void polynomial(const fixture *f, double h, bool transposed, const double *x, double *y)
{
    double inner[NX];

    memcpy(y, x, NX * sizeof *y);
    for (int k = 4; k > 1; k--) {
        memcpy(inner, y, sizeof inner);
        memcpy(y, x, NX * sizeof *y);
        add_product(f, h / k, transposed, inner, y);
    }
    for (int r = 0; r < NX; r++)
        y[r] *= h;
}

static void rate_by_hand(const fixture *f, const double *z, int s, double *rate)
{
    for (int r = 0; r < NX; r++) {
        rate[r] = f->constant[r];
        for (int i = 0; i < NU; i++)
            rate[r] += f->b[r][i] * (double)f->in.u[i * HB_STRIDE + s];
    }
    add_product(f, 1, false, z, rate);
}

static void test_increments_equal_the_closed_form(void **state)
{
    (void)state;
    for (int substeps = 1; substeps <= 3; substeps++) {
        fixture f = new_fixture(HB_SEPARATE, substeps, false);
        hb_real *increment = new_rows(NX);

        aim(&f);
        hb_field_integrate(&f.field, f.w, &f.in.batch, false, increment, NULL, false);
        for (int s = 0; s < SAMPLES; s++) {
            double z[NX], rate[NX], step[NX];
            for (int r = 0; r < NX; r++)
                z[r] = (double)f.in.z[r * HB_STRIDE + s];
            for (int sub = 0; sub < substeps; sub++) {
                rate_by_hand(&f, z, s, rate);
                polynomial(&f, (double)f.in.dt[s] / substeps, false, rate, step);
                for (int r = 0; r < NX; r++)
                    z[r] += step[r];
            }
            for (int r = 0; r < NX; r++)
                check_close((double)increment[r * HB_STRIDE + s], z[r] - (double)f.in.z[r * HB_STRIDE + s], 10,
                            tolerance, "%d sub-steps: state %d of sample %d", substeps, r, s);
        }
        free(increment);
        free_fixture(&f);
    }
}

static void test_a_direct_model_gives_the_increment_itself(void **state)
{
    (void)state;
    fixture f = new_fixture(HB_DIRECT, 1, false);
    hb_real *increment = new_rows(NX);

    aim(&f);
    assert_int_equal(hb_field_stages(f.m), 1);
    hb_field_integrate(&f.field, f.w, &f.in.batch, false, increment, NULL, false);
    for (int s = 0; s < SAMPLES; s++) {
        double z[NX], rate[NX];
        for (int r = 0; r < NX; r++)
            z[r] = (double)f.in.z[r * HB_STRIDE + s];
        rate_by_hand(&f, z, s, rate);
        for (int r = 0; r < NX; r++)
            check_close((double)increment[r * HB_STRIDE + s], rate[r], 10, tolerance, "state %d of sample %d", r, s);
    }
    free(increment);
    free_fixture(&f);
}

/* Whole turns of an angle make no difference, but for the rounding of the sum. */
static void test_angles_have_no_whole_turns(void **state)
{
    (void)state;
    fixture f = new_fixture(HB_SEPARATE, 1, true);
    hb_real *before = new_rows(NX), *after = new_rows(NX);
    const double turn = 2 * M_PI / f.m->state_std[1];

    aim(&f);
    hb_field_integrate(&f.field, f.w, &f.in.batch, false, before, NULL, false);
    for (int s = 0; s < SAMPLES; s++)
        f.in.z[HB_STRIDE + s] += (hb_real)(turn * (s % 5 - 2));
    hb_field_integrate(&f.field, f.w, &f.in.batch, false, after, NULL, false);
    for (int r = 0; r < NX; r++)
        for (int s = 0; s < SAMPLES; s++)
            check_close((double)after[r * HB_STRIDE + s], (double)before[r * HB_STRIDE + s], 10, 10 * tolerance,
                        "state %d of sample %d", r, s);
    free(before);
    free(after);
    free_fixture(&f);
}

/* dz = dincrement (d increment / dz) = A^T polynomial(A^T) dincrement for each sub-step, du likewise */
static void test_adjoint_equals_the_closed_form(void **state)
{
    (void)state;
    for (int substeps = 1; substeps <= 3; substeps++) {
        fixture f = new_fixture(HB_SEPARATE, substeps, false);
        hb_real *increment = new_rows(NX), *d = random_rows(NX, 13), *dz = new_rows(NX), *du = new_rows(NU);

        aim(&f);
        char *tape = aligned_alloc(HB_ALIGNMENT, hb_field_tape_size(&f.field, false));
        hb_field_integrate(&f.field, f.w, &f.in.batch, false, increment, tape, false);
        hb_field_adjoint(&f.field, f.w, &f.in.batch, tape, d, dz, du, HB_OF_NONE);
        for (int s = 0; s < SAMPLES; s++) {
            double g[NX], by_u[NU] = {0}; /* of the state at the end of a sub-step */
            for (int r = 0; r < NX; r++)
                g[r] = (double)d[r * HB_STRIDE + s];
            for (int sub = 0; sub < substeps; sub++) {
                double through[NX];
                polynomial(&f, (double)f.in.dt[s] / substeps, true, g, through);
                for (int i = 0; i < NU; i++)
                    for (int r = 0; r < NX; r++)
                        by_u[i] += f.b[r][i] * through[r];
                add_product(&f, 1, true, through, g);
            }
            for (int r = 0; r < NX; r++)
                check_close((double)dz[r * HB_STRIDE + s], g[r] - (double)d[r * HB_STRIDE + s], 10, tolerance,
                            "%d sub-steps: state %d of sample %d", substeps, r, s);
            for (int i = 0; i < NU; i++)
                check_close((double)du[i * HB_STRIDE + s], by_u[i], 10, tolerance,
                            "%d sub-steps: control %d of sample %d", substeps, i, s);
        }
        free(tape);
        free(increment);
        free(d);
        free(dz);
        free(du);
        free_fixture(&f);
    }
}

#ifdef HB_DOUBLE
/* Gradients of parameters and scales: <d, increment> by finite differences. */
static void test_gradients_equal_finite_differences(void **state)
{
    (void)state;
    fixture f = new_fixture(HB_SEPARATE, 2, false);
    hb_real *increment = new_rows(NX), *d = random_rows(NX, 14), *dz = new_rows(NX);
    hb_real *gradient = calloc(f.m->nparameters, sizeof *gradient), dscale[NX] = {0};
    const double step = 1e-5;

    aim(&f);
    char *tape = aligned_alloc(HB_ALIGNMENT, hb_field_tape_size(&f.field, true));
    for (int t = 0; t < NTERMS; t++)
        f.term[t].gradient = gradient + (f.term[t].parameter - f.m->parameter);
    f.term[1].scale_gradient = dscale;
    hb_field_integrate(&f.field, f.w, &f.in.batch, false, increment, tape, true);
    hb_field_adjoint(&f.field, f.w, &f.in.batch, tape, d, dz, NULL, HB_OF_BASIS);
    for (size_t p = 0; p < f.m->nparameters + NX; p++) {
        hb_real *at = p < f.m->nparameters ? &f.m->parameter[p] : &f.scale[p - f.m->nparameters], before = *at;
        double slope = 0;
        for (int sign = -1; sign <= 1; sign += 2) {
            *at = before + sign * step;
            hb_field_integrate(&f.field, f.w, &f.in.batch, false, increment, NULL, false);
            for (int r = 0; r < NX; r++)
                for (int s = 0; s < SAMPLES; s++)
                    slope += sign * d[r * HB_STRIDE + s] * increment[r * HB_STRIDE + s] / (2 * step);
        }
        *at = before;
        check_close(p < f.m->nparameters ? gradient[p] : dscale[p - f.m->nparameters], slope, 10, 1e-9, "number %zu",
                    p);
    }
    free(tape);
    free(gradient);
    free(increment);
    free(d);
    free(dz);
    free_fixture(&f);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_increments_equal_the_closed_form),
        cmocka_unit_test(test_a_direct_model_gives_the_increment_itself),
        cmocka_unit_test(test_angles_have_no_whole_turns),
        cmocka_unit_test(test_adjoint_equals_the_closed_form),
#ifdef HB_DOUBLE
        cmocka_unit_test(test_gradients_equal_finite_differences),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
