/* HDF5 in Minari's layout -> hb_dataset. The file is data from outside: everything is checked before it is used.
 *
 * The set is one block of memory: sizes are read and checked first, then the block is laid out, then numbers are read
 * straight into their places. */
#include "data/dataset.h"

#include <errno.h>
#include <hdf5.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/numeric.h"

enum { MAX_COLUMNS = 4096, MAX_HIDDEN = 256 };

typedef struct raw_episode {
    int id, function, nsteps;
    bool irregular;
    char path[32]; /* "episode_N" */
} raw_episode;

/* A file being read: what is known before memory is laid out. */
typedef struct reading {
    const char *path;
    hid_t file;
    hb_dataset_mapping mapping;
    const char *observations, *actions; /* paths in an episode's group */
    bool no_actions;
    int file_nx, file_nu; /* columns in the file */
    int nx, nu;           /* columns taken */
    int *state_column, *control_column;
    int nepisodes;
    raw_episode *episode;
    int nhidden;
    char hidden_name[MAX_HIDDEN][HB_NAME_SIZE];
    double dt; /* 0: not given */
    hb_stream *stream;
    hid_t inside;  /* how paths are followed: never out of this file */
    bool left_out; /* a link that leads out of it was met */
    hb_error *err;
} reading;

#define FAIL(r, format, ...) hb_fail((r)->err, EINVAL, "%s: " format, (r)->path, __VA_ARGS__)

/* ---- mapping ---- */

const char hb_dataset_map_help[] =
    "dt=SECONDS           time from row to row\n"
    "functions=one        the whole file is one dynamics\n"
    "functions=episode    every episode is a dynamics of its own\n"
    "functions=attribute:NAME  an integer attribute of the episode names the dynamics (default: function)\n"
    "observations=PATH    data set in the episode's group (default: observations)\n"
    "actions=PATH         the same for actions (default: actions); none: there are no controls\n"
    "states=A,B,-,...     names of the observation's columns, - drops one\n"
    "controls=A,B,...     names of the action's columns, - drops one\n";

static int take_text(char *field, size_t size, const char *value, hb_error *err)
{
    if (strlen(value) >= size)
        return hb_fail(err, EINVAL, "'%.40s...' is too long: at most %zu characters", value, size - 1);
    memcpy(field, value, strlen(value) + 1);
    return 0;
}

static int map_functions(hb_dataset_mapping *m, const char *value, hb_error *err)
{
    if (strcmp(value, "one") == 0) {
        m->functions = HB_FUNCTIONS_ONE;
    } else if (strcmp(value, "episode") == 0) {
        m->functions = HB_FUNCTIONS_EPISODE;
    } else if (strncmp(value, "attribute:", 10) == 0 && value[10]) {
        m->functions = HB_FUNCTIONS_ATTRIBUTE;
        return take_text(m->function_attribute, sizeof m->function_attribute, value + 10, err);
    } else {
        return hb_fail(err, EINVAL, "functions=%s: expected one, episode or attribute:NAME", value);
    }
    return 0;
}

int hb_dataset_map(hb_dataset_mapping *m, const char *assignment, hb_error *err)
{
    const char *value = strchr(assignment, '=');
    if (!value)
        return hb_fail(err, EINVAL, "'%s': expected KEY=VALUE", assignment);
    size_t length = (size_t)(value - assignment);
    value++;

    if (length == 2 && strncmp(assignment, "dt", length) == 0) {
        char *end;
        double dt = strtod(value, &end);
        if (end == value || *end || !(dt > 0) || isinf(dt))
            return hb_fail(err, EINVAL, "dt=%s: expected seconds above 0", value);
        m->dt = dt;
        return 0;
    }
    if (length == 9 && strncmp(assignment, "functions", length) == 0)
        return map_functions(m, value, err);
    if (length == 12 && strncmp(assignment, "observations", length) == 0)
        return take_text(m->observations, sizeof m->observations, value, err);
    if (length == 7 && strncmp(assignment, "actions", length) == 0)
        return take_text(m->actions, sizeof m->actions, value, err);
    if (length == 6 && strncmp(assignment, "states", length) == 0)
        return take_text(m->states, sizeof m->states, value, err);
    if (length == 8 && strncmp(assignment, "controls", length) == 0)
        return take_text(m->controls, sizeof m->controls, value, err);
    return hb_fail(err, EINVAL,
                   "unknown key in '%s': expected dt, functions, observations, actions, states or controls",
                   assignment);
}

/* ---- what lies in the file itself ---- */

/* Whoever sends a file must not choose which other files are read: links out of it are not followed. */
static herr_t refuse_external_link(const char *parent_file, const char *parent_group, const char *child_file,
                                   const char *child, unsigned *flags, hid_t access, void *context)
{
    (void)parent_file, (void)parent_group, (void)child_file, (void)child, (void)flags, (void)access;
    ((reading *)context)->left_out = true;
    return -1;
}

static bool is_plain_text(const char *text)
{
    return !hb_dataset_control_character(text);
}

/* What data sets and groups go through on their way from the file. One pass of gzip makes 1032 bytes of one at most; a
 * second pass makes a million, before anything could look at their number. Other filters bring sizes of their own. */
static int check_filters(reading *r, hid_t properties, const char *episode, const char *name)
{
    int gzip = 0;

    for (int i = 0, n = H5Pget_nfilters(properties); i < n; i++) {
        unsigned flags;
        size_t nvalues = 0;
        const H5Z_filter_t filter = H5Pget_filter2(properties, (unsigned)i, &flags, &nvalues, NULL, 0, NULL, NULL);
        gzip += filter == H5Z_FILTER_DEFLATE;
        if (gzip > 1 ||
            (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32))
            return FAIL(r,
                        "%s%s%s is packed by filter %d: gzip (1, once), shuffle (2) and fletcher32 (3) are read "
                        "(h5repack --filter=GZIP=4 OLD NEW)",
                        episode, *name ? "/" : "", name, (int)filter);
    }
    return 0;
}

/* Groups are not packed by anyone who records. Before it is looked into. */
static int check_group(reading *r, hid_t group, const char *episode)
{
    hid_t properties = H5Gget_create_plist(group);
    int status = properties < 0 ? FAIL(r, "%s cannot be read", episode) : check_filters(r, properties, episode, "");

    H5Pclose(properties);
    return status;
}

/* A file of a few kilobytes may claim any number of rows: chunks that were never written are made up from a fill value,
 * and filters may be stacked. Beyond what one pass of gzip can gain it is no recording. */
static int check_storage(reading *r, hid_t set, const char *episode, const char *name, double values)
{
    enum { PLAIN = 64 << 20, DENSEST = 1100 }; /* bytes that are always taken; gzip gains 1032 at most */
    hid_t properties = H5Dget_create_plist(set), type = H5Dget_type(set);
    H5D_layout_t layout = H5Pget_layout(properties);
    hsize_t piece[2] = {1, 1};
    const int packed = check_filters(r, properties, episode, name);
    double stored = (double)H5Dget_storage_size(set), bytes = values * sizeof(double), chunk = 0;
    int external = H5Pget_external_count(properties);

    if (layout == H5D_CHUNKED && H5Pget_chunk(properties, 2, piece) > 0)
        chunk = (double)piece[0] * (double)piece[1] * (double)H5Tget_size(type);
    H5Tclose(type);
    H5Pclose(properties);
    if (packed)
        return packed;
    if (external != 0 || layout == H5D_VIRTUAL)
        return FAIL(r,
                    "%s/%s has its numbers in other files: only what is in this file is read (h5repack makes one of "
                    "them)",
                    episode, name);
    if (values > 0 && stored == 0)
        return FAIL(r, "%s/%s was never written", episode, name);
    const bool beyond = chunk > bytes; /* a piece is read whole, though most of it lies outside */
    bytes = fmax(bytes, chunk);
    if (bytes > PLAIN && (beyond || bytes > DENSEST * stored))
        return FAIL(r, "%s/%s claims %.3g MB of numbers and stores %.3g MB of them: most were never written", episode,
                    name, bytes * 1e-6, stored * 1e-6);
    return 0;
}

/* ---- attributes ---- */

/* Numbers of an attribute, any integer or floating type. Returns 1 when there is no such attribute. */
static int read_numbers_attribute(reading *r, hid_t object, const char *where, const char *name, int n, double *ret)
{
    if (H5Aexists(object, name) <= 0)
        return 1;
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    H5T_class_t kind = H5Tget_class(type);
    hssize_t points = H5Sget_simple_extent_npoints(space);
    int bad = 0;

    if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || points != n)
        bad = FAIL(r, "%s: attribute %s: expected %d number%s, found %lld of another shape or type", where, name, n,
                   n == 1 ? "" : "s", (long long)points);
    else if (H5Aread(attribute, H5T_NATIVE_DOUBLE, ret) < 0)
        bad = FAIL(r, "%s: attribute %s cannot be read", where, name);
    for (int i = 0; !bad && i < n; i++)
        if (!isfinite(ret[i]))
            bad = FAIL(r, "%s: attribute %s: element %d is not a finite number", where, name, i);
    H5Tclose(type);
    H5Sclose(space);
    H5Aclose(attribute);
    return bad;
}

static int read_integer_attribute(reading *r, hid_t object, const char *where, const char *name, int *ret)
{
    double value;
    int status = read_numbers_attribute(r, object, where, name, 1, &value);

    if (status)
        return status;
    if (value < 0 || value > INT_MAX || value != floor(value))
        return FAIL(r, "%s: attribute %s is %g, expected an integer from 0 to %d", where, name, value, INT_MAX);
    *ret = (int)value;
    return 0;
}

static int copy_name(reading *r, const char *name, const char *text, size_t length, char *ret)
{
    length = strnlen(text, length);
    if (length >= HB_NAME_SIZE)
        return FAIL(r, "attribute %s: a text is longer than %d characters", name, HB_NAME_SIZE - 1);
    memcpy(ret, text, length);
    ret[length] = 0;
    if (!is_plain_text(ret)) /* names are shown on terminals */
        return FAIL(r, "attribute %s: a text contains a control character", name);
    return 0;
}

/* Text of a root attribute, fixed or variable length, n strings. Returns 1 when there is no such attribute. */
static int read_text_attribute(reading *r, const char *name, int n, char (*ret)[HB_NAME_SIZE])
{
    if (H5Aexists(r->file, name) <= 0)
        return 1;
    hid_t attribute = H5Aopen(r->file, name, H5P_DEFAULT);
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute), memory = H5Tcopy(H5T_C_S1);
    hssize_t points = H5Sget_simple_extent_npoints(space);
    bool is_text = H5Tget_class(type) == H5T_STRING, variable = is_text && H5Tis_variable_str(type) > 0;
    size_t size = is_text && !variable ? H5Tget_size(type) + 1 : sizeof(char *);
    char *buffer = NULL;
    int bad = 0;

    if (!is_text || points != n)
        bad = FAIL(r, "attribute %s: expected %d string%s, found %lld of another shape or type", name, n,
                   n == 1 ? "" : "s", (long long)points);
    else if (size > 65536 || !(buffer = calloc((size_t)n, size)))
        bad = FAIL(r, "attribute %s: strings of %zu bytes are too long", name, size);
    if (!bad) {
        H5Tset_size(memory, variable ? H5T_VARIABLE : size);
        H5Tset_cset(memory, H5Tget_cset(type));
        if (H5Aread(attribute, memory, buffer) < 0)
            bad = FAIL(r, "attribute %s cannot be read", name);
        for (int i = 0; !bad && i < n; i++) {
            const char *text = variable ? ((char **)(void *)buffer)[i] : buffer + (size_t)i * size;
            bad = copy_name(r, name, text ? text : "", variable ? SIZE_MAX : size, ret[i]);
        }
        if (variable && buffer)
            H5Dvlen_reclaim(memory, space, H5P_DEFAULT, buffer);
    }
    free(buffer);
    H5Tclose(memory);
    H5Tclose(type);
    H5Sclose(space);
    H5Aclose(attribute);
    return bad;
}

/* ---- shapes ---- */

/* Rows and columns of a numeric data set of one or two dimensions. */
static int read_shape(reading *r, hid_t group, const char *episode, const char *name, int *rows, int *columns)
{
    /* every link of the path must exist: H5Lexists fails on a missing parent, which is as good a no */
    if (H5Lexists(group, name, r->inside) <= 0 && !r->left_out)
        return FAIL(r, "%s: there is no '%s': is this Minari's layout? (a mapping can name another path)", episode,
                    name);
    hid_t set = H5Oopen(group, name, r->inside);
    if (r->left_out)
        return FAIL(r, "%s/%s is a link to another file: only what is in this file is read", episode, name);
    if (set < 0 || H5Iget_type(set) != H5I_DATASET) {
        if (set >= 0)
            H5Oclose(set);
        return FAIL(r, "%s/%s is not a data set (of a dictionary, map one: observations=%s/NAME)", episode, name, name);
    }
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    H5T_class_t kind = H5Tget_class(type);
    int rank = H5Sget_simple_extent_ndims(space), bad = 0;
    hsize_t size[2] = {0, 1};

    if (kind != H5T_INTEGER && kind != H5T_FLOAT)
        bad = FAIL(r, "%s/%s does not hold numbers", episode, name);
    else if (rank != 1 && rank != 2)
        bad = FAIL(r, "%s/%s has %d dimensions, expected rows and columns", episode, name, rank);
    if (!bad) {
        H5Sget_simple_extent_dims(space, size, NULL);
        if (size[0] > INT_MAX / 2 || size[1] > MAX_COLUMNS)
            bad = FAIL(r, "%s/%s: %llu x %llu is too large (at most %d x %d)", episode, name,
                       (unsigned long long)size[0], (unsigned long long)size[1], INT_MAX / 2, MAX_COLUMNS);
        else
            bad = check_storage(r, set, episode, name, (double)size[0] * (double)size[1]);
    }
    H5Tclose(type);
    H5Sclose(space);
    H5Oclose(set);
    if (bad)
        return bad;
    *rows = (int)size[0];
    *columns = (int)size[1];
    return 0;
}

static herr_t count_hidden(hid_t object, const char *name, const H5A_info_t *info, void *context)
{
    reading *r = context;
    (void)object;
    (void)info;

    if (strncmp(name, "hidden_", 7) != 0)
        return 0;
    for (int i = 0; i < r->nhidden; i++)
        if (strcmp(r->hidden_name[i], name + 7) == 0)
            return 0;
    if (r->nhidden == MAX_HIDDEN || strlen(name + 7) >= HB_NAME_SIZE || !name[7] || !is_plain_text(name))
        return -1;
    strcpy(r->hidden_name[r->nhidden++], name + 7);
    return 0;
}

/* Sizes and attributes of one episode; the first one settles the number of columns. */
static int inspect_episode(reading *r, hid_t group, raw_episode *e, bool first)
{
    int rows, columns, nactions = 0, action_columns = 0, times, time_columns, status;

    if ((status = read_shape(r, group, e->path, r->observations, &rows, &columns)))
        return status;
    if (rows < 2 || columns < 1)
        return FAIL(r, "%s/%s: %d x %d, expected at least 2 rows and 1 column", e->path, r->observations, rows,
                    columns);
    e->nsteps = rows - 1;
    if (!r->no_actions) {
        if ((status = read_shape(r, group, e->path, r->actions, &nactions, &action_columns)))
            return status;
        if (nactions != rows - 1)
            return FAIL(r, "%s: %d observations and %d actions, expected one action fewer than observations", e->path,
                        rows, nactions);
    }
    if (first) {
        r->file_nx = columns;
        r->file_nu = action_columns;
    } else if (columns != r->file_nx || action_columns != r->file_nu) {
        return FAIL(r, "%s has %d states and %d controls, the episodes before it have %d and %d", e->path, columns,
                    action_columns, r->file_nx, r->file_nu);
    }

    e->irregular = H5Lexists(group, "times", r->inside) > 0;
    if (e->irregular) {
        if ((status = read_shape(r, group, e->path, "times", &times, &time_columns)))
            return status;
        if (times != rows || time_columns != 1)
            return FAIL(r, "%s/times: %d x %d, expected one time for each of %d observations", e->path, times,
                        time_columns, rows);
    }

    const char *attribute = r->mapping.function_attribute[0] ? r->mapping.function_attribute : "function";
    if (r->mapping.functions == HB_FUNCTIONS_ATTRIBUTE) {
        status = read_integer_attribute(r, group, e->path, attribute, &e->function);
        if (status > 0)
            return FAIL(r,
                        "%s has no attribute '%s', which says whose dynamics it shows: map functions=one, "
                        "functions=episode or functions=attribute:NAME",
                        e->path, attribute);
        if (status)
            return status;
    } else {
        e->function = r->mapping.functions == HB_FUNCTIONS_ONE ? 0 : e->id;
    }
    if (H5Aiterate2(group, H5_INDEX_NAME, H5_ITER_INC, NULL, count_hidden, r) < 0)
        return FAIL(r, "%s: bad or too many hidden_ attributes (at most %d, names of at most %d printable characters)",
                    e->path, MAX_HIDDEN, HB_NAME_SIZE - 1);
    return 0;
}

static herr_t collect_episode(hid_t group, const char *name, const H5L_info_t *info, void *context)
{
    reading *r = context;
    char *end;
    (void)group;
    (void)info;

    if (strncmp(name, "episode_", 8) != 0 || name[8] < '0' || name[8] > '9')
        return 0;
    errno = 0;
    long id = strtol(name + 8, &end, 10);
    if (*end || errno || id > INT_MAX || strlen(name) >= sizeof r->episode->path)
        return 0;
    if ((r->nepisodes & (r->nepisodes - 1)) == 0) {
        size_t capacity = r->nepisodes ? 2 * (size_t)r->nepisodes : 1;
        raw_episode *grown = realloc(r->episode, capacity * sizeof *grown);
        if (!grown)
            return -1;
        r->episode = grown;
    }
    raw_episode *e = &r->episode[r->nepisodes++];
    *e = (raw_episode){.id = (int)id};
    strcpy(e->path, name);
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const raw_episode *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_function(const void *a, const void *b)
{
    const raw_episode *x = a, *y = b;
    return x->function != y->function ? (x->function > y->function) - (x->function < y->function) : by_id(a, b);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int inspect(reading *r)
{
    hid_t root = H5Oopen(r->file, "/", r->inside);
    int status = check_group(r, root, "/");

    H5Oclose(root);
    if (status)
        return status;
    if (H5Literate(r->file, H5_INDEX_NAME, H5_ITER_INC, NULL, collect_episode, r) < 0)
        return FAIL(r, "%s", "the list of episodes cannot be read");
    if (r->nepisodes == 0)
        return FAIL(r, "%s", "there is no group episode_0, episode_1, ...: is this a data set?");
    qsort(r->episode, (size_t)r->nepisodes, sizeof *r->episode, by_id);

    for (int k = 0; k < r->nepisodes; k++) {
        hid_t group = H5Oopen(r->file, r->episode[k].path, r->inside);
        if (r->left_out)
            status = FAIL(r, "%s is a link to another file: only what is in this file is read", r->episode[k].path);
        else if (H5Iget_type(group) != H5I_GROUP)
            status = FAIL(r, "%s is not a group", r->episode[k].path);
        else if (!(status = check_group(r, group, r->episode[k].path)))
            status = inspect_episode(r, group, &r->episode[k], k == 0);
        if (group >= 0)
            H5Oclose(group);
        if (status)
            return status;
    }
    qsort(r->episode, (size_t)r->nepisodes, sizeof *r->episode, by_function);
    qsort(r->hidden_name, (size_t)r->nhidden, sizeof *r->hidden_name, by_name);
    return 0;
}

/* Which columns are taken: all, or those of the mapping's list that are not "-". Names go to `ret` when given. */
static int take_columns(reading *r, const char *list, const char *what, int in_file, int *column, int *ntaken,
                        char (*ret)[HB_NAME_SIZE])
{
    int n = 0, taken = 0;

    if (!list[0]) {
        for (int i = 0; i < in_file; i++)
            column[i] = i;
        *ntaken = in_file;
        return 0;
    }
    for (const char *name = list; name; n++) {
        size_t length = strcspn(name, ",");
        if (length == 0 || length >= HB_NAME_SIZE)
            return FAIL(r, "%s=%s: name %d is empty or longer than %d characters", what, list, n + 1, HB_NAME_SIZE - 1);
        if (length != 1 || name[0] != '-') {
            if (n < in_file)
                column[taken] = n;
            if (ret && n < in_file) {
                memcpy(ret[taken], name, length);
                ret[taken][length] = 0;
            }
            taken++;
        }
        name = name[length] ? name + length + 1 : NULL;
    }
    if (n != in_file)
        return FAIL(r, "%s=%s names %d columns, the file has %d (use - for those to be left out)", what, list, n,
                    in_file);
    *ntaken = taken;
    return 0;
}

/* ---- numbers ---- */

/* rows x columns of a data set, those columns that are taken, checked to be finite. */
static int read_matrix(reading *r, hid_t group, const char *episode, const char *name, int rows, int in_file,
                       const int *column, int taken, double *scratch, double *ret)
{
    bool all = taken == in_file;
    double *target = all ? ret : scratch;
    hid_t set = H5Oopen(group, name, r->inside);
    herr_t status = H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, target);

    H5Oclose(set);
    if (status < 0)
        return FAIL(r, "%s/%s cannot be read: the file is damaged", episode, name);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < taken; j++) {
            double value = target[(size_t)i * (size_t)in_file + (size_t)(all ? j : column[j])];
            if (!isfinite(value))
                return FAIL(r, "%s/%s, row %d, column %d: %s", episode, name, i, all ? j : column[j],
                            isnan(value) ? "not a number (NaN)" : "infinite");
            ret[(size_t)i * (size_t)taken + (size_t)j] = value;
        }
    }
    return 0;
}

/* The place of a matrix in the file, when it is one that can be read there: whole, as doubles in a row. Else why not.
 */
static const double *find_matrix(reading *r, hid_t group, const char *name, size_t count, const char **why)
{
    hid_t set = H5Oopen(group, name, r->inside), type = H5Dget_type(set), properties = H5Dget_create_plist(set);
    haddr_t offset = H5Dget_offset(set);

    *why = NULL;
    if (H5Pget_layout(properties) != H5D_CONTIGUOUS)
        *why = "is compressed or in pieces (h5repack --layout=CONTI --filter=NONE OLD NEW puts it right)";
    else if (H5Tequal(type, H5T_NATIVE_DOUBLE) <= 0)
        *why = "does not hold doubles of 64 bits";
    else if (offset == HADDR_UNDEF || offset % sizeof(double))
        *why = "begins between two multiples of 8 bytes (h5repack --threshold=1 "
               "--alignment=8 OLD NEW puts it right)";
    H5Pclose(properties);
    H5Tclose(type);
    H5Oclose(set);
    const double *at = *why ? NULL : hb_stream_at(r->stream, (size_t)offset, count);
    if (!at && !*why)
        *why = "ends behind the file's end";
    return at;
}

/* The same as read_matrix, of a file that is streamed. */
static int stream_matrix(reading *r, hid_t group, const char *episode, const char *name, int rows, int columns,
                         const double **ret)
{
    const char *why;
    const double *value = find_matrix(r, group, name, (size_t)rows * (size_t)columns, &why);

    if (!value)
        return FAIL(r, "%s/%s cannot stay in the file (--stream yes): it %s", episode, name, why);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++)
            if (!isfinite(value[(size_t)i * (size_t)columns + (size_t)j]))
                return FAIL(r, "%s/%s, row %d, column %d: not a finite number", episode, name, i, j);
        if (i % 1024 == 1023)
            hb_stream_touch(r->stream, 1024 * (size_t)columns * sizeof *value);
    }
    hb_stream_touch(r->stream, 1024 * (size_t)columns * sizeof *value);
    *ret = value;
    return 0;
}

static int read_times(reading *r, hid_t group, const raw_episode *e, double *ret)
{
    int status = read_matrix(r, group, e->path, "times", e->nsteps + 1, 1, NULL, 1, NULL, ret);

    for (int i = 0; !status && i < e->nsteps; i++)
        if (!(ret[i + 1] > ret[i]))
            status = FAIL(r, "%s/times, row %d: %.9g does not come after %.9g", e->path, i + 1, ret[i + 1], ret[i]);
    return status;
}

/* ---- the set ---- */

typedef struct sizes {
    int nx, nu, nhidden, nfunctions, nepisodes;
    size_t nrows, nsteps, ntimes, nscratch;
} sizes;

/* Arrays that the set's constant pointers lead into, while they are being filled. */
typedef struct storage {
    hb_dataset *set;
    double *x, *u, *time, *hidden, *scratch;
} storage;

static storage lay_out(const sizes *s, hb_arena *a)
{
    size_t nx = (size_t)s->nx, nu = (size_t)s->nu, nhidden = (size_t)s->nhidden;
    hb_dataset layout = {0}, *set = hb_arena_take(a, 1, sizeof *set);
    hb_dataset_header *h = &layout.header;
    storage ret = {.set = set};

    h->state_name = hb_arena_take(a, nx, HB_NAME_SIZE);
    h->state_unit = hb_arena_take(a, nx, HB_NAME_SIZE);
    h->control_name = hb_arena_take(a, nu, HB_NAME_SIZE);
    h->control_unit = hb_arena_take(a, nu, HB_NAME_SIZE);
    h->control_min = hb_arena_take(a, nu, sizeof(double));
    h->control_max = hb_arena_take(a, nu, sizeof(double));
    h->control_trim = hb_arena_take(a, nu, sizeof(double));
    h->control_delay = hb_arena_take(a, nu, sizeof(double));
    h->control_lag = hb_arena_take(a, nu, sizeof(double));
    h->hidden_name = hb_arena_take(a, nhidden, HB_NAME_SIZE);
    layout.function = hb_arena_take(a, (size_t)s->nfunctions, sizeof *layout.function);
    layout.episode = hb_arena_take(a, (size_t)s->nepisodes, sizeof *layout.episode);
    ret.hidden = hb_arena_take(a, (size_t)s->nfunctions * nhidden, sizeof(double));
    ret.x = hb_arena_take(a, s->nrows * nx, sizeof(double));
    ret.u = hb_arena_take(a, s->nsteps * nu, sizeof(double));
    ret.time = hb_arena_take(a, s->ntimes, sizeof(double));
    ret.scratch = hb_arena_take(a, s->nscratch, sizeof(double));
    if (set)
        *set = layout;
    return ret;
}

static sizes count(const reading *r)
{
    sizes s = {.nx = r->nx, .nu = r->nu, .nhidden = r->nhidden, .nepisodes = r->nepisodes};
    int columns = r->file_nx > r->file_nu ? r->file_nx : r->file_nu;

    for (int k = 0; k < r->nepisodes; k++) {
        const raw_episode *e = &r->episode[k];
        s.nfunctions += k == 0 || e->function != r->episode[k - 1].function;
        s.nrows += (size_t)e->nsteps + 1;
        s.nsteps += (size_t)e->nsteps;
        s.ntimes += e->irregular ? (size_t)e->nsteps + 1 : 0;
        size_t whole = ((size_t)e->nsteps + 1) * (size_t)columns;
        s.nscratch = whole > s.nscratch ? whole : s.nscratch;
    }
    if (r->nx == r->file_nx && r->nu == r->file_nu)
        s.nscratch = 0;
    if (r->stream)
        s.nrows = s.nsteps = 0;
    return s;
}

static int read_header(reading *r, hb_dataset_header *h)
{
    int status, unused;

    h->nx = r->nx;
    h->nu = r->nu;
    for (int i = 0; i < h->nx; i++)
        snprintf(h->state_name[i], HB_NAME_SIZE, "x%d", i);
    for (int i = 0; i < h->nu; i++)
        snprintf(h->control_name[i], HB_NAME_SIZE, "u%d", i);

    if (r->mapping.states[0])
        status = take_columns(r, r->mapping.states, "states", r->file_nx, r->state_column, &unused, h->state_name);
    else if ((status = read_text_attribute(r, "state_names", h->nx, h->state_name)) >= 0)
        status = read_text_attribute(r, "state_units", h->nx, h->state_unit);
    if (status < 0)
        return status;
    if (h->nu > 0 && r->mapping.controls[0])
        status =
            take_columns(r, r->mapping.controls, "controls", r->file_nu, r->control_column, &unused, h->control_name);
    else if (h->nu > 0 && (status = read_text_attribute(r, "control_names", h->nu, h->control_name)) >= 0)
        status = read_text_attribute(r, "control_units", h->nu, h->control_unit);
    if (status < 0)
        return status;

    char plant[1][HB_NAME_SIZE] = {""};
    if ((status = read_text_attribute(r, "plant", 1, plant)) < 0)
        return status;
    memcpy(h->plant, plant[0], sizeof plant[0]);
    double seed; /* checks shape and type; all 64 bits are read below */
    if ((status = read_numbers_attribute(r, r->file, "root", "seed", 1, &seed)) < 0)
        return status;
    if (status == 0) {
        hid_t attribute = H5Aopen(r->file, "seed", H5P_DEFAULT);
        H5Aread(attribute, H5T_NATIVE_UINT64, &h->seed);
        H5Aclose(attribute);
    }
    double known = 0;
    if ((status = read_numbers_attribute(r, r->file, "root", "parameters_known", 1, &known)) < 0)
        return status;
    h->parameters_known = known != 0;
    for (int i = 0; i < h->nu; i++)
        h->control_delay[i] = h->control_lag[i] = NAN;
    if (h->nu > 0 && !r->mapping.controls[0] &&
        ((status = read_numbers_attribute(r, r->file, "root", "control_delay", h->nu, h->control_delay)) < 0 ||
         (status = read_numbers_attribute(r, r->file, "root", "control_lag", h->nu, h->control_lag)) < 0))
        return status;
    for (int i = 0; i < h->nu; i++)
        if (h->control_delay[i] < 0 || h->control_lag[i] < 0)
            return FAIL(r, "control %s: a delay or a lag below 0", h->control_name[i]);
    h->nhidden = r->nhidden;
    memcpy(h->hidden_name, r->hidden_name, (size_t)r->nhidden * sizeof *h->hidden_name);
    return 0;
}

/* Bounds and trim of the controls: the file's, else the data's. */
static int read_bounds(reading *r, hb_dataset *d)
{
    hb_dataset_header *h = &d->header;
    bool own = !r->mapping.controls[0];
    int low = 1, high = 1, trim = 1;

    if (h->nu == 0)
        return 0;
    if (own && ((low = read_numbers_attribute(r, r->file, "root", "control_min", h->nu, h->control_min)) < 0 ||
                (high = read_numbers_attribute(r, r->file, "root", "control_max", h->nu, h->control_max)) < 0 ||
                (trim = read_numbers_attribute(r, r->file, "root", "control_trim", h->nu, h->control_trim)) < 0))
        return -EINVAL;
    for (int i = 0; i < h->nu; i++) {
        double min = INFINITY, max = -INFINITY, sum = 0;
        for (int k = 0; k < d->nepisodes; k++) {
            const hb_episode *e = &d->episode[k];
            for (int t = 0; t < e->nsteps; t++) {
                double v = e->u[(size_t)t * (size_t)h->nu + (size_t)i];
                min = fmin(min, v);
                max = fmax(max, v);
                sum += v;
                if (e->stream && t % 1024 == 1023)
                    hb_stream_touch(e->stream, 1024 * (size_t)h->nu * sizeof v);
            }
            hb_stream_touch(e->stream, 1024 * (size_t)h->nu * sizeof(double));
        }
        if (low > 0)
            h->control_min[i] = min;
        if (high > 0)
            h->control_max[i] = max;
        if (trim > 0)
            h->control_trim[i] = fmin(fmax(sum / (double)d->ntransitions, h->control_min[i]), h->control_max[i]);
        if (!(h->control_min[i] <= h->control_trim[i] && h->control_trim[i] <= h->control_max[i]))
            return FAIL(r, "control %s: bounds %g to %g do not hold its trim %g", h->control_name[i], h->control_min[i],
                        h->control_max[i], h->control_trim[i]);
    }
    return 0;
}

/* A function's hidden parameters, which all of its episodes must agree on. */
static int read_hidden(reading *r, hid_t group, const raw_episode *e, bool first, double *hidden)
{
    for (int i = 0; i < r->nhidden; i++) {
        char name[HB_NAME_SIZE + 8];
        double value = NAN;
        snprintf(name, sizeof name, "hidden_%s", r->hidden_name[i]);
        int status = read_numbers_attribute(r, group, e->path, name, 1, &value);
        if (status < 0)
            return status;
        if (first)
            hidden[i] = value;
        else if (value != hidden[i] && !(isnan(value) && isnan(hidden[i])))
            return FAIL(r, "%s: attribute %s is %g, other episodes of function %d say %g", e->path, name, value,
                        e->function, hidden[i]);
    }
    return 0;
}

static int fill(reading *r, storage *to)
{
    hb_dataset *d = to->set;
    double *x = to->x, *u = to->u, *time = to->time, elapsed = 0;
    bool regular = false;
    size_t nx = (size_t)r->nx, nu = (size_t)r->nu;

    for (int k = 0; k < r->nepisodes; k++) {
        const raw_episode *raw = &r->episode[k];
        bool first = k == 0 || raw->function != r->episode[k - 1].function;
        d->nfunctions += first;
        hb_function *f = &d->function[d->nfunctions - 1];
        double *hidden = to->hidden + (size_t)(d->nfunctions - 1) * (size_t)r->nhidden;
        if (first)
            *f = (hb_function){.id = raw->function, .episode = k, .hidden = hidden};
        size_t rows = (size_t)raw->nsteps + 1;

        hid_t group = H5Oopen(r->file, raw->path, r->inside);
        const double *states = x, *controls = u;
        int status = r->stream ? stream_matrix(r, group, raw->path, r->observations, raw->nsteps + 1, r->nx, &states)
                               : read_matrix(r, group, raw->path, r->observations, raw->nsteps + 1, r->file_nx,
                                             r->state_column, r->nx, to->scratch, x);
        if (!status && nu > 0 && r->stream)
            status = stream_matrix(r, group, raw->path, r->actions, raw->nsteps, r->nu, &controls);
        else if (!status && nu > 0)
            status = read_matrix(r, group, raw->path, r->actions, raw->nsteps, r->file_nu, r->control_column, r->nu,
                                 to->scratch, u);
        if (!status && raw->irregular)
            status = read_times(r, group, raw, time);
        if (!status)
            status = read_hidden(r, group, raw, first, hidden);
        H5Oclose(group);
        if (status)
            return status;

        d->episode[d->nepisodes++] = (hb_episode){
            .id = raw->id,
            .function = d->nfunctions - 1,
            .nsteps = raw->nsteps,
            .x = states,
            .u = nu > 0 ? controls : NULL,
            .time = raw->irregular ? time : NULL,
            .first = f->ntransitions,
            .stream = r->stream,
        };
        f->nepisodes++;
        f->ntransitions += (size_t)raw->nsteps;
        d->ntransitions += (size_t)raw->nsteps;
        if (raw->irregular)
            elapsed += time[raw->nsteps] - time[0];
        regular |= !raw->irregular;
        if (!r->stream) {
            x += rows * nx;
            u += (size_t)raw->nsteps * nu;
        }
        time += raw->irregular ? rows : 0;
    }

    /* the mean step stands in for a period that was not given */
    if (r->dt > 0)
        d->header.dt = r->dt;
    else if (!regular)
        d->header.dt = elapsed / (double)d->ntransitions;
    else
        return FAIL(r, "%s", "no attribute dt and no times: map dt=SECONDS");
    return 0;
}

/* of many numbers, which may be in a file */
static uint64_t hash_rows(uint64_t hash, hb_stream *stream, const double *value, size_t count)
{
    enum { PIECE = 1 << 16 };

    for (size_t at = 0; at < count; at += PIECE) {
        size_t n = count - at < PIECE ? count - at : PIECE;
        hash = hb_hash(hash, value + at, n * sizeof *value);
        hb_stream_touch(stream, n * sizeof *value);
    }
    return hash;
}

uint64_t hb_dataset_hash(const hb_dataset *d)
{
    const hb_dataset_header *h = &d->header;
    size_t nx = (size_t)h->nx, nu = (size_t)h->nu;
    uint64_t hash = HB_HASH_START;

    hash = hb_hash(hash, &h->nx, sizeof h->nx);
    hash = hb_hash(hash, &h->nu, sizeof h->nu);
    hash = hb_hash(hash, &h->dt, sizeof h->dt);
    hash = hb_hash(hash, h->plant, sizeof h->plant);
    hash = hb_hash(hash, h->state_name, nx * sizeof *h->state_name);
    hash = hb_hash(hash, h->control_name, nu * sizeof *h->control_name);
    hash = hb_hash(hash, h->hidden_name, (size_t)h->nhidden * sizeof *h->hidden_name);
    for (int f = 0; f < d->nfunctions; f++) {
        hash = hb_hash(hash, &d->function[f].id, sizeof d->function[f].id);
        hash = hb_hash(hash, d->function[f].hidden, (size_t)h->nhidden * sizeof(double));
    }
    for (int k = 0; k < d->nepisodes; k++) {
        const hb_episode *e = &d->episode[k];
        hash = hb_hash(hash, &e->function, sizeof e->function);
        hash = hash_rows(hash, e->stream, e->x, ((size_t)e->nsteps + 1) * nx);
        if (e->u)
            hash = hash_rows(hash, e->stream, e->u, (size_t)e->nsteps * nu);
        if (e->time)
            hash = hb_hash(hash, e->time, ((size_t)e->nsteps + 1) * sizeof(double));
    }
    return hash;
}

/* A file may claim any size: more than the machine has is refused before it is asked for. */
static int check_memory(reading *r, size_t bytes)
{
    size_t have = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGE_SIZE);

    if (bytes > have)
        return FAIL(r,
                    "holds %.3g GB of numbers, this machine has %.3g GB of memory (hilbert-train --stream yes leaves "
                    "them in the file)",
                    (double)bytes * 1e-9, (double)have * 1e-9);
    return 0;
}

static int read_open_file(reading *r, hb_dataset **ret)
{
    int status;

    r->observations = r->mapping.observations[0] ? r->mapping.observations : "observations";
    r->actions = r->mapping.actions[0] ? r->mapping.actions : "actions";
    r->no_actions = strcmp(r->actions, "none") == 0;
    r->dt = r->mapping.dt;
    if (r->dt == 0) {
        if ((status = read_numbers_attribute(r, r->file, "root", "dt", 1, &r->dt)) < 0)
            return status;
        if (status == 0 && !(r->dt > 0))
            return FAIL(r, "attribute dt is %g, expected seconds above 0", r->dt);
    }
    if ((status = inspect(r)))
        return status;
    r->state_column = calloc((size_t)r->file_nx + (size_t)r->file_nu, sizeof *r->state_column);
    if (!r->state_column)
        return hb_fail(r->err, ENOMEM, "out of memory");
    r->control_column = r->state_column + r->file_nx;
    if ((status = take_columns(r, r->mapping.states, "states", r->file_nx, r->state_column, &r->nx, NULL)) ||
        (status = take_columns(r, r->mapping.controls, "controls", r->file_nu, r->control_column, &r->nu, NULL)))
        return status;
    if (r->nx == 0)
        return FAIL(r, "%s", "the mapping leaves no state");
    if (r->mapping.stream && (r->nx != r->file_nx || r->nu != r->file_nu))
        return FAIL(r, "%s", "columns that are left out cannot be left out of a file that is read as it goes");
    if (r->mapping.stream && (status = hb_stream_open(&r->stream, r->path, r->err)))
        return status;

    sizes s = count(r);
    hb_arena arena = {0};
    lay_out(&s, &arena);
    if ((status = check_memory(r, arena.used)) || (status = hb_arena_allocate(&arena, r->err))) {
        hb_stream_free(r->stream);
        return status;
    }
    storage to = lay_out(&s, &arena);
    to.set->stream = r->stream;
    if ((status = read_header(r, &to.set->header)) || (status = fill(r, &to)) || (status = read_bounds(r, to.set))) {
        hb_dataset_free(to.set);
        return status;
    }
    to.set->hash = hb_dataset_hash(to.set);
    *ret = to.set;
    return 0;
}

int hb_dataset_read(hb_dataset **ret, const char *path, const hb_dataset_mapping *mapping, hb_error *err)
{
    reading r = {.path = path, .err = err};
    if (mapping)
        r.mapping = *mapping;

    /* a plain "no such file" is clearer than what HDF5 makes of it */
    if (access(path, R_OK))
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode)) /* a fifo would hold us */
        return hb_fail(err, EINVAL, "%s: is not a regular file", path);
    /* HDF5 prints its own errors unless told otherwise: ours say what matters */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    r.file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (r.file < 0)
        return hb_fail(err, EINVAL, "%s: not an HDF5 file, or a damaged one (or being written by someone else)", path);

    r.inside = H5Pcreate(H5P_LINK_ACCESS);
    H5Pset_elink_cb(r.inside, refuse_external_link, &r);
    int status = read_open_file(&r, ret);
    H5Pclose(r.inside);
    free(r.state_column);
    free(r.episode);
    H5Fclose(r.file);
    return status;
}
