/* Preloaded into hilbertd: has one call of one function fail, as a machine without memory, disk or descriptors would.
 *
 *     HILBERT_FAULT         "FUNCTION N HOW": the N-th call (from 1) of FUNCTION, or of any allocating function for
 *                           "memory", fails with errno HOW; or, for HOW "short", moves half of the bytes asked for
 *     HILBERT_FAULT_BY      "own" (default): only calls by the executable itself count; "any": those of libraries too
 *     HILBERT_FAULT_WHEN    "start" (default): calls until READY=1; "ready": calls from then on
 *     HILBERT_FAULT_REPORT  file that is written at the end: calls counted for each function, by whom the one that
 * failed was called, and the executable's own allocations that were never freed */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executable_text.h"

enum { FUNCTIONS = 64, POINTERS = 1 << 16 };

static struct {
    const char *name;
    long calls;
} counted[FUNCTIONS];

static _Atomic bool counting, ready;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static char wanted[32], culprit[256];
static long nth;
static int how; /* errno; -1: short */
static bool any, after_ready;
static void *own[POINTERS]; /* allocated by the executable, and not freed: an open hash table */
static long nown;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

__attribute__((constructor)) static void start(void)
{
    const char *fault = getenv("HILBERT_FAULT"), *by = getenv("HILBERT_FAULT_BY"), *when = getenv("HILBERT_FAULT_WHEN");
    char text[16] = "";

    dl_iterate_phdr(find_text, NULL);
    if (fault && sscanf(fault, "%31s %ld %15s", wanted, &nth, text) == 3)
        how = strcmp(text, "short") == 0 ? -1 : atoi(text);
    any = by && strcmp(by, "any") == 0;
    after_ready = when && strcmp(when, "ready") == 0;
}

static void enter(void)
{
    while (atomic_flag_test_and_set(&lock))
        ;
}

static void leave(void)
{
    atomic_flag_clear(&lock);
}

/* Counts a call, and says how it is to fail: 0: not at all. */
static int fault(const char *name, const void *caller)
{
    int verdict = 0, i = 0;

    if (!counting || ready != after_ready || !(any || is_of_executable(caller)))
        return 0;
    enter();
    while (i < FUNCTIONS - 1 && counted[i].name && strcmp(counted[i].name, name) != 0)
        i++;
    counted[i].name = name;
    if (++counted[i].calls == nth && strcmp(name, wanted) == 0)
        verdict = how;
    leave();
    if (verdict) {
        Dl_info info = {0};
        dladdr(caller, &info);
        snprintf(culprit, sizeof culprit, "%s+0x%lx", info.dli_fname ? info.dli_fname : "?",
                 (unsigned long)((uintptr_t)caller - (uintptr_t)info.dli_fbase));
        /* now, since the process may be ended by it */
        const char *path = getenv("HILBERT_FAULT_REPORT");
        int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
        if (fd >= 0) {
            syscall(SYS_write, fd, "failed ", 7L);
            syscall(SYS_write, fd, culprit, strlen(culprit));
            syscall(SYS_close, fd);
        }
        if (verdict > 0)
            errno = verdict;
    }
    return verdict;
}

/* ---- the executable's own memory ---- */

static void **slot_of(void *p)
{
    size_t i = ((uintptr_t)p >> 4) * 2654435761u % POINTERS;

    while (own[i] && own[i] != p)
        i = (i + 1) % POINTERS;
    return &own[i];
}

static void *remember(void *p, const void *caller)
{
    if (p && counting && is_of_executable(caller)) {
        enter();
        if (nown < POINTERS / 2) {
            *slot_of(p) = p;
            nown++;
        }
        leave();
    }
    return p;
}

static void forget(void *p)
{
    if (!p || !nown)
        return;
    enter();
    void **slot = slot_of(p);
    if (*slot) {
        nown--;
        *slot = NULL;
        /* those behind it may stand there because it stood in their place */
        for (size_t i = ((size_t)(slot - own) + 1) % POINTERS; own[i]; i = (i + 1) % POINTERS) {
            void *q = own[i];
            own[i] = NULL;
            *slot_of(q) = q;
        }
    }
    leave();
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t n)
{
    return fault("memory", CALLER) ? NULL : remember(__libc_malloc(n), CALLER);
}

void *calloc(size_t n, size_t size)
{
    return fault("memory", CALLER) ? NULL : remember(__libc_calloc(n, size), CALLER);
}

void *realloc(void *p, size_t n)
{
    if (fault("memory", CALLER))
        return NULL;
    void *q = __libc_realloc(p, n);
    if (q)
        forget(p);
    return remember(q, CALLER);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return fault("memory", CALLER) ? NULL : remember(__libc_memalign(alignment, n), CALLER);
}

int posix_memalign(void **ret, size_t alignment, size_t n)
{
    if (fault("memory", CALLER))
        return ENOMEM;
    *ret = remember(__libc_memalign(alignment, n), CALLER);
    return *ret ? 0 : ENOMEM;
}

void free(void *p)
{
    forget(p);
    __libc_free(p);
}

/* ---- the other functions ---- */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define FAIL(type, name, parameters, arguments, failure)                                                               \
    type name parameters;                                                                                              \
    type name parameters                                                                                               \
    {                                                                                                                  \
        return fault(#name, CALLER) ? (failure) : REAL(name) arguments;                                                \
    }

/* n is the number that is halved when they are to be short */
#define MOVE(type, name, parameters, arguments, n, failure)                                                            \
    type name parameters;                                                                                              \
    type name parameters                                                                                               \
    {                                                                                                                  \
        int verdict = fault(#name, CALLER);                                                                            \
        if (verdict > 0)                                                                                               \
            return failure;                                                                                            \
        n = verdict && n > 1 ? n / 2 : n;                                                                              \
        return REAL(name) arguments;                                                                                   \
    }

MOVE(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), n, -1)
MOVE(size_t, fread, (void *to, size_t size, size_t n, FILE *f), (to, size, n, f), n, 0)
MOVE(size_t, fwrite, (const void *from, size_t size, size_t n, FILE *f), (from, size, n, f), n, 0)
FAIL(FILE *, fopen64, (const char *path, const char *mode), (path, mode), NULL)
FAIL(FILE *, open_memstream, (char **text, size_t *size), (text, size), NULL)
FAIL(int, fclose, (FILE * f), (f), EOF)
FAIL(int, fsync, (int fd), (fd), -1)
FAIL(int, fdatasync, (int fd), (fd), -1)
FAIL(int, access, (const char *path, int mode), (path, mode), -1)
FAIL(int, stat64, (const char *path, struct stat64 *info), (path, info), -1)
FAIL(int, fstat64, (int fd, struct stat64 *info), (fd, info), -1)
FAIL(int, fstatat64, (int at, const char *path, struct stat64 *info, int flags), (at, path, info, flags), -1)
FAIL(int, ftruncate64, (int fd, off64_t size), (fd, size), -1)
FAIL(off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence), -1)
FAIL(int, posix_fallocate64, (int fd, off64_t at, off64_t n), (fd, at, n), how)
FAIL(int, flock, (int fd, int operation), (fd, operation), -1)
FAIL(int, unlink, (const char *path), (path), -1)
FAIL(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), -1)
FAIL(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
FAIL(int, eventfd, (unsigned value, int flags), (value, flags), -1)
FAIL(int, signalfd, (int fd, const void *set, int flags), (fd, set, flags), -1)
FAIL(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
FAIL(int, sem_init, (void *s, int shared, unsigned value), (s, shared, value), -1)
FAIL(void *, mmap64, (void *at, size_t n, int protection, int flags, int fd, off64_t offset),
     (at, n, protection, flags, fd, offset), (void *)-1)
FAIL(int, pthread_create, (pthread_t * thread, const pthread_attr_t *attributes, void *(*begin)(void *), void *context),
     (thread, attributes, begin, context), how)

/* to a file; what wakes a thread (an eventfd) cannot fail in these ways */
ssize_t write(int fd, const void *from, size_t n)
{
    struct stat info = {0};
    int verdict = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? fault("write", CALLER) : 0;

    return verdict > 0 ? -1 : REAL(write)(fd, from, verdict && n > 1 ? n / 2 : n);
}

/* open64 and openat64 take a mode when they may make a file */
int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = va_arg(args, int);
    va_end(args);
    return fault("open64", CALLER) ? -1 : REAL(open64)(path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = va_arg(args, int);
    va_end(args);
    return fault("openat64", CALLER) ? -1 : REAL(openat64)(at, path, flags, mode);
}

/* ---- beginning, READY, end ---- */

static int (*real_main)(int, char **, char **);

static int counted_main(int argc, char **argv, char **environment)
{
    counting = true;
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    real_main = main;
    return REAL(__libc_start_main)(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

/* what hilbertd tells the service manager goes through here */
ssize_t sendto(int fd, const void *text, size_t n, int flags, const struct sockaddr *to, socklen_t size)
{
    if (memmem(text, n, "READY=1", 7))
        ready = true;
    return REAL(sendto)(fd, text, n, flags, to, size);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("HILBERT_FAULT_REPORT");
    long leaked = nown;

    counting = false;
    FILE *file = path ? fopen(path, "we") : NULL;
    if (!file)
        return;
    for (int i = 0; i < FUNCTIONS && counted[i].name; i++)
        fprintf(file, "%s %ld\n", counted[i].name, counted[i].calls);
    fprintf(file, "failed %s\nleaked %ld\n", *culprit ? culprit : "-", leaked);
    fclose(file);
}
