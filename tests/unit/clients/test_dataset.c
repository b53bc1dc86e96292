/* Data sets: what is written is read back, by us and by plain HDF5 calls; every bad file is refused with its place. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>

#include "check.h"
#include "folder.h"
#include "base/numeric.h"
#include "data/dataset.h"

enum { NX = 3, NU = 2, STEPS = 5 };

static double cell(int episode, int row, int column)
{
    return 100.0 * episode + row + 0.01 * column;
}

/* Functions 7 and 4: episodes 0 and 2 are of 7, episode 1 (irregular) is of 4. */
static void write_good(const char *path)
{
    char state[NX][HB_NAME_SIZE] = {"x", "vx", "qw"}, unit[NX][HB_NAME_SIZE] = {"m", "m/s", "1"};
    char control[NU][HB_NAME_SIZE] = {"f0", "f1"}, control_unit[NU][HB_NAME_SIZE] = {"N", "N"};
    char hidden[2][HB_NAME_SIZE] = {"mass", "drag"};
    double min[NU] = {-1, -1000}, max[NU] = {1000, 1000}, trim[NU] = {2, 3};
    hb_dataset_header h = {NX,  NU,   0.05, UINT64_MAX - 1, "quadrotor", state, unit, control, control_unit, min,
                           max, trim, 2,    hidden,         false,       NULL,  NULL};
    hb_dataset_writer *w;
    hb_error err = {0};
    int function[3] = {7, 4, 7};

    assert_int_equal(hb_dataset_writer_new(&w, path, &h, &err), 0);
    for (int e = 0; e < 3; e++) {
        double x[(STEPS + 1) * NX], u[STEPS * NU], time[STEPS + 1], parameter[2] = {0.02 + 0.001 * function[e], 0.5};
        for (int i = 0; i <= STEPS; i++) {
            time[i] = 10 + 0.05 * i + 0.001 * i * i;
            for (int j = 0; j < NX; j++)
                x[i * NX + j] = cell(e, i, j);
            for (int j = 0; j < NU && i < STEPS; j++)
                u[i * NU + j] = -cell(e, i, j) / 100;
        }
        assert_int_equal(
            hb_dataset_writer_append(w, function[e], STEPS - e, x, u, e == 1 ? time : NULL, parameter, &err), 0);
    }
    assert_int_equal(hb_dataset_writer_close(w, &err), 0);
}

static void written_is_read_back(void **state)
{
    const char *path = in_folder("good.h5");
    hb_dataset *d = NULL;
    hb_error err = {0};
    (void)state;

    write_good(path);
    assert_int_equal(hb_dataset_read(&d, path, NULL, &err), 0);
    assert_int_equal(d->header.nx, NX);
    assert_int_equal(d->header.nu, NU);
    assert_near(d->header.dt, 0.05, 0);
    assert_true(d->header.seed == UINT64_MAX - 1);
    assert_string_equal(d->header.plant, "quadrotor");
    assert_string_equal(d->header.state_name[1], "vx");
    assert_string_equal(d->header.state_unit[1], "m/s");
    assert_string_equal(d->header.control_name[1], "f1");
    assert_near(d->header.control_trim[1], 3, 0);
    assert_int_equal(d->header.nhidden, 2);
    assert_string_equal(d->header.hidden_name[0], "drag");
    assert_string_equal(d->header.hidden_name[1], "mass");

    /* functions by id, their episodes together */
    assert_int_equal(d->nfunctions, 2);
    assert_int_equal(d->function[0].id, 4);
    assert_int_equal(d->function[1].id, 7);
    assert_near(d->function[0].hidden[1], 0.024, 1e-15);
    assert_int_equal(d->function[1].nepisodes, 2);
    assert_int_equal(d->function[1].ntransitions, 2 * STEPS - 2);
    assert_int_equal(d->ntransitions, 3 * STEPS - 3);

    /* every transition is the one that was written */
    for (int f = 0; f < 2; f++) {
        for (size_t i = 0; i < d->function[f].ntransitions; i++) {
            hb_transition t;
            int remaining, e = f == 0 ? 1 : i < STEPS ? 0 : 2, row = (int)i - (e == 2 ? STEPS : 0);
            hb_dataset_transition(d, f, i, &t, &remaining);
            assert_int_equal(remaining, STEPS - e - row);
            assert_near(t.dt, e == 1 ? 0.05 + 0.001 * (2 * row + 1) : 0.05, 1e-12);
            for (int j = 0; j < NX; j++) {
                assert_near(t.x[j], cell(e, row, j), 0);
                assert_near(t.x_next[j], cell(e, row + 1, j), 0);
            }
            for (int j = 0; j < NU; j++)
                assert_near(t.u[j], -cell(e, row, j) / 100, 0);
        }
    }
    hb_dataset_free(d);
}

static void layout_is_minaris(void **state)
{
    const char *path = in_folder("layout.h5");
    double x[(STEPS + 1) * NX], u[STEPS * NU];
    hsize_t size[2];
    (void)state;

    write_good(path);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t set = H5Dopen2(file, "episode_0/observations", H5P_DEFAULT), space = H5Dget_space(set);
    assert_int_equal(H5Sget_simple_extent_ndims(space), 2);
    H5Sget_simple_extent_dims(space, size, NULL);
    assert_int_equal(size[0], STEPS + 1);
    assert_int_equal(size[1], NX);
    H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x);
    assert_near(x[2 * NX + 1], cell(0, 2, 1), 0);
    H5Sclose(space);
    H5Dclose(set);
    set = H5Dopen2(file, "episode_0/actions", H5P_DEFAULT);
    H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, u);
    assert_near(u[4 * NU + 1], -cell(0, 4, 1) / 100, 0);
    H5Dclose(set);
    assert_true(H5Lexists(file, "episode_1/times", H5P_DEFAULT) > 0);
    assert_true(H5Lexists(file, "episode_0/times", H5P_DEFAULT) == 0);
    long long total = 0;
    hid_t attribute = H5Aopen(file, "total_steps", H5P_DEFAULT);
    H5Aread(attribute, H5T_NATIVE_LLONG, &total);
    H5Aclose(attribute);
    assert_int_equal(total, 3 * STEPS - 3);
    H5Fclose(file);
}

static char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

static void same_calls_same_bytes(void **state)
{
    size_t n, m;
    (void)state;

    write_good(in_folder("a.h5"));
    sleep(1); /* a time stamp would differ */
    write_good(in_folder("b.h5"));
    char *a = slurp(in_folder("a.h5"), &n), *b = slurp(in_folder("b.h5"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void an_unfinished_file_is_never_seen(void **state)
{
    char name[1][HB_NAME_SIZE] = {"x"};
    hb_dataset_header h = {.nx = 1, .dt = 1, .state_name = name, .state_unit = name};
    hb_dataset_writer *w;
    hb_error err = {0};
    double x[2] = {0, 1}, bad[2] = {0, NAN};
    const char *path = in_folder("unfinished.h5");
    (void)state;

    assert_int_equal(hb_dataset_writer_new(&w, path, &h, &err), 0);
    assert_int_equal(hb_dataset_writer_append(w, 0, 1, x, NULL, NULL, NULL, &err), 0);
    assert_true(hb_dataset_writer_append(w, 0, 1, bad, NULL, NULL, NULL, &err) < 0);
    assert_non_null(strstr(err.text, "episode_1/observations, row 1, column 0"));
    assert_int_not_equal(access(path, F_OK), 0);
    hb_dataset_writer_free(w);
    assert_int_not_equal(access(path, F_OK), 0);

    assert_int_equal(hb_dataset_writer_new(&w, path, &h, &err), 0);
    assert_true(hb_dataset_writer_close(w, &err) < 0);
    assert_true(hb_dataset_writer_new(&w, "/nowhere/at/all.h5", &h, &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/at/all.h5: No such file"));
}

static void hash_follows_the_numbers(void **state)
{
    const char *path = in_folder("hash.h5");
    hb_dataset *a, *b;
    (void)state;

    write_good(path);
    assert_int_equal(hb_dataset_read(&a, path, NULL, NULL), 0);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), set = H5Dopen2(file, "episode_2/actions", H5P_DEFAULT);
    double u[STEPS * NU];
    H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, u);
    u[3] = nextafter(u[3], 1e9);
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, u);
    H5Dclose(set);
    H5Fclose(file);
    assert_int_equal(hb_dataset_read(&b, path, NULL, NULL), 0);
    assert_true(a->hash != b->hash);
    hb_dataset_free(a);
    hb_dataset_free(b);
}

/* ---- bad files: a good one, spoilt ---- */

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void put_set(hid_t file, const char *path, int rank, hsize_t rows, hsize_t columns, const double *value)
{
    hsize_t size[3] = {rows, columns, 1};
    hid_t space = H5Screate_simple(rank, size, NULL);
    if (H5Lexists(file, path, H5P_DEFAULT) > 0)
        H5Ldelete(file, path, H5P_DEFAULT);
    hid_t set = H5Dcreate2(file, path, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (value)
        H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value);
    H5Dclose(set);
    H5Sclose(space);
}

static void put_number(hid_t file, const char *object, const char *name, double value)
{
    hid_t o = H5Oopen(file, object, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
    if (H5Aexists(o, name) > 0)
        H5Adelete(o, name);
    hid_t a = H5Acreate2(o, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, H5T_NATIVE_DOUBLE, &value);
    H5Aclose(a);
    H5Sclose(space);
    H5Oclose(o);
}

static void put_text(hid_t file, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    if (H5Aexists(file, name) > 0)
        H5Adelete(file, name);
    hid_t a = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, type, &text);
    H5Aclose(a);
    H5Sclose(space);
    H5Tclose(type);
}

static void remove_attribute(hid_t file, const char *object, const char *name)
{
    hid_t o = H5Oopen(file, object, H5P_DEFAULT);
    H5Adelete(o, name);
    H5Oclose(o);
}

static void one_cell(hid_t file, const char *path, int index, double value)
{
    double all[256];
    hid_t set = H5Dopen2(file, path, H5P_DEFAULT);
    H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, all);
    all[index] = value;
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, all);
    H5Dclose(set);
}

static const double zeros[64];

static void spoil_nan(hid_t f)
{
    one_cell(f, "episode_1/observations", 2 * NX + 1, NAN);
}
static void spoil_inf(hid_t f)
{
    one_cell(f, "episode_2/actions", 1 * NU + 0, INFINITY);
}
static void spoil_times(hid_t f)
{
    one_cell(f, "episode_1/times", 3, 0);
}
static void spoil_times_length(hid_t f)
{
    put_set(f, "episode_1/times", 1, 3, 1, zeros);
}
static void spoil_no_observations(hid_t f)
{
    H5Ldelete(f, "episode_1/observations", H5P_DEFAULT);
}
static void spoil_no_actions(hid_t f)
{
    H5Ldelete(f, "episode_1/actions", H5P_DEFAULT);
}
static void spoil_rows(hid_t f)
{
    put_set(f, "episode_1/actions", 2, STEPS + 1, NU, zeros);
}
static void spoil_columns(hid_t f)
{
    put_set(f, "episode_2/observations", 2, STEPS - 1, NX + 1, zeros);
}
static void spoil_one_row(hid_t f)
{
    put_set(f, "episode_0/observations", 2, 1, NX, zeros);
}
static void spoil_rank(hid_t f)
{
    put_set(f, "episode_0/observations", 3, 2, NX, zeros);
}
static void spoil_unwritten(hid_t f)
{
    put_set(f, "episode_0/observations", 2, 1u << 29, NX, NULL);
}
static void spoil_huge(hid_t f)
{
    put_set(f, "episode_0/observations", 2, 1ull << 40, 1ull << 20, NULL);
}
static void spoil_group(hid_t f)
{
    put_set(f, "episode_9", 2, 2, 2, zeros);
}
static void spoil_dictionary(hid_t f)
{
    H5Ldelete(f, "episode_0/observations", H5P_DEFAULT);
    H5Gclose(H5Gcreate2(f, "episode_0/observations", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}
static void spoil_text_data(hid_t f)
{
    hid_t space = H5Screate(H5S_SCALAR);
    H5Ldelete(f, "episode_0/actions", H5P_DEFAULT);
    H5Dclose(H5Dcreate2(f, "episode_0/actions", H5T_C_S1, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
}
static void spoil_function(hid_t f)
{
    remove_attribute(f, "episode_1", "function");
}
static void spoil_function_value(hid_t f)
{
    put_number(f, "episode_1", "function", 1.5);
}
static void spoil_hidden(hid_t f)
{
    put_number(f, "episode_2", "hidden_mass", 1);
}
static void spoil_hidden_nan(hid_t f)
{
    put_number(f, "episode_2", "hidden_mass", NAN);
}
static void spoil_dt(hid_t f)
{
    remove_attribute(f, "/", "dt");
}
static void spoil_dt_value(hid_t f)
{
    put_number(f, "/", "dt", -1);
}
static void spoil_names(hid_t f)
{
    put_text(f, "state_names", "x");
}
static void spoil_names_type(hid_t f)
{
    put_number(f, "/", "control_names", 3);
}
static void spoil_long_name(hid_t f)
{
    put_text(f, "plant", "a name of a plant that is far longer than a name may be");
}
static void spoil_name_escape(hid_t f)
{
    put_text(f, "plant", "quad\033[2J");
}
static void spoil_name_newline(hid_t f)
{
    put_text(f, "plant", "quad\nrotor");
}
static void spoil_hidden_escape(hid_t f)
{
    put_number(f, "episode_1", "hidden_\033]0;title", 1);
}
static void spoil_episode_link(hid_t f)
{
    H5Lcreate_external("other.h5", "/episode_0", f, "episode_3", H5P_DEFAULT, H5P_DEFAULT);
}
static void spoil_set_link(hid_t f)
{
    H5Ldelete(f, "episode_1/actions", H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/episode_0/actions", f, "episode_1/actions", H5P_DEFAULT, H5P_DEFAULT);
}
/* by way of a soft link that itself leads nowhere else */
static void spoil_soft_link(hid_t f)
{
    H5Lcreate_external("other.h5", "/", f, "elsewhere", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/elsewhere/episode_0", f, "episode_3", H5P_DEFAULT, H5P_DEFAULT);
}
/* numbers that lie in any file of the reader's machine */
static void spoil_external(hid_t f)
{
    hsize_t size[2] = {STEPS, NU};
    hid_t space = H5Screate_simple(2, size, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Ldelete(f, "episode_0/actions", H5P_DEFAULT);
    H5Pset_external(properties, "/proc/self/exe", 0, STEPS * NU * sizeof(double));
    H5Dclose(H5Dcreate2(f, "episode_0/actions", H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    H5Pclose(properties);
    H5Sclose(space);
}
static void spoil_virtual(hid_t f)
{
    hsize_t size[2] = {STEPS, NU};
    hid_t space = H5Screate_simple(2, size, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Ldelete(f, "episode_0/actions", H5P_DEFAULT);
    H5Pset_virtual(properties, space, "good.h5", "/episode_0/actions", space);
    H5Dclose(H5Dcreate2(f, "episode_0/actions", H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    H5Pclose(properties);
    H5Sclose(space);
}
/* a few kilobytes that claim 400 million rows: one piece was written, the rest is made up when it is read */
static void spoil_bomb(hid_t f)
{
    hsize_t size[2] = {400000000, NX}, piece[2] = {1000, NX}, none[2] = {0, 0};
    hid_t space = H5Screate_simple(2, size, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Ldelete(f, "episode_0/observations", H5P_DEFAULT);
    H5Pset_chunk(properties, 2, piece);
    H5Pset_deflate(properties, 9);
    hid_t set = H5Dcreate2(f, "episode_0/observations", H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    double row[NX] = {1, 2, 3};
    hid_t memory = H5Screate_simple(2, (hsize_t[2]){1, NX}, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, none, NULL, (hsize_t[2]){1, NX}, NULL);
    H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, row);
    H5Dclose(set);
    H5Sclose(memory);
    H5Pclose(properties);
    H5Sclose(space);
}
/* observations of zeros in the place of those that are there, stored so */
static void write_zeros(hid_t f, hid_t space, hid_t properties)
{
    const double x[(STEPS + 1) * NX] = {0};

    H5Ldelete(f, "episode_0/observations", H5P_DEFAULT);
    hid_t set = H5Dcreate2(f, "episode_0/observations", H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x);
    H5Dclose(set);
    H5Pclose(properties);
    H5Sclose(space);
}
/* few rows, in pieces that are large in memory */
static void spoil_chunk(hid_t f)
{
    hsize_t size[2] = {STEPS + 1, NX}, most[2] = {H5S_UNLIMITED, NX}, piece[2] = {40000000, NX};
    hid_t space = H5Screate_simple(2, size, most), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 2, piece);
    H5Pset_deflate(properties, 1);
    write_zeros(f, space, properties);
}
/* A few rows, packed twice: each pass makes a thousand bytes of one, whatever the data set claims. */
static void spoil_twice_packed(hid_t f)
{
    hsize_t size[2] = {STEPS + 1, NX};
    hid_t space = H5Screate_simple(2, size, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 2, size);
    H5Pset_deflate(properties, 1);
    H5Pset_shuffle(properties);
    H5Pset_deflate(properties, 1);
    write_zeros(f, space, properties);
}
/* a filter that says itself how large its output is */
static void spoil_filter(hid_t f)
{
    hsize_t size[2] = {STEPS + 1, NX};
    hid_t space = H5Screate_simple(2, size, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 2, size);
    H5Pset_scaleoffset(properties, H5Z_SO_FLOAT_DSCALE, 3);
    write_zeros(f, space, properties);
}
static void spoil_packed_group(hid_t f)
{
    hid_t properties = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_deflate(properties, 1);
    H5Pset_deflate(properties, 1);
    H5Gclose(H5Gcreate2(f, "episode_3", H5P_DEFAULT, properties, H5P_DEFAULT));
    H5Pclose(properties);
}
static void spoil_bounds(hid_t f)
{
    put_number(f, "/", "control_min", 3);
}
static void spoil_all_episodes(hid_t f)
{
    H5Ldelete(f, "episode_0", H5P_DEFAULT);
    H5Ldelete(f, "episode_1", H5P_DEFAULT);
    H5Ldelete(f, "episode_2", H5P_DEFAULT);
}

static const struct {
    void (*spoil)(hid_t file);
    const char *expected;
} bad_file[] = {
    {spoil_nan, "episode_1/observations, row 2, column 1: not a number (NaN)"},
    {spoil_inf, "episode_2/actions, row 1, column 0: infinite"},
    {spoil_times, "episode_1/times, row 3: 0 does not come after"},
    {spoil_times_length, "episode_1/times: 3 x 1, expected one time for each of 5 observations"},
    {spoil_no_observations, "episode_1: there is no 'observations'"},
    {spoil_no_actions, "episode_1: there is no 'actions'"},
    {spoil_rows, "episode_1: 5 observations and 6 actions"},
    {spoil_columns, "episode_2 has 4 states and 2 controls, the episodes before it have 3 and 2"},
    {spoil_one_row, "episode_0/observations: 1 x 3, expected at least 2 rows"},
    {spoil_rank, "episode_0/observations has 3 dimensions"},
    {spoil_unwritten, "episode_0/observations was never written"},
    {spoil_huge, "episode_0/observations: 1099511627776 x 1048576 is too large"},
    {spoil_group, "episode_9 is not a group"},
    {spoil_dictionary, "episode_0/observations is not a data set"},
    {spoil_text_data, "episode_0/actions does not hold numbers"},
    {spoil_function, "episode_1 has no attribute 'function'"},
    {spoil_function_value, "episode_1: attribute function is 1.5, expected an integer"},
    {spoil_hidden, "episode_2: attribute hidden_mass is 1, other episodes of function 7 say 0.027"},
    {spoil_hidden_nan, "episode_2: attribute hidden_mass: element 0 is not a finite number"},
    {spoil_dt, "no attribute dt and no times: map dt=SECONDS"},
    {spoil_dt_value, "attribute dt is -1, expected seconds above 0"},
    {spoil_names, "attribute state_names: expected 3 strings, found 1"},
    {spoil_names_type, "attribute control_names: expected 2 strings"},
    {spoil_long_name, "attribute plant: a text is longer than"},
    {spoil_name_escape, "attribute plant: a text contains a control character"},
    {spoil_name_newline, "attribute plant: a text contains a control character"},
    {spoil_hidden_escape, "episode_1: bad or too many hidden_ attributes"},
    {spoil_episode_link, "episode_3 is a link to another file"},
    {spoil_set_link, "episode_1/actions is a link to another file"},
    {spoil_soft_link, "episode_3 is a link to another file"},
    {spoil_external, "episode_0/actions has its numbers in other files"},
    {spoil_virtual, "episode_0/actions has its numbers in other files"},
    {spoil_bomb, "episode_0/observations claims 9.6e+03 MB of numbers and stores"},
    {spoil_chunk, "episode_0/observations claims 960 MB of numbers and stores"},
    {spoil_twice_packed,
     "episode_0/observations is packed by filter 1: gzip (1, once), shuffle (2) and fletcher32 (3)"},
    {spoil_filter, "episode_0/observations is packed by filter 6: gzip"},
    {spoil_packed_group, "episode_3 is packed by filter 1: gzip"},
    {spoil_bounds, "attribute control_min: expected 2 numbers, found 1"},
    {spoil_all_episodes, "there is no group episode_0"},
};

static void bad_files_are_refused(void **state)
{
    const char *path = in_folder("bad.h5");
    (void)state;

    for (size_t i = 0; i < sizeof bad_file / sizeof *bad_file; i++) {
        hb_dataset *d = NULL;
        hb_error err = {0};
        write_good(path);
        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        bad_file[i].spoil(file);
        H5Fclose(file);
        int status = hb_dataset_read(&d, path, NULL, &err);
        assert_false(hb_dataset_control_character(err.text));
        if (status >= 0 || !strstr(err.text, bad_file[i].expected) || !strstr(err.text, path))
            fail_msg("bad file %zu: %d '%s', expected '%s'", i, status, err.text, bad_file[i].expected);
        assert_null(d);
    }
}

/* What is written can be left in the file and read there, whatever the lengths of names before it. */
static void written_is_streamed(void **state)
{
    const char *path = in_folder("stream.h5");
    (void)state;

    for (int length = 1; length <= 9; length++) {
        char state_name[1][HB_NAME_SIZE] = {""}, unit[1][HB_NAME_SIZE] = {""}, hidden[1][HB_NAME_SIZE] = {""};
        hb_dataset_header h = {
            .nx = 1, .dt = 1, .state_name = state_name, .state_unit = unit, .nhidden = 1, .hidden_name = hidden};
        hb_dataset_mapping mapping = {.stream = true};
        hb_dataset_writer *w;
        hb_dataset *whole = NULL, *stream = NULL;
        hb_error err = {0};
        double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, value = 1;

        memset(state_name[0], 'x', (size_t)length);
        memset(hidden[0], 'h', (size_t)length);
        assert_int_equal(hb_dataset_writer_new(&w, path, &h, &err), 0);
        for (int e = 0; e < 40; e++) /* HDF5 keeps more than eight links otherwise */
            assert_int_equal(hb_dataset_writer_append(w, e, 6 + e % 3, x, NULL, NULL, &value, &err), 0);
        assert_int_equal(hb_dataset_writer_close(w, &err), 0);
        assert_int_equal(hb_dataset_read(&whole, path, NULL, &err), 0);
        if (hb_dataset_read(&stream, path, &mapping, &err))
            fail_msg("names of %d characters: %s", length, err.text);
        assert_true(stream->hash == whole->hash);
        assert_non_null(stream->stream);
        hb_dataset_free(whole);
        hb_dataset_free(stream);
    }
}

/* A link where the temporary file would be does not lead the writer to somebody else's file. */
static void a_planted_link_is_not_followed(void **state)
{
    const char *path = in_folder("planted.h5"), *victim = in_folder("victim");
    char temporary[160];
    size_t size;
    (void)state;

    write_text(victim, "precious");
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    assert_int_equal(symlink(victim, temporary), 0);
    write_good(path);
    char *bytes = slurp(victim, &size);
    assert_int_equal(size, 8);
    free(bytes);
}

/* Truncated at any length, or with any byte overwritten, a file is refused or read, never a crash. */
static void damaged_files_do_no_harm(void **state)
{
    const char *good = in_folder("whole.h5"), *path = in_folder("damaged.h5");
    size_t size;
    (void)state;

    write_good(good);
    char *bytes = slurp(good, &size);
    for (size_t cut = 0; cut < size; cut += 97) {
        hb_dataset *d = NULL;
        hb_error err = {0};
        FILE *f = fopen(path, "wb");
        fwrite(bytes, 1, cut, f);
        fclose(f);
        assert_true(hb_dataset_read(&d, path, NULL, &err) < 0);
        assert_non_null(strstr(err.text, path));
    }
    free(bytes);
    hb_error err = {0};
    hb_dataset *d = NULL;
    assert_true(hb_dataset_read(&d, in_folder("not there"), NULL, &err) < 0);
    assert_non_null(strstr(err.text, "No such file"));
}

static void foreign_files_are_mapped(void **state)
{
    const char *path = in_folder("foreign.h5");
    hb_dataset_mapping m = {0};
    hb_dataset *d = NULL;
    hb_error err = {0};
    double x[4 * 3] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}, u[3] = {5, 7, 6};
    (void)state;

    /* as Minari writes a dictionary of observations: no names, no dt, no function */
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    for (int e = 0; e < 2; e++) {
        char name[64];
        snprintf(name, sizeof name, "episode_%d", e);
        H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        strcat(name, "/observations");
        H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        strcat(name, "/state");
        put_set(file, name, 2, 4, 3, x);
        snprintf(name, sizeof name, "episode_%d/actions", e);
        put_set(file, name, 2, 3, 1, u);
    }
    H5Fclose(file);

    assert_true(hb_dataset_read(&d, path, NULL, &err) < 0);
    assert_int_equal(hb_dataset_map(&m, "observations=observations/state", &err), 0);
    assert_true(hb_dataset_read(&d, path, &m, &err) < 0);
    assert_non_null(strstr(err.text, "map functions=one"));
    assert_int_equal(hb_dataset_map(&m, "functions=episode", &err), 0);
    assert_true(hb_dataset_read(&d, path, &m, &err) < 0);
    assert_non_null(strstr(err.text, "map dt=SECONDS"));
    assert_int_equal(hb_dataset_map(&m, "dt=0.02", &err), 0);
    assert_int_equal(hb_dataset_map(&m, "states=a,-", &err), 0);
    assert_true(hb_dataset_read(&d, path, &m, &err) < 0);
    assert_non_null(strstr(err.text, "states=a,- names 2 columns, the file has 3"));
    assert_int_equal(hb_dataset_map(&m, "states=a,-,c", &err), 0);
    assert_int_equal(hb_dataset_read(&d, path, &m, &err), 0);

    assert_int_equal(d->header.nx, 2);
    assert_string_equal(d->header.state_name[1], "c");
    assert_string_equal(d->header.control_name[0], "u0");
    assert_near(d->header.control_min[0], 5, 0);
    assert_near(d->header.control_max[0], 7, 0);
    assert_near(d->header.control_trim[0], 6, 1e-15);
    assert_int_equal(d->nfunctions, 2);
    assert_near(d->episode[1].x[2 * 2 + 1], 22, 0);
    hb_dataset_free(d);

    assert_true(hb_dataset_map(&m, "dt=0", &err) < 0);
    assert_true(hb_dataset_map(&m, "functions=two", &err) < 0);
    assert_true(hb_dataset_map(&m, "colour=red", &err) < 0);
    assert_non_null(strstr(err.text, "unknown key"));
    assert_true(hb_dataset_map(&m, "dt", &err) < 0);
}

static void moments_and_description(void **state)
{
    const char *path = in_folder("moments.h5");
    double mean[NX], std[NX], u_mean[NU], u_std[NU];
    hb_dataset *d;
    char *text;
    size_t size;
    (void)state;

    write_good(path);
    assert_int_equal(hb_dataset_read(&d, path, NULL, NULL), 0);
    hb_dataset_moments(d, mean, std, u_mean, u_std, NULL);
    /* column 0 of x: 0..5, 100..104, 200..203, by hand */
    double sum = 15 + 510 + 806, squares = 55 + 52030 + 162414, n = 15;
    assert_near(mean[0], sum / n, 1e-9);
    assert_near(std[0], sqrt(squares / n - sum / n * sum / n), 1e-9);

    FILE *out = open_memstream(&text, &size);
    hb_dataset_describe(d, out);
    fclose(out);
    assert_non_null(strstr(text, "functions    2"));
    assert_non_null(strstr(text, "episodes     3, of 3 to 5 steps"));
    assert_non_null(strstr(text, "mass"));
    assert_non_null(strstr(text, "█"));
    free(text);
    hb_dataset_free(d);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    const char *fifo = in_folder("fifo"), *bad = in_folder("bad.csv");
    hb_csv_import in = {.nfiles = 1, .file = &fifo, .states = "x", .controls = "u", .dt = 1};
    hb_dataset *d = NULL;
    hb_error err;

    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(hb_dataset_read(&d, fifo, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(hb_dataset_import_csv(&in, in_folder("none.h5"), &err), -EINVAL);
    assert_non_null(strstr(err.text, "not a regular file"));
    /* what would reach a terminal through a message */
    FILE *out = fopen(bad, "w");
    assert_non_null(out);
    fputs("time,x\033[2J,u\n0,0,0\n1,0,0\n", out);
    fclose(out);
    in.file = &bad;
    assert_int_equal(hb_dataset_import_csv(&in, in_folder("none.h5"), &err), -EINVAL);
    assert_non_null(strstr(err.text, "bad.csv:1: contains a control character"));
}

static void csv_becomes_a_data_set(void **state)
{
    const char *a = in_folder("a.csv"), *b = in_folder("b.csv"), *path = in_folder("csv.h5");
    const char *file[] = {a, b};
    hb_csv_import in = {
        .nfiles = 2, .file = file, .time = "t", .time_scale = 1e-3, .states = "x=px,v", .controls = "f"};
    hb_dataset *d;
    hb_error err = {0};
    (void)state;

    /* the log jumps from 40 to 500 ms, and a lone row stands at 900 */
    write_text(
        a,
        "t,px,\"f\",v,other\n0,1,0.1,10,\n20,2,0.2,20,x\n40,3,0.3,30,\n500,4,0.4,40,\n520,5,0.5,50,\n900,6,.6,60,\n");
    write_text(b, "\xef\xbb\xbfpx;v;t;f\r\n1.5;2.5;10;0\r\n2;3;30.5;1\r\n\r\n");
    assert_int_equal(hb_dataset_import_csv(&in, path, &err), 0);
    assert_int_equal(hb_dataset_read(&d, path, NULL, &err), 0);
    assert_int_equal(d->nfunctions, 2);
    assert_int_equal(d->nepisodes, 3);
    assert_near(d->header.dt, 0.02, 1e-15);
    assert_string_equal(d->header.state_name[0], "x");
    assert_int_equal(d->episode[0].nsteps, 2);
    assert_int_equal(d->episode[1].nsteps, 1);
    hb_transition t;
    hb_dataset_transition(d, 0, 1, &t, NULL);
    assert_near(t.x[0], 2, 0);
    assert_near(t.x[1], 20, 0);
    assert_near(t.x_next[0], 3, 0);
    assert_near(t.u[0], 0.2, 0);
    hb_dataset_transition(d, 1, 0, &t, NULL);
    assert_near(t.dt, 0.0205, 1e-12);
    assert_near(t.x_next[1], 3, 0);
    hb_dataset_free(d);

    static const struct {
        const char *text, *expected;
    } bad[] = {
        {"t,px,f\n0,1,2\n1,2,3\n", ":1: there is no column 'v'"},
        {"t,px,f,v\n0,1,2,3\n1,2,3\n", ":3: 3 fields, the header has 4"},
        {"t,px,f,v\n0,1,2,3\n1,2,3,four\n", ":3: column 'v': 'four' is not a finite number"},
        {"t,px,f,v\n0,1,2,3\n1,2,nan,4\n", ":3: column 'f': 'nan' is not a finite number"},
        {"t,px,f,v\n0,1,2,3\n", ": 1 rows of numbers, expected at least 2"},
        {"t,px,f,v\n5,1,2,3\n9,1,2,3\n8,1,2,3\n", "row 3: time 8 does not come after 9"},
        {"", ": 0 rows of numbers"},
    };
    in.nfiles = 1;
    unlink(path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(a, bad[i].text);
        assert_true(hb_dataset_import_csv(&in, path, &err) < 0);
        if (!strstr(err.text, bad[i].expected))
            fail_msg("'%s', expected '%s'", err.text, bad[i].expected);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

/* units, actuator limits and trim come from the caller; several files can be one function */
static void csv_takes_units_bounds_and_functions(void **state)
{
    const char *path = in_folder("limits.h5");
    const char *file[] = {in_folder("a.csv"), in_folder("b.csv"), in_folder("c.csv")};
    const int function[] = {0, 1, 0};
    hb_csv_import in = {.nfiles = 3,
                        .file = file,
                        .function = function,
                        .dt = 0.1,
                        .states = "x[m]=px,v[m/s]",
                        .controls = "f[N],g",
                        .bounds = "g=-1..2.5,f=-0.5..0.75",
                        .trim = "0.25"};
    hb_dataset *d = NULL;
    hb_error err = {0};
    (void)state;

    for (int i = 0; i < 3; i++)
        write_text(file[i], "px,v,f,g\n1,2,0.1,0.2\n3,4,0.3,0.4\n5,6,0.3,0.4\n");
    if (hb_dataset_import_csv(&in, path, &err) || hb_dataset_read(&d, path, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(d->nfunctions, 2);
    assert_int_equal(d->function[0].nepisodes, 2);
    assert_string_equal(d->header.state_unit[0], "m");
    assert_string_equal(d->header.state_unit[1], "m/s");
    assert_string_equal(d->header.control_unit[0], "N");
    assert_string_equal(d->header.control_unit[1], "");
    assert_near(d->header.control_min[0], -0.5, 0);
    assert_near(d->header.control_max[0], 0.75, 0);
    assert_near(d->header.control_min[1], -1, 0);
    assert_near(d->header.control_max[1], 2.5, 0);
    assert_near(d->header.control_trim[0], 0.25, 0);
    assert_near(d->header.control_trim[1], 0.25, 0);
    hb_dataset_free(d);

    static const struct {
        const char *states, *bounds, *trim, *expected;
    } bad[] = {
        {"x[m", NULL, NULL, "state 'x[m': expected NAME"},
        {"x[m]px", NULL, NULL, "state 'x[m]px': expected NAME"},
        {"px", "f=0..1", NULL, "bounds: nothing is given for control 'g'"},
        {"px", "h=0..1", NULL, "bounds: there is no control 'h'"},
        {"px", "1..0", NULL, "bounds '1..0': expected [CONTROL=]MIN..MAX"},
        {"px", "0.5", NULL, "bounds '0.5': expected [CONTROL=]MIN..MAX"},
        {"px", "0..1", "f=2,g=0", "trim: 2 of control 'f' is not within its bounds 0..1"},
        {"px", "0..1", "much", "trim 'much': expected [CONTROL=]NUMBER"},
        {"speed", NULL, NULL, "there is no column 'speed'; the columns are: px, v, f, g"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        in.states = bad[i].states;
        in.bounds = bad[i].bounds;
        in.trim = bad[i].trim;
        assert_true(hb_dataset_import_csv(&in, path, &err) < 0);
        if (!strstr(err.text, bad[i].expected))
            fail_msg("'%s', expected '%s'", err.text, bad[i].expected);
    }
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_dataset.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* delay and lag against a fine simulation of them, with irregular steps */
static void commands_become_what_acts(void **state)
{
    enum { T = 40, FINE = 20000 };
    static const double delay = 0.033, lag = 0.05;
    double x[T + 1] = {0}, u[2 * T], before[2 * T], time[T + 1] = {0};
    (void)state;

    for (int k = 0; k < T; k++) {
        hb_random_key key = {.seed = 5};
        u[2 * k] = before[2 * k] = hb_random_normal(key, (uint64_t)(3 * k));
        u[2 * k + 1] = before[2 * k + 1] = hb_random_normal(key, (uint64_t)(3 * k + 1));
        time[k + 1] = time[k] + 0.01 + 0.04 * hb_random_uniform(key, (uint64_t)(3 * k + 2));
    }
    hb_episode e = {.nsteps = T, .x = x, .u = u, .time = time};
    hb_dataset d = {.header = {.nx = 1, .nu = 2, .dt = 0.03}, .nepisodes = 1, .episode = &e};
    hb_actuators a = {.nu = 2, .delay = {delay}, .lag = {lag}};
    hb_error err = {0};
    assert_int_equal(hb_dataset_actuate(&d, &a, &err), 0);

    double acting = before[0];
    for (int k = 0, now = 0; k < T; k++) {
        double h = (time[k + 1] - time[k]) / FINE, sum = 0;
        for (int i = 0; i < FINE; i++) {
            double t = time[k] + (i + 0.5) * h;
            while (now + 1 < T && time[now + 1] + delay <= t)
                now++;
            double middle = acting + (before[2 * now] - acting) * h / (2 * lag);
            sum += middle / FINE;
            acting += (before[2 * now] - middle) * h / lag;
        }
        /* commands change to within a fine step here */
        assert_near(u[2 * k], sum, 4.0 / FINE);
        /* the other control has neither */
        assert_near(u[2 * k + 1], before[2 * k + 1], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_read_back),
        cmocka_unit_test(layout_is_minaris),
        cmocka_unit_test(same_calls_same_bytes),
        cmocka_unit_test(an_unfinished_file_is_never_seen),
        cmocka_unit_test(hash_follows_the_numbers),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(written_is_streamed),
        cmocka_unit_test(a_planted_link_is_not_followed),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(foreign_files_are_mapped),
        cmocka_unit_test(moments_and_description),
        cmocka_unit_test(commands_become_what_acts),
        cmocka_unit_test(csv_becomes_a_data_set),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(csv_takes_units_bounds_and_functions),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
