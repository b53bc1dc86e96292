/* Safetensors files: named arrays and a few strings, as Python's `safetensors` reads and writes them.
 *
 *     8 bytes        length of the header, little-endian (we read 1 MB at most, the format allows 100)
 *     header         JSON, padded with spaces: {"__metadata__": {"key": "string", ...},
 *                    "name": {"dtype": "F32", "shape": [3, 4], "data_offsets": [begin, end]}, ...}
 *     data           the arrays, row-major and little-endian, one behind the other without holes
 *
 * Reading is strict: a file is taken as a whole or refused with the name of what is wrong with it. */
#ifndef HB_SAFETENSORS_H
#define HB_SAFETENSORS_H

#include "base/base.h"

enum { HB_MAX_RANK = 8 };

typedef enum { HB_F64, HB_F32, HB_F16, HB_BF16 } hb_dtype;

/* The dtype of hb_real. */
#ifdef HB_DOUBLE
#define HB_REAL_DTYPE HB_F64
#else
#define HB_REAL_DTYPE HB_F32
#endif

typedef struct hb_tensor {
    const char *name;
    hb_dtype dtype;
    int rank;
    size_t shape[HB_MAX_RANK];
    const void *data; /* of a file: not aligned, read it with hb_safetensors_doubles or _reals */
} hb_tensor;

typedef struct hb_text {
    const char *key, *value;
} hb_text;

/* The content of a file. Of a file that was read, everything belongs to it and lives until hb_safetensors_free. */
typedef struct hb_safetensors {
    const char *path;
    int ntensors;
    const hb_tensor *tensor; /* in the order of the header */
    int ntexts;
    const hb_text *text; /* the metadata */
} hb_safetensors;

int hb_safetensors_load(hb_safetensors **ret, const char *path, hb_error *err);
void hb_safetensors_free(hb_safetensors *f);

/* Writes f to a temporary file beside f->path, syncs it and renames it: a reader never sees half a file. */
int hb_safetensors_save(const hb_safetensors *f, hb_error *err);

/* NULL when there is none of that name. */
const hb_tensor *hb_safetensors_find(const hb_safetensors *f, const char *name);
const char *hb_safetensors_text(const hb_safetensors *f, const char *key);

size_t hb_tensor_count(const hb_tensor *t); /* elements */
size_t hb_tensor_bytes(const hb_tensor *t);
const char *hb_dtype_name(hb_dtype dtype);
/* The shape as text, "[3, 4]", for messages; returns buffer. */
enum { HB_SHAPE_TEXT = 192 };
const char *hb_tensor_shape_text(int rank, const size_t *shape, char buffer[HB_SHAPE_TEXT]);

/* All elements, converted. NaN, Inf, and what the number type cannot hold are refused. */
int hb_safetensors_doubles(const hb_safetensors *f, const hb_tensor *t, double *ret, hb_error *err);
int hb_safetensors_reals(const hb_safetensors *f, const hb_tensor *t, hb_real *ret, hb_error *err);

/* What names and texts of files are held to, written or read, since they end up in messages and terminals: names are
 * short, and there are no control characters but the line ends and tabs of texts. `what` names the kind of name. */
int hb_safetensors_check_name(const char *path, const char *what, const char *name, hb_error *err);
int hb_safetensors_check_text(const char *path, const hb_text *text, hb_error *err);

/* The shortest decimal text that reads back as the same number: for metadata. Returns buffer. */
enum { HB_NUMBER_TEXT = 32 };
const char *hb_number_text(double value, char buffer[HB_NUMBER_TEXT]);

#endif
