#include "train/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/safetensors.h"

/* changes when checkpoints of older programs must not be resumed */
static const char format[] = "hilbert-train 2";

struct hb_checkpoint {
    hb_safetensors *file;
    uint64_t step, data_hash;
};

int hb_checkpoint_save(const char *path, const hb_model *m, const hb_trainer_state *t, const char *settings,
                       uint64_t data_hash, hb_error *err)
{
    char step[32], hash[32];
    snprintf(step, sizeof step, "%" PRIu64, t->step);
    snprintf(hash, sizeof hash, "%016" PRIx64, data_hash);

    const hb_text text[] = {{"format", format}, {"step", step}, {"data_hash", hash}, {"settings", settings}};
    size_t nb = (size_t)m->nb, nsystems = m->has_prior ? (size_t)hb_model_nproblems(m) : 0;
    const hb_tensor averaged = {
        .name = "averaged", .dtype = HB_REAL_DTYPE, .rank = 1, .shape = {t->nparameters}, .data = t->averaged};
    hb_tensor tensor[7] = {
        {.name = "parameter", .dtype = HB_REAL_DTYPE, .rank = 1, .shape = {t->nparameters}, .data = m->parameter},
        {.name = "mean", .dtype = HB_REAL_DTYPE, .rank = 1, .shape = {t->nparameters}, .data = t->mean},
        {.name = "square", .dtype = HB_REAL_DTYPE, .rank = 1, .shape = {t->nparameters}, .data = t->square},
        /* those of fits by a prior */
        {.name = "prior_mean", .dtype = HB_F64, .rank = 1, .shape = {nb * nsystems}, .data = m->prior_mean},
        {.name = "prior_covariance",
         .dtype = HB_F64,
         .rank = 1,
         .shape = {nb * nb * nsystems},
         .data = m->prior_covariance},
        {.name = "noise", .dtype = HB_F64, .rank = 1, .shape = {(size_t)m->nx}, .data = m->noise},
    };
    int ntensors = m->has_prior ? 6 : 3;
    if (t->averaged)
        tensor[ntensors++] = averaged;
    const hb_safetensors file = {
        .path = path, .ntensors = ntensors, .tensor = tensor, .ntexts = sizeof text / sizeof *text, .text = text};
    return hb_safetensors_save(&file, err);
}

static int read_whole_number(const hb_safetensors *f, const char *key, int base, uint64_t *ret, hb_error *err)
{
    const char *text = hb_safetensors_text(f, key);
    char *end = NULL;

    *ret = text ? strtoull(text, &end, base) : 0;
    if (!text || end == text || *end)
        return hb_fail(err, EINVAL, "%s: is no checkpoint of hilbert-train: '%s' is missing or not a number", f->path,
                       key);
    return 0;
}

int hb_checkpoint_load(hb_checkpoint **ret, const char *path, hb_error *err)
{
    hb_checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return hb_fail(err, ENOMEM, "out of memory");

    int status = hb_safetensors_load(&c->file, path, err);
    if (!status) {
        const char *found = hb_safetensors_text(c->file, "format");
        if (!found || strcmp(found, format) != 0 || !hb_checkpoint_settings(c))
            status = hb_fail(err, EINVAL, "%s: is no checkpoint of this hilbert-train: format '%s', expected '%s'",
                             path, found ? found : "", format);
    }
    if (!status)
        status = read_whole_number(c->file, "step", 10, &c->step, err);
    if (!status)
        status = read_whole_number(c->file, "data_hash", 16, &c->data_hash, err);
    if (status) {
        hb_checkpoint_free(c);
        return status;
    }
    *ret = c;
    return 0;
}

void hb_checkpoint_free(hb_checkpoint *c)
{
    if (!c)
        return;
    hb_safetensors_free(c->file);
    free(c);
}

const char *hb_checkpoint_settings(const hb_checkpoint *c)
{
    return hb_safetensors_text(c->file, "settings");
}

static int read_tensor(const hb_checkpoint *c, const char *name, size_t n, hb_real *to, hb_error *err)
{
    const hb_tensor *t = hb_safetensors_find(c->file, name);
    size_t found = t ? hb_tensor_count(t) : 0;

    if (found != n)
        return hb_fail(err, EINVAL, "%s: '%s' has %zu numbers, expected %zu", c->file->path, name, found, n);
    return hb_safetensors_reals(c->file, t, to, err);
}

static int read_doubles(const hb_checkpoint *c, const char *name, size_t n, double *to, hb_error *err)
{
    const hb_tensor *t = hb_safetensors_find(c->file, name);
    size_t found = t ? hb_tensor_count(t) : 0;

    if (found != n)
        return hb_fail(err, EINVAL, "%s: '%s' has %zu numbers, expected %zu", c->file->path, name, found, n);
    return hb_safetensors_doubles(c->file, t, to, err);
}

static int read_prior(const hb_checkpoint *c, hb_model *m, hb_error *err)
{
    size_t nb = (size_t)m->nb, nsystems = (size_t)hb_model_nproblems(m);
    int status;

    if ((status = read_doubles(c, "prior_mean", nb * nsystems, m->prior_mean, err)) ||
        (status = read_doubles(c, "prior_covariance", nb * nb * nsystems, m->prior_covariance, err)))
        return status;
    return read_doubles(c, "noise", (size_t)m->nx, m->noise, err);
}

int hb_checkpoint_restore(const hb_checkpoint *c, hb_model *m, hb_trainer_state *t, uint64_t data_hash, hb_error *err)
{
    size_t n = m->nparameters;
    int status;

    if (data_hash != c->data_hash)
        return hb_fail(err, EINVAL,
                       "%s: was made with other data (hash %016" PRIx64 ", now %016" PRIx64
                       "): restore the data set, or "
                       "start over",
                       c->file->path, c->data_hash, data_hash);
    if ((status = read_tensor(c, "parameter", n, m->parameter, err)) ||
        (status = read_tensor(c, "mean", n, t->mean, err)) || (status = read_tensor(c, "square", n, t->square, err)))
        return status;
    if (t->averaged && (status = read_tensor(c, "averaged", n, t->averaged, err)))
        return status;
    t->step = c->step;
    return m->has_prior ? read_prior(c, m, err) : 0;
}
