/* hilbertctl export: a recording as CSV, one file for each topic.
 *
 * Columns follow from the messages: the path of each number, with the names of states and controls where a vector has
 * one number for each. A first pass finds the columns, a second one writes the rows. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ctl/options.h"
#include "ctl/recording_file.h"
#include "json.h"

enum { PATH_SIZE = 256, VALUE = 40, MOST = 20000 };

typedef struct column {
    char name[PATH_SIZE];
    char *value; /* of the current row; NULL: none */
} column;

typedef struct table {
    FILE *out;
    column *column;
    int n, room;
    int next; /* where the next column is expected to be */
    const Hilbert__V1__Recording *head;
    bool writing;
} table;

static column *find(table *t, const char *name)
{
    for (int k = 0; k < t->n; k++) {
        int i = (t->next + k) % t->n;
        if (strcmp(t->column[i].name, name) == 0) {
            t->next = i + 1;
            return &t->column[i];
        }
    }
    if (t->writing || t->n == MOST)
        return NULL;
    if (t->n == t->room) {
        int room = t->room ? 2 * t->room : 64;
        column *more = realloc(t->column, (size_t)room * sizeof *more);
        if (!more)
            return NULL;
        t->column = more;
        t->room = room;
    }
    column *c = &t->column[t->n++];
    *c = (column){0};
    snprintf(c->name, sizeof c->name, "%s", name);
    t->next = t->n;
    return c;
}

static void put(table *t, const char *name, const char *value)
{
    column *c = find(t, name);

    if (c && t->writing) {
        free(c->value);
        c->value = strdup(value);
    }
}

/* The name of element i of n of a vector: a state's, a control's, or its number. */
static void element(const table *t, char *to, const char *path, const char *field, size_t i, size_t n)
{
    static const char *const states[] = {"state", "target", NULL}, *const controls[] = {"control", "action", "applied",
                                                                                        NULL};
    const char *name = NULL;

    for (int k = 0; t->head && states[k]; k++)
        if (strcmp(field, states[k]) == 0 && n == t->head->n_state)
            name = t->head->state[i]->name;
    for (int k = 0; t->head && controls[k]; k++)
        if (strcmp(field, controls[k]) == 0 && n == t->head->n_control)
            name = t->head->control[i]->name;
    if (name)
        snprintf(to, PATH_SIZE, "%.180s.%.60s", path, name);
    else
        snprintf(to, PATH_SIZE, "%.180s.%zu", path, i);
}

static void flatten(table *t, const ProtobufCMessage *m, const char *prefix);

static void put_one(table *t, const ProtobufCFieldDescriptor *f, const char *path, const void *p)
{
    char text[VALUE], word[64];

    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        if (*(ProtobufCMessage *const *)p)
            flatten(t, *(ProtobufCMessage *const *)p, path);
        return;
    case PROTOBUF_C_TYPE_STRING:
        put(t, path, *(char *const *)p);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        return;
    case PROTOBUF_C_TYPE_ENUM:
        put(t, path, hb_json_word(f->descriptor, *(const int *)p, word, sizeof word));
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        snprintf(text, sizeof text, "%.17g", *(const double *)p);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        snprintf(text, sizeof text, "%.9g", (double)*(const float *)p);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        snprintf(text, sizeof text, "%d", *(const protobuf_c_boolean *)p);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        snprintf(text, sizeof text, "%" PRId64, *(const int64_t *)p);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        snprintf(text, sizeof text, "%" PRIu64, *(const uint64_t *)p);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        snprintf(text, sizeof text, "%" PRIu32, *(const uint32_t *)p);
        break;
    default:
        snprintf(text, sizeof text, "%" PRId32, *(const int32_t *)p);
        break;
    }
    put(t, path, text);
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return 8;
    default:
        return 4;
    }
}

static void flatten(table *t, const ProtobufCMessage *m, const char *prefix)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const char *at = (const char *)m + f->offset;
        char path[PATH_SIZE], name[PATH_SIZE];
        snprintf(path, sizeof path, "%.180s%s%.60s", prefix, *prefix ? "." : "", f->name);
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
            *(const unsigned *)(const void *)((const char *)m + f->quantifier_offset) != f->id)
            continue;
        if (f->label != PROTOBUF_C_LABEL_REPEATED) {
            put_one(t, f, path, at);
            continue;
        }
        size_t n = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
        const char *values = *(const char *const *)(const void *)at;
        for (size_t k = 0; k < n; k++) {
            element(t, name, path, f->name, k, n);
            put_one(t, f, name, values + k * size_of(f));
        }
    }
}

static void put_quoted(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text, out);
    }
    putc('"', out);
}

static void end_row(table *t)
{
    for (int i = 0; i < t->n; i++) {
        if (i)
            putc(',', t->out);
        if (t->column[i].value)
            put_quoted(t->out, t->column[i].value);
        free(t->column[i].value);
        t->column[i].value = NULL;
    }
    putc('\n', t->out);
}

/* One pass over all messages. */
static void pass(ctl_recording *r, table tables[HB_NTOPICS])
{
    hb_mcap_message m;
    hb_error err;
    int got;

    hb_mcap_reader_rewind(r->reader);
    do {
        while ((got = hb_mcap_reader_next(r->reader, &m, &err)) > 0) {
            hb_topic topic = hb_topic_find(m.channel->topic);
            ProtobufCMessage *message =
                topic < HB_NTOPICS ? protobuf_c_message_unpack(hb_topic_descriptor[topic], NULL, m.size, m.data) : NULL;
            char time[VALUE];
            if (!message)
                continue;
            table *t = &tables[topic];
            t->next = 0;
            snprintf(time, sizeof time, "%" PRIu64 ".%09" PRIu64, m.log_time / 1000000000, m.log_time % 1000000000);
            put(t, "time", time);
            flatten(t, message, "");
            if (t->writing)
                end_row(t);
            protobuf_c_message_free_unpacked(message, NULL);
        }
    } while (got < 0 && hb_mcap_reader_skip(r->reader));
}

static FILE *create(const char *folder, const char *name, const char *ending)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    return fopen(path, "w");
}

static int write_all(const ctl_command *self, ctl_recording *r, const char *folder)
{
    table tables[HB_NTOPICS] = {0};
    int result = CTL_OK, files = 0;

    for (int i = 0; i < HB_NTOPICS; i++)
        tables[i].head = r->head;
    pass(r, tables);
    for (int i = 0; i < HB_NTOPICS && !result; i++) {
        table *t = &tables[i];
        if (!t->n)
            continue;
        t->writing = true;
        t->out = create(folder, hb_topic_name[i], ".csv");
        if (!t->out) {
            result = ctl_failure(self, "%s/%s.csv: %s", folder, hb_topic_name[i], strerror(errno));
            break;
        }
        files++;
        for (int k = 0; k < t->n; k++)
            fprintf(t->out, "%s%s", k ? "," : "", t->column[k].name);
        putc('\n', t->out);
    }
    if (!result)
        pass(r, tables);
    for (int i = 0; i < HB_NTOPICS; i++) {
        bool bad = tables[i].out && ferror(tables[i].out);
        if (tables[i].out && (fclose(tables[i].out) || bad) && !result)
            result = ctl_failure(self, "%s/%s.csv could not be written", folder, hb_topic_name[i]);
        free(tables[i].column);
    }
    FILE *config = !result && r->head ? create(folder, "configuration", ".yaml") : NULL;
    if (config) {
        fputs(r->head->configuration, config);
        if (fclose(config))
            result = ctl_failure(self, "%s/configuration.yaml could not be written", folder);
    }
    if (!result)
        printf("%s: %d files\n", folder, files + (config != NULL));
    return result;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    const char *folder = NULL;
    const ctl_option own[] = {{'o', "output", CTL_TEXT, &folder, 0, 0}, {0}};
    int result = ctl_read_options(self, argc, argv, own, 1);
    ctl_recording r;
    hb_error err;

    if (result)
        return result;
    if (argc == optind)
        return ctl_usage_error(self, "no recording given");
    if (!folder)
        return ctl_usage_error(self, "no folder given: -o DIR");
    if (mkdir(folder, 0755) && errno != EEXIST)
        return ctl_failure(self, "%s: %s", folder, strerror(errno));
    if (ctl_recording_open(&r, argv[optind], &err))
        return ctl_failure(self, "%s", err.text);
    if (r.damaged)
        fprintf(stderr, "hilbertctl export: %s (that chunk is left out)\n", r.damage.text);
    result = write_all(self, &r, folder);
    if (r.cut && !result)
        result = ctl_failure(self,
                             "%s ends at byte %" PRIu64
                             " without its end: it was cut off, or is being written; what comes before is exported",
                             argv[optind], r.cut_at);
    ctl_recording_close(&r);
    return result;
}

const ctl_command ctl_command_export = {
    .name = "export",
    .arguments = "-o DIR FILE",
    .summary = "a recording as CSV files",
    .help =
        "Writes DIR/TOPIC.csv for each kind of message in a recording (telemetry, requests, replies, coefficients,\n"
        "control, changes, status, gaps) and DIR/configuration.yaml. The first column is the time of day, seconds.\n"
        "\n"
        "  -o, --output DIR       the folder; it is made if it is not there\n"
        "  -h, --help             this text\n",
    .run = run,
};
