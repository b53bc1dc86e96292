#include "sim/mujoco.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* MuJoCo keeps the last parsed XML in a global: one parser at a time */
static pthread_mutex_t parser = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* out of memory or a broken invariant inside the engine: there is no way to continue */
static void engine_error(const char *text)
{
    fprintf(stderr, "hilbert-sim: MuJoCo: %s\n", text);
    exit(1);
}

/* counted in mjData.warning as well, where hb_mujoco_failure reads it */
static void engine_warning(const char *text)
{
    (void)text;
}

static void install_handlers(void)
{
    mju_user_error = engine_error;
    mju_user_warning = engine_warning;
}

static mjModel *parse(const char *name, const char *xml, hb_error *err)
{
    size_t size = strlen(xml);
    char file[64], message[300] = "";
    mjVFS *vfs = malloc(sizeof *vfs);
    mjModel *model = NULL;

    snprintf(file, sizeof file, "%s.xml", name);
    if (!vfs) {
        hb_fail(err, ENOMEM, "out of memory");
        return NULL;
    }
    mj_defaultVFS(vfs);
    if (mj_makeEmptyFileVFS(vfs, file, (int)size) == 0) {
        memcpy(vfs->filedata[mj_findFileVFS(vfs, file)], xml, size);
        model = mj_loadXML(file, vfs, message, sizeof message);
        mj_freeLastXML();
    }
    mj_deleteVFS(vfs);
    free(vfs);
    if (!model)
        hb_fail(err, EINVAL, "%s: %s", file, message[0] ? message : "cannot be loaded");
    return model;
}

int hb_mujoco_load(hb_mujoco *ret, const char *name, const char *xml, hb_error *err)
{
    pthread_once(&once, install_handlers);
    pthread_mutex_lock(&parser);
    mjModel *model = parse(name, xml, err);
    pthread_mutex_unlock(&parser);
    if (!model)
        return -EINVAL;
    ret->model = model;
    ret->data = mj_makeData(model);
    return 0;
}

void hb_mujoco_free(hb_mujoco *m)
{
    if (m->data)
        mj_deleteData(m->data);
    if (m->model)
        mj_deleteModel(m->model);
    *m = (hb_mujoco){0};
}

int hb_mujoco_steps(hb_mujoco *m, double dt, double step)
{
    int n = (int)fmax(1, round(dt / step));

    m->model->opt.timestep = dt / n;
    return n;
}

const char *hb_mujoco_failure(const hb_mujoco *m)
{
    static const struct {
        int id;
        const char *text;
    } fatal[] = {
        {mjWARN_BADQPOS, "the simulation broke down (position not finite)"},
        {mjWARN_BADQVEL, "the simulation broke down (velocity not finite)"},
        {mjWARN_BADQACC, "the simulation broke down (acceleration not finite)"},
    };

    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (m->data->warning[fatal[i].id].number > 0)
            return fatal[i].text;
    return NULL;
}

/* One term of a placeholder: factors joined by '*'. */
static int term(const char **text, int n, const char *const *name, const double *value, double *ret, hb_error *err)
{
    double product = 1;

    for (;; (*text)++) {
        char *end;
        double number = strtod(*text, &end);
        if (end != *text) {
            product *= number;
        } else {
            size_t length = strcspn(*text, "*+}");
            int i = 0;
            while (i < n && (strlen(name[i]) != length || strncmp(name[i], *text, length) != 0))
                i++;
            if (i == n)
                return hb_fail(err, EINVAL, "MJCF: unknown parameter '%.*s'", (int)length, *text);
            product *= value[i];
            end = (char *)(uintptr_t)(*text + length);
        }
        *text = end;
        if (**text != '*')
            break;
    }
    *ret = product;
    return 0;
}

char *hb_mujoco_expand(const char *xml, int n, const char *const *name, const double *value, hb_error *err)
{
    char *out = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&out, &size);
    int status = stream ? 0 : hb_fail(err, ENOMEM, "out of memory");

    for (const char *c = xml; !status && *c; c++) {
        if (*c != '{') {
            fputc(*c, stream);
            continue;
        }
        double sum = 0, product = 0;
        do {
            c++;
            status = term(&c, n, name, value, &product, err);
            sum += product;
        } while (!status && *c == '+');
        if (!status && *c != '}')
            status = hb_fail(err, EINVAL, "MJCF: a placeholder is not closed near '%.20s'", c);
        if (!status)
            fprintf(stream, "%.9g", sum);
    }
    if (stream)
        fclose(stream);
    if (status) {
        free(out);
        return NULL;
    }
    return out;
}
