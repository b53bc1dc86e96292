#include "sim/mujoco.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/yaml_file.h"
#include "sim/xml_files.h"

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

/* ---- files ---- */

/* A cube with an edge of 2 cm, as the text of an OBJ file and as triangles. */
static const signed char corner[8][3] = {{-1, -1, -1}, {1, -1, -1}, {1, 1, -1}, {-1, 1, -1},
                                         {-1, -1, 1},  {1, -1, 1},  {1, 1, 1},  {-1, 1, 1}};
static const unsigned char triangle[12][3] = {{0, 2, 1}, {0, 3, 2}, {4, 5, 6}, {4, 6, 7}, {0, 1, 5}, {0, 5, 4},
                                              {1, 2, 6}, {1, 6, 5}, {2, 3, 7}, {2, 7, 6}, {3, 0, 4}, {3, 4, 7}};
static const float half_edge = 0.01f; /* metres, before the mesh's scale */

static size_t cube_stl(char *to)
{
    const size_t size = 84 + 12 * 50;

    memset(to, 0, size);
    to[80] = 12;
    for (int t = 0; t < 12; t++)
        for (int k = 0; k < 9; k++) {
            const float value = half_edge * (float)corner[triangle[t][k / 3]][k % 3];
            memcpy(to + 84 + 50 * t + 12 + 4 * k, &value, sizeof value);
        }
    return size;
}

static size_t cube_obj(char *to, size_t size)
{
    size_t n = 0;

    for (int i = 0; i < 8; i++)
        n += (size_t)snprintf(to + n, size - n, "v %g %g %g\n", (double)half_edge * corner[i][0],
                              (double)half_edge * corner[i][1], (double)half_edge * corner[i][2]);
    for (int t = 0; t < 12; t++)
        n += (size_t)snprintf(to + n, size - n, "f %d %d %d\n", triangle[t][0] + 1, triangle[t][1] + 1,
                              triangle[t][2] + 1);
    return n;
}

/* One grey pixel. */
static size_t grey_png(char *to)
{
    static const unsigned char png[] = {
        0x89, 'P',  'N',  'G', '\r', '\n', 0x1a, '\n', 0,    0,    0,    13,   'I',  'H',  'D',  'R',  0,    0,
        0,    1,    0,    0,   0,    1,    8,    2,    0,    0,    0,    0x90, 0x77, 0x53, 0xde, 0,    0,    0,
        12,   'I',  'D',  'A', 'T',  0x78, 0x9c, 0x63, 0x68, 0x68, 0x68, 0x00, 0x00, 0x03, 0x04, 0x01, 0x81, 0x4b,
        0xd3, 0xd2, 0x10, 0,   0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};

    memcpy(to, png, sizeof png);
    return sizeof png;
}

static char *read_text(const char *path)
{
    FILE *in;
    char *text = NULL;
    size_t size = 0;

    if (hb_open_regular(&in, path, NULL))
        return NULL;
    if (getdelim(&text, &size, 0, in) < 0) {
        free(text);
        text = NULL;
    }
    fclose(in);
    return text;
}

/* The compiler does not name a picture that is missing: grey for all that a file, and those that it includes, speak of.
 * Returns how many it had none for. */
static int grey_pictures(mjVFS *vfs, const char *path, int depth, char *missing, size_t size)
{
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) + 1 : 0;
    char *text = depth < 4 ? read_text(path) : NULL, name[mjMAXVFSNAME], file[2048];
    int n = 0;

    for (char *at = text ? strstr(text, "file=\"") : NULL; at; at = strstr(at + 1, "file=\"")) {
        char *end = strchr(at + 6, '"');
        if (!end || end - at >= (long)sizeof name)
            break;
        snprintf(name, sizeof name, "%.*s", (int)(end - at - 6), at + 6);
        const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name, *dot = strrchr(base, '.');
        if (dot && strcasecmp(dot, ".png") == 0 && mj_findFileVFS(vfs, base) < 0) {
            const size_t bytes = grey_png(file);
            if (mj_makeEmptyFileVFS(vfs, base, (int)bytes) == 0) {
                memcpy(vfs->filedata[mj_findFileVFS(vfs, base)], file, bytes);
                snprintf(missing, size, "%s", name);
                n++;
            }
        } else if (dot && strcasecmp(dot, ".xml") == 0) {
            snprintf(file, sizeof file, "%.*s%s", folder, path, name);
            n += grey_pictures(vfs, file, depth + 1, missing, size);
        }
    }
    free(text);
    return n;
}

/* Puts a stand-in for the file that a message of the compiler misses into vfs; false: it misses none. */
static bool stand_in(mjVFS *vfs, const char *path, const char *message, char *missing, size_t size)
{
    const char *open = strchr(message, '\''), *close = open ? strchr(open + 1, '\'') : NULL;
    const bool misses = strstr(message, "ould not open") || strstr(message, "annot open") ||
                        strstr(message, "rror opening") || strstr(message, "ould not load") ||
                        strstr(message, "rror loading");
    char name[mjMAXVFSNAME], file[2048];
    size_t n = 0;

    if (strstr(message, "PNG file load error"))
        return grey_pictures(vfs, path, 0, missing, size) > 0;
    if (!misses || !close || close - open >= (long)sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(close - open - 1), open + 1);
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name, *dot = strrchr(base, '.');
    if (dot && strcasecmp(dot, ".stl") == 0)
        n = cube_stl(file);
    else if (dot && strcasecmp(dot, ".obj") == 0)
        n = cube_obj(file, sizeof file);
    else if (dot && strcasecmp(dot, ".png") == 0)
        n = grey_png(file);
    if (n == 0 || access(name, R_OK) == 0 || mj_makeEmptyFileVFS(vfs, base, (int)n) != 0)
        return false;
    memcpy(vfs->filedata[mj_findFileVFS(vfs, base)], file, n);
    snprintf(missing, size, "%s", name);
    return true;
}

/* MuJoCo forgets the lines of files that are included: looks for the word in quotation marks of its message there.
 * place becomes FILE:LINE. */
static bool find_in_includes(const char *path, const char *message, char *place, size_t size)
{
    const char *open = strchr(message, '\''), *close = open ? strchr(open + 1, '\'') : NULL;
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) + 1 : 0;
    char word[80], file[2048];
    bool found = false;

    if (!close || close - open >= (long)sizeof word)
        return false;
    snprintf(word, sizeof word, "%.*s", (int)(close - open - 1), open + 1);
    char *text = *word ? read_text(path) : NULL;
    for (char *at = text ? strstr(text, "<include") : NULL; at && !found; at = strstr(at + 1, "<include")) {
        char *name = strstr(at, "file=\""), *end = name ? strchr(name + 6, '"') : NULL;
        if (!end)
            break;
        snprintf(file, sizeof file, "%.*s%.*s", folder, path, (int)(end - name - 6), name + 6);
        char *included = read_text(file), *where = included ? strstr(included, word) : NULL;
        int line = 1;
        for (char *c = included; where && c < where; c++)
            line += *c == '\n';
        found = where != NULL;
        if (found)
            snprintf(place, size, "%s:%d", file, line);
        free(included);
    }
    free(text);
    return found;
}

/* "FILE:LINE: text" of the compiler's message, whose line stands in one of several forms. */
static int explain(const char *path, const char *message, hb_error *err)
{
    static const char *const form[] = {"line = ", "Line number=", "line "};
    char text[400], place[2100], *to = text;
    long line = 0;

    for (size_t i = 0; i < sizeof form / sizeof *form && line <= 0; i++) {
        const char *at = strstr(message, form[i]);
        line = at ? strtol(at + strlen(form[i]), NULL, 10) : 0;
    }
    for (const char *c = message; *c && to < text + sizeof text - 1; c++)
        if (*c != '\n')
            *to++ = *c;
        else if (to > text && to[-1] != ' ' && c[1] && c[1] != '\n')
            *to++ = ' ';
    *to = 0;
    /* what files for later versions may have */
    if (strstr(text, "invalid keyword") || strstr(text, "unrecognized"))
        snprintf(to, sizeof text - (size_t)(to - text), " (this is MuJoCo %s)", mj_versionString());
    if (access(path, R_OK))
        return hb_fail(err, ENOENT, "%s: %s", path, strerror(errno));
    if (line > 0)
        return hb_fail(err, EINVAL, "%s:%ld: %s", path, line, *text ? text : "cannot be loaded");
    if (find_in_includes(path, message, place, sizeof place))
        return hb_fail(err, EINVAL, "%s: %s", place, text);
    return hb_fail(err, EINVAL, "%s: %s", path, *text ? text : "cannot be loaded");
}

/* Numbers that MuJoCo takes and no physics can have: it would start over for ever. */
static int check_numbers(const hb_mujoco *m, const char *path, hb_error *err)
{
    if (!(m->model->opt.timestep > 0))
        return hb_fail(err, EINVAL, "%s: option timestep is %g s, expected more than 0", path, m->model->opt.timestep);
    for (int i = 0; i < m->model->nu; i++)
        m->data->ctrl[i] = 1; /* zero times what is no number may be left out */
    mj_forward(m->model, m->data);
    for (int i = 0; i < m->model->nv; i++)
        if (!isfinite(m->data->qacc[i]) || !isfinite(m->data->qfrc_actuator[i])) {
            const char *name = mj_id2name(m->model, mjOBJ_JOINT, m->model->dof_jntid[i]);
            return hb_fail(err, EINVAL,
                           "%s: the acceleration of joint '%s' is not finite in the model's own pose: is a "
                           "number of its actuators, bodies or geoms none?",
                           path, name ? name : "");
        }
    mj_resetData(m->model, m->data);
    return 0;
}

int hb_mujoco_load_file(hb_mujoco *ret, const char *path, int *ret_missing, char *missing, size_t size, hb_error *err)
{
    enum { MOST = 1000 }; /* stand-ins */
    char message[1000] = "", name[mjMAXVFSNAME];
    mjVFS *vfs = malloc(sizeof *vfs);
    mjModel *model = NULL;
    int n = 0;

    int status = vfs ? hb_xml_files_check(path, err) : hb_fail(err, ENOMEM, "out of memory");
    if (status) {
        free(vfs);
        return status;
    }
    pthread_once(&once, install_handlers);
    mj_defaultVFS(vfs);
    *missing = 0;
    pthread_mutex_lock(&parser);
    while (!(model = mj_loadXML(path, vfs, message, sizeof message)) && n < MOST &&
           stand_in(vfs, path, message, name, sizeof name))
        if (n++ == 0)
            snprintf(missing, size, "%s", name);
    mj_freeLastXML();
    pthread_mutex_unlock(&parser);
    mj_deleteVFS(vfs);
    free(vfs);
    if (!model)
        return explain(path, message, err);
    /* frames are drawn at this size at least */
    model->vis.global.offwidth = model->vis.global.offwidth > 640 ? model->vis.global.offwidth : 640;
    model->vis.global.offheight = model->vis.global.offheight > 480 ? model->vis.global.offheight : 480;
    mjData *data = mj_makeData(model);
    if (!data) {
        mj_deleteModel(model);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    *ret = (hb_mujoco){model, data};
    *ret_missing = n;
    status = check_numbers(ret, path, err);
    if (status)
        hb_mujoco_free(ret);
    return status;
}

/* ---- text ---- */

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
