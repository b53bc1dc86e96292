/* Data sets -> HDF5 in Minari's layout, an episode at a time.
 *
 * Bytes depend on what is written alone: no time stamps, fixed-length text, one object after another. */
#include "data/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hb_dataset_writer {
    char *path, *temporary;
    hid_t file;
    int nx, nu, nhidden;
    char (*hidden_name)[HB_NAME_SIZE];
    int nepisodes;
    long long nsteps;
};

static int write_failed(const hb_dataset_writer *w, const char *what, hb_error *err)
{
    return hb_fail(err, EIO, "%s: %s cannot be written: is the disk full?", w->temporary, what);
}

/* n elements of a type as an attribute; n = 0 is a scalar. */
static int put_attribute(hid_t object, const char *name, hid_t file_type, hid_t memory_type, int n, const void *data)
{
    hsize_t size = (hsize_t)n;
    hid_t space = n > 0 ? H5Screate_simple(1, &size, NULL) : H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
    herr_t status = attribute < 0 ? -1 : H5Awrite(attribute, memory_type, data);

    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    return status < 0 ? -1 : 0;
}

static int put_numbers(hid_t object, const char *name, int n, const double *value)
{
    return put_attribute(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, n, value);
}

static int put_integer(hid_t object, const char *name, long long value)
{
    return put_attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_LLONG, 0, &value);
}

/* n names of HB_NAME_SIZE; n = 0 is one name as a scalar. */
static int put_text(hid_t object, const char *name, int n, const void *text)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, HB_NAME_SIZE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    int status = put_attribute(object, name, type, type, n, text);
    H5Tclose(type);
    return status;
}

static int put_matrix(hid_t group, const char *name, int rank, int rows, int columns, const double *value)
{
    hsize_t size[2] = {(hsize_t)rows, (hsize_t)columns};
    hid_t space = H5Screate_simple(rank, size, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);

    H5Pset_obj_track_times(properties, 0);
    hid_t set = H5Dcreate2(group, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    herr_t status = set < 0 ? -1 : 0;
    if (set >= 0 && rows * columns > 0)
        status = H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value);
    if (set >= 0 && H5Dclose(set) < 0)
        status = -1;
    H5Pclose(properties);
    H5Sclose(space);
    return status < 0 ? -1 : 0;
}

static hid_t create_file(const char *path)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), create = H5Pcreate(H5P_FILE_CREATE);

    /* the newer object headers, which any HDF5 since 1.8 reads, hold no times and are half as large */
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
    /* numbers begin on a multiple of their size, so that they can be read where they lie (stream.h) */
    H5Pset_alignment(access, 1, sizeof(double));
    H5Pset_obj_track_times(create, 0);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, create, access);
    H5Pclose(access);
    H5Pclose(create);
    return file;
}

static int write_header(hb_dataset_writer *w, const hb_dataset_header *h)
{
    hid_t root = w->file;
    int bad = 0;

    bad |= put_text(root, "plant", 0, h->plant);
    bad |= put_attribute(root, "seed", H5T_STD_U64LE, H5T_NATIVE_UINT64, 0, &h->seed);
    bad |= put_numbers(root, "dt", 0, &h->dt);
    if (h->parameters_known)
        bad |= put_integer(root, "parameters_known", 1);
    bad |= put_text(root, "state_names", h->nx, h->state_name);
    bad |= put_text(root, "state_units", h->nx, h->state_unit);
    if (h->nu > 0) {
        bad |= put_text(root, "control_names", h->nu, h->control_name);
        bad |= put_text(root, "control_units", h->nu, h->control_unit);
        if (h->control_min)
            bad |= put_numbers(root, "control_min", h->nu, h->control_min);
        if (h->control_max)
            bad |= put_numbers(root, "control_max", h->nu, h->control_max);
        if (h->control_trim)
            bad |= put_numbers(root, "control_trim", h->nu, h->control_trim);
    }
    return bad;
}

int hb_dataset_writer_new(hb_dataset_writer **ret, const char *path, const hb_dataset_header *h, hb_error *err)
{
    if (h->nx < 1 || h->nu < 0 || !(h->dt > 0) || !isfinite(h->dt))
        return hb_fail(err, EINVAL, "%s: %d states, %d controls, a period of %g s: there must be a state and a period",
                       path, h->nx, h->nu, h->dt);

    hb_dataset_writer *w = calloc(1, sizeof *w);
    if (!w)
        return hb_fail(err, ENOMEM, "out of memory");
    w->file = -1;
    w->nx = h->nx;
    w->nu = h->nu;
    w->nhidden = h->nhidden;
    w->path = strdup(path);
    w->hidden_name = calloc((size_t)h->nhidden + 1, sizeof *w->hidden_name);
    int status = 0;
    if (!w->path || !w->hidden_name || asprintf(&w->temporary, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        w->temporary = NULL;
        status = hb_fail(err, ENOMEM, "out of memory");
        goto fail;
    }
    if (h->nhidden > 0)
        memcpy(w->hidden_name, h->hidden_name, (size_t)h->nhidden * sizeof *w->hidden_name);

    /* the system's own words when the file cannot be made; never through a link that somebody else put there */
    unlink(w->temporary); /* left behind by a crash */
    int fd = open(w->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0) {
        status = hb_fail(err, errno, "%s: %s", path, strerror(errno));
        free(w->temporary); /* not ours to remove */
        w->temporary = NULL;
        goto fail;
    }
    close(fd);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    w->file = create_file(w->temporary);
    if (w->file < 0 || write_header(w, h)) {
        status = write_failed(w, "the header", err);
        goto fail;
    }
    *ret = w;
    return 0;

fail:
    hb_dataset_writer_free(w);
    return status;
}

/* Row and column of the first number that is not finite, or -1. */
static int first_bad(size_t n, const double *value)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(value[i]))
            return (int)i;
    return -1;
}

static int check_episode(const hb_dataset_writer *w, int function, int nsteps, const double *x, const double *u,
                         const double *time, const double *hidden, hb_error *err)
{
    size_t rows = (size_t)nsteps + 1;
    int bad;

    if (function < 0 || nsteps < 1)
        return hb_fail(err, EINVAL, "%s: episode_%d: function %d, %d steps: expected a function from 0 and a step",
                       w->path, w->nepisodes, function, nsteps);
    if ((bad = first_bad(rows * (size_t)w->nx, x)) >= 0)
        return hb_fail(err, EINVAL, "%s: episode_%d/observations, row %d, column %d: not a finite number", w->path,
                       w->nepisodes, bad / w->nx, bad % w->nx);
    if (w->nu > 0 && (bad = first_bad((size_t)nsteps * (size_t)w->nu, u)) >= 0)
        return hb_fail(err, EINVAL, "%s: episode_%d/actions, row %d, column %d: not a finite number", w->path,
                       w->nepisodes, bad / w->nu, bad % w->nu);
    if (w->nhidden > 0 && (bad = first_bad((size_t)w->nhidden, hidden)) >= 0)
        return hb_fail(err, EINVAL, "%s: episode_%d: hidden parameter %s is not a finite number", w->path, w->nepisodes,
                       w->hidden_name[bad]);
    for (int i = 0; time && i < nsteps; i++)
        if (!isfinite(time[i]) || !isfinite(time[i + 1]) || !(time[i + 1] > time[i]))
            return hb_fail(err, EINVAL, "%s: episode_%d/times, row %d: %.9g does not come after %.9g", w->path,
                           w->nepisodes, i + 1, time[i + 1], time[i]);
    return 0;
}

int hb_dataset_writer_append(hb_dataset_writer *w, int function, int nsteps, const double *x, const double *u,
                             const double *time, const double *hidden, hb_error *err)
{
    int status = check_episode(w, function, nsteps, x, u, time, hidden, err);
    if (status)
        return status;

    char name[HB_NAME_SIZE + 8];
    snprintf(name, sizeof name, "episode_%d", w->nepisodes);
    hid_t properties = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(properties, 0);
    hid_t group = H5Gcreate2(w->file, name, H5P_DEFAULT, properties, H5P_DEFAULT);
    H5Pclose(properties);
    if (group < 0)
        return write_failed(w, name, err);

    int bad = put_integer(group, "id", w->nepisodes);
    bad |= put_integer(group, "total_steps", nsteps);
    bad |= put_integer(group, "function", function);
    for (int i = 0; i < w->nhidden; i++) {
        snprintf(name, sizeof name, "hidden_%s", w->hidden_name[i]);
        bad |= put_numbers(group, name, 0, &hidden[i]);
    }
    bad |= put_matrix(group, "observations", 2, nsteps + 1, w->nx, x);
    bad |= put_matrix(group, "actions", 2, nsteps, w->nu, u);
    if (time)
        bad |= put_matrix(group, "times", 1, nsteps + 1, 1, time);
    if (H5Gclose(group) < 0 || bad)
        return write_failed(w, "an episode", err);
    w->nepisodes++;
    w->nsteps += nsteps;
    return 0;
}

static int sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int status = fsync(fd);
    close(fd);
    return status;
}

int hb_dataset_put_actuators(const char *path, int nu, const double *delay, const double *lag, hb_error *err)
{
    static const char *const name[] = {"control_delay", "control_lag"};
    const double *value[] = {delay, lag};
    int bad = 0;

    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    if (file < 0)
        return hb_fail(err, EIO, "%s: cannot be written: is it a data set, and yours?", path);
    for (int k = 0; k < 2 && !bad; k++) {
        if (H5Aexists(file, name[k]) > 0)
            bad |= H5Adelete(file, name[k]) < 0;
        bad |= put_numbers(file, name[k], nu, value[k]);
    }
    bad |= H5Fclose(file) < 0;
    return bad ? hb_fail(err, EIO, "%s: delay and lag cannot be written: is the disk full?", path) : 0;
}

int hb_dataset_writer_close(hb_dataset_writer *w, hb_error *err)
{
    int status = 0;

    if (w->nepisodes == 0)
        status = hb_fail(err, EINVAL, "%s: no episode was written", w->path);
    else if (put_integer(w->file, "total_episodes", w->nepisodes) || put_integer(w->file, "total_steps", w->nsteps))
        status = write_failed(w, "the total", err);
    herr_t closed = H5Fclose(w->file);
    w->file = -1;
    if (!status && (closed < 0 || sync_file(w->temporary)))
        status = write_failed(w, "the end", err);
    if (!status && rename(w->temporary, w->path))
        status = hb_fail(err, errno, "%s: %s", w->path, strerror(errno));
    if (!status) {
        free(w->temporary);
        w->temporary = NULL;
    }
    hb_dataset_writer_free(w);
    return status;
}

void hb_dataset_writer_free(hb_dataset_writer *w)
{
    if (!w)
        return;
    if (w->file >= 0)
        H5Fclose(w->file);
    if (w->temporary)
        unlink(w->temporary);
    free(w->temporary);
    free(w->path);
    free(w->hidden_name);
    free(w);
}
