/* Several files as one data set: their functions one after another. */
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/numeric.h"
#include "data/dataset.h"

static bool same_names(int n, char (*a)[HB_NAME_SIZE], char (*b)[HB_NAME_SIZE])
{
    for (int i = 0; i < n; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

static int check_header(const hb_dataset_header *a, const char *a_path, const hb_dataset_header *b, const char *b_path,
                        hb_error *err)
{
    if (a->nx != b->nx || a->nu != b->nu || !same_names(a->nx, a->state_name, b->state_name) ||
        !same_names(a->nu, a->control_name, b->control_name))
        return hb_fail(err, EINVAL, "%s: its states or controls are not those of %s", b_path, a_path);
    if (a->dt != b->dt)
        return hb_fail(err, EINVAL, "%s: its period is %g s, that of %s %g s", b_path, b->dt, a_path, a->dt);
    if (a->nhidden != b->nhidden || !same_names(a->nhidden, a->hidden_name, b->hidden_name))
        return hb_fail(err, EINVAL, "%s: its hidden parameters are not those of %s", b_path, a_path);
    if (a->parameters_known != b->parameters_known)
        return hb_fail(err, EINVAL, "the parameters of vehicles are known in one of %s and %s, and hidden in the other",
                       a_path, b_path);
    return 0;
}

/* Joins the sets in their order. Where an earlier set has the same ids, a set is renumbered from the largest id on. */
static void join(hb_dataset *to, hb_dataset **part, int nparts)
{
    int largest = -1;

    to->header = part[0]->header;
    for (int k = 0; k < nparts; k++) {
        const hb_dataset *from = part[k];
        int offset = from->function[0].id <= largest ? largest + 1 - from->function[0].id : 0;
        for (int i = 0; i < from->header.nu; i++) {
            to->header.control_min[i] = fmin(to->header.control_min[i], from->header.control_min[i]);
            to->header.control_max[i] = fmax(to->header.control_max[i], from->header.control_max[i]);
        }
        for (int f = 0; f < from->nfunctions; f++) {
            hb_function *function = &to->function[to->nfunctions + f];
            *function = from->function[f];
            function->id += offset;
            function->episode += to->nepisodes;
            largest = function->id > largest ? function->id : largest;
        }
        for (int e = 0; e < from->nepisodes; e++) {
            hb_episode *episode = &to->episode[to->nepisodes + e];
            *episode = from->episode[e];
            episode->function += to->nfunctions;
        }
        to->nfunctions += from->nfunctions;
        to->nepisodes += from->nepisodes;
        to->ntransitions += from->ntransitions;
    }
    to->hash = hb_dataset_hash(to);
}

/* `parts` is taken over, also after a failure */
static int merge(hb_dataset **ret, hb_dataset **parts, char *const *path, int nparts, hb_error *err)
{
    size_t nfunctions = 0, nepisodes = 0;
    hb_dataset *d = calloc(1, sizeof *d);
    int status = d ? 0 : hb_fail(err, ENOMEM, "out of memory");

    for (int k = 0; k < nparts && !status; k++) {
        status = check_header(&parts[0]->header, path[0], &parts[k]->header, path[k], err);
        nfunctions += (size_t)parts[k]->nfunctions;
        nepisodes += (size_t)parts[k]->nepisodes;
    }
    if (!status) {
        d->function = calloc(nfunctions, sizeof *d->function);
        d->episode = calloc(nepisodes, sizeof *d->episode);
        if (!d->function || !d->episode)
            status = hb_fail(err, ENOMEM, "out of memory");
    }
    if (status) {
        for (int k = 0; k < nparts; k++)
            hb_dataset_free(parts[k]);
        free(parts);
        if (d) {
            free(d->function);
            free(d->episode);
        }
        free(d);
        return status;
    }
    for (int k = 0; k < nparts; k++)
        if (parts[k]->stream)
            hb_stream_limit(parts[k]->stream, HB_STREAM_MEMORY / (size_t)nparts);
    join(d, parts, nparts);
    d->part = parts;
    d->nparts = nparts;
    *ret = d;
    return 0;
}

/* all files that the list names, in its order; those of a pattern by name */
static int expand(const char *list, glob_t *ret, hb_error *err)
{
    char *copy = strdup(list), *save = NULL;
    int status = copy ? 0 : hb_fail(err, ENOMEM, "out of memory"), flags = GLOB_BRACE;

    *ret = (glob_t){0};
    for (char *item = copy ? strtok_r(copy, ",", &save) : NULL; item && !status; item = strtok_r(NULL, ",", &save)) {
        int found = glob(item, flags, NULL, ret);
        flags |= GLOB_APPEND;
        if (found == GLOB_NOMATCH)
            status = hb_fail(err, ENOENT, "%s: no such file", item);
        else if (found)
            status = hb_fail(err, ENOMEM, "%s: out of memory, or a folder cannot be read", item);
    }
    free(copy);
    return status;
}

int hb_dataset_read_many(hb_dataset **ret, const char *list, const hb_dataset_mapping *mapping, hb_error *err)
{
    glob_t files;

    if (access(list, F_OK) == 0)
        return hb_dataset_read(ret, list, mapping, err);
    int status = expand(list, &files, err), n = (int)files.gl_pathc, nread = 0;
    hb_dataset **parts = NULL;

    if (!status && n == 0)
        status = hb_fail(err, ENOENT, "'%s' names no file", list);
    if (!status && n == 1)
        status = hb_dataset_read(ret, files.gl_pathv[0], mapping, err);
    else if (!status) {
        parts = calloc((size_t)n, sizeof *parts);
        if (!parts)
            status = hb_fail(err, ENOMEM, "out of memory");
        while (!status && nread < n &&
               !(status = hb_dataset_read(&parts[nread], files.gl_pathv[nread], mapping, err))) {
            /* all of it was read once, and the next file comes */
            if (parts[nread]->stream)
                hb_stream_give_back(parts[nread]->stream);
            nread++;
        }
        if (!status)
            status = merge(ret, parts, files.gl_pathv, n, err);
        else {
            for (int k = 0; k < nread; k++)
                hb_dataset_free(parts[k]);
            free(parts);
        }
    }
    globfree(&files);
    return status;
}
