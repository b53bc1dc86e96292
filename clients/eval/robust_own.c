/* Conditions of one's own, beside the tables of robust_rows.c and robust_tasks.c; and which rows a list names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "eval/robust.h"

/* "NAME: WEATHER"; the name has no '=' in it, a weather has ranges with a ':' */
static int add(hb_robust_own *own, const char *text, hb_error *err)
{
    size_t n = strcspn(text, ":="), at = n;

    if (text[n] != ':' || n == 0 || n >= sizeof own->name[0])
        return hb_fail(
            err, EINVAL,
            "condition '%s': expected NAME:WEATHER, with a weather as of hilbert-sim, or a file of such lines", text);
    for (at++; text[at] == ' ' || text[at] == '\t';)
        at++;
    if (own->n == HB_ROBUST_OWN)
        return hb_fail(err, EINVAL, "condition '%s': there are %d already", text, HB_ROBUST_OWN);
    if (strlen(text + at) >= sizeof own->weather[0])
        return hb_fail(err, EINVAL, "condition '%.*s': longer than %zu characters", (int)n, text,
                       sizeof own->weather[0] - 1);
    snprintf(own->name[own->n], sizeof own->name[0], "%.*s", (int)n, text);
    snprintf(own->weather[own->n], sizeof own->weather[0], "%s", text + at);
    for (int i = 0; i < own->n; i++)
        if (strcmp(own->name[i], own->name[own->n]) == 0)
            return hb_fail(err, EINVAL, "condition '%s': there are two of that name", own->name[i]);
    own->n++;
    return 0;
}

static int add_file(hb_robust_own *own, const char *path, hb_error *err)
{
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    int status = in ? 0 : hb_fail(err, errno, "%s: %s", path, strerror(errno));

    while (!status && (length = getline(&line, &size, in)) >= 0) {
        while (length > 0 && strchr("\n\r\t ", line[length - 1]))
            line[--length] = '\0';
        if (length > 0 && line[0] != '#')
            status = add(own, line, err);
    }
    free(line);
    if (in)
        fclose(in);
    return status;
}

int hb_robust_own_read(void *context, const char *text, hb_error *err)
{
    struct stat found;

    if (stat(text, &found) == 0 && S_ISREG(found.st_mode))
        return add_file(context, text, err);
    return add(context, text, err);
}

int hb_robust_own_settle(hb_robust_own *own, const hb_plant_type *plant, hb_error *err)
{
    for (int i = 0; i < own->n; i++) {
        double low[HB_PLANT_PARAMETERS], high[HB_PLANT_PARAMETERS];
        hb_link link = {0};
        hb_error why = {0};

        for (int k = 0; hb_robust_row_at(k); k++)
            if (strcmp(hb_robust_row_at(k)->name, own->name[i]) == 0)
                return hb_fail(err, EINVAL, "condition '%s': robust has one of that name", own->name[i]);
        for (int k = 0; k < plant->nparameters; k++)
            low[k] = high[k] = plant->parameter[k].nominal;
        if (hb_weather_read(plant, own->weather[i], low, high, &link, &why))
            return hb_fail(err, EINVAL, "condition '%s': %.300s", own->name[i], why.text);
        own->row[i] =
            (hb_robust_row){.name = own->name[i], .help = own->weather[i], .plant = plant, .weather = own->weather[i]};
    }
    return 0;
}

/* What a configuration can do something about: no rates of requests, and nothing that is lost in any case. */
static bool tells_of_weights(const hb_robust_row *row)
{
    return row->groups & (row->plant == &hb_plant_quadrotor ? HB_ROBUST_CONDITION : HB_ROBUST_TASK) && !row->slow &&
           row->rotor_step == 0 && row->ramp == HB_RAMP_NONE;
}

static bool is_named(const hb_robust_row *row, const char *name)
{
    static const struct {
        const char *name;
        unsigned group;
    } groups[] = {{"conditions", HB_ROBUST_CONDITION}, {"tasks", HB_ROBUST_TASK}, {"quick", HB_ROBUST_QUICK}};

    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(groups[i].name, name) == 0 && row->groups & groups[i].group)
            return true;
    return strcmp(row->name, name) == 0 || (strcmp(name, "robust") == 0 && tells_of_weights(row));
}

int hb_robust_select(const char *list, const hb_plant_type *plant, const hb_robust_own *own, const hb_robust_row **row,
                     int *ret_n, char *unknown, size_t size)
{
    int n = 0;

    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        bool known = false;
        snprintf(unknown, size, "%.*s", (int)length, at);
        for (int i = 0;; i++) {
            int shipped = i - (own ? own->n : 0);
            const hb_robust_row *r = shipped < 0 ? &own->row[i] : hb_robust_row_at(shipped);
            bool taken = false;
            if (!r)
                break;
            if (!is_named(r, unknown))
                continue;
            known = true;
            for (int k = 0; k < n; k++)
                taken = taken || row[k] == r;
            if (!taken && (!plant || plant == r->plant) && n < HB_ROBUST_ROWS)
                row[n++] = r;
        }
        if (!known)
            return -EINVAL;
        at += length;
        at += *at == ',';
    }
    *ret_n = n;
    return 0;
}
