#include "data/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AROUND = 64 << 10 };

struct hb_stream {
    char *map;
    size_t size, limit;
    atomic_size_t touched; /* bytes since pages were given back */
};

int hb_stream_open(hb_stream **ret, const char *path, hb_error *err)
{
    hb_stream *s = calloc(1, sizeof *s);
    struct stat st = {0};
    int file = s ? open(path, O_RDONLY | O_CLOEXEC) : -1, wrong = 0;

    if (!s)
        return hb_fail(err, ENOMEM, "out of memory");
    if (file < 0 || fstat(file, &st) ||
        (s->map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0)) == MAP_FAILED)
        wrong = errno;
    if (file >= 0)
        close(file);
    if (wrong) {
        free(s);
        return hb_fail(err, wrong, "%s: %s", path, strerror(wrong));
    }
    s->size = (size_t)st.st_size;
    s->limit = HB_STREAM_MEMORY;
    *ret = s;
    return 0;
}

void hb_stream_free(hb_stream *s)
{
    if (s)
        munmap(s->map, s->size);
    free(s);
}

const double *hb_stream_at(const hb_stream *s, size_t offset, size_t count)
{
    if (offset % sizeof(double) || offset > s->size || count > (s->size - offset) / sizeof(double))
        return NULL;
    return (const double *)(const void *)(s->map + offset);
}

void hb_stream_touch(hb_stream *s, size_t bytes)
{
    if (!s)
        return;
    size_t more = bytes + 2 * AROUND;
    if (atomic_fetch_add(&s->touched, more) + more < s->limit)
        return;
    hb_stream_give_back(s);
}

void hb_stream_limit(hb_stream *s, size_t bytes)
{
    s->limit = bytes;
    hb_stream_give_back(s);
}

void hb_stream_give_back(hb_stream *s)
{
    atomic_store(&s->touched, 0);
    madvise(s->map, s->size, MADV_DONTNEED);
}
