#include "common/yaml_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int hb_open_regular(FILE **ret, const char *path, hb_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* nobody may ever write to a fifo */
    struct stat info;

    if (fd < 0)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        close(fd);
        return hb_fail(err, EINVAL, "%s: is not a regular file", path);
    }
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return hb_fail(err, ENOMEM, "%s: out of memory", path);
    }
    *ret = file;
    return 0;
}

static int fail_at(hb_error *err, const char *path, const yaml_mark_t *at, const char *what)
{
    return hb_fail(err, EINVAL, "%s:%zu:%zu: %s", path, at->line + 1, at->column + 1, what);
}

/* 0: no deeper than it may be, or no YAML, of which the parser then says where. */
static int check_depth(const char *path, const char *text, size_t size, hb_error *err)
{
    yaml_parser_t parser;
    int depth = 0, status = 0;
    bool ended = false;

    if (!yaml_parser_initialize(&parser))
        return hb_fail(err, ENOMEM, "%s: out of memory", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    while (!ended && !status) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event))
            break;
        depth += event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        depth -= event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        ended = event.type == YAML_STREAM_END_EVENT;
        if (depth > HB_YAML_DEEPEST)
            status = fail_at(err, path, &event.start_mark, "nested more than 32 levels deep");
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

int hb_yaml_text_load(yaml_document_t *ret, const char *path, const char *text, size_t size, hb_error *err)
{
    yaml_parser_t parser;
    int status = check_depth(path, text, size, err);

    if (status)
        return status;
    if (!yaml_parser_initialize(&parser))
        return hb_fail(err, ENOMEM, "%s: out of memory", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if (!yaml_parser_load(&parser, ret))
        status = fail_at(err, path, &parser.problem_mark, parser.problem ? parser.problem : "not YAML");
    yaml_parser_delete(&parser);
    return status;
}

int hb_yaml_file_load(yaml_document_t *ret, const char *path, hb_error *err)
{
    FILE *in;
    int status = hb_open_regular(&in, path, err);

    if (status)
        return status;
    char *text = malloc(HB_YAML_LARGEST + 1);
    const size_t size = text ? fread(text, 1, HB_YAML_LARGEST + 1, in) : 0;
    if (!text)
        status = hb_fail(err, ENOMEM, "%s: out of memory", path);
    else if (ferror(in))
        status = hb_fail(err, EIO, "%s: cannot be read", path);
    else if (size > HB_YAML_LARGEST)
        status = hb_fail(err, EINVAL, "%s: larger than a megabyte", path);
    else
        status = hb_yaml_text_load(ret, path, text, size, err);
    free(text);
    fclose(in);
    return status;
}
