/* hilbertctl list, and status --all: the daemons of this machine, a row each. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/connection.h"
#include "ctl/show.h"
#include "json.h"

enum { MOST = 256 }; /* instances */

typedef struct found {
    int n;
    char folder[MOST][220];
} found;

static void note(found *f, const char *folder)
{
    char socket[256];

    snprintf(socket, sizeof socket, "%.200s/control", folder);
    if (f->n < MOST && access(socket, F_OK) == 0)
        snprintf(f->folder[f->n++], sizeof f->folder[0], "%.200s", folder);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Folders with a control socket: the one given, and those in it. */
static void search(found *f, const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;

    note(f, folder);
    while (list && (entry = readdir(list))) {
        char inner[220];
        if (*entry->d_name == '.')
            continue;
        snprintf(inner, sizeof inner, "%.100s/%.100s", folder, entry->d_name);
        note(f, inner);
    }
    if (list)
        closedir(list);
    if (f->n > 1)
        qsort(f->folder, (size_t)f->n, sizeof f->folder[0], by_name);
}

/* What is wrong, in words; NULL: nothing that calls for somebody. */
static const char *trouble(const Hilbert__V1__Status *s, char text[64])
{
    char word[32];

    if (s->health->fault > HILBERT__V1__REASON__REASON_NONE)
        snprintf(text, 64, "telemetry: %s",
                 hb_json_word(&hilbert__v1__reason__descriptor, (int)s->health->fault, word, sizeof word));
    else if (s->health->status >= HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_OUT_OF_SPAN)
        snprintf(text, 64, "model: %s",
                 hb_json_word(&hilbert__v1__estimate_status__descriptor, (int)s->health->status, word, sizeof word));
    else if (s->request_rate > 0 && s->last_status >= HILBERT__V1__ACTION_STATUS__ACTION_STATUS_OUT_OF_SPAN &&
             s->last_status <= HILBERT__V1__ACTION_STATUS__ACTION_STATUS_REFUSED)
        snprintf(text, 64, "actions: %s",
                 hb_json_word(&hilbert__v1__action_status__descriptor, (int)s->last_status, word, sizeof word));
    else
        return NULL;
    return text;
}

static void print_row(const char *folder, const Hilbert__V1__Status *s, const char *wrong)
{
    const char *slash = strrchr(folder, '/');
    char word[32], latency[100];

    if (!s) {
        printf("%-16.16s %-24s %s\n", slash ? slash + 1 : folder, "no answer", folder);
        return;
    }
    hb_json_word(&hilbert__v1__action_status__descriptor, (int)s->last_status, word, sizeof word);
    snprintf(latency, sizeof latency, "%s/%s", show_us(s->total->p99_us, 0).text, show_us(s->budget_us, 0).text);
    printf("%-16.16s %-24.24s %5.0f %5.0f  %-18s %6" PRIu32 " %6" PRIu64 "  %s\n", s->name,
           wrong            ? wrong
           : s->last_status ? word
                            : "no request yet",
           s->request_rate, s->telemetry_rate, latency, s->health->samples, s->health->changes,
           s->n_word ? show_learned(s->word[0]).text : "-");
}

int ctl_list(ctl_connection *c, const ctl_command *self, bool json)
{
    static found all;
    const char *folder = strncmp(c->control, "ipc://", 6) == 0 ? c->control + 6 : NULL;
    char base[220];
    int bad = 0;

    if (!folder)
        return ctl_usage_error(self, "a list is of the daemons of this machine, below a folder: not of %s", c->control);
    snprintf(base, sizeof base, "%.*s", (int)(strrchr(folder, '/') - folder), folder);
    search(&all, base);
    if (all.n == 0)
        return ctl_failure(self, "no daemon has sockets below %s", base);
    if (!json)
        printf("%-16s %-24s %5s %5s  %-18s %6s %6s  %s\n", "name", "status", "req/s", "tel/s", "p99/budget", "window",
               "change", "learned");
    for (int i = 0; i < all.n; i++) {
        ctl_connection one = {.server_key = c->server_key, .client_key = c->client_key, .timeout = fmin(c->timeout, 1)};
        char why[640], text[64];
        ctl_connection_place(&one, all.folder[i]);
        Hilbert__V1__ControlReply *reply = ctl_try_for(&one, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_STATUS,
                                                       HILBERT__V1__CONTROL_REPLY__RESULT_STATUS, why, sizeof why);
        bool good = reply != NULL;
        const char *wrong = good ? trouble(reply->status, text) : "no answer";
        if (!json)
            print_row(all.folder[i], good ? reply->status : NULL, wrong);
        else if (good)
            show_json(&reply->status->base);
        bad += wrong != NULL;
        hilbert__v1__control_reply__free_unpacked(reply, NULL);
        ctl_connection_end(&one);
    }
    return bad ? CTL_FAILURE : CTL_OK;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    bool json = false;
    const ctl_option own[] = {{'j', "json", CTL_FLAG, &json, 0, 0}, {0}};
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, own, 0);

    if (!result)
        result = ctl_list(&c, self, json);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_list = {
    .name = "list",
    .arguments = "[OPTIONS]",
    .summary = "the daemons of this machine, a row each",
    .help = "All that have sockets below /run/hilbertd, or below another folder (-s). Exit status 1 when one is in "
            "trouble:\n"
            "no answer, telemetry at fault, a model that does not fit, or actions that are out-of-span, stale, "
            "fallback or\n"
            "refused. hilbertctl status --all is the same.\n"
            "\n"
            "  -j, --json             a Status message of the contract as a line of JSON, for each that "
            "answers\n" CTL_CONNECTION_HELP,
    .run = run,
};
