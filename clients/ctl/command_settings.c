/* hilbertctl set, get, diff, save: the keys of a running daemon's configuration. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/config_edit.h"
#include "ctl/connection.h"
#include "ctl/show.h"

/* "30", "30s", "5min", "2h": seconds; below 0: it is none of them. */
static double read_span(const char *text)
{
    static const struct {
        const char *name;
        double seconds;
    } unit[] = {{"", 1}, {"s", 1}, {"min", 60}, {"h", 3600}};
    char *end;
    double n = strtod(text, &end);

    for (size_t i = 0; end != text && n > 0 && n < 1e6 && i < sizeof unit / sizeof *unit; i++)
        if (strcmp(end, unit[i].name) == 0)
            return n * unit[i].seconds;
    return -1;
}

static Hilbert__V1__ControlReply *ask_settings(ctl_connection *c, const ctl_command *self)
{
    return ctl_ask_for(c, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_SETTINGS,
                       HILBERT__V1__CONTROL_REPLY__RESULT_SETTINGS);
}

/* A value may be a negative number, which reads like an option: it goes to the end, behind "--". argv has room for one
 * more, where its NULL is. */
static int shield_number(int argc, char **argv)
{
    static char dashes[] = "--";
    char *end;

    for (int i = 2; i < argc; i++) {
        char *number = argv[i];
        if (*number != '-' || argv[i - 1][0] == '-' || (strtod(number, &end), end == number) || *end)
            continue;
        memmove(argv + i, argv + i + 1, (size_t)(argc - i - 1) * sizeof *argv);
        argv[argc - 1] = dashes;
        argv[argc] = number;
        return argc + 1;
    }
    return argc;
}

static int run_set(const ctl_command *self, int argc, char **argv)
{
    argc = shield_number(argc, argv);
    const char *span = NULL;
    bool back = false;
    const ctl_option own[] = {{'f', "for", CTL_TEXT, &span, 0, 0}, {'b', "back", CTL_FLAG, &back, 0, 0}, {0}};
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, own, 2);

    if (result)
        return result;
    double seconds = span ? read_span(span) : 0;
    char *key = optind < argc ? argv[optind] : NULL, *value = argc - optind > 1 ? argv[optind + 1] : NULL;
    if (key && !value && !back && (value = strchr(key, '='))) /* KEY=VALUE */
        *value++ = 0;
    if (!key || !back != !!value)
        result = ctl_usage_error(self, back ? "one key is expected with --back" : "a key and a value are expected");
    else if (seconds < 0)
        result = ctl_usage_error(self, "--for '%s': expected seconds, or a number with s, min or h", span);
    else if (back && span)
        result = ctl_usage_error(self, "--back and --for do not go together");
    else if (!back && !*value)
        result = ctl_usage_error(self, "the value is empty; --back goes back to the file's");
    if (result) {
        ctl_connection_end(&c);
        return result;
    }
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Setting setting = HILBERT__V1__SETTING__INIT;
    setting.key = key;
    setting.value = back ? (char[]){""} : value;
    setting.seconds = seconds;
    request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_SET;
    request.set = &setting;
    Hilbert__V1__ControlReply *reply = ctl_ask(&c, self, &request);
    if (reply && back)
        printf("%s is the file's again\n", setting.key);
    else if (reply && seconds > 0)
        printf("%s is %s for %s\n", setting.key, setting.value, show_span(seconds).text);
    else if (reply)
        printf("%s is %s until a reload or a restart; hilbertctl save writes it to the file\n", setting.key,
               setting.value);
    result = reply ? CTL_OK : CTL_FAILURE;
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    ctl_connection_end(&c);
    return result;
}

/* Lines as one text; NULL after a message. */
static char *join_lines(const ctl_command *self, const Hilbert__V1__Settings *s)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    for (size_t i = 0; out && i < s->n_line; i++)
        fprintf(out, "%s\n", s->line[i]);
    if (!out || fclose(out)) {
        ctl_failure(self, "out of memory");
        return NULL;
    }
    return text;
}

/* Lines below the first are indented as in the file, the first not at all: all get what they have among themselves. */
static void print_value(const char *text, const char *indent)
{
    size_t least = SIZE_MAX;

    for (const char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n'))
        if (line[1] && strspn(line + 1, " ") < least)
            least = strspn(line + 1, " ");
    for (const char *line = text, *end; line; line = end ? end + 1 : NULL) {
        if (line != text && strlen(line) >= least)
            line += least;
        end = strchr(line, '\n');
        printf("%s%.*s\n", indent, end ? (int)(end - line) : (int)strlen(line), line);
    }
}

static int run_get(const ctl_command *self, int argc, char **argv)
{
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, INT_MAX);

    if (result)
        return result;
    Hilbert__V1__ControlReply *reply = ask_settings(&c, self);
    char *text = reply ? join_lines(self, reply->settings) : NULL;
    if (!text)
        result = CTL_FAILURE;
    else if (optind == argc)
        fputs(text, stdout);
    for (int i = optind; text && i < argc; i++) {
        hb_error err = {0};
        char *value = NULL;
        if (hb_config_lookup(text, argv[i], &value, &err))
            result = ctl_failure(self, "%s: %s", argv[i], err.text);
        else if (!value)
            result = ctl_failure(self, "%s: there is no such key", argv[i]);
        else if (argc - optind == 1)
            print_value(value, "");
        else if (strchr(value, '\n')) {
            printf("%s:\n", argv[i]);
            print_value(value, "  ");
        } else
            printf("%s: %s\n", argv[i], value);
        free(value);
    }
    free(text);
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    ctl_connection_end(&c);
    return result;
}

static int run_diff(const ctl_command *self, int argc, char **argv)
{
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, 0);

    if (result)
        return result;
    Hilbert__V1__ControlReply *reply = ask_settings(&c, self);
    for (size_t i = 0; reply && i < reply->settings->n_changed; i++) {
        const Hilbert__V1__Setting *s = reply->settings->changed[i];
        printf("%s: %s -> %s (by %s%s%s)\n", s->key, *s->file_value ? s->file_value : "(the default)", s->value, s->by,
               s->seconds > 0 ? ", for another " : "", s->seconds > 0 ? show_span(s->seconds).text : "");
    }
    if (reply && reply->settings->n_changed == 0)
        printf("nothing differs from %s\n", reply->settings->file);
    result = reply ? CTL_OK : CTL_FAILURE;
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    ctl_connection_end(&c);
    return result;
}

/* Writes beside the file and renames: a reader never sees half of it. Mode and owner stay, as far as they may. */
static int replace_file(const ctl_command *self, const char *path, const char *text)
{
    char temporary[PATH_MAX];
    struct stat info;
    bool known = stat(path, &info) == 0;

    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
        return ctl_failure(self, "%s: the path is too long", path);
    int fd = mkstemp(temporary);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out) {
        if (fd >= 0)
            close(fd);
        return ctl_failure(self, "%s: %s", temporary, strerror(errno));
    }
    bool good = fputs(text, out) >= 0 && fflush(out) == 0 && fchmod(fd, known ? info.st_mode & 07777 : 0644) == 0;
    if (known && (info.st_uid != geteuid() || info.st_gid != getegid()))
        good = fchown(fd, info.st_uid, info.st_gid) == 0 && good;
    good = good && fsync(fd) == 0;
    good = fclose(out) == 0 && good && rename(temporary, path) == 0;
    if (!good) {
        int why = errno;
        unlink(temporary);
        return ctl_failure(self, "%s: %s", path, strerror(why));
    }
    return CTL_OK;
}

/* The file's text with what was set for good; allocated, NULL after a message. */
static char *saved_text(const ctl_command *self, const Hilbert__V1__Settings *s, const char *from, int *ret_saved)
{
    hb_config *d = malloc(sizeof *d);
    char *text = NULL, *defaults = NULL;
    size_t size;
    hb_error err = {0};
    FILE *out = d ? open_memstream(&defaults, &size) : NULL;

    if (!out) {
        free(d);
        ctl_failure(self, "out of memory");
        return NULL;
    }
    hb_config_default(d);
    hb_config_print(d, false, out);
    fclose(out);
    if (!(text = hb_config_read_text(from, &err)))
        ctl_failure(self, "%s", err.text);
    for (size_t i = 0; text && i < s->n_changed; i++) {
        const Hilbert__V1__Setting *c = s->changed[i];
        char *next = NULL;
        if (c->seconds > 0) {
            printf("%s is not saved: it holds for another %s\n", c->key, show_span(c->seconds).text);
            continue;
        }
        if (hb_config_edit(text, c->key, c->value, defaults, &next, &err))
            ctl_failure(self, "%s: %s: %s", from, c->key, err.text);
        free(text);
        text = next;
        ++*ret_saved;
    }
    free(defaults);
    free(d);
    return text;
}

static int run_save(const ctl_command *self, int argc, char **argv)
{
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, 1), saved = 0;

    if (result)
        return result;
    Hilbert__V1__ControlReply *reply = ask_settings(&c, self), *reloaded = NULL;
    if (!reply) {
        ctl_connection_end(&c);
        return CTL_FAILURE;
    }
    const char *own = reply->settings->file, *path = optind < argc ? argv[optind] : own;
    char *text = saved_text(self, reply->settings, own, &saved);
    if (!text)
        result = CTL_FAILURE;
    else if (saved == 0 && strcmp(path, own) == 0)
        printf("nothing differs from %s\n", own);
    else if ((result = replace_file(self, path, text)) == CTL_OK) {
        for (size_t i = 0; i < reply->settings->n_changed; i++)
            if (reply->settings->changed[i]->seconds == 0)
                printf("%s: %s\n", reply->settings->changed[i]->key, reply->settings->changed[i]->value);
        printf("saved to %s\n", path);
        if (strcmp(path, own) == 0) {
            reloaded = ctl_ask_for(&c, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_RELOAD,
                                   HILBERT__V1__CONTROL_REPLY__RESULT__NOT_SET);
            result = reloaded ? CTL_OK : CTL_FAILURE;
        }
    }
    free(text);
    hilbert__v1__control_reply__free_unpacked(reloaded, NULL);
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_set = {
    .name = "set",
    .arguments = "[OPTIONS] KEY VALUE | KEY=VALUE",
    .summary = "change a key of the configuration in flight",
    .help =
        "Any key that a reload may change (hilbertd.yaml(5)), checked as the file would be, between two requests. It\n"
        "holds until a reload or a restart, which read the file; the log says who set it. Entries of a list are named\n"
        "by kind, name or number from 0.\n"
        "\n"
        "  hilbertctl set cost.distance.weight 4\n"
        "  hilbertctl set cost.2.weight 0.5 --for 30s\n"
        "  hilbertctl set latency.delay=0.01\n"
        "  hilbertctl set limits.rules '[{kind: speed, states: [vx, vy, vz], max: 2}]'\n"
        "\n"
        "  -f, --for TIME         and back to the file's value after 30 (seconds), 30s, 5min or 2h\n"
        "  -b, --back             KEY alone: back to the file's value now\n" CTL_CONNECTION_HELP,
    .run = run_set,
};

const ctl_command ctl_command_get = {
    .name = "get",
    .arguments = "[OPTIONS] [KEY...]",
    .summary = "keys of the configuration, as they are in force",
    .help = "Prints the value of each key, or without one the whole configuration.\n"
            "\n"
            "  hilbertctl get cost.distance.weight\n"
            "\n" CTL_CONNECTION_HELP,
    .run = run_get,
};

const ctl_command ctl_command_diff = {
    .name = "diff",
    .arguments = "[OPTIONS]",
    .summary = "what was set since the file was read",
    .help = "Each key that hilbertctl set, or a page, changed: the file's value, the one in force, who set it, and for "
            "how\n"
            "long.\n"
            "\n" CTL_CONNECTION_HELP,
    .run = run_diff,
};

const ctl_command ctl_command_save = {
    .name = "save",
    .arguments = "[OPTIONS] [FILE]",
    .summary = "write what was set to the file",
    .help =
        "Puts the keys that were set into the daemon's configuration file, with all else and every comment as they\n"
        "are, and has it reloaded; or writes that to FILE. What was set --for a time is left out.\n"
        "\n" CTL_CONNECTION_HELP,
    .run = run_save,
};
