#include "ctl/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

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
