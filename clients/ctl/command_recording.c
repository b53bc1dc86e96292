/* hilbertctl info, recover: recordings as files. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/options.h"
#include "ctl/recording_file.h"
#include "ctl/show.h"
#include "json.h"

static void write_time(char to[40], uint64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm t;

    gmtime_r(&seconds, &t);
    strftime(to, 40, "%Y-%m-%d %H:%M:%S UTC", &t);
}

static double span(const ctl_recording *r)
{
    return 1e-9 * (double)(r->end - r->start);
}

static void print_text(const char *path, const ctl_recording *r)
{
    const Hilbert__V1__Recording *h = r->head;
    char when[40], word[32];
    const double seconds = span(r);

    write_time(when, r->start);
    printf("%s\n", path);
    printf("  size         %.3f MB, %s\n", 1e-6 * (double)r->size,
           r->cut                               ? "cut off: hilbertctl recover makes an index"
           : !hb_mcap_reader_summary(r->reader) ? "without an index: hilbertctl recover makes one"
                                                : "with an index");
    if (r->cut)
        printf("  cut off      at byte %" PRIu64 "\n", r->cut_at);
    if (r->damaged)
        printf("  damaged      %s\n", r->damage.text);
    printf("  from         %s, for %s\n", when, show_span(seconds).text);
    if (h) {
        printf("  daemon       %s, hilbertd %s, run %016" PRIx64 ", file %" PRIu32 "%s\n", h->name, h->version, h->run,
               h->file, h->whole ? ", recorded from its start on" : "");
        printf("  model        %s, hash %016" PRIx64 ", %zu states, %zu controls, period %g s\n", h->model,
               h->model_hash, h->n_state, h->n_control, h->dt);
        if (h->window.len)
            printf("  window       taken over from before a restart: %zu bytes\n", h->window.len);
    }
    printf("  gaps         %" PRIu64 ", %" PRIu64 " messages lost\n", r->gaps, r->lost);
    for (int i = 0; i < HB_NTOPICS; i++)
        if (r->count[i])
            printf("  %-12s %" PRIu64 "%s\n", hb_topic_name[i], r->count[i], "");
    for (int i = 1; i < 16; i++)
        if (r->replies[i])
            printf("    %-12s %" PRIu64 " (%.1f %%)\n",
                   hb_json_word(&hilbert__v1__action_status__descriptor, i, word, sizeof word), r->replies[i],
                   100 * (double)r->replies[i] / (double)r->count[HB_TOPIC_REPLIES]);
}

static void print_json(const char *path, const ctl_recording *r)
{
    const Hilbert__V1__Recording *h = r->head;
    char text[32];
    json_t *all = json_object(), *topics = json_object(), *replies = json_object();

    for (int i = 0; i < HB_NTOPICS; i++)
        json_object_set_new(topics, hb_topic_name[i], json_integer((json_int_t)r->count[i]));
    for (int i = 1; i < 16; i++)
        if (r->replies[i])
            json_object_set_new(replies, hb_json_word(&hilbert__v1__action_status__descriptor, i, text, sizeof text),
                                json_integer((json_int_t)r->replies[i]));
    json_object_set_new(all, "file", json_string(path));
    json_object_set_new(all, "bytes", json_integer((json_int_t)r->size));
    json_object_set_new(all, "indexed", json_boolean(hb_mcap_reader_summary(r->reader) != NULL));
    json_object_set_new(all, "cut", json_boolean(r->cut));
    json_object_set_new(all, "damaged", r->damaged ? json_string(r->damage.text) : json_null());
    json_object_set_new(all, "seconds", json_real(span(r)));
    json_object_set_new(all, "start_ns", json_integer((json_int_t)r->start));
    json_object_set_new(all, "gaps", json_integer((json_int_t)r->gaps));
    json_object_set_new(all, "lost", json_integer((json_int_t)r->lost));
    json_object_set_new(all, "messages", topics);
    json_object_set_new(all, "replies", replies);
    if (h) {
        json_object_set_new(all, "name", json_string(h->name));
        json_object_set_new(all, "version", json_string(h->version));
        json_object_set_new(all, "model", json_string(h->model));
        snprintf(text, sizeof text, "%016" PRIx64, h->model_hash);
        json_object_set_new(all, "model_hash", json_string(text));
        snprintf(text, sizeof text, "%016" PRIx64, h->run);
        json_object_set_new(all, "run", json_string(text));
        json_object_set_new(all, "number", json_integer(h->file));
        json_object_set_new(all, "whole", json_boolean(h->whole));
        json_object_set_new(all, "configuration", json_string(h->configuration));
    }
    json_dumpf(all, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(all);
}

static int run_info(const ctl_command *self, int argc, char **argv)
{
    bool json = false, config = false;
    const ctl_option own[] = {{'j', "json", CTL_FLAG, &json, 0, 0}, {'c', "config", CTL_FLAG, &config, 0, 0}, {0}};
    int result = ctl_read_options(self, argc, argv, own, INT_MAX);

    if (result)
        return result;
    if (argc == optind)
        return ctl_usage_error(self, "no recording given");
    for (int i = optind; i < argc; i++) {
        ctl_recording r;
        hb_error err;
        if (ctl_recording_open(&r, argv[i], &err)) {
            result = ctl_failure(self, "%s", err.text);
            continue;
        }
        if (config && r.head)
            fputs(r.head->configuration, stdout);
        else if (config)
            result = ctl_failure(self, "%s: there is no configuration in it", argv[i]);
        else if (json)
            print_json(argv[i], &r);
        else
            print_text(argv[i], &r);
        ctl_recording_close(&r);
    }
    return result;
}

/* FILE.mcap becomes FILE.recovered.mcap. */
static char *other_name(const char *path)
{
    size_t n = strlen(path);
    const char *end = n > 5 && strcmp(path + n - 5, ".mcap") == 0 ? path + n - 5 : path + n;
    char *name = malloc(n + 24);

    if (name)
        sprintf(name, "%.*s.recovered.mcap", (int)(end - path), path);
    return name;
}

static int run_recover(const ctl_command *self, int argc, char **argv)
{
    const char *output = NULL;
    const ctl_option own[] = {{'o', "output", CTL_TEXT, &output, 0, 0}, {0}};
    int result = ctl_read_options(self, argc, argv, own, 1);
    hb_mcap_recovered found;
    hb_error err;

    if (result)
        return result;
    if (argc == optind)
        return ctl_usage_error(self, "no recording given");
    char *to = output ? strdup(output) : other_name(argv[optind]);
    if (!to)
        return ctl_failure(self, "out of memory");
    if (hb_mcap_recover(argv[optind], to, &found, &err))
        result = ctl_failure(self, "%s", err.text);
    else {
        printf("%s: %" PRIu64 " messages, with an index", to, found.messages);
        if (found.cut)
            printf("; the file was cut off at byte %" PRIu64, found.cut_at);
        if (found.damaged)
            printf("; %" PRIu64 " damaged chunk%s left out", found.damaged, found.damaged == 1 ? " was" : "s were");
        putchar('\n');
    }
    free(to);
    return result;
}

const ctl_command ctl_command_info = {
    .name = "info",
    .arguments = "[OPTIONS] FILE...",
    .summary = "what a recording holds",
    .help =
        "Prints the daemon, the model, how long was recorded, how many messages of which kind there are, gaps, and\n"
        "how many replies had which status. A file that was cut off is read up to its last whole chunk.\n"
        "\n"
        "  -c, --config           print the configuration that was in force, as YAML, and nothing else\n"
        "  -j, --json             one line of JSON for each file, with the configuration\n"
        "  -h, --help             this text\n",
    .run = run_info,
};

const ctl_command ctl_command_recover = {
    .name = "recover",
    .arguments = "[OPTIONS] FILE",
    .summary = "make a recording that was cut off whole again",
    .help =
        "Writes all that can be read of a recording to another file, with an index. The file itself is left as it is.\n"
        "\n"
        "  -o, --output FILE      where to (default: NAME.recovered.mcap beside it); never overwritten\n"
        "  -h, --help             this text\n",
    .run = run_recover,
};
