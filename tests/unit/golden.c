/* A golden file has the tensors of a basis file under the same names, but metadata of its own: it is rewritten as a
 * basis file, which is then loaded as any other. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

const char *const golden_names[] = {"independent_per_state_inner_product_relu",
                                    "independent_scalar_least_squares_tanh",
                                    "shared_per_state_least_squares_relu",
                                    "shared_scalar_inner_product_tanh",
                                    "shared_scalar_least_squares_silu",
                                    "vanderpol_independent",
                                    NULL};

enum { MAX_TENSORS = 64, MAX_SIZE = 64 };

static const char *text(const hb_safetensors *f, const char *key)
{
    const char *value = hb_safetensors_text(f, key);

    if (!value)
        fail_msg("%s: no metadata '%s'", f->path, key);
    return value;
}

/* "x0,x1,..." in a static-sized buffer */
static const char *numbered(char *buffer, size_t size, char letter, int n)
{
    size_t used = 0;

    buffer[0] = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%c%d", i ? "," : "", letter, i);
    return buffer;
}

/* The same tensor under another name. */
static hb_tensor renamed(const hb_safetensors *f, const char *from, const char *to)
{
    const hb_tensor *t = hb_safetensors_find(f, from);

    if (!t)
        fail_msg("%s: no tensor '%s'", f->path, from);
    hb_tensor copy = *t;
    copy.name = to;
    return copy;
}

static hb_tensor constant(const char *name, int n, const double *value)
{
    return (hb_tensor){.name = name, .dtype = HB_F64, .rank = 1, .shape = {(size_t)n}, .data = value};
}

static void write_basis_file(const hb_safetensors *f, const char *path)
{
    bool shared = !strcmp(text(f, "arch"), "shared"), average = !strcmp(text(f, "average"), "True");
    int nx = atoi(text(f, "nx")), nu = atoi(text(f, "nu")), ntensors = 0, ntexts = 0;
    char states[512], controls[512], no_state_units[MAX_SIZE] = "", no_control_units[MAX_SIZE] = "";
    double zero[MAX_SIZE] = {0}, one[MAX_SIZE], minus_one[MAX_SIZE];
    hb_tensor tensor[MAX_TENSORS];
    hb_error err;

    for (int i = 0; i < MAX_SIZE; i++) {
        one[i] = 1;
        minus_one[i] = -1;
    }
    memset(no_state_units, ',', (size_t)nx - 1);
    memset(no_control_units, ',', nu ? (size_t)nu - 1 : 0);

    for (int i = 0; i < f->ntensors; i++)
        if (strncmp(f->tensor[i].name, "in.", 3) != 0 && strncmp(f->tensor[i].name, "out.", 4) != 0)
            tensor[ntensors++] = f->tensor[i];
    tensor[ntensors++] = renamed(f, "in.state_mean", "state.mean");
    tensor[ntensors++] = renamed(f, "in.state_std", "state.std");
    if (nu) {
        tensor[ntensors++] = constant("control.mean", nu, zero);
        tensor[ntensors++] = constant("control.std", nu, one);
        tensor[ntensors++] = constant("control.min", nu, minus_one);
        tensor[ntensors++] = constant("control.max", nu, one);
        tensor[ntensors++] = constant("control.trim", nu, zero);
    }

    hb_text item[32];
    item[ntexts++] = (hb_text){"format", "hilbert-basis-1"};
    item[ntexts++] = (hb_text){"architecture", text(f, "arch")};
    item[ntexts++] = (hb_text){"activation", text(f, "act")};
    item[ntexts++] = (hb_text){"average", !average ? "none" : shared ? "head" : "network"};
    item[ntexts++] = (hb_text){"integration", shared ? "combined" : "separate"};
    item[ntexts++] = (hb_text){"substeps", "1"};
    item[ntexts++] = (hb_text){"method", text(f, "method")};
    item[ntexts++] = (hb_text){"shape", strcmp(text(f, "coef"), "scalar") ? "per_state" : "vector"};
    item[ntexts++] = (hb_text){"ridge", text(f, "ridge")};
    item[ntexts++] = (hb_text){"volume", "1"};
    item[ntexts++] = (hb_text){"dt", text(f, "dt")};
    item[ntexts++] = (hb_text){"state_names", numbered(states, sizeof states, 'x', nx)};
    item[ntexts++] = (hb_text){"state_units", no_state_units};
    item[ntexts++] = (hb_text){"inputs", states};
    if (nu) {
        item[ntexts++] = (hb_text){"control_names", numbered(controls, sizeof controls, 'u', nu)};
        item[ntexts++] = (hb_text){"control_units", no_control_units};
    }

    hb_safetensors out = {.path = path, .ntensors = ntensors, .tensor = tensor, .ntexts = ntexts, .text = item};
    if (hb_safetensors_save(&out, &err))
        fail_msg("%s", err.text);
}

golden *golden_open(const char *name)
{
    const char *folder = getenv("HILBERT_TEST_DATA");
    char path[4096], basis_file[] = "/tmp/golden-XXXXXX";
    golden *g = calloc(1, sizeof *g);
    hb_error err;

    assert_non_null(g);
    if (!folder)
        fail_msg("HILBERT_TEST_DATA is not set: run the tests with `meson test`, or set it to tests/data");
    snprintf(path, sizeof path, "%s/golden/%s.safetensors", folder, name);
    if (hb_safetensors_load(&g->file, path, &err))
        fail_msg("%s", err.text);
    g->name = name;

    int fd = mkstemp(basis_file);
    assert_true(fd >= 0);
    close(fd);
    write_basis_file(g->file, basis_file);
    if (hb_model_load(&g->model, basis_file, &err))
        fail_msg("%s", err.text);
    unlink(basis_file);
    return g;
}

void golden_close(golden *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->nkept; i++)
        free(g->kept[i]);
    hb_model_free(g->model);
    hb_safetensors_free(g->file);
    free(g);
}

static const hb_tensor *find(const golden *g, const char *name)
{
    const hb_tensor *t = hb_safetensors_find(g->file, name);

    if (!t)
        fail_msg("%s: no tensor '%s'", g->name, name);
    return t;
}

const double *golden_get(golden *g, const char *name)
{
    const hb_tensor *t = find(g, name);
    double *value = malloc((hb_tensor_count(t) + 1) * sizeof *value);
    hb_error err;

    assert_non_null(value);
    assert_true(g->nkept < (int)(sizeof g->kept / sizeof *g->kept));
    if (hb_safetensors_doubles(g->file, t, value, &err))
        fail_msg("%s", err.text);
    return g->kept[g->nkept++] = value;
}

int golden_size(const golden *g, const char *name, int dimension)
{
    const hb_tensor *t = find(g, name);

    assert_in_range(dimension, 0, t->rank - 1);
    return (int)t->shape[dimension];
}
