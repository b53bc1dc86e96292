/* Preloaded: the time of day is off by as many seconds as the file named by HILBERT_STEP_CLOCK says, at once and at any
 * time. The monotonic clock, like the kernel's, is not. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long offset(void)
{
    const char *path = getenv("HILBERT_STEP_CLOCK");
    char text[32] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int (*real)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int r = real(clock, t);

    if (r == 0 && clock == CLOCK_REALTIME)
        t->tv_sec += offset();
    return r;
}
