/* Text -> graph, by recursive descent. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/physics_graph.h"

typedef struct line {
    char name[HB_NAME_SIZE];
    bool is_rate;
    const char *expression, *end;
    enum { UNREAD, BEING_READ, READ } progress;
    int node;
} line;

typedef struct reader {
    const hb_physics_source *source;
    hb_graph *graph;
    int nlines;
    line *line;

    /* of the expression that is being read */
    int at_line, depth;
    const char *at;
    hb_physics_place *place;
    hb_error *err;
    int status; /* of the first complaint */
} reader;

static int complain(reader *r, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Returns a node, so that reading can go on to its end; the first complaint is kept. */
static int complain(reader *r, const char *where, const char *format, ...)
{
    const line *l = &r->line[r->at_line];
    char text[400];
    va_list args;

    if (r->status)
        return 0;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *r->place = (hb_physics_place){.line = r->at_line, .column = (int)(where - l->expression), .is_rate = l->is_rate};
    memcpy(r->place->name, l->name, sizeof l->name);
    r->status = hb_fail(r->err, EINVAL, "%s", text);
    r->at = l->end;
    return 0;
}

static void skip_spaces(reader *r)
{
    const char *end = r->line[r->at_line].end;

    while (r->at < end && (*r->at == ' ' || *r->at == '\t'))
        r->at++;
}

static char next(reader *r)
{
    skip_spaces(r);
    return r->at < r->line[r->at_line].end ? *r->at : 0;
}

static bool take(reader *r, const char *token)
{
    size_t n = strlen(token);

    skip_spaces(r);
    if ((size_t)(r->line[r->at_line].end - r->at) < n || memcmp(r->at, token, n) != 0)
        return false;
    r->at += n;
    return true;
}

static bool begins_name(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

static size_t name_length(const char *from, const char *end)
{
    const char *at = from;

    if (at < end && begins_name(*at))
        while (at < end && (begins_name(*at) || isdigit((unsigned char)*at) || *at == '.'))
            at++;
    return (size_t)(at - from);
}

static const struct function {
    const char *name;
    hb_op op;
    int arguments;
} functions[] = {
    {"sin", HB_OP_SIN, 1},   {"cos", HB_OP_COS, 1},   {"tan", HB_OP_TAN, 1},     {"asin", HB_OP_ASIN, 1},
    {"acos", HB_OP_ACOS, 1}, {"atan", HB_OP_ATAN, 1}, {"atan2", HB_OP_ATAN2, 2}, {"tanh", HB_OP_TANH, 1},
    {"exp", HB_OP_EXP, 1},   {"log", HB_OP_LOG, 1},   {"sqrt", HB_OP_SQRT, 1},   {"abs", HB_OP_ABS, 1},
    {"sign", HB_OP_SIGN, 1}, {"min", HB_OP_MIN, 2},   {"max", HB_OP_MAX, 2},
};

static const struct function *find_function(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}

static int find_name(int n, char (*names)[HB_NAME_SIZE], const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* What a name that means something else already is; NULL: nothing. */
static const char *meaning(const hb_physics_source *s, const char *name)
{
    return find_function(name)                                  ? "a function"
           : strcmp(name, "pi") == 0                            ? "a number"
           : find_name(s->nx, s->state, name) >= 0              ? "a state"
           : find_name(s->nu, s->control, name) >= 0            ? "a control"
           : find_name(s->nparameters, s->parameter, name) >= 0 ? "a parameter"
                                                                : NULL;
}

static int read_sum(reader *r);

static bool goes_too_deep(reader *r)
{
    if (r->depth < HB_PHYSICS_DEPTH)
        return false;
    complain(r, r->at, "more than %d parentheses, signs or quantities within each other", HB_PHYSICS_DEPTH);
    return true;
}

static int read_line(reader *r, int index)
{
    const char *at = r->at;
    const int at_line = r->at_line;
    line *l = &r->line[index];

    l->progress = BEING_READ;
    r->at_line = index;
    r->at = l->expression;
    l->node = read_sum(r);
    char after = next(r);
    if (after && !r->status)
        complain(r, r->at, after == ')' ? "')' closes nothing" : "an operator is expected, not '%c'",
                 isprint((unsigned char)after) ? after : '?');
    l->progress = READ;
    r->at_line = at_line;
    r->at = at;
    return l->node;
}

static int read_call(reader *r, const struct function *f, const char *where)
{
    int argument[2] = {-1, -1};

    if (!take(r, "("))
        return complain(r, where, "'%s' is a function: parentheses are expected after it", f->name);
    for (int i = 0; i < f->arguments; i++) {
        if (i && !take(r, ","))
            return complain(r, r->at, "%s has %d arguments: ',' is expected", f->name, f->arguments);
        argument[i] = read_sum(r);
    }
    if (!take(r, ")"))
        return complain(r, r->at, "%s has %d argument%s: ')' is expected", f->name, f->arguments,
                        f->arguments == 1 ? "" : "s");
    return hb_graph_apply(r->graph, f->op, argument[0], argument[1]);
}

static int read_name(reader *r)
{
    const hb_physics_source *s = r->source;
    const char *where = r->at;
    size_t length = name_length(r->at, r->line[r->at_line].end);
    char name[HB_NAME_SIZE] = "";
    int i;

    if (length >= sizeof name)
        return complain(r, where, "a name of %zu characters: at most %zu fit", length, sizeof name - 1);
    memcpy(name, r->at, length);
    r->at += length;
    const struct function *f = find_function(name);
    if (f)
        return read_call(r, f, where);
    if (strcmp(name, "pi") == 0)
        return hb_graph_constant(r->graph, M_PI);
    if ((i = find_name(s->nx, s->state, name)) >= 0)
        return hb_graph_input(r->graph, HB_ROWS_STATE, i);
    if ((i = find_name(s->nu, s->control, name)) >= 0)
        return hb_graph_input(r->graph, HB_ROWS_CONTROL, i);
    if ((i = find_name(s->nparameters, s->parameter, name)) >= 0)
        return hb_graph_constant(r->graph, s->value[i]);
    for (i = 0; i < r->nlines; i++)
        if (!r->line[i].is_rate && strcmp(r->line[i].name, name) == 0) {
            if (r->line[i].progress == BEING_READ)
                return complain(r, where, "'%s' is defined by itself", name);
            return r->line[i].progress == READ ? r->line[i].node : read_line(r, i);
        }
    if (next(r) == '(') {
        char known[200] = "";
        for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", k ? " " : "", functions[k].name);
        return complain(r, where, "there is no function '%s', only: %s", name, known);
    }
    return complain(r, where, "'%s' is neither a state nor a control, a parameter or another quantity", name);
}

static int read_number(reader *r)
{
    const char *end = r->line[r->at_line].end, *where = r->at;
    char text[64] = "", *stop;
    size_t length = 0;

    /* by hand as far as it goes: strtod would take hexadecimals, infinities and the locale's comma */
    while (where + length < end && (isdigit((unsigned char)where[length]) || where[length] == '.'))
        length++;
    if (length && where + length < end && (where[length] | 32) == 'e') {
        size_t more = length + 1;
        if (where + more < end && (where[more] == '+' || where[more] == '-'))
            more++;
        if (where + more < end && isdigit((unsigned char)where[more])) {
            while (where + more < end && isdigit((unsigned char)where[more]))
                more++;
            length = more;
        }
    }
    if (length >= sizeof text)
        return complain(r, where, "a number of %zu digits: at most %zu fit", length, sizeof text - 1);
    memcpy(text, where, length);
    double value = strtod(text, &stop);
    if (*stop || !isfinite(value))
        return complain(r, where, "'%s' is not a number", text);
    r->at += length;
    if (r->at < end && begins_name(*r->at))
        return complain(r, r->at, "an operator is expected between a number and a name: '*'?");
    return hb_graph_constant(r->graph, value);
}

static int read_primary(reader *r)
{
    char c = next(r);

    if (begins_name(c))
        return read_name(r);
    if (isdigit((unsigned char)c) || c == '.')
        return read_number(r);
    if (take(r, "(")) {
        int inside = read_sum(r);
        if (!take(r, ")"))
            return complain(r, r->at, "')' is expected");
        return inside;
    }
    if (!c)
        return complain(r, r->at, "the expression ends where a number, a name or '(' is expected");
    return complain(r, r->at, "a number, a name or '(' is expected, not '%c'", isprint((unsigned char)c) ? c : '?');
}

/* -a^b is -(a^b); a^-b and a^b^c are a^(-b) and a^(b^c) */
static int read_factor(reader *r)
{
    int node;

    if (goes_too_deep(r))
        return 0;
    r->depth++;
    if (take(r, "-"))
        node = hb_graph_apply(r->graph, HB_OP_NEGATE, read_factor(r), -1);
    else if (take(r, "+"))
        node = read_factor(r);
    else {
        node = read_primary(r);
        if (take(r, "^") || take(r, "**"))
            node = hb_graph_apply(r->graph, HB_OP_POWER, node, read_factor(r));
    }
    r->depth--;
    return node;
}

static int read_product(reader *r)
{
    int node = read_factor(r);

    for (;;) {
        char c = next(r);
        if (c != '*' && c != '/')
            return node;
        r->at++;
        node = hb_graph_apply(r->graph, c == '*' ? HB_OP_MULTIPLY : HB_OP_DIVIDE, node, read_factor(r));
    }
}

static int read_sum(reader *r)
{
    int node = read_product(r);

    for (;;) {
        char c = next(r);
        if (c != '+' && c != '-')
            return node;
        r->at++;
        node = hb_graph_apply(r->graph, c == '+' ? HB_OP_ADD : HB_OP_SUBTRACT, node, read_product(r));
    }
}

/* "name = expression" or "name' = expression" */
static int read_head(reader *r, int index, const char *from, const char *end)
{
    line *l = &r->line[index];
    size_t length;

    r->at_line = index;
    l->expression = l->end = from;
    while (from < end && isspace((unsigned char)*from))
        from++;
    while (end > from && isspace((unsigned char)end[-1]))
        end--;
    length = name_length(from, end);
    if (length == 0 || length >= sizeof l->name)
        return complain(r, l->expression, "a name of at most %zu letters, digits and '_' is expected before '='",
                        sizeof l->name - 1);
    memcpy(l->name, from, length);
    from += length;
    if (from < end && *from == '\'') {
        l->is_rate = true;
        from++;
    }
    while (from < end && (*from == ' ' || *from == '\t'))
        from++;
    if (from == end || *from != '=')
        return complain(r, l->expression, "'%s': '=' is expected after it", l->name);
    do
        from++;
    while (from < end && (*from == ' ' || *from == '\t'));
    l->expression = from;
    l->end = end;

    const char *means = meaning(r->source, l->name);
    if (l->is_rate && find_name(r->source->nx, r->source->state, l->name) < 0)
        return complain(r, from, "'%s' has a rate but is not a state", l->name);
    if (!l->is_rate && means)
        return complain(r, from, "'%s' is %s already", l->name, means);
    for (int i = 0; i < index; i++)
        if (r->line[i].is_rate == l->is_rate && strcmp(r->line[i].name, l->name) == 0)
            return complain(r, from, "'%s' is given twice", l->name);
    return 0;
}

static int read_heads(reader *r)
{
    const char *text = r->source->text;

    for (const char *from = text, *end; *from && !r->status; from = *end ? end + 1 : end) {
        end = from + strcspn(from, "\n");
        if (from + strspn(from, " \t\r") == end)
            continue;
        if (r->nlines == HB_PHYSICS_LINES)
            return r->status = hb_fail(r->err, EINVAL, "more than %d expressions", HB_PHYSICS_LINES);
        r->nlines++;
        read_head(r, r->nlines - 1, from, end);
    }
    return r->status;
}

/* The names that expressions use: they must be able to, and mean one thing each. */
static int check_names(const hb_physics_source *s, hb_error *err)
{
    const struct {
        const char *what;
        int n, most;
        char (*name)[HB_NAME_SIZE];
    } list[] = {{"state", s->nx, HB_PHYSICS_VARIABLES, s->state},
                {"control", s->nu, HB_PHYSICS_VARIABLES, s->control},
                {"parameter", s->nparameters, HB_NOMINAL_PARAMETERS, s->parameter}};

    for (int k = 0; k < 3; k++) {
        if (list[k].n > list[k].most)
            return hb_fail(err, EINVAL, "%d %ss: expressions take at most %d", list[k].n, list[k].what, list[k].most);
        for (int i = 0; i < list[k].n; i++) {
            const char *name = list[k].name[i];
            if (!*name || name_length(name, name + strlen(name)) != strlen(name))
                return hb_fail(err, EINVAL, "%s '%s': expressions need names of letters, digits, '_' and '.'",
                               list[k].what, name);
            if (find_function(name) || strcmp(name, "pi") == 0)
                return hb_fail(err, EINVAL, "%s '%s': that name is taken by expressions", list[k].what, name);
            for (int j = 0; j <= k; j++) {
                int same = find_name(j == k ? i : list[j].n, list[j].name, name);
                if (same >= 0)
                    return hb_fail(err, EINVAL, "'%s' is both a %s and a %s", name, list[j].what, list[k].what);
            }
        }
    }
    for (int i = 0; i < s->nparameters; i++)
        if (!isfinite(s->value[i]))
            return hb_fail(err, EINVAL, "parameter '%s' is not finite", s->parameter[i]);
    return 0;
}

static int read_all(reader *r, int *rate)
{
    const hb_physics_source *s = r->source;

    if (read_heads(r))
        return r->status;
    for (int i = 0; i < r->nlines && !r->status; i++) {
        if (r->line[i].progress == UNREAD)
            read_line(r, i);
        r->at_line = i;
        if (r->graph->full)
            complain(r, r->line[i].expression, "the expressions are too large: more than %d operations",
                     HB_PHYSICS_OPERATIONS);
        const hb_node *n = &r->graph->node[r->line[i].node];
        if (n->op == HB_OP_CONSTANT && !isfinite(n->k))
            complain(r, r->line[i].expression, "'%s' is %g whatever the state is", r->line[i].name, n->k);
    }
    for (int i = 0; i < s->nx && !r->status; i++) {
        rate[i] = -1;
        for (int k = 0; k < r->nlines; k++)
            if (r->line[k].is_rate && strcmp(r->line[k].name, s->state[i]) == 0)
                rate[i] = r->line[k].node;
        if (rate[i] < 0)
            return r->status = hb_fail(r->err, EINVAL, "the rate of state '%s' is missing", s->state[i]);
    }
    return r->status;
}

int hb_physics_read(const hb_physics_source *source, hb_graph *graph, int *rate, hb_physics_place *place, hb_error *err)
{
    reader r = {.source = source, .graph = graph, .place = place, .err = err};
    int status = check_names(source, err);

    if (status)
        return status;
    if (strlen(source->text) >= HB_PHYSICS_TEXT)
        return hb_fail(err, EINVAL, "expressions of %zu bytes: at most %d fit", strlen(source->text),
                       HB_PHYSICS_TEXT - 1);
    r.line = calloc(HB_PHYSICS_LINES, sizeof *r.line);
    if (!r.line)
        return hb_fail(err, ENOMEM, "out of memory");
    status = read_all(&r, rate);
    free(r.line);
    return status;
}
