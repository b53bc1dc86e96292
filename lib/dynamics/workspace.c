#include "dynamics/workspace.h"

#include <stdlib.h>
#include <string.h>

#include "dynamics/field.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void lay_out(hb_workspace *w, const hb_model *m, bool gradients, hb_arena *arena)
{
    const size_t nx = (size_t)m->nx, nu = (size_t)m->nu, ninputs = (size_t)(m->ninputs + m->nu);
    const size_t all = (size_t)(m->nb + 1) * nx;
    const hb_head head = hb_mlp_head(&m->basis);
    const size_t widest_out = larger(nx, m->basis.nlayers ? (size_t)m->basis.width[m->basis.nlayers] : 0);

    hb_arena_take(arena, 1, sizeof *w);
#define ROWS(count) hb_arena_take(arena, (size_t)(count)*HB_STRIDE, sizeof(hb_real))
    w->input = ROWS(ninputs);
    w->dinput = ROWS(ninputs);
    w->output = ROWS(nx);
    w->base = ROWS(nx);
    w->stage = ROWS(nx);
    w->sum = ROWS(nx);
    w->rate = ROWS(nx);
    w->drate = ROWS(nx);
    w->step = ROWS(1);
    w->x = ROWS(nx);
    w->dx = ROWS(nx);
    w->u = ROWS(nu);
    w->du = ROWS(nu);
    w->nominal = ROWS(m->nominal ? m->nominal->rows : 0);
    w->increment = ROWS(nx);
    w->gradient_z = ROWS(nx);
    w->all = ROWS(larger(all, widest_out));
    w->all_gradient = gradients ? ROWS(larger(all, widest_out)) : NULL;
    w->trunk = ROWS(head.width + 1);
    w->dtrunk = gradients ? ROWS(head.width) : NULL;
#undef ROWS
    w->head = hb_arena_take(arena, nx * (head.width + 1), sizeof(hb_real));
    w->head_bias = w->head ? w->head + nx * head.width : NULL; /* none while the size is being found */
    size_t scratch = 0;
    if (m->basis.nlayers)
        scratch = larger(scratch, hb_network_scratch_size(&m->basis));
    if (m->average_network.nlayers)
        scratch = larger(scratch, hb_network_scratch_size(&m->average_network));
    w->scratch = hb_arena_take(arena, scratch, sizeof(hb_real));
    w->single = hb_arena_take(arena, HB_FEW * ((size_t)hb_padded((int)ninputs) + (size_t)hb_padded((int)widest_out)),
                              sizeof(hb_real));
    w->collapsed_gradient = gradients ? hb_arena_take(arena, m->basis.nparameters, sizeof(hb_real)) : NULL;
    w->term = hb_arena_take(arena, (size_t)m->nb + 2, sizeof *w->term);
    const bool all_at_once = m->architecture == HB_INDEPENDENT && m->integration != HB_SEPARATE;
    w->tape =
        gradients ? hb_arena_take(arena, hb_field_tape_bound(m, &m->basis, all_at_once ? m->nb : 1, true), 1) : NULL;
}

int hb_workspace_new(hb_workspace **ret, const hb_model *m, bool gradients, hb_error *err)
{
    hb_arena arena = {0};
    hb_workspace w = {.kernels = hb_kernels_default()};

    lay_out(&w, m, gradients, &arena);
    const int code = hb_arena_allocate(&arena, err);
    if (code)
        return code;
    lay_out(&w, m, gradients, &arena);
    *ret = memcpy(arena.base, &w, sizeof w);
    return 0;
}

void hb_workspace_free(hb_workspace *w)
{
    free(w); /* the first piece of its block */
}
