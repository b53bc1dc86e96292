/* hb_config -> YAML, with or without the comments that make config/hilbertd.yaml, and the key section of the manual. */
#include "config/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_terms.h"

/* ---- values ---- */

static void print_text(const char *s, FILE *out)
{
    fputc('"', out);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', out);
        fputc(*s, out);
    }
    fputc('"', out);
}

/* The shortest text that reads back as the same number. */
static void print_real(double v, FILE *out)
{
    char text[40];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    fputs(text, out);
}

static void print_name(const char *name, FILE *out)
{
    bool plain =
        *name && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name);

    if (plain && strcmp(name, "true") && strcmp(name, "false") && strcmp(name, "null"))
        fputs(name, out);
    else
        print_text(name, out);
}

static void print_values(const hb_values *v, FILE *out)
{
    bool named = v->n && *v->name[0];

    fputc(named ? '{' : '[', out);
    for (int i = 0; i < v->n; i++) {
        fputs(i ? ", " : "", out);
        if (named) {
            print_name(v->name[i], out);
            fputs(": ", out);
        }
        print_real(v->value[i], out);
    }
    fputc(named ? '}' : ']', out);
}

static void print_names(int n, const char (*name)[HB_NAME_SIZE], FILE *out)
{
    for (int i = 0; i < n; i++) {
        fputs(i ? ", " : "", out);
        print_name(name[i], out);
    }
}

static void print_numbers(const char *key, int n, const double *value, FILE *out)
{
    if (n == 0)
        return;
    fprintf(out, ", %s: %s", key, n > 1 ? "[" : "");
    for (int i = 0; i < n; i++) {
        fputs(i ? ", " : "", out);
        print_real(value[i], out);
    }
    fputs(n > 1 ? "]" : "", out);
}

static void print_limits(const hb_config_limits *limits, FILE *out)
{
    if (limits->n == 0)
        fputs("[]", out);
    for (int i = 0; i < limits->n; i++) {
        const hb_config_limit *l = &limits->at[i];
        const hb_limit *limit = &l->limit;
        fprintf(out, "\n    - {kind: %s, ", hb_limit_kind_name[limit->kind]);
        if (*limit->name) {
            fputs("name: ", out);
            print_name(limit->name, out);
            fputs(", ", out);
        }
        fprintf(out, "%s: [", hb_rule_key_name[hb_rule_over(limit->kind)]);
        print_names(l->n, l->name, out);
        fputc(']', out);
        print_numbers("min", l->nlow, limit->low, out);
        print_numbers("max", l->nhigh, limit->high, out);
        print_numbers("normal", hb_rule_numbers(limit->kind, HB_RULE_NORMAL, l->n), limit->vector, out);
        print_numbers("centre", hb_rule_numbers(limit->kind, HB_RULE_CENTRE, l->n), limit->vector, out);
        print_numbers("radius", hb_rule_numbers(limit->kind, HB_RULE_RADIUS, l->n), &limit->radius, out);
        fputc('}', out);
    }
}

static void print_terms(const hb_config_terms *terms, FILE *out)
{
    for (int i = 0; i < terms->n; i++) {
        const hb_config_term *t = &terms->at[i];
        fprintf(out, "\n  - {kind: %s, %s: [", hb_cost_kind_name[t->cost.kind],
                hb_term_key_name[hb_term_over(t->cost.kind)]);
        print_names(t->n, t->name, out);
        fputs("], weight: ", out);
        print_real(t->cost.weight, out);
        if (t->cost.terminal != 1) {
            fputs(", terminal: ", out);
            print_real(t->cost.terminal, out);
        }
        if (hb_cost_kind_table[t->cost.kind].numbers == HB_COST_BOUNDS) {
            fputs(", min: ", out);
            print_real(t->cost.min, out);
            fputs(", max: ", out);
            print_real(t->cost.max, out);
        }
        if (hb_cost_kind_table[t->cost.kind].numbers == HB_COST_RADIUS) {
            fputs(", radius: ", out);
            print_real(t->cost.radius, out);
        }
        fputc('}', out);
    }
}

static void print_matrix(const hb_config *c, const double *m, FILE *out)
{
    fputc('[', out);
    for (int i = 0; i < c->controller.planner.ndirections; i++) {
        fputs(i ? ", [" : "[", out);
        for (int j = 0; j < c->direction_width; j++) {
            fputs(j ? ", " : "", out);
            print_real(m[i * c->direction_width + j], out);
        }
        fputc(']', out);
    }
    fputc(']', out);
}

static void print_list(const void *list, const hb_setting *row, FILE *out)
{
    const hb_endpoints *e = list;
    const hb_paths *p = list;
    const hb_cpus *cpus = list;
    int n = row->type == HB_TYPE_ENDPOINTS ? e->n : row->type == HB_TYPE_PATHS ? p->n : cpus->n;

    fputc('[', out);
    for (int i = 0; i < n; i++) {
        fputs(i ? ", " : "", out);
        if (row->type == HB_TYPE_CPUS)
            fprintf(out, "%d", cpus->at[i]);
        else
            print_text(row->type == HB_TYPE_ENDPOINTS ? e->at[i] : p->at[i], out);
    }
    fputc(']', out);
}

static void print_value(const hb_config *c, const hb_setting *row, FILE *out)
{
    const void *from = (const char *)c + row->offset;

    switch (row->type) {
    case HB_TYPE_TEXT:
    case HB_TYPE_PATH:
        print_text(from, out);
        break;
    case HB_SETTING_INT:
        fprintf(out, "%d", *(const int *)from);
        break;
    case HB_TYPE_OCTAL:
        fprintf(out, "%04o", (unsigned)*(const int *)from);
        break;
    case HB_SETTING_SEED:
        fprintf(out, "%" PRIu64, *(const uint64_t *)from);
        break;
    case HB_SETTING_REAL:
        print_real(*(const double *)from, out);
        break;
    case HB_SETTING_BOOL:
        fputs(*(const bool *)from ? "true" : "false", out);
        break;
    case HB_SETTING_CHOICE:
        fputs(row->choices[*(const int *)from], out);
        break;
    case HB_TYPE_ENDPOINTS:
    case HB_TYPE_PATHS:
    case HB_TYPE_CPUS:
        print_list(from, row, out);
        break;
    case HB_TYPE_STATES:
    case HB_TYPE_CONTROLS:
        print_values(from, out);
        break;
    case HB_TYPE_TERMS:
        print_terms(from, out);
        break;
    case HB_TYPE_LIMITS:
        print_limits(from, out);
        break;
    case HB_TYPE_MATRIX:
        print_matrix(c, from, out);
        break;
    }
}

/* ---- words ---- */

/* What may be given, in words: "1..1000", "least_squares or inner_product", ... */
static void print_bounds(const hb_setting *row, FILE *out)
{
    switch (row->type) {
    case HB_SETTING_INT:
    case HB_SETTING_REAL:
        if (row->ends == HB_ABOVE || row->ends == HB_OPEN_ENDS)
            fprintf(out, "above %.10g, ", row->min);
        else
            fprintf(out, "%.10g..", row->min);
        fprintf(out, row->ends == HB_CLOSED ? "%.10g" : row->ends == HB_ABOVE ? "to %.10g" : "below %.10g", row->max);
        break;
    case HB_SETTING_BOOL:
        fputs("true or false", out);
        break;
    case HB_SETTING_CHOICE:
        for (int i = 0; i < row->nchoices; i++)
            fprintf(out, "%s%s", i == 0 ? "" : i == row->nchoices - 1 ? " or " : ", ", row->choices[i]);
        break;
    case HB_TYPE_TEXT:
        fputs("text", out);
        break;
    case HB_TYPE_PATH:
        fputs("a path", out);
        break;
    case HB_TYPE_OCTAL:
        fputs("octal", out);
        break;
    case HB_SETTING_SEED:
        fputs("a whole number", out);
        break;
    default:
        fputs("a list", out);
        break;
    }
}

/* Comment lines of at most 100 columns. */
static void print_comment(const char *text, const char *indent, FILE *out)
{
    size_t column = 0;

    while (*text) {
        size_t word = strcspn(text, " ");
        if (column && column + 1 + word > 100 - strlen(indent)) {
            fputc('\n', out);
            column = 0;
        }
        if (column == 0)
            column = (size_t)fprintf(out, "%s#", indent);
        column += (size_t)fprintf(out, " %.*s", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    fputc('\n', out);
}

static void print_help(const hb_setting *row, const char *indent, FILE *out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *line = open_memstream(&text, &size);

    if (!line)
        return;
    fprintf(line, "%s (", row->help);
    print_bounds(row, line);
    fputs(row->live ? "; changed by a reload)" : ")", line);
    fclose(line);
    print_comment(text, indent, out);
    free(text);
    if (row->type == HB_TYPE_TERMS)
        for (int i = 0; i < HB_COST_NKINDS; i++)
            fprintf(out, "%s#   %-10s %s\n", indent, hb_cost_kind_name[i], hb_cost_kind_help[i]);
    if (row->type == HB_TYPE_LIMITS)
        for (int i = 0; i < HB_LIMIT_NKINDS; i++)
            fprintf(out, "%s#   %s: %s\n", indent, hb_limit_kind_name[i], hb_limit_kind_help[i]);
}

static size_t section_length(const char *key)
{
    const char *dot = strchr(key, '.');

    return dot ? (size_t)(dot - key) : 0;
}

static const char *const preface =
    "The configuration of hilbertd: every key with its default, which flies the paper's quadrotor to 1 m. Leave out "
    "what "
    "need not change. hilbertd --check FILE looks a file over; hilbertd.yaml(5) is the manual. Times are seconds, "
    "states "
    "and controls are in the units of the model. Keys marked so are changed by systemctl reload between two requests; "
    "the others hold after a restart.";

void hb_config_print(const hb_config *c, bool comments, FILE *out)
{
    hb_setting row;
    const char *before = "";

    if (comments)
        print_comment(preface, "", out);
    for (int i = 0; (row = hb_config_row(i)).key; i++) {
        size_t n = section_length(row.key);
        const char *indent = n ? "  " : "";
        if (n && (section_length(before) != n || strncmp(before, row.key, n)))
            fprintf(out, "%s%.*s:\n", comments ? "\n" : "", (int)n, row.key);
        else if (comments && !n)
            fputc('\n', out);
        before = row.key;
        if (comments)
            print_help(&row, indent, out);
        fprintf(out, "%s%s: ", indent, row.key + (n ? n + 1 : 0));
        print_value(c, &row, out);
        fputc('\n', out);
    }
}

/* scdoc takes _ and * for emphasis */
static void print_escaped(const char *s, FILE *out)
{
    for (; *s; s++) {
        if (strchr("_*\\", *s))
            fputc('\\', out);
        fputc(*s, out);
    }
}

void hb_config_print_manual(FILE *out)
{
    hb_config *c = malloc(sizeof *c);
    hb_setting row;

    if (!c)
        return;
    hb_config_default(c);
    for (int i = 0; (row = hb_config_row(i)).key; i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *line = open_memstream(&text, &size);
        if (!line)
            break;
        print_bounds(&row, line);
        if (row.type != HB_TYPE_TERMS) {
            fputs("; default ", line);
            print_value(c, &row, line);
        }
        fputs(row.live ? "; changed by a reload" : "", line);
        fclose(line);
        fputc('*', out);
        print_escaped(row.key, out);
        fputs("*: ", out);
        print_escaped(text, out);
        free(text);
        fputs("\n\t", out);
        print_escaped(row.help, out);
        fputs("\n\n", out);
        for (int j = 0; row.type == HB_TYPE_TERMS && j < HB_COST_NKINDS; j++) {
            fprintf(out, "\t*%s*: ", hb_cost_kind_name[j]);
            print_escaped(hb_cost_kind_help[j], out);
            fputs("\n\n", out);
        }
        for (int j = 0; row.type == HB_TYPE_LIMITS && j < HB_LIMIT_NKINDS; j++) {
            fputs("\t*", out);
            print_escaped(hb_limit_kind_name[j], out);
            fputs("*: ", out);
            print_escaped(hb_limit_kind_help[j], out);
            fputs("\n\n", out);
        }
    }
    free(c);
}

/* ---- what a reload takes over ---- */

static bool same(const hb_config *a, const hb_config *b, const hb_setting *row)
{
    const hb_config *both[] = {a, b};
    char *text[2] = {NULL, NULL};
    size_t size[2];

    for (int i = 0; i < 2; i++) {
        FILE *out = open_memstream(&text[i], &size[i]);
        if (out) {
            print_value(both[i], row, out);
            fclose(out);
        }
    }
    bool equal = text[0] && text[1] && strcmp(text[0], text[1]) == 0;
    free(text[0]);
    free(text[1]);
    return equal;
}

int hb_config_merge(hb_config *now, const hb_config *next, const char **restart)
{
    hb_setting row;
    int n = 0;

    for (int i = 0; (row = hb_config_row(i)).key; i++) {
        if (row.live) {
            memcpy((char *)now + row.offset, (const char *)next + row.offset, row.size);
            now->mark[i] = next->mark[i];
        } else if (!same(now, next, &row))
            restart[n++] = row.key;
    }
    return n;
}
