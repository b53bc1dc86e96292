/* Errors and warnings of a configuration, with their place and what may have been meant. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"

int hb_config_control_character(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    if ((*s && *s < 0x20) || *s == 0x7f)
        return 1;
    return *s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0 ? 2 : 0;
}

static void write_line(char text[512], const hb_config *c, hb_mark mark, const char *key, const char *format,
                       va_list args)
{
    size_t size = 512;
    int n = mark.line ? snprintf(text, size, "%s:%d:%d: ", c->file, mark.line, mark.column)
                      : snprintf(text, size, "%s: ", c->file);
    if (key && *key && n >= 0 && (size_t)n < size)
        n += snprintf(text + n, size - (size_t)n, mark.line ? "%s: " : "%s (default): ", key);
    if (n >= 0 && (size_t)n < size)
        vsnprintf(text + n, size - (size_t)n, format, args);
    /* control characters that a file contains must not reach the terminal */
    for (char *s = text; *s; s++)
        memset(s, '?', (size_t)hb_config_control_character(s));
}

void hb_config_error(hb_config_errors *errors, const hb_config *c, hb_mark mark, const char *key, const char *format,
                     ...)
{
    va_list args;

    if (errors->n++ >= HB_CONFIG_ERRORS)
        return;
    va_start(args, format);
    write_line(errors->text[errors->n - 1], c, mark, key, format, args);
    va_end(args);
}

void hb_config_warn(hb_config *c, hb_mark mark, const char *key, const char *format, ...)
{
    hb_config_warnings *w = &c->warnings;
    va_list args;

    if (w->n == (int)(sizeof w->text / sizeof *w->text))
        return;
    va_start(args, format);
    write_line(w->text[w->n], c, mark, key, format, args);
    va_end(args);
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->text[i], w->text[w->n]) == 0)
            return;
    w->n++;
}

void hb_config_error_of(hb_config_errors *errors, const hb_config *c, const hb_error *err)
{
    size_t n = strspn(err->text, "abcdefghijklmnopqrstuvwxyz_.");
    char key[64];

    snprintf(key, sizeof key, "%.*s", (int)n, err->text);
    int i = hb_config_find(key);
    if (i < 0)
        hb_config_error(errors, c, (hb_mark){0}, NULL, "%s", err->text);
    else
        hb_config_error(errors, c, c->mark[i], key, "%s", err->text + n + strspn(err->text + n, ": "));
}

/* Edits (insertions, deletions, replacements, swaps of neighbours) from a to b. */
static int distance(const char *a, const char *b)
{
    int na = (int)strlen(a), nb = (int)strlen(b);
    int row[3][64] = {0}; /* the last three rows of the table of prefixes */

    if (na > 62 || nb > 62)
        return INT_MAX;
    for (int j = 0; j <= nb; j++)
        row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = up[j - 1] + (a[i - 1] != b[j - 1]);
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            best = up[j] + 1 < best ? up[j] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

const char *hb_config_near(const char *wrong, const char *const *names, int n)
{
    int best = 1 + (int)strlen(wrong) / 3; /* further away is another word */
    const char *found = NULL;

    for (int i = 0; i < n; i++) {
        int d = distance(wrong, names[i]);
        if (d <= best && (!found || d < best)) {
            best = d;
            found = names[i];
        }
    }
    return found;
}
