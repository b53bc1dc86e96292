/* Any text as expressions, as a model file has them, and, where there is training, as a physics file. What compiles
 * runs within the rows that it asked for, and its text compiles again to the same numbers. */
#include <math.h>

#include "fuzz.h"
#include "model/physics.h"
#ifdef FUZZ_FILE
#include "train/physics_file.h"
#endif

enum { NX = 3, NU = 2, NP = 2, LANES = HB_LANES };

static char state[NX][HB_NAME_SIZE] = {"x", "v", "heading"}, control[NU][HB_NAME_SIZE] = {"throttle", "steer"};
static char parameter[NP][HB_NAME_SIZE] = {"mass", "drag"};
static const double value[NP] = {2, 0.5};

static hb_real *rows(int n)
{
    hb_real *x = aligned_alloc(HB_ALIGNMENT, (size_t)n * HB_STRIDE * sizeof *x);
    FUZZ_EXPECT(x);
    for (int i = 0; i < n * HB_STRIDE; i++)
        x[i] = (hb_real)(i % 7) - 3;
    return x;
}

/* Rates and gradients of HB_LANES samples: (2 NX + NU) rows */
static hb_real *evaluate(const hb_physics *p)
{
    const hb_nominal *m = hb_physics_nominal(p);
    /* exactly as many rows as it asked for: a sanitizer sees one more */
    hb_real *x = rows(NX), *u = rows(NU), *d = rows(NX), *scratch = rows(m->rows ? m->rows : 1),
            *to = rows(2 * NX + NU);

    FUZZ_EXPECT(m->nx == NX && m->nu == NU && m->rows >= 0 && m->rows <= 2 * HB_PHYSICS_OPERATIONS);
    m->field(m, m->parameter_default, LANES, x, u, to, scratch);
    m->adjoint(m, m->parameter_default, LANES, x, u, d, to + NX * HB_STRIDE, to + 2 * NX * HB_STRIDE, scratch);
    free(x);
    free(u);
    free(d);
    free(scratch);
    return to;
}

static void expressions(const char *text)
{
    hb_physics_source source = {.nx = NX,
                                .nu = NU,
                                .state = state,
                                .control = control,
                                .nparameters = NP,
                                .parameter = parameter,
                                .value = value,
                                .text = text};
    hb_physics *p = NULL, *again = NULL;
    hb_physics_place place = {.line = -2};
    hb_error err = {0};

    if (hb_physics_new(&p, &source, &place, &err)) {
        FUZZ_EXPECT(!p && *err.text && place.line >= -1 && place.column >= 0 && place.column <= (int)strlen(text));
        return;
    }
    source.text = hb_physics_text(p);
    FUZZ_EXPECT(hb_physics_new(&again, &source, &place, &err) == 0);
    hb_real *a = evaluate(p), *b = evaluate(again);
    FUZZ_EXPECT(memcmp(a, b, (2 * NX + NU) * HB_STRIDE * sizeof *a) == 0);
    free(a);
    free(b);
    hb_physics_free(p);
    hb_physics_free(again);
}

#ifdef FUZZ_FILE
/* A data set of two samples with the same names. */
static void physics_file(const uint8_t *data, size_t size)
{
    static double x[] = {1, 2, 3, 1, 2, 3}, u[] = {0.5, -0.5};
    static char unit[NX][HB_NAME_SIZE] = {"m", "m/s", ""};
    hb_episode episode = {.nsteps = 1, .x = x, .u = u};
    hb_function function = {.nepisodes = 1, .ntransitions = 1};
    hb_dataset d = {.header = {.nx = NX,
                               .nu = NU,
                               .dt = 0.1,
                               .state_name = state,
                               .state_unit = unit,
                               .control_name = control,
                               .control_unit = unit},
                    .nfunctions = 1,
                    .function = &function,
                    .nepisodes = 1,
                    .episode = &episode,
                    .ntransitions = 1};
    fuzz_file file = fuzz_file_of(data, size);
    hb_physics *p = NULL;
    hb_error err = {0};

    if (hb_physics_file_read(&p, file.path, NULL, &d, &err))
        FUZZ_EXPECT(!p && *err.text);
    else
        free(evaluate(p));
    hb_physics_free(p);
    close(file.fd);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_EXPECT(text);
    memcpy(text, data, size);
    text[size] = 0;
    expressions(text);
    free(text);
#ifdef FUZZ_FILE
    physics_file(data, size);
#endif
    return 0;
}
