#include "model/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are read and written as they lie in memory");

/* bytes; shipped files have headers of 4 kB. One of 100 MB, which the format allows, keeps its reader busy for half a
 * minute and takes gigabytes. */
enum { MAX_HEADER = 1000000, MAX_NAME = 127 };

static const uint64_t max_file = UINT64_C(1) << 32;

static const struct {
    const char *name;
    size_t size; /* bytes */
} dtypes[] = {[HB_F64] = {"F64", 8}, [HB_F32] = {"F32", 4}, [HB_F16] = {"F16", 2}, [HB_BF16] = {"BF16", 2}};

enum { NDTYPES = sizeof dtypes / sizeof *dtypes };

/* What a loaded file keeps. The public part comes first, so that a pointer to it is a pointer to this. */
struct loaded {
    hb_safetensors public;
    char *path, *bytes; /* the whole file */
    json_t *header;     /* owns names and texts */
    hb_tensor *tensor;
    hb_text *text;
};

void hb_safetensors_free(hb_safetensors *f)
{
    struct loaded *l = (struct loaded *)f;

    if (!l)
        return;
    json_decref(l->header);
    free(l->tensor);
    free(l->text);
    free(l->bytes);
    free(l->path);
    free(l);
}

const hb_tensor *hb_safetensors_find(const hb_safetensors *f, const char *name)
{
    for (int i = 0; i < f->ntensors; i++)
        if (!strcmp(f->tensor[i].name, name))
            return &f->tensor[i];
    return NULL;
}

const char *hb_safetensors_text(const hb_safetensors *f, const char *key)
{
    for (int i = 0; i < f->ntexts; i++)
        if (!strcmp(f->text[i].key, key))
            return f->text[i].value;
    return NULL;
}

size_t hb_tensor_count(const hb_tensor *t)
{
    size_t count = 1;

    for (int i = 0; i < t->rank; i++)
        count *= t->shape[i];
    return count;
}

size_t hb_tensor_bytes(const hb_tensor *t)
{
    return hb_tensor_count(t) * dtypes[t->dtype].size;
}

const char *hb_dtype_name(hb_dtype dtype)
{
    return dtypes[dtype].name;
}

const char *hb_tensor_shape_text(int rank, const size_t *shape, char buffer[HB_SHAPE_TEXT])
{
    int n = snprintf(buffer, HB_SHAPE_TEXT, "[");

    for (int i = 0; i < rank; i++)
        n += snprintf(buffer + n, (size_t)(HB_SHAPE_TEXT - n), "%s%zu", i ? ", " : "", shape[i]);
    snprintf(buffer + n, (size_t)(HB_SHAPE_TEXT - n), "]");
    return buffer;
}

const char *hb_number_text(double value, char buffer[HB_NUMBER_TEXT])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buffer, HB_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    return buffer;
}

/* --- numbers --- */

static double half_to_double(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                  : ldexp(mantissa, -24);

    return half >> 15 ? -value : value;
}

static double bfloat_to_double(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static double element(const hb_tensor *t, size_t index)
{
    const char *at = (const char *)t->data + index * dtypes[t->dtype].size;
    double f64;
    float f32;
    uint16_t half;

    switch (t->dtype) {
    case HB_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case HB_F32:
        memcpy(&f32, at, sizeof f32);
        return f32;
    case HB_F16:
        memcpy(&half, at, sizeof half);
        return half_to_double(half);
    case HB_BF16:
        memcpy(&half, at, sizeof half);
        return bfloat_to_double(half);
    }
    return NAN;
}

static int finite_element(const hb_safetensors *f, const hb_tensor *t, size_t index, double *ret, hb_error *err)
{
    double value = element(t, index);

    if (!isfinite(value))
        return hb_fail(err, EINVAL, "%s: tensor '%s': element %zu is %s, expected a finite number", f->path, t->name,
                       index, isnan(value) ? "NaN" : "infinite");
    *ret = value;
    return 0;
}

int hb_safetensors_doubles(const hb_safetensors *f, const hb_tensor *t, double *ret, hb_error *err)
{
    size_t count = hb_tensor_count(t);
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++)
        r = finite_element(f, t, i, &ret[i], err);
    return r;
}

int hb_safetensors_reals(const hb_safetensors *f, const hb_tensor *t, hb_real *ret, hb_error *err)
{
    size_t count = hb_tensor_count(t);

    for (size_t i = 0; i < count; i++) {
        double value = 0;
        int r = finite_element(f, t, i, &value, err);
        if (r)
            return r;
        ret[i] = (hb_real)value;
        if (!isfinite(ret[i]))
            return hb_fail(err, ERANGE, "%s: tensor '%s': element %zu is %g, too large for a 32-bit float", f->path,
                           t->name, i, value);
    }
    return 0;
}

/* --- reading --- */

/* Reads the whole file; allocates only what the file really holds, whatever its header claims. */
static int read_file(struct loaded *l, size_t *size, hb_error *err)
{
    const char *path = l->path;
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */

    if (fd < 0)
        return hb_fail(err, errno, "%s: cannot be opened: %s", path, strerror(errno));
    int r = fstat(fd, &status) < 0     ? hb_fail(err, errno, "%s: %s", path, strerror(errno))
            : !S_ISREG(status.st_mode) ? hb_fail(err, EINVAL, "%s: is not a regular file", path)
                                       : 0;
    if (r == 0 && (uint64_t)status.st_size > max_file)
        r = hb_fail(err, EFBIG, "%s: %jd bytes long, expected at most %" PRIu64, path, (intmax_t)status.st_size,
                    max_file);
    if (r == 0) {
        *size = (size_t)status.st_size;
        l->bytes = malloc(*size ? *size : 1);
        if (!l->bytes)
            r = hb_fail(err, ENOMEM, "%s: out of memory (%zu bytes wanted)", path, *size);
    }
    for (size_t done = 0; r == 0 && done < *size;) {
        ssize_t n = read(fd, l->bytes + done, *size - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            r = hb_fail(err, EIO, "%s: ended after %zu of %zu bytes while it was read", path, done, *size);
        else if (errno != EINTR)
            r = hb_fail(err, errno, "%s: cannot be read: %s", path, strerror(errno));
    }
    close(fd);
    return r;
}

/* The header's JSON; *ret_length is its length in bytes. */
static int parse_header(struct loaded *l, size_t size, size_t *ret_length, hb_error *err)
{
    const char *path = l->path;
    uint64_t length;
    json_error_t why;

    if (size < 8)
        return hb_fail(err, EINVAL, "%s: %zu bytes long, expected at least the 8 of the header's length", path, size);
    memcpy(&length, l->bytes, 8);
    if (length > MAX_HEADER)
        return hb_fail(err, EINVAL, "%s: the header says it is %" PRIu64 " bytes long, expected at most %d", path,
                       length, MAX_HEADER);
    if (length > size - 8)
        return hb_fail(err, EINVAL, "%s: the header says it is %" PRIu64 " bytes long, but only %zu follow", path,
                       length, size - 8);

    const char *json = l->bytes + 8;
    size_t end = (size_t)length;
    while (end && json[end - 1] == ' ')
        end--;
    if (!end || json[0] != '{')
        return hb_fail(err, EINVAL, "%s: the header does not start with '{'", path);
    if (json[end - 1] != '}')
        return hb_fail(err, EINVAL, "%s: the header does not end with '}' and spaces", path);

    l->header = json_loadb(json, end, JSON_REJECT_DUPLICATES, &why);
    if (!l->header)
        return hb_fail(err, EINVAL, "%s: header, byte %d: %s", path, why.position, why.text);
    *ret_length = (size_t)length;
    return 0;
}

static bool is_printable(const char *text, const char *but)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++)
        if (((*s < ' ' || *s == 127) && !strchr(but, *s)) || (*s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0))
            return false;
    return true;
}

int hb_safetensors_check_name(const char *path, const char *what, const char *name, hb_error *err)
{
    size_t length = strlen(name);

    if (length == 0 || length > MAX_NAME)
        return hb_fail(err, EINVAL, "%s: a %s is %zu bytes long, expected 1 to %d", path, what, length, MAX_NAME);
    if (!is_printable(name, ""))
        return hb_fail(err, EINVAL, "%s: a %s has control characters in it", path, what);
    return 0;
}

int hb_safetensors_check_text(const char *path, const hb_text *text, hb_error *err)
{
    int r = hb_safetensors_check_name(path, "metadata key", text->key, err);

    if (r == 0 && !is_printable(text->value, "\t\n\r"))
        r = hb_fail(err, EINVAL, "%s: metadata '%s' has control characters in it", path, text->key);
    return r;
}

static int parse_texts(struct loaded *l, hb_error *err)
{
    json_t *metadata = json_object_get(l->header, "__metadata__"), *value;
    const char *key;

    if (!metadata)
        return 0;
    if (!json_is_object(metadata))
        return hb_fail(err, EINVAL, "%s: '__metadata__' is not an object of strings", l->path);
    l->text = calloc(json_object_size(metadata) + 1, sizeof *l->text);
    if (!l->text)
        return hb_fail(err, ENOMEM, "%s: out of memory", l->path);
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value)) {
            int r = hb_safetensors_check_name(l->path, "metadata key", key, err);
            return r ? r : hb_fail(err, EINVAL, "%s: metadata '%s' is not a string", l->path, key);
        }
        hb_text *text = &l->text[l->public.ntexts++];
        *text = (hb_text){key, json_string_value(value)};
        int r = hb_safetensors_check_text(l->path, text, err);
        if (r)
            return r;
    }
    return 0;
}

static int parse_dtype(hb_tensor *t, const char *path, const json_t *value, hb_error *err)
{
    const char *name = json_string_value(value);

    for (int i = 0; name && i < NDTYPES; i++)
        if (!strcmp(name, dtypes[i].name)) {
            t->dtype = (hb_dtype)i;
            return 0;
        }
    return hb_fail(err, EINVAL, "%s: tensor '%s': dtype %s%.20s%s, expected F64, F32, F16 or BF16", path, t->name,
                   name ? "'" : "", name ? name : "is not a string", name ? "'" : "");
}

/* Also works out the number of bytes that the shape asks for. */
static int parse_shape(hb_tensor *t, const char *path, const json_t *value, size_t *ret_bytes, hb_error *err)
{
    if (!json_is_array(value))
        return hb_fail(err, EINVAL, "%s: tensor '%s': shape is not an array", path, t->name);
    if (json_array_size(value) > HB_MAX_RANK)
        return hb_fail(err, EINVAL, "%s: tensor '%s': %zu dimensions, expected at most %d", path, t->name,
                       json_array_size(value), HB_MAX_RANK);

    size_t bytes = dtypes[t->dtype].size;
    t->rank = (int)json_array_size(value);
    for (int i = 0; i < t->rank; i++) {
        const json_t *dimension = json_array_get(value, (size_t)i);
        if (!json_is_integer(dimension) || json_integer_value(dimension) < 0)
            return hb_fail(err, EINVAL, "%s: tensor '%s': dimension %d of the shape is not a whole number >= 0", path,
                           t->name, i);
        t->shape[i] = (size_t)json_integer_value(dimension);
        if (__builtin_mul_overflow(bytes, t->shape[i], &bytes))
            return hb_fail(err, EOVERFLOW, "%s: tensor '%s': the shape has more elements than can be counted", path,
                           t->name);
    }
    *ret_bytes = bytes;
    return 0;
}

static int parse_offsets(hb_tensor *t, const struct loaded *l, const json_t *value, size_t bytes, size_t header,
                         size_t size, hb_error *err)
{
    const json_t *begin_value = json_array_get(value, 0), *end_value = json_array_get(value, 1);
    json_int_t begin = json_integer_value(begin_value), end = json_integer_value(end_value);
    size_t data = size - 8 - header;

    if (json_array_size(value) != 2 || !json_is_integer(begin_value) || !json_is_integer(end_value) || begin < 0)
        return hb_fail(err, EINVAL, "%s: tensor '%s': data_offsets are not two whole numbers >= 0", l->path, t->name);
    if (end < begin)
        return hb_fail(err, EINVAL,
                       "%s: tensor '%s': data_offsets end (%" JSON_INTEGER_FORMAT
                       ") before they begin (%" JSON_INTEGER_FORMAT ")",
                       l->path, t->name, end, begin);
    if ((size_t)end > data)
        return hb_fail(err, EINVAL,
                       "%s: tensor '%s': ends at byte %" JSON_INTEGER_FORMAT
                       " of the data, but there are only %zu: is the file truncated?",
                       l->path, t->name, end, data);
    if ((size_t)(end - begin) != bytes) {
        char shape[HB_SHAPE_TEXT];
        return hb_fail(err, EINVAL, "%s: tensor '%s': %" JSON_INTEGER_FORMAT " bytes of data, expected %zu for %s %s",
                       l->path, t->name, end - begin, bytes, dtypes[t->dtype].name,
                       hb_tensor_shape_text(t->rank, t->shape, shape));
    }
    t->data = l->bytes + 8 + header + begin;
    return 0;
}

static int parse_tensor(hb_tensor *t, const struct loaded *l, const char *name, json_t *value, size_t header,
                        size_t size, hb_error *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    json_t *field[3];
    size_t bytes = 0;
    int r = hb_safetensors_check_name(l->path, "tensor name", name, err);

    if (r)
        return r;
    if (!json_is_object(value))
        return hb_fail(err, EINVAL, "%s: tensor '%s' is not an object", l->path, name);
    for (int i = 0; i < 3; i++) {
        field[i] = json_object_get(value, keys[i]);
        if (!field[i])
            return hb_fail(err, EINVAL, "%s: tensor '%s': no '%s'", l->path, name, keys[i]);
    }
    if (json_object_size(value) != 3)
        return hb_fail(err, EINVAL, "%s: tensor '%s': %zu keys, expected dtype, shape and data_offsets alone", l->path,
                       name, json_object_size(value));

    t->name = name;
    r = parse_dtype(t, l->path, field[0], err);
    if (r == 0)
        r = parse_shape(t, l->path, field[1], &bytes, err);
    if (r == 0)
        r = parse_offsets(t, l, field[2], bytes, header, size, err);
    return r;
}

/* empty tensors come before the one that begins where they do */
static int by_position(const void *a, const void *b)
{
    const hb_tensor *s = *(const hb_tensor *const *)a, *t = *(const hb_tensor *const *)b;
    const char *s_begin = s->data, *t_begin = t->data;

    if (s_begin != t_begin)
        return s_begin < t_begin ? -1 : 1;
    return (hb_tensor_bytes(s) > 0) - (hb_tensor_bytes(t) > 0);
}

/* Tensors must fill the data from the first byte to the last, each byte belonging to one. */
static int check_cover(const struct loaded *l, size_t header, size_t size, hb_error *err)
{
    int n = l->public.ntensors, r = 0;
    const hb_tensor **sorted = malloc(((size_t)n + 1) * sizeof(hb_tensor *));
    const char *start = l->bytes + 8 + header, *end = l->bytes + size, *covered = start;

    if (!sorted)
        return hb_fail(err, ENOMEM, "%s: out of memory", l->path);
    for (int i = 0; i < n; i++)
        sorted[i] = &l->tensor[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_position);

    for (int i = 0; i < n && r == 0; i++) {
        const char *begin = sorted[i]->data;
        if (begin < covered)
            r = hb_fail(err, EINVAL, "%s: tensor '%s' overlaps tensor '%s'", l->path, sorted[i]->name,
                        sorted[i - 1]->name);
        else if (begin > covered)
            r = hb_fail(err, EINVAL, "%s: tensor '%s' begins at byte %td of the data, leaving a hole from byte %td",
                        l->path, sorted[i]->name, begin - start, covered - start);
        covered = begin + hb_tensor_bytes(sorted[i]);
    }
    if (r == 0 && covered != end)
        r = hb_fail(err, EINVAL, "%s: %td bytes of data, but the tensors end at byte %td", l->path, end - start,
                    covered - start);
    free(sorted);
    return r;
}

static int parse(struct loaded *l, hb_error *err)
{
    size_t size = 0, header = 0;
    const char *name;
    json_t *value;
    int r = read_file(l, &size, err);

    if (r == 0)
        r = parse_header(l, size, &header, err);
    if (r == 0)
        r = parse_texts(l, err);
    if (r)
        return r;

    l->tensor = calloc(json_object_size(l->header) + 1, sizeof *l->tensor);
    if (!l->tensor)
        return hb_fail(err, ENOMEM, "%s: out of memory", l->path);
    json_object_foreach(l->header, name, value)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        r = parse_tensor(&l->tensor[l->public.ntensors++], l, name, value, header, size, err);
        if (r)
            return r;
    }
    return check_cover(l, header, size, err);
}

int hb_safetensors_load(hb_safetensors **ret, const char *path, hb_error *err)
{
    struct loaded *l = calloc(1, sizeof *l);

    if (l)
        l->path = strdup(path);
    if (!l || !l->path) {
        free(l);
        return hb_fail(err, ENOMEM, "%s: out of memory", path);
    }
    int r = parse(l, err);
    if (r) {
        hb_safetensors_free(&l->public);
        return r;
    }
    l->public.path = l->path;
    l->public.tensor = l->tensor;
    l->public.text = l->text;
    *ret = &l->public;
    return 0;
}
