#include "process/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#include "keys.h"

enum { LARGEST_FILE = 1 << 20 }; /* bytes */

static const struct {
    const char *name;
    unsigned rights;
} word[] = {
    {"telemetry", HB_RIGHT_TELEMETRY},
    {"act", HB_RIGHT_ACT},
    {"observe", HB_RIGHT_OBSERVE},
    {"operate", HB_RIGHT_OPERATE | HB_RIGHT_OBSERVE},
};
enum { NWORDS = sizeof word / sizeof *word };

int hb_access_find(const hb_access *a, const uint8_t key[HB_KEY_BYTES])
{
    for (int i = 0; i < a->n; i++)
        if (memcmp(key, a->client[i].key, HB_KEY_BYTES) == 0)
            return i;
    return -1;
}

void hb_access_print(unsigned rights, char text[HB_RIGHTS_SIZE])
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < NWORDS; i++)
        if ((rights & word[i].rights) == word[i].rights &&
            !(word[i].rights == HB_RIGHT_OBSERVE && rights & HB_RIGHT_OPERATE))
            used += (size_t)snprintf(text + used, HB_RIGHTS_SIZE - used, "%s%s", used ? "," : "", word[i].name);
}

/* ---- a file with names and rights ---- */

/* 0: one of the words is not a right. */
static unsigned read_rights(char *text)
{
    unsigned rights = 0;
    char *rest, *one = strtok_r(text, ",", &rest);

    for (; one; one = strtok_r(NULL, ",", &rest)) {
        int i = 0;
        while (i < NWORDS && strcmp(one, word[i].name) != 0)
            i++;
        if (i == NWORDS)
            return 0;
        rights |= word[i].rights;
    }
    return rights;
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x21 || (unsigned char)*text > 0x7e)
            return false;
    return true;
}

static bool has_name(const hb_access *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->client[i].name, name) == 0)
            return true;
    return false;
}

static int read_line(hb_access *a, const char *file, int number, char *line, hb_error *err)
{
    char *rest, *name = strtok_r(line, " \t\r", &rest);

    if (!name || *name == '#')
        return 0;
    char *key = strtok_r(NULL, " \t\r", &rest), *rights = strtok_r(NULL, " \t\r", &rest);
    if (!rights || strtok_r(NULL, " \t\r", &rest))
        return hb_fail(err, EINVAL, "%s:%d: expected a name, a public key and rights, with spaces between them", file,
                       number);
    if (strlen(name) >= HB_NAME_SIZE || !is_plain(name))
        return hb_fail(err, EINVAL, "%s:%d: expected a name of at most %d plain characters", file, number,
                       HB_NAME_SIZE - 1);
    if (a->n == HB_MAX_CLIENTS)
        return hb_fail(err, EINVAL, "%s:%d: more than %d clients", file, number, HB_MAX_CLIENTS);
    hb_known_client *c = &a->client[a->n];
    if (strlen(key) != HB_KEY_SIZE - 1 || !is_plain(key) || !zmq_z85_decode(c->key, key))
        return hb_fail(err, EINVAL,
                       "%s:%d: %s: not a public key: expected %d characters as hilbertctl keygen writes them", file,
                       number, name, HB_KEY_SIZE - 1);
    c->rights = read_rights(rights);
    if (!c->rights)
        return hb_fail(err, EINVAL, "%s:%d: %s: expected rights of telemetry, act, observe, operate, with commas", file,
                       number, name);
    int twin = hb_access_find(a, c->key);
    if (twin >= 0)
        return hb_fail(err, EINVAL, "%s:%d: %s has the same key as %s: each client has one of its own", file, number,
                       name, a->client[twin].name);
    if (has_name(a, name))
        return hb_fail(err, EINVAL, "%s:%d: another client is called %s, too", file, number, name);
    snprintf(c->name, sizeof c->name, "%s", name);
    a->n++;
    return 0;
}

int hb_access_parse(hb_access *a, const char *name, const char *text, size_t size, hb_error *err)
{
    char line[256];
    int number = 0;

    for (size_t at = 0; at < size; number++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - text) - at : size - at;
        bool comment = n > 0 && text[at] == '#';
        if (!comment && (n >= sizeof line || memchr(text + at, '\0', n)))
            return hb_fail(err, EINVAL, "%s:%d: not a line of text of at most %zu characters", name, number + 1,
                           sizeof line - 1);
        if (!comment) {
            memcpy(line, text + at, n);
            line[n] = '\0';
            int r = read_line(a, name, number + 1, line, err);
            if (r)
                return r;
        }
        at += n + 1;
    }
    return 0;
}

static int read_file(hb_access *a, const char *path, hb_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a fifo must not block */
    struct stat info;
    int before = a->n;

    if (fd < 0)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    int r = fstat(fd, &info) || !S_ISREG(info.st_mode) ? hb_fail(err, EINVAL, "%s: not a regular file", path)
            : info.st_mode & 022 ? hb_fail(err, EPERM, "%s: others may write to it (mode %04o): chmod go-w %s", path,
                                           (unsigned)info.st_mode & 07777, path)
            : info.st_size > LARGEST_FILE ? hb_fail(err, EFBIG, "%s: larger than %d bytes", path, LARGEST_FILE)
                                          : 0;
    char *text = r ? NULL : malloc(LARGEST_FILE);
    ssize_t n = 0, used = 0;
    while (text && used < LARGEST_FILE && (n = read(fd, text + used, (size_t)(LARGEST_FILE - used))) > 0)
        used += n;
    if (!r && !text)
        r = hb_fail(err, ENOMEM, "out of memory");
    else if (!r && n < 0)
        r = hb_fail(err, errno, "%s: %s", path, strerror(errno));
    close(fd);
    if (!r)
        r = hb_access_parse(a, path, text, (size_t)used, err);
    if (!r && a->n == before)
        r = hb_fail(err, EINVAL, "%s: no client is in it", path);
    free(text);
    return r;
}

/* ---- files with a key each ---- */

static void name_after(hb_known_client *c, const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t n = strlen(name);

    if (n > 4 && strcmp(name + n - 4, ".pub") == 0)
        n -= 4;
    snprintf(c->name, sizeof c->name, "%.*s", (int)n, name);
}

/* Returns its number, or a negative errno value. One that is there keeps its rights. */
static int add_key(hb_access *a, const char *path, hb_error *err)
{
    char key[HB_KEY_SIZE], text[HB_CONFIG_PATH_SIZE + 128];
    int r = hb_key_read(path, false, key, text, sizeof text);

    if (r)
        return hb_fail(err, -r, "%s", text);
    if (a->n == HB_MAX_CLIENTS)
        return hb_fail(err, EINVAL, "%s: more than %d clients", path, HB_MAX_CLIENTS);
    hb_known_client *c = &a->client[a->n];
    zmq_z85_decode(c->key, key);
    int there = hb_access_find(a, c->key);
    if (there >= 0)
        return there;
    name_after(c, path);
    c->rights = HB_ALL_RIGHTS;
    return a->n++;
}

int hb_access_read(hb_access *ret, const hb_config *c, hb_error *err)
{
    int r = 0;

    *ret = (hb_access){0};
    for (int i = 0; i < c->security.client_keys.n; i++)
        if ((r = add_key(ret, c->security.client_keys.at[i], err)) < 0)
            return hb_fail_in(err, "security.client_keys", r);
    if (*c->security.authorized_keys && (r = read_file(ret, c->security.authorized_keys, err)))
        return hb_fail_in(err, "security.authorized_keys", r);
    if (!*c->security.pilot_key)
        return 0;
    int pilot = add_key(ret, c->security.pilot_key, err);
    if (pilot < 0)
        return hb_fail_in(err, "security.pilot_key", pilot);
    if (!(ret->client[pilot].rights & HB_RIGHT_ACT))
        return hb_fail(err, EINVAL, "security.pilot_key: %s flies, and has no right to act in security.authorized_keys",
                       ret->client[pilot].name);
    ret->pilot = 1 + pilot;
    return 0;
}
