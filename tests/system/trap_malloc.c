/* Preloaded into hilbertd: ends it when its own code (the executable, libhilbert included) allocates or frees memory
 * while it is READY. Libraries may: what ZeroMQ does with a message is its own affair.
 *
 * READY=1 sets the trap; RELOADING=1 and STOPPING=1 disarm it, since a configuration is read into new memory. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "executable_text.h"

static _Atomic bool armed;

static void check(const void *caller, const char *what)
{
    if (!armed || !is_of_executable(caller))
        return;
    static const char text[] = "trap_malloc: hilbertd's own code called ";
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    n = write(STDERR_FILENO, what, strlen(what));
    n = write(STDERR_FILENO, "\n", 1);
    (void)n;
    abort();
}

/* For a proof that the trap works: HILBERT_TRAP_ALWAYS arms it from the start. */
__attribute__((constructor)) static void start(void)
{
    dl_iterate_phdr(find_text, NULL);
    armed = getenv("HILBERT_TRAP_ALWAYS") != NULL;
}

/* what hilbertd tells the service manager goes through here */
ssize_t sendto(int fd, const void *text, size_t n, int flags, const struct sockaddr *to, socklen_t size)
{
    ssize_t (*real)(int, const void *, size_t, int, const struct sockaddr *, socklen_t) =
        (ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "sendto");

    if (memmem(text, n, "RELOADING=1", 11) || memmem(text, n, "STOPPING=1", 10))
        armed = false;
    ssize_t r = real(fd, text, n, flags, to, size);
    if (memmem(text, n, "READY=1", 7))
        armed = true;
    return r;
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *malloc(size_t n)
{
    check(__builtin_return_address(0), "malloc");
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    check(__builtin_return_address(0), "calloc");
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    check(__builtin_return_address(0), "realloc");
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    check(__builtin_return_address(0), "aligned_alloc");
    return __libc_memalign(alignment, n);
}

void free(void *p)
{
    if (p)
        check(__builtin_return_address(0), "free");
    __libc_free(p);
}
