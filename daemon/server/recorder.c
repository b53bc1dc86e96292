#include "server/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/server.h"
#include "server/wire.h"

enum { FIELD_ROOM = 16 }; /* bytes before the window in its message, at most */

/* The topic of samples under the model's names, beside those of hilbert.proto. */
static int name_signals(hb_recorder *r, const hb_model *m, hb_error *err)
{
    int failed = hb_signals_new(&r->named, m, err);

    if (!failed)
        hb_journal_name(r->journal, &(hb_journal_named){.topic = HB_SIGNALS_TOPIC,
                                                        .schema_name = HB_SIGNALS_SCHEMA,
                                                        .schema = r->named.schema,
                                                        .size = r->named.size,
                                                        .metadata = r->named.unit[0][0],
                                                        .nmetadata = 2 * r->named.nunits,
                                                        .stride = sizeof r->named.unit[0][0]});
    return failed;
}

static int begin_files(hb_recorder *r, const hb_recorder_settings *s, hb_error *err)
{
    const hb_recording recording = {.name = s->config->name,
                                    .model_path = s->config->model,
                                    .configuration = s->configuration,
                                    .model = s->model,
                                    .run = s->run};
    size_t nhead = 0, nfirst = 0;
    uint8_t *head = NULL, *first = malloc(FIELD_ROOM + s->nwindow);
    int failed = first ? hb_wire_recording(&recording, &head, &nhead, err) : hb_fail(err, ENOMEM, "out of memory");

    if (!failed && s->nwindow) {
        nfirst = hb_wire_field(first, HB_RECORDING_WINDOW, s->nwindow);
        memcpy(first + nfirst, s->window, s->nwindow);
        nfirst += s->nwindow;
    }
    if (!failed)
        failed = hb_journal_head(r->journal, head, nhead, first, nfirst, err);
    free(head);
    free(first);
    return failed;
}

int hb_recorder_open(hb_recorder *ret, const hb_recorder_settings *s, hb_error *err)
{
    const hb_journal_settings journal = {.config = s->config,
                                         .largest = hb_server_largest_record(s->config, s->model),
                                         .log = s->log,
                                         .clock = s->clock,
                                         .stepped = s->stepped};
    hb_recorder r = {0};
    int failed = hb_journal_new(&r.journal, &journal, err);

    if (!failed)
        failed = name_signals(&r, s->model, err);
    if (!failed)
        failed = begin_files(&r, s, err);
    if (failed) {
        hb_recorder_close(&r);
        return failed;
    }
    *ret = r;
    return 0;
}

void hb_recorder_close(hb_recorder *r)
{
    hb_journal_free(r->journal);
    hb_signals_free(&r->named);
    *r = (hb_recorder){0};
}
