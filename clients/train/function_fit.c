#include "train/function_fit.h"

#include <errno.h>
#include <stdlib.h>

#include "data/sampler.h"

struct hb_function_fit {
    hb_fit *fit;
    hb_workspace *workspace;
    hb_sampler *sampler;
    hb_points points;
    void *memory; /* of the points */
};

int hb_function_fit_new(hb_function_fit **ret, const hb_model *m, const hb_dataset *d, int examples, int refinements,
                        hb_error *err)
{
    hb_function_fit *f = calloc(1, sizeof *f);
    hb_arena arena = {0};
    int status;

    if (!f)
        return hb_fail(err, ENOMEM, "out of memory");
    hb_points_lay_out(&f->points, m->nx, m->nu, examples, 1, &arena);
    if ((status = hb_arena_allocate(&arena, err)) ||
        (status = hb_fit_new(&f->fit, m, examples, refinements, false, err)) ||
        (status = hb_workspace_new(&f->workspace, m, false, err)) ||
        (status = hb_sampler_new(&f->sampler, d, m, 1, err))) {
        free(arena.base);
        hb_function_fit_free(f);
        return status;
    }
    hb_points_lay_out(&f->points, m->nx, m->nu, examples, 1, &arena);
    f->memory = arena.base;
    *ret = f;
    return 0;
}

void hb_function_fit_free(hb_function_fit *f)
{
    if (!f)
        return;
    hb_sampler_free(f->sampler);
    hb_workspace_free(f->workspace);
    hb_fit_free(f->fit);
    free(f->memory);
    free(f);
}

int hb_function_fit_use_prior(hb_function_fit *f, hb_error *err)
{
    return hb_fit_use_prior(f->fit, err);
}

hb_fit *hb_function_fit_run(hb_function_fit *f, int function, hb_random_key key, uint64_t index)
{
    hb_sampler_draw(f->sampler, function, 0, hb_sampler_count(f->sampler, function), key, index, &f->points);
    return hb_fit_evaluate(f->fit, f->workspace, &f->points) ? NULL : f->fit;
}
