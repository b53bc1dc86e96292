#include "ctl/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "model/words.h"

show_word show_us(uint64_t us, int width)
{
    show_word w, padded;

    if (us < 1000)
        snprintf(w.text, sizeof w.text, "%d us", (int)us);
    else if (us < 1000000)
        snprintf(w.text, sizeof w.text, "%.2f ms", 1e-3 * (double)us);
    else
        snprintf(w.text, sizeof w.text, "%.2f s", 1e-6 * (double)us);
    snprintf(padded.text, sizeof padded.text, "%*s", width < 40 ? width : 40, w.text);
    return padded;
}

show_word show_span(double seconds)
{
    show_word w;
    long s = (long)fmin(seconds, 1e12);

    if (s < 60)
        snprintf(w.text, sizeof w.text, "%.1f s", seconds);
    else if (s < 3600)
        snprintf(w.text, sizeof w.text, "%ld min %ld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(w.text, sizeof w.text, "%ld h %ld min", s / 3600, s / 60 % 60);
    else
        snprintf(w.text, sizeof w.text, "%ld d %ld h", s / 86400, s / 3600 % 24);
    return w;
}

show_word show_ago(double seconds)
{
    show_word span = show_us((uint64_t)(1e6 * fmin(fmax(seconds, 0), 1e9)), 0), w;

    snprintf(w.text, sizeof w.text, "%.40s ago", span.text);
    return w;
}

show_line show_learned(const Hilbert__V1__Word *w)
{
    char value[HB_WORD_TEXT], was[HB_WORD_TEXT];
    show_line line;

    hb_word_text((hb_word){w->value, w->deviation}, value);
    hb_word_text((hb_word){w->was, w->was_deviation}, was);
    *strchrnul(was, ' ') = 0;
    snprintf(line.text, sizeof line.text, "%.60s %s%s%.30s%s%s%s", w->name, value, *w->unit ? " " : "", w->unit,
             w->changed ? " (was " : "", w->changed ? was : "", w->changed ? ")" : "");
    return line;
}

show_line show_terms(const Hilbert__V1__Status *s, int most)
{
    show_line line = {""};
    bool shown[64] = {false};
    double sum = 0;

    for (size_t i = 0; i < s->n_cost_term; i++)
        sum += s->cost_term[i]->value;
    for (int n = 0; n < most; n++) {
        size_t largest = s->n_cost_term, used = strlen(line.text);
        for (size_t i = 0; i < s->n_cost_term && i < sizeof shown; i++)
            if (!shown[i] && (largest == s->n_cost_term || s->cost_term[i]->value > s->cost_term[largest]->value))
                largest = i;
        double share = largest < s->n_cost_term && sum > 0 ? s->cost_term[largest]->value / sum : 0;
        if (share < 0.005) /* less than half a percent drives nothing */
            break;
        shown[largest] = true;
        snprintf(line.text + used, sizeof line.text - used, "%s%.40s %.0f %%", used ? ", " : "",
                 s->cost_term[largest]->name, 100 * share);
    }
    return line;
}

void show_spark(const double *value, int n, int width, char *text, size_t size)
{
    static const char *const bar[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const double *from = n > width ? value + n - width : value;
    int count = n > width ? width : n;
    double low = 0, high = 0;
    size_t used = 0;

    for (int i = 0; i < count; i++) {
        if (isfinite(from[i])) {
            low = fmin(low, from[i]);
            high = fmax(high, from[i]);
        }
    }
    *text = 0;
    for (int i = 0; i < count; i++) {
        int level = 0;
        if (isfinite(from[i]) && high > low)
            level = (int)lround(8 * (from[i] - low) / (high - low));
        size_t length = strlen(bar[level]);
        if (used + length + 1 > size)
            return;
        memcpy(text + used, bar[level], length + 1);
        used += length;
    }
}

bool show_json(const ProtobufCMessage *m)
{
    size_t n = hb_json_write(m, NULL, 0);
    char *text = malloc(n + 1);

    if (!text)
        return false;
    hb_json_write(m, text, n + 1);
    puts(text);
    free(text);
    return true;
}
