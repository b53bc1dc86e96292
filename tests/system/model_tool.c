/* What tests in other languages need of libhilbert.
 *
 * usage: model_tool example FILE      writes a small quadrotor model with names, units and notes
 *        model_tool increments FILE   reads samples from stdin, one per line: z u dt; prints G_0 ... G_nb-1 F_avg on a
 * line
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dynamics/basis.h"
#include "base/numeric.h"

static int fail(const hb_error *err)
{
    fprintf(stderr, "model_tool: %s\n", err->text);
    return 1;
}

static int example(const char *path)
{
    static const char *const name[] = {"x", "vx", "y", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
    int inputs[] = {1, 3, 5, 6, 7, 8, 9, 10, 11, 12};
    hb_model shape = {.nx = 13,
                      .nu = 4,
                      .nb = 8,
                      .has_prior = true,
                      .activation = HB_SILU,
                      .average = HB_AVERAGE_NOMINAL,
                      .nominal = hb_nominal_find("quadrotor"),
                      .integration = HB_COMBINED,
                      .substeps = 1,
                      .ridge = 1e-3,
                      .volume = 1,
                      .dt = 0.02,
                      .input = inputs,
                      .ninputs = 10,
                      .basis = {.nlayers = 3, .width = {[1] = 64, [2] = 32}}};
    hb_model *m = NULL;
    hb_error err;

    memcpy(shape.nominal_parameter, shape.nominal->parameter_default, sizeof shape.nominal_parameter);
    if (hb_model_new(&m, &shape, "an example\nin two lines", &err))
        return fail(&err);
    for (int i = 0; i < 13; i++) {
        snprintf(m->state_name[i], HB_NAME_SIZE, "%s", name[i]);
        snprintf(m->state_unit[i], HB_NAME_SIZE, "%s",
                 name[i][0] == 'q'   ? ""
                 : name[i][0] == 'w' ? "°/s"
                 : name[i][0] == 'v' ? "m/s"
                                     : "m");
    }
    for (int i = 0; i < 4; i++) {
        snprintf(m->control_unit[i], HB_NAME_SIZE, "N");
        m->control_min[i] = 0.03;
        m->control_max[i] = 0.15;
        m->control_trim[i] = 0.0662;
    }
    m->actuator_delay[0] = 0.02;
    m->actuator_lag[1] = 0.05;
    for (int i = 0; i < 8; i++) {
        m->prior_mean[i] = 0.5;
        m->prior_covariance[i * 9] = 0.25;
    }
    for (int i = 0; i < 13; i++)
        m->noise[i] = 0.125;
    for (size_t i = 0; i < m->nparameters; i++)
        m->parameter[i] = (hb_real)hb_random_normal((hb_random_key){.seed = 1}, i);
    hb_model_seal(m);
    int r = hb_model_save(m, path, &err);
    hb_model_free(m);
    return r ? fail(&err) : 0;
}

/* rows x HB_STRIDE zeros */
static hb_real *new_rows(int rows)
{
    size_t size = (size_t)(rows ? rows : 1) * HB_STRIDE * sizeof(hb_real);
    hb_real *memory = aligned_alloc(HB_ALIGNMENT, size);

    if (!memory)
        abort();
    memset(memory, 0, size);
    return memory;
}

static int increments(const char *path)
{
    hb_model *m = NULL;
    hb_workspace *w = NULL;
    hb_error err;

    if (hb_model_load(&m, path, &err) || hb_workspace_new(&w, m, false, &err)) {
        hb_model_free(m);
        return fail(&err);
    }
    hb_real *z = new_rows(m->nx), *u = new_rows(m->nu), *dt = new_rows(1), *g = new_rows((m->nb + 1) * m->nx);
    int n = 0, rows = m->nx + m->nu + 1, row = 0;
    for (double value; n < HB_STRIDE && scanf("%lf", &value) == 1;) {
        hb_real *to = row < m->nx ? z + row * HB_STRIDE : row < m->nx + m->nu ? u + (row - m->nx) * HB_STRIDE : dt;
        to[n] = (hb_real)value;
        row = (row + 1) % rows;
        n += row == 0;
    }

    hb_basis_increments(m, w, &(hb_batch){.n = n, .z = z, .u = m->nu ? u : NULL, .dt = dt}, NULL, g);
    for (int s = 0; s < n; s++)
        for (int i = 0; i < (m->nb + 1) * m->nx; i++)
            printf("%.9g%c", (double)g[i * HB_STRIDE + s], i + 1 < (m->nb + 1) * m->nx ? ' ' : '\n');
    free(z);
    free(u);
    free(dt);
    free(g);
    hb_workspace_free(w);
    hb_model_free(m);
    return row == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "example"))
        return example(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "increments"))
        return increments(argv[2]);
    fprintf(stderr, "usage: model_tool example|increments FILE\n");
    return 2;
}
