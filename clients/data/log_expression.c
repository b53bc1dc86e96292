#include "data/log_expression.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 256, MAX_DEPTH = 32, MAX_NAME = 64 };

typedef enum {
    NUMBER,
    COLUMN,
    NEGATE,
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    POWER,
    LESS,
    LESS_EQUAL,
    MORE,
    MORE_EQUAL,
    EQUAL,
    AND,
    OR,
    SQRT,
    ABS,
    SIN,
    COS,
    EXP,
    LOG,
    MIN,
    MAX
} operation;

typedef struct step {
    operation what;
    int column;
    double value;
} step;

/* in postfix order, for a stack */
struct hb_log_expression {
    int n;
    step step[MAX_STEPS];
};

typedef struct parser {
    const char *text, *at;
    hb_log_lookup *lookup;
    void *context;
    hb_log_expression *to;
    int depth;
    hb_error *err;
} parser;

static int wrong(parser *p, const char *what)
{
    return hb_fail(p->err, EINVAL, "'%.200s': %s at '%.40s'", p->text, what, *p->at ? p->at : "the end");
}

static int emit(parser *p, step s)
{
    if (p->to->n == MAX_STEPS)
        return wrong(p, "it is too long");
    p->to->step[p->to->n++] = s;
    return 0;
}

static bool accept(parser *p, const char *token)
{
    p->at += strspn(p->at, " \t");
    if (strncmp(p->at, token, strlen(token)) != 0)
        return false;
    p->at += strlen(token);
    return true;
}

static int parse_or(parser *p);

/* A name as logs have them: letters, digits, _ and ., then a unit in brackets; or anything in quotes. */
static int parse_name(parser *p, char name[MAX_NAME])
{
    const char *start = p->at;
    size_t length = 0;

    if (*start == '"') {
        length = strcspn(++start, "\"");
        if (!start[length])
            return wrong(p, "a quote is not closed");
        p->at = start + length + 1;
    } else {
        while (isalnum((unsigned char)start[length]) || start[length] == '_' || start[length] == '.')
            length++;
        if (start[length] == '[' && strchr(start + length, ']'))
            length = (size_t)(strchr(start + length, ']') - start) + 1;
        p->at = start + length;
    }
    if (length == 0 || length >= MAX_NAME)
        return wrong(p, "expected a number, a column or (");
    memcpy(name, start, length);
    name[length] = 0;
    return 0;
}

static int parse_function(parser *p, const char *name, bool *found)
{
    static const struct {
        const char *name;
        operation what;
        int arguments;
    } known[] = {{"sqrt", SQRT, 1}, {"abs", ABS, 1}, {"sin", SIN, 1}, {"cos", COS, 1},
                 {"exp", EXP, 1},   {"log", LOG, 1}, {"min", MIN, 2}, {"max", MAX, 2}};
    int status = 0;

    *found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0 || !accept(p, "("))
            continue;
        *found = true;
        for (int k = 0; k < known[i].arguments && !status; k++)
            status = k && !accept(p, ",") ? wrong(p, "expected ,") : parse_or(p);
        if (!status && !accept(p, ")"))
            status = wrong(p, "expected )");
        return status ? status : emit(p, (step){.what = known[i].what});
    }
    return 0;
}

static int parse_atom(parser *p)
{
    char name[MAX_NAME], *end;
    double value = 0;
    bool function;
    int status;

    if (accept(p, "(")) {
        if (++p->depth > MAX_DEPTH)
            return wrong(p, "parentheses are too deep");
        status = parse_or(p);
        p->depth--;
        return status ? status : accept(p, ")") ? 0 : wrong(p, "expected )");
    }
    if (isdigit((unsigned char)*p->at) || *p->at == '.') {
        value = strtod(p->at, &end);
        if (end == p->at)
            return wrong(p, "expected a number");
        p->at = end;
        return emit(p, (step){.what = NUMBER, .value = value});
    }
    const char *start = p->at;
    if ((status = parse_name(p, name)) || (status = parse_function(p, name, &function)) || function)
        return status;
    if (strcmp(name, "pi") == 0)
        return emit(p, (step){.what = NUMBER, .value = M_PI});
    int column = p->lookup(p->context, name, &value);
    if (column == -2) {
        p->at = start;
        return wrong(p, "the log has no such column");
    }
    return emit(p, column >= 0 ? (step){.what = COLUMN, .column = column} : (step){.what = NUMBER, .value = value});
}

static int parse_unary(parser *p)
{
    int status;

    if (accept(p, "-")) {
        if (++p->depth > MAX_DEPTH)
            return wrong(p, "too many signs");
        status = parse_unary(p);
        p->depth--;
        return status ? status : emit(p, (step){.what = NEGATE});
    }
    if ((status = parse_atom(p)))
        return status;
    if (accept(p, "^")) {
        if (++p->depth > MAX_DEPTH)
            return wrong(p, "too many powers");
        status = parse_unary(p);
        p->depth--;
        return status ? status : emit(p, (step){.what = POWER});
    }
    return 0;
}

/* operators of one level of precedence, from the left */
typedef struct level {
    const char *token[5];
    operation what[5];
    int n;
} level;

static const level levels[] = {
    {{"||"}, {OR}, 1},
    {{"&&"}, {AND}, 1},
    {{"<=", ">=", "==", "<", ">"}, {LESS_EQUAL, MORE_EQUAL, EQUAL, LESS, MORE}, 5},
    {{"+", "-"}, {ADD, SUBTRACT}, 2},
    {{"*", "/"}, {MULTIPLY, DIVIDE}, 2},
};

static int parse_level(parser *p, size_t at)
{
    if (at == sizeof levels / sizeof *levels)
        return parse_unary(p);
    int status = parse_level(p, at + 1);
    for (bool more = true; more && !status;) {
        more = false;
        for (int i = 0; i < levels[at].n && !more && !status; i++)
            if (accept(p, levels[at].token[i])) {
                more = true;
                if (!(status = parse_level(p, at + 1)))
                    status = emit(p, (step){.what = levels[at].what[i]});
            }
    }
    return status;
}

static int parse_or(parser *p)
{
    p->at += strspn(p->at, " \t");
    return parse_level(p, 0);
}

int hb_log_expression_new(hb_log_expression **ret, const char *text, hb_log_lookup *lookup, void *context,
                          hb_error *err)
{
    hb_log_expression *e = calloc(1, sizeof *e);
    parser p = {.text = text, .at = text, .lookup = lookup, .context = context, .to = e, .err = err};

    if (!e)
        return hb_fail(err, ENOMEM, "out of memory");
    int status = parse_or(&p);
    p.at += strspn(p.at, " \t");
    if (!status && *p.at)
        status = wrong(&p, "expected an operator");
    if (status) {
        free(e);
        return status;
    }
    *ret = e;
    return 0;
}

void hb_log_expression_free(hb_log_expression *e)
{
    free(e);
}

static double apply(operation what, double a, double b)
{
    switch (what) {
    case ADD:
        return a + b;
    case SUBTRACT:
        return a - b;
    case MULTIPLY:
        return a * b;
    case DIVIDE:
        return a / b;
    case POWER:
        return pow(a, b);
    case LESS:
        return a < b;
    case LESS_EQUAL:
        return a <= b;
    case MORE:
        return a > b;
    case MORE_EQUAL:
        return a >= b;
    case EQUAL:
        return a == b;
    case AND:
        return a != 0 && b != 0;
    case OR:
        return a != 0 || b != 0;
    case MIN:
        return a < b ? a : b;
    case MAX:
        return a > b ? a : b;
    case NEGATE:
        return -b;
    case SQRT:
        return sqrt(b);
    case ABS:
        return fabs(b);
    case SIN:
        return sin(b);
    case COS:
        return cos(b);
    case EXP:
        return exp(b);
    case LOG:
        return log(b);
    default:
        return b;
    }
}

double hb_log_expression_value(const hb_log_expression *e, const double *row)
{
    double stack[MAX_STEPS];
    int n = 0;

    for (int i = 0; i < e->n; i++) {
        const step *s = &e->step[i];
        if (s->what == NUMBER || s->what == COLUMN) {
            stack[n++] = s->what == NUMBER ? s->value : row[s->column];
            continue;
        }
        bool one = s->what == NEGATE || (s->what >= SQRT && s->what <= LOG);
        double b = stack[--n], a = one ? 0 : stack[--n];
        stack[n++] = isnan(a) || isnan(b) ? NAN : apply(s->what, a, b);
    }
    return stack[0];
}
