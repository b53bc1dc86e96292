/* HDF5 files that anyone may have written: the input says which groups, data sets and attributes of which types and
 * shapes there are, in the words of our layout and in others. Files whose bytes are damaged are HDF5's affair.
 *
 * An instruction is four bytes: what to make, its type, its shape, and a number that its values come from. */
#include <hdf5.h>
#include <math.h>

#include "data/dataset.h"
#include "fuzz.h"

static const char *const attribute[] = {
    "state_names",
    "state_units",
    "control_names",
    "control_units",
    "dt",
    "plant",
    "seed",
    "control_min",
    "control_max",
    "control_trim",
    "function",
    "hidden_mass",
    "hidden_drag",
    "hidden_",
    "id",
    "total_steps",
    "hidden_a_name_that_is_far_too_long_for_any_of_the_fixed_size_arrays_that_hold_names"};
static const char *const set_name[] = {"observations", "actions", "times", "infos"};

enum { ELEMENTS = 64, TEXT = 8 };

static hid_t shape_of(uint8_t byte)
{
    hsize_t one = byte & 31, two[2] = {1 + (byte >> 2 & 7), 1 + (byte & 3)}, three[3] = {2, 2, 2};

    switch (byte >> 5) {
    case 0:
        return H5Screate(H5S_SCALAR);
    case 1:
        return H5Screate(H5S_NULL);
    case 2:
    case 3:
        return H5Screate_simple(1, &one, NULL);
    case 7:
        return H5Screate_simple(3, three, NULL);
    default:
        return H5Screate_simple(2, two, NULL);
    }
}

/* Numbers that matter: small ones, large ones, none. */
static double number(uint8_t seed, int i)
{
    static const double special[] = {0, -1, 1e300, -1e300, NAN, INFINITY, 0.5, 4294967296.0};

    return seed >= 248 ? special[seed - 248] : 0.1 * seed + (seed & 1 ? i : -i);
}

/* Fills the block with values of a type, and returns that type. */
static hid_t values_of(uint8_t type, uint8_t seed, void *block)
{
    static const char *const text[] = {"x", "vx", "",
                                       "a_name_that_is_longer_than_names_may_be__________________________"};
    hid_t t;

    for (int i = 0; i < ELEMENTS; i++)
        switch (type % 6) {
        case 0:
            ((double *)block)[i] = number(seed, i);
            break;
        case 1:
            ((float *)block)[i] = (float)fmax(fmin(number(seed, i), 1e38), -1e38);
            break;
        case 2:
            ((int *)block)[i] = seed * (i + 1) - 100;
            break;
        case 3:
            ((uint64_t *)block)[i] = (uint64_t)seed << (i % 57);
            break;
        case 4:
            ((const char **)block)[i] = text[(seed + i) % 4];
            break;
        default:
            snprintf((char *)block + i * TEXT, TEXT, "s%d", (seed + i) % 10);
        }
    switch (type % 6) {
    case 0:
        return H5Tcopy(H5T_NATIVE_DOUBLE);
    case 1:
        return H5Tcopy(H5T_NATIVE_FLOAT);
    case 2:
        return H5Tcopy(H5T_NATIVE_INT);
    case 3:
        return H5Tcopy(H5T_NATIVE_UINT64);
    default:
        t = H5Tcopy(H5T_C_S1);
        H5Tset_size(t, type % 6 == 4 ? H5T_VARIABLE : TEXT);
        return t;
    }
}

static void instruct(hid_t file, hid_t *group, const uint8_t byte[4])
{
    uint64_t block[ELEMENTS];
    const char *name;
    char episode[16];

    if (byte[0] >= 192) { /* the episode that is spoken of from here on */
        if (*group >= 0)
            H5Gclose(*group);
        snprintf(episode, sizeof episode, byte[1] & 1 ? "episode_%d" : "episode_0%d", byte[3] % 16);
        *group = H5Gcreate2(file, episode, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        return;
    }
    hid_t where = byte[0] & 1 && *group >= 0 ? *group : file;
    hid_t type = values_of(byte[1], byte[3], block), space = shape_of(byte[2]);
    if (byte[0] >= 128) {
        name = set_name[(byte[0] >> 1) % (sizeof set_name / sizeof *set_name)];
        hid_t set = H5Dcreate2(where, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (set >= 0 && !(byte[1] & 128))
            H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, block);
        H5Dclose(set);
    } else {
        name = attribute[(byte[0] >> 1) % (sizeof attribute / sizeof *attribute)];
        hid_t a = H5Acreate2(where, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
        if (a >= 0)
            H5Awrite(a, type, block);
        H5Aclose(a);
    }
    H5Sclose(space);
    H5Tclose(type);
}

static void check(const hb_dataset *d)
{
    FUZZ_EXPECT(d->nfunctions > 0 && d->nepisodes >= d->nfunctions && d->header.nx > 0 && d->header.dt > 0);
    for (int k = 0; k < d->nepisodes; k++) {
        const hb_episode *e = &d->episode[k];
        for (int i = 0; i < (e->nsteps + 1) * d->header.nx; i++)
            FUZZ_EXPECT(isfinite(e->x[i]));
        for (int i = 0; e->u && i < e->nsteps * d->header.nu; i++)
            FUZZ_EXPECT(isfinite(e->u[i]));
        for (int i = 0; i < e->nsteps; i++)
            FUZZ_EXPECT(hb_episode_dt(d, e, i) > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hb_dataset_mapping mapping = {0};
    hb_dataset *d = NULL;
    hb_error err = {0};
    char path[64];

    if (size < 1)
        return 0;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    snprintf(path, sizeof path, "/dev/shm/fuzz_dataset-%ld.h5", (long)getpid());
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), group = -1;
    FUZZ_EXPECT(file >= 0);
    for (size_t i = 1; i + 4 <= size; i += 4)
        instruct(file, &group, data + i);
    if (group >= 0)
        H5Gclose(group);
    H5Fclose(file);

    mapping.dt = data[0] & 1 ? 0.1 : 0;
    mapping.functions = data[0] & 2 ? HB_FUNCTIONS_ONE : data[0] & 4 ? HB_FUNCTIONS_EPISODE : HB_FUNCTIONS_ATTRIBUTE;
    if (data[0] & 8)
        strcpy(mapping.states, "x,-");
    if (data[0] & 16)
        strcpy(mapping.actions, "none");
    mapping.stream = data[0] & 32;
    if (hb_dataset_read(&d, path, &mapping, &err)) {
        FUZZ_EXPECT(*err.text);
    } else {
        check(d);
        hb_dataset_free(d);
    }
    unlink(path);
    return 0;
}
