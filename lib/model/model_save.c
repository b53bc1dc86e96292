/* Model -> basis file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model_layout.h"
#include "model/physics.h"
#include "model/safetensors.h"

/* Metadata under construction. Values are allocated; NULL where that failed. */
typedef struct texts {
    int n;
    hb_text item[HB_NKEYS + HB_NLISTS + HB_WORD_TEXTS + 8];
} texts;

static void add_text(texts *t, const char *key, char *value)
{
    t->item[t->n++] = (hb_text){key, value};
}

/* Items `index[0..n-1]` (NULL: 0..n-1) joined by commas. */
static char *join(int n, char (*name)[HB_NAME_SIZE], const int *index)
{
    char *text = calloc((size_t)n + 1, HB_NAME_SIZE + 1), *end = text;

    for (int i = 0; text && i < n; i++)
        end += sprintf(end, "%s%.*s", i ? "," : "", HB_NAME_SIZE - 1, name[index ? index[i] : i]);
    return text;
}

static bool all_outputs(const hb_model *m)
{
    for (int i = 0; i < m->nx; i++)
        if (!m->output[i])
            return false;
    return true;
}

static bool has_angles(const hb_model *m)
{
    for (int i = 0; i < m->nx; i++)
        if (m->angle[i])
            return true;
    return false;
}

static char *join_chosen(const hb_model *m, const bool *chosen)
{
    int *index = calloc((size_t)m->nx, sizeof *index), n = 0;

    for (int i = 0; index && i < m->nx; i++)
        if (chosen[i])
            index[n++] = i;
    char *text = index ? join(n, m->state_name, index) : NULL;
    free(index);
    return text;
}

static char *nominal_parameters(const hb_model *m)
{
    char *text = NULL, number[HB_NUMBER_TEXT];
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    for (int i = 0; i < m->nominal->nparameters; i++)
        fprintf(out, "%s%s=%s", i ? "," : "", m->nominal->parameter_name[i],
                hb_number_text(m->nominal_parameter[i], number));
    return fclose(out) == 0 ? text : NULL;
}

static char *key_text(const hb_model *m, const hb_key *key)
{
    const void *place = hb_layout_place(m, key->place);
    char number[HB_NUMBER_TEXT];

    if (key->kind == HB_KEY_CHOICE)
        return strdup(key->choices[*(const int *)place]);
    return strdup(hb_number_text(key->kind == HB_KEY_COUNT ? *(const int *)place : *(const double *)place, number));
}

static char *word_forms(const hb_model *m)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    for (int i = 0; i < m->nwords; i++)
        fprintf(out, "%s%s", i ? "," : "", hb_word_form_name[m->word_form[i]]);
    return fclose(out) == 0 ? text : NULL;
}

static void describe(const hb_model *m, texts *t)
{
    add_text(t, "format", strdup(HB_BASIS_FORMAT));
    for (int i = 0; i < HB_NKEYS; i++)
        add_text(t, hb_layout_key[i].name, key_text(m, &hb_layout_key[i]));
    for (int i = 0; i < HB_NLISTS; i++) {
        const hb_list *list = &hb_layout_list[i];
        char(**names)[HB_NAME_SIZE] = hb_layout_place(m, list->place);
        int n = hb_layout_count(m, list->count);
        if (n)
            add_text(t, list->name, join(n, *names, NULL));
    }
    add_text(t, "inputs", join(m->ninputs, m->state_name, m->input));
    if (!all_outputs(m))
        add_text(t, "outputs", join_chosen(m, m->output));
    if (has_angles(m))
        add_text(t, "angles", join_chosen(m, m->angle));
    if (m->nominal) {
        add_text(t, "nominal", strdup(m->nominal->name));
        add_text(t, "nominal_parameters", nominal_parameters(m));
        if (m->nominal->physics)
            add_text(t, "nominal_expressions", strdup(hb_physics_text(m->nominal->physics)));
    }
    if (m->nwords) {
        add_text(t, hb_layout_word_key[0], join(m->nwords, m->word_name, NULL));
        add_text(t, hb_layout_word_key[1], join(m->nwords, m->word_unit, NULL));
        add_text(t, hb_layout_word_key[2], word_forms(m));
    }
    add_text(t, "notes", strdup(m->notes));
}

static bool all_zero(const double *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (value[i] != 0)
            return false;
    return true;
}

static int list_parts(const hb_model *m, const hb_prior_part *part, int n, hb_tensor *tensor)
{
    for (int i = 0; i < n; i++) {
        double **data = hb_layout_place(m, part[i].place);
        tensor[i] = (hb_tensor){.name = part[i].name, .dtype = HB_F64, .rank = part[i].rank, .data = *data};
        memcpy(tensor[i].shape, part[i].shape, sizeof part[i].shape);
    }
    return n;
}

/* Vectors as they are, parameters gathered into `flat`, in the order of the file; returns the number of tensors. */
static int list_tensors(const hb_model *m, const hb_part *parts, int nparts, hb_real *flat, hb_tensor *tensor)
{
    hb_prior_part prior[HB_PRIOR_PARTS], words[HB_WORD_PARTS];
    int n = 0;

    for (int i = 0; i < HB_NVECTORS; i++) {
        const hb_vector *v = &hb_layout_vector[i];
        size_t count = (size_t)hb_layout_count(m, v->count);
        double **data = hb_layout_place(m, v->place);
        if (count && !(v->optional && all_zero(*data, count)))
            tensor[n++] = (hb_tensor){.name = v->name, .dtype = HB_F64, .rank = 1, .shape = {count}, .data = *data};
    }
    hb_layout_prior(m, prior);
    if (m->has_prior)
        n += list_parts(m, prior, HB_PRIOR_PARTS, tensor + n);
    hb_layout_words(m, words);
    if (m->nwords)
        n += list_parts(m, words, HB_WORD_PARTS, tensor + n);
    for (int i = 0; i < nparts; i++) {
        const hb_part *p = &parts[i];
        hb_tensor *t = &tensor[n++];
        *t = (hb_tensor){.name = p->name, .dtype = HB_REAL_DTYPE, .rank = p->rank, .data = flat};
        memcpy(t->shape, p->shape, sizeof p->shape);
        for (size_t k = 0; k < p->blocks; k++, flat += p->length)
            memcpy(flat, m->parameter + p->offset + k * p->stride, p->length * sizeof *flat);
    }
    return n;
}

int hb_model_save(const hb_model *m, const char *path, hb_error *err)
{
    hb_part parts[HB_MAX_PARTS];
    hb_tensor tensor[HB_MAX_PARTS + HB_NVECTORS + HB_PRIOR_PARTS + HB_WORD_PARTS];
    texts t = {0};
    int r = hb_fail_in(err, path, hb_model_check(m, err));

    if (r)
        return r;
    hb_real *flat = malloc((m->nparameters + 1) * sizeof *flat);
    describe(m, &t);
    bool complete = flat;
    for (int i = 0; i < t.n; i++)
        complete = complete && t.item[i].value;

    if (!complete)
        r = hb_fail(err, ENOMEM, "%s: out of memory", path);
    else {
        int ntensors = list_tensors(m, parts, hb_layout_parts(m, parts), flat, tensor);
        hb_safetensors file = {.path = path, .ntensors = ntensors, .tensor = tensor, .ntexts = t.n, .text = t.item};
        r = hb_safetensors_save(&file, err);
    }
    for (int i = 0; i < t.n; i++)
        free((char *)(uintptr_t)t.item[i].value);
    free(flat);
    return r;
}
