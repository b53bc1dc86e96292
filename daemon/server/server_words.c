/* What the coefficients mean, in the model's words, and which of them changed with the vehicle. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/server_internal.h"

static const double apart = 0.25;  /* seconds between two looks */
static const double settled = 1.0; /* seconds after a change until the new belief is worth a line */
static const double clearly = 3;   /* deviations of the difference, from which on a word counts as changed */

void hb_server_forget_words(hb_server *s)
{
    s->words.nlooks = 0;
    s->words.compared = s->words.awaited = false;
    s->words.changes = hb_controller_health(s->controller)->changes;
}

const hb_word *hb_server_words(hb_server *s)
{
    const double *variance;
    const hb_real *c = hb_controller_coefficients(s->controller, &variance);

    hb_words_read(s->model, c, hb_controller_covariance(s->controller), variance, s->words.now);
    return s->words.now;
}

bool hb_server_word_changed(const hb_server *s, int i)
{
    const hb_word *now = &s->words.now[i], *was = &s->words.was[i];

    return s->words.compared && fabs(now->value - was->value) >
                                    clearly * sqrt(now->deviation * now->deviation + was->deviation * was->deviation);
}

/* "effective_mass 0.0340 +- 0.0004 -> 0.0221 +- 0.0003 kg, ..." */
static void log_changes(hb_server *s)
{
    char line[400] = "";

    for (int i = 0; i < s->model->nwords; i++) {
        char was[HB_WORD_TEXT], now[HB_WORD_TEXT];
        size_t used = strlen(line);
        if (hb_server_word_changed(s, i))
            snprintf(line + used, sizeof line - used, "%s%s %s -> %s %s", used ? ", " : "", s->model->word_name[i],
                     hb_word_text(s->words.was[i], was), hb_word_text(s->words.now[i], now), s->model->word_unit[i]);
    }
    hb_log_line(s->log, HB_LOG_NOTICE, "estimate: what changed: %s",
                *line ? line : "nothing that the model has a word for");
}

void hb_server_note_words(hb_server *s)
{
    const double now = hb_server_flight_now(s); /* a simulator's seconds may be long or short */
    hb_server_words_seen *w = &s->words;
    const size_t size = (size_t)s->model->nwords * sizeof *w->now;

    if (!s->model->nwords || (now < w->next && w->next <= now + apart))
        return;
    w->next = now + apart;
    hb_server_words(s);
    const uint64_t changes = hb_controller_health(s->controller)->changes;
    if (changes > w->changes && w->nlooks > 0) {
        /* a change is found some time after it came: what was before it is the oldest look */
        memcpy(w->was, w->look[0], size);
        w->compared = w->awaited = true;
        w->due = now + settled;
    }
    if (changes != w->changes)
        w->nlooks = 0;
    w->changes = changes;
    if (w->nlooks == HB_WORD_LOOKS)
        memmove(w->look[0], w->look[1], (size_t)--w->nlooks * sizeof w->look[0]);
    memcpy(w->look[w->nlooks++], w->now, size);
    if (w->awaited && now >= w->due) {
        w->awaited = false;
        log_changes(s);
    }
}
