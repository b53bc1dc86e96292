#include "model/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The header as text, padded so that the data are aligned to 8 bytes; NULL when a string is not UTF-8 or memory is
 * short. */
static char *header_text(const hb_safetensors *f)
{
    json_t *header = json_object(), *metadata = json_object();
    bool good = header && metadata;
    size_t offset = 0;

    for (int i = 0; good && i < f->ntexts; i++)
        good = !json_object_set_new(metadata, f->text[i].key, json_string(f->text[i].value));
    if (good && f->ntexts)
        good = !json_object_set(header, "__metadata__", metadata);
    for (int i = 0; good && i < f->ntensors; i++) {
        const hb_tensor *t = &f->tensor[i];
        json_t *shape = json_array();
        for (int k = 0; k < t->rank; k++)
            good = good && !json_array_append_new(shape, json_integer((json_int_t)t->shape[k]));
        json_t *value = json_pack("{s:s, s:o, s:[I, I]}", "dtype", hb_dtype_name(t->dtype), "shape", shape,
                                  "data_offsets", (json_int_t)offset, (json_int_t)(offset + hb_tensor_bytes(t)));
        good = good && !json_object_set_new(header, t->name, value);
        offset += hb_tensor_bytes(t);
    }

    char *text = good ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    json_decref(metadata);
    if (!text)
        return NULL;
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    char *grown = realloc(text, padded + 1);
    if (!grown) {
        free(text);
        return NULL;
    }
    memset(grown + length, ' ', padded - length);
    grown[padded] = 0;
    return grown;
}

static bool write_all(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool write_content(int fd, const hb_safetensors *f, const char *header)
{
    uint64_t length = strlen(header);
    bool good = write_all(fd, &length, sizeof length) && write_all(fd, header, length);

    for (int i = 0; good && i < f->ntensors; i++)
        good = write_all(fd, f->tensor[i].data, hb_tensor_bytes(&f->tensor[i]));
    return good && fsync(fd) == 0;
}

/* A rename is only safe on disk once the folder is. */
static void sync_folder(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

/* What is written must be readable. */
static int check(const hb_safetensors *f, hb_error *err)
{
    int r = 0;

    for (int i = 0; i < f->ntexts && r == 0; i++)
        r = hb_safetensors_check_text(f->path, &f->text[i], err);
    for (int i = 0; i < f->ntensors && r == 0; i++) {
        r = hb_safetensors_check_name(f->path, "tensor name", f->tensor[i].name, err);
        if (r == 0 && hb_safetensors_find(f, f->tensor[i].name) != &f->tensor[i])
            r = hb_fail(err, EINVAL, "%s: there are two tensors '%s'", f->path, f->tensor[i].name);
    }
    return r;
}

int hb_safetensors_save(const hb_safetensors *f, hb_error *err)
{
    char temporary[PATH_MAX];
    int r = check(f, err);

    if (r)
        return r;
    if (snprintf(temporary, sizeof temporary, "%s.tmp-%ld", f->path, (long)getpid()) >= (int)sizeof temporary)
        return hb_fail(err, ENAMETOOLONG, "%s: the path is too long", f->path);
    char *header = header_text(f);
    if (!header)
        return hb_fail(err, EINVAL, "%s: cannot be written: a name or text is not UTF-8, or memory is short", f->path);

    unlink(temporary); /* left behind by a crash */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool good = fd >= 0 && write_content(fd, f, header);
    int why = errno;
    if (fd >= 0 && close(fd) < 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(temporary, f->path) < 0) {
        good = false;
        why = errno;
    }
    free(header);
    if (!good) {
        if (fd >= 0)
            unlink(temporary);
        return hb_fail(err, why, "%s: cannot be written: %s", f->path, strerror(why));
    }
    sync_folder(f->path);
    return 0;
}
