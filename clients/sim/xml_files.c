#include "sim/xml_files.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/yaml_file.h"

enum { MOST_FILES = 1000 /* that include one another */, MOST_FOLDERS = 16, LONGEST = 2048 };

typedef struct walk {
    const char *root; /* the path of the file that includes all others, */
    int folder;       /* and how much of it is its folder */
    char *file[MOST_FILES];
    int nfiles;
    char *asset[MOST_FOLDERS]; /* meshdir, texturedir and assetdir, wherever they are given */
    int nassets;
    hb_error *err;
} walk;

/* One attribute of a tag: NAME = "VALUE" or NAME = 'VALUE'. */
typedef struct attribute {
    const char *name, *value;
    int name_length, length;
} attribute;

static bool next_attribute(const char **at, const char *end, attribute *ret)
{
    static const char space[] = " \t\r\n";
    const char *c = *at + strspn(*at, " \t\r\n/");

    ret->name = c;
    ret->name_length = (int)strcspn(c, " \t\r\n=>/");
    c += ret->name_length;
    c += strspn(c, space);
    if (c >= end || *c != '=' || ret->name_length == 0)
        return false;
    c++;
    c += strspn(c, space);
    const char *close = *c == '"' || *c == '\'' ? strchr(c + 1, *c) : NULL;
    if (!close || close >= end)
        return false;
    ret->value = c + 1;
    ret->length = (int)(close - c - 1);
    *at = close + 1;
    return true;
}

/* The '>' that ends a tag: not one within quotes. */
static const char *end_of_tag(const char *c)
{
    for (char quote = 0; *c; c++) {
        if (quote ? *c == quote : *c == '"' || *c == '\'')
            quote = quote ? 0 : *c;
        else if (!quote && *c == '>')
            return c;
    }
    return NULL;
}

static int check_one(const walk *w, const char *file)
{
    struct stat info;

    if (stat(file, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return hb_fail(w->err, EINVAL, "%s: %s: is not a regular file", w->root, file);
    return 0;
}

static int add(const walk *w, char **list, int *n, int most, const char *text, int length, const char *what)
{
    for (int i = 0; i < *n; i++)
        if (strlen(list[i]) == (size_t)length && memcmp(list[i], text, (size_t)length) == 0)
            return 0;
    if (*n == most)
        return hb_fail(w->err, EINVAL, "%s: names more than %d %s", w->root, most, what);
    if (!(list[*n] = strndup(text, (size_t)length)))
        return hb_fail(w->err, ENOMEM, "%s: out of memory", w->root);
    ++*n;
    return 0;
}

/* Wherever MuJoCo may look: beside the file that speaks of it and the one that includes all, in folders of shapes and
 * pictures, with its own folder or (strippath) without. */
static int check_name(walk *w, const char *from, const attribute *a, bool included)
{
    const char *slash = strrchr(from, '/');
    const int folder = slash ? (int)(slash - from) + 1 : 0;
    char name[LONGEST / 4], file[LONGEST];
    int status = 0;

    if (a->length == 0 || a->length >= (int)sizeof name)
        return 0;
    if (memchr(a->value, '&', (size_t)a->length))
        return hb_fail(w->err, EINVAL, "%s: names a file with '&' in its name: rename it", from);
    snprintf(name, sizeof name, "%.*s", a->length, a->value);
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    for (int whole = 0; !status && whole < 2; whole++)
        for (int i = -3; !status && i < w->nassets; i++) {
            const char *text = whole ? name : base, *asset = i >= 0 ? w->asset[i] : "";
            const bool absolute = asset[0] == '/' || i == -3;
            int n = snprintf(file, sizeof file, "%.*s%s%s%s",
                             absolute  ? 0
                             : i == -2 ? folder
                                       : w->folder,
                             i == -2 ? from : w->root, asset, asset[0] ? "/" : "", text);
            if (i == -3 && text[0] != '/')
                continue;
            if (n >= (int)sizeof file)
                continue;
            status = check_one(w, file);
            if (!status && included && i < 0)
                status = add(w, w->file, &w->nfiles, MOST_FILES, file, n, "files");
        }
    return status;
}

static bool is(const char *name, int length, const char *word)
{
    return strlen(word) == (size_t)length && strncmp(name, word, (size_t)length) == 0;
}

/* Folders first (files: false), since they may be given after the files that lie in them. */
static int walk_tags(walk *w, const char *from, const char *text, bool files)
{
    int status = 0;

    for (const char *tag = strchr(text, '<'), *end; !status && tag; tag = strchr(end, '<')) {
        if (strncmp(tag, "<!--", 4) == 0) {
            end = strstr(tag + 4, "-->");
            if (!end)
                return 0; /* no XML: MuJoCo says where */
            continue;
        }
        end = end_of_tag(tag);
        if (!end)
            return 0;
        const int name = (int)strcspn(tag + 1, " \t\r\n/>");
        attribute a;
        for (const char *at = tag + 1 + name; !status && next_attribute(&at, end, &a);) {
            const bool folder = is(a.name, a.name_length, "meshdir") || is(a.name, a.name_length, "texturedir") ||
                                is(a.name, a.name_length, "assetdir");
            if (!files && folder && a.length > 0)
                status = add(w, w->asset, &w->nassets, MOST_FOLDERS, a.value, a.length, "folders");
            else if (files && strncmp(a.name, "file", 4) == 0) /* fileright and its like, URDF's filename */
                status = check_name(w, from, &a, is(tag + 1, name, "include"));
        }
    }
    return status;
}

static char *read_text(const char *path)
{
    FILE *in;
    char *text = NULL;
    size_t size = 0;

    if (hb_open_regular(&in, path, NULL))
        return NULL; /* not there */
    if (getdelim(&text, &size, 0, in) < 0) {
        free(text);
        text = NULL;
    }
    fclose(in);
    return text;
}

int hb_xml_files_check(const char *path, hb_error *err)
{
    const char *slash = strrchr(path, '/');
    walk *w = calloc(1, sizeof *w);
    FILE *readable;
    int status = w ? hb_open_regular(&readable, path, err) : hb_fail(err, ENOMEM, "%s: out of memory", path);

    if (!status) {
        fclose(readable);
        w->root = path;
        w->folder = slash ? (int)(slash - path) + 1 : 0;
        w->err = err;
        status = add(w, w->file, &w->nfiles, MOST_FILES, path, (int)strlen(path), "files");
        /* a folder that an included file gives holds for all: what is included is found first */
        for (int pass = 0; !status && pass < 2; pass++)
            for (int i = 0; !status && i < w->nfiles; i++) {
                char *text = read_text(w->file[i]);
                status = text ? walk_tags(w, w->file[i], text, false) : 0;
                status = text && !status ? walk_tags(w, w->file[i], text, true) : status;
                free(text);
            }
    }
    for (int i = 0; w && i < w->nfiles; i++)
        free(w->file[i]);
    for (int i = 0; w && i < w->nassets; i++)
        free(w->asset[i]);
    free(w);
    return status;
}
