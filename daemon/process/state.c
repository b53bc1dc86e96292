#include "process/state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "estimate/window.h"
#include "process/kept_target.h"

static const char keeping_name[] = "window";

/* The mapped state file, for the handler of SIGBUS, which has no other way to know of it. */
static struct {
    char *memory;
    size_t size;
    int at_once; /* mmap's flags */
    volatile sig_atomic_t lost;
} guarded;

/* Somebody cut the file short: plain memory takes the place of the mapping, and the process lives. */
static void lose(int number, siginfo_t *info, void *context)
{
    char *at = info->si_addr;

    (void)context;
    if (guarded.memory && at >= guarded.memory && at < guarded.memory + guarded.size &&
        mmap(guarded.memory, guarded.size, PROT_READ | PROT_WRITE, guarded.at_once, -1, 0) != MAP_FAILED) {
        guarded.lost = 1;
        return;
    }
    signal(number, SIG_DFL); /* another fault: it happens again, and ends the process */
}

static void guard(char *memory, size_t size)
{
    struct sigaction action = {.sa_sigaction = lose, .sa_flags = SA_SIGINFO};

    guarded.memory = memory;
    guarded.size = size;
    guarded.at_once = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE;
    sigaction(SIGBUS, &action, NULL);
}

bool hb_state_lost(void)
{
    bool lost = guarded.lost;

    guarded.lost = 0;
    return lost;
}

/* Where the target begins, and how much memory both take. */
static size_t target_at(size_t window)
{
    return (window + 63) / 64 * 64;
}

static size_t size_of(size_t window)
{
    return target_at(window) + hb_kept_target_size();
}

static int map(hb_state *s, int fd, size_t size, hb_error *err)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return hb_fail(err, errno, "%s: cannot map %zu bytes: %s", s->where, size, strerror(errno));
    s->memory = p;
    s->size = size;
    return 0;
}

/* Allocates the file's blocks now, so that a full disk is noticed here and not in flight. */
static int allocate(int fd, size_t size)
{
    int why = posix_fallocate(fd, 0, (off_t)size);

    errno = why;
    return why ? -1 : 0;
}

/* Whether fd holds exactly `size` bytes; an empty one is given them. */
static bool fits(int fd, size_t size, bool *ret_kept)
{
    struct stat info;

    if (fstat(fd, &info))
        return false;
    *ret_kept = info.st_size > 0;
    return (size_t)info.st_size == size || (info.st_size == 0 && allocate(fd, size) == 0);
}

/* Whether it holds a window of another version of this program, and of which. */
static bool is_foreign(int fd, hb_error *which)
{
    char start[64];
    ssize_t n = pread(fd, start, sizeof start, 0);

    return n > 0 && hb_window_is_foreign(start, (size_t)n, which);
}

/* In the service manager's keeping. */
static int open_kept(hb_state *s, size_t size, int fd, hb_error *note, hb_error *err)
{
    hb_error why;

    snprintf(s->where, sizeof s->where, "service manager");
    if (fd >= 0 && !(fits(fd, size, &s->kept) && s->kept)) {
        if (is_foreign(fd, &why))
            hb_fail(note, ESTALE, "%s: it is given up", why.text);
        else
            hb_fail(note, ESTALE, "the window in the service manager's keeping has another size: it is given up");
        hb_notify_drop(keeping_name);
        close(fd);
        fd = -1;
        s->kept = false;
    }
    if (fd < 0) {
        fd = memfd_create("hilbertd-window", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)size))
            return hb_fail(err, errno, "cannot make a memfd of %zu bytes: %s", size, strerror(errno));
        hb_notify_keep(keeping_name, fd);
    }
    int r = map(s, fd, size, err);
    close(fd);
    return r;
}

/* The folder of a file that will be made. */
static int check_folder(const char *file, hb_error *err)
{
    const char *slash = strrchr(file, '/');
    char folder[4096];
    struct stat info;

    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - file) + (slash == file) : 1, slash ? file : ".");
    if (stat(folder, &info))
        return hb_fail(err, errno, "state_file: %s: %s", folder, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return hb_fail(err, ENOTDIR, "state_file: %s is not a folder", folder);
    if (!slash || slash[1]) {
        if (access(folder, W_OK | X_OK))
            return hb_fail(err, errno, "state_file: %s: %s", folder, strerror(errno));
        return 0;
    }
    return hb_fail(err, EISDIR, "state_file: %s is a folder: name a file", file);
}

int hb_state_check(const char *file, size_t size, hb_error *err)
{
    char start[64] = "";
    struct stat info;

    if (stat(file, &info))
        return errno == ENOENT ? check_folder(file, err)
                               : hb_fail(err, errno, "state_file: %s: %s", file, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return hb_fail(err, EINVAL, "state_file: %s is %s: name a file", file,
                       S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    if (access(file, R_OK | W_OK))
        return hb_fail(err, errno, "state_file: %s: %s", file, strerror(errno));
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, start, sizeof start);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return hb_fail(err, errno, "state_file: %s: %s", file, strerror(errno));
    /* one that was killed while it made its file leaves zeros, of the right size */
    bool begun = (size_t)info.st_size == size_of(size) && !memcmp(start, (const char[8]){0}, 8);
    if (n > 0 && !begun && !hb_window_is(start, (size_t)n))
        return hb_fail(err, EEXIST,
                       "state_file: %s is not one of hilbertd's, and is left as it is: name another, or remove it",
                       file);
    return 0;
}

static int open_file(hb_state *s, size_t window, const char *file, hb_error *note, hb_error *err)
{
    const size_t size = size_of(window);
    int r = hb_state_check(file, window, err);
    if (r)
        return r;
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    snprintf(s->where, sizeof s->where, "%.60s", file);
    if (fd < 0)
        return hb_fail(err, errno, "state_file: %s: %s", file, strerror(errno));
    /* the lock goes with the last descriptor of it, which is kept open as long as the process lives */
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        return hb_fail(err, EBUSY, "state_file: %s is in use by another process", file);
    }
    if (!fits(fd, size, &s->kept)) {
        hb_error why;
        if (s->kept && is_foreign(fd, &why))
            hb_fail(note, ESTALE, "%s: %s: it is written anew", file, why.text);
        else if (s->kept)
            hb_fail(note, ESTALE, "%s has another size than the window: it is written anew", file);
        s->kept = false;
        if (ftruncate(fd, 0) || allocate(fd, size)) {
            r = hb_fail(err, errno, "state_file: %s: no room for %zu bytes: %s", file, size, strerror(errno));
            if (ftruncate(fd, 0) == 0)
                unlink(file);
            close(fd);
            return r;
        }
    }
    r = map(s, fd, size, err);
    if (r)
        close(fd);
    else
        guard(s->memory, size);
    s->fd = fd;
    return r;
}

int hb_state_open(hb_state *ret, size_t size, const hb_inherited *inherited, const char *file, hb_error *ret_note,
                  hb_error *err)
{
    hb_state s = {.fd = -1};
    int fd = hb_inherited_find(inherited, keeping_name), r;

    *ret_note = (hb_error){0};
    if (*file)
        r = open_file(&s, size, file, ret_note, err);
    else if (fd >= 0 || hb_notify_present())
        r = open_kept(&s, size_of(size), fd, ret_note, err);
    else
        r = map(&s, -1, size_of(size), err);
    if (r)
        return r;
    s.target = (char *)s.memory + target_at(size);
    *ret = s;
    return 0;
}

void hb_state_close(hb_state *s)
{
    guarded.memory = NULL;
    if (s->memory)
        munmap(s->memory, s->size);
    if (s->memory && s->fd >= 0)
        close(s->fd);
    *s = (hb_state){.fd = -1};
}
