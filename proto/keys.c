#include "keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

static int fail(int code, char *text, size_t size, const char *format, ...) __attribute__((format(printf, 4, 5)));

static int fail(int code, char *text, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (size)
        vsnprintf(text, size, format, args);
    va_end(args);
    return -code;
}

int hb_key_read(const char *path, bool secret, char key[HB_KEY_SIZE], char *text, size_t size)
{
    char line[64] = "";
    struct stat info;
    uint8_t binary[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo must not hold us */

    if (fd < 0)
        return fail(errno, text, size, "%s: %s", path, strerror(errno));
    if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        close(fd);
        return fail(EINVAL, text, size, "%s: not a regular file", path);
    }
    ssize_t n = read(fd, line, sizeof line - 1);
    close(fd);
    if (secret && (info.st_mode & 077))
        return fail(EPERM, text, size, "%s: a secret key that others can read (mode %04o): chmod 600 %s", path,
                    (unsigned)info.st_mode & 07777, path);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\r\n")] = 0;
    if (strlen(line) != HB_KEY_SIZE - 1 || !zmq_z85_decode(binary, line))
        return fail(EINVAL, text, size,
                    "%s: not a key: expected one line of %d characters as hilbertctl keygen writes it", path,
                    HB_KEY_SIZE - 1);
    explicit_bzero(binary, sizeof binary);
    memcpy(key, line, HB_KEY_SIZE);
    explicit_bzero(line, sizeof line);
    return 0;
}

int hb_key_write(const char *path, bool secret, const char *key, char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, secret ? 0600 : 0644);

    if (fd < 0)
        return fail(errno, text, size, "%s: %s", path, errno == EEXIST ? "exists: not overwritten" : strerror(errno));
    bool written = dprintf(fd, "%s\n", key) == HB_KEY_SIZE && fsync(fd) == 0;
    int why = errno;
    close(fd);
    if (!written) {
        unlink(path);
        return fail(why, text, size, "%s: %s", path, strerror(why));
    }
    return 0;
}

int hb_keys_use(void *socket, const char *server_key, const char *client_key, char *text, size_t size)
{
    char server[HB_KEY_SIZE], secret[HB_KEY_SIZE], public[HB_KEY_SIZE];
    int r = hb_key_read(server_key, false, server, text, size);

    if (r == 0)
        r = hb_key_read(client_key, true, secret, text, size);
    if (r)
        return r;
    if (zmq_curve_public(public, secret) || zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, sizeof server) ||
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, sizeof secret) ||
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, sizeof public)) {
        r = -errno;
        snprintf(text, size, "CURVE: %s", zmq_strerror(errno));
    }
    explicit_bzero(secret, sizeof secret);
    return r;
}
