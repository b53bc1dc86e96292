/* hilbertctl top: a running daemon, live. It fits the terminal, and waits for a daemon that restarts. */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/connection.h"
#include "json.h"
#include "ctl/show.h"

enum { HISTORY = 60, COEFFICIENTS = 8, LEFT_OF_BARS = 34 };

/* The newest values of something, oldest first. */
typedef struct history {
    int n;
    double value[HISTORY];
} history;

typedef struct screen {
    history error, expected, span, latency, telemetry, requests, coefficient[COEFFICIENTS];
    Hilbert__V1__ModelInfo *model; /* NULL: not known */
    bool live;                     /* a terminal: redraw in place, keys are read */
    struct termios before;
} screen;

static void add(history *h, double v)
{
    if (h->n == HISTORY)
        memmove(h->value, h->value + 1, (size_t)(--h->n) * sizeof *h->value);
    h->value[h->n++] = v;
}

static void remember(screen *s, const Hilbert__V1__Status *m)
{
    add(&s->error, m->health->one_step_error);
    add(&s->expected, m->health->expected_error);
    add(&s->span, m->health->out_of_span);
    add(&s->latency, 1e-3 * (double)m->total->p99_us);
    add(&s->telemetry, m->telemetry_rate);
    add(&s->requests, m->request_rate);
    for (size_t i = 0; i < COEFFICIENTS && i < m->n_coefficient; i++)
        add(&s->coefficient[i], m->coefficient[i]);
}

static void line(FILE *out, const char *name, const history *h, const char *unit, int columns)
{
    char spark[4 * HISTORY + 1];
    double newest = h->n ? h->value[h->n - 1] : 0;

    if (fabs(newest) < 1e-9) /* what fades for hours is nothing to look at */
        newest = 0;

    show_spark(h->value, h->n, columns > LEFT_OF_BARS ? columns - LEFT_OF_BARS : 0, spark, sizeof spark);
    fprintf(out, "  %-13s %9.4g %-4s %s\n", name, newest, unit, spark);
}

/* Every status with its number of replies, as many to a line as fit. Returns the lines. */
static int put_replies(FILE *out, const Hilbert__V1__Status *m, int columns)
{
    const ProtobufCMessageDescriptor *d = m->replies->base.descriptor;
    int used = 0, lines = 0;

    for (unsigned i = 0; i <= d->n_fields; i++) {
        bool late = i == d->n_fields;
        const void *at = late ? (const void *)&m->counters->replies_late
                              : (const void *)((const char *)m->replies + d->fields[i].offset);
        char text[64], *underscore;
        int n = snprintf(text, sizeof text, "%s %" PRIu64, late ? "late" : d->fields[i].name, *(const uint64_t *)at);
        while ((underscore = strchr(text, '_')))
            *underscore = '-';
        if (used == 0 || used + n + 2 >= columns) {
            used = fprintf(out, "%s%10s", used ? "\n" : "", "") - (used > 0);
            lines++;
        } else
            used += fprintf(out, "  ");
        used += fprintf(out, "%s", text);
    }
    fputc('\n', out);
    return lines;
}

/* The first of four targets that are a quaternion of zeros, which asks for no attitude; n: there is none. */
static size_t no_attitude(Hilbert__V1__Channel *const *channel, size_t n, const double *target)
{
    static const char *const part[] = {"qx", "qy", "qz", "qw"};

    for (size_t i = 0; target && i + 4 <= n; i++) {
        bool none = true;
        for (size_t k = 0; k < 4; k++)
            none = none && strcmp(channel[i + k]->name, part[k]) == 0 && target[i + k] == 0;
        if (none)
            return i;
    }
    return n;
}

/* Numbers by their names, as many to a line as fit; returns the lines. With a target beside them: "z 0.98>1". */
static int put_vector(FILE *out, const char *title, Hilbert__V1__Channel *const *channel, size_t n, const double *value,
                      const double *target, int columns)
{
    const size_t unasked = no_attitude(channel, n, target);
    int lines = 0, used = columns;

    for (size_t i = 0; i < n; i++) {
        char text[80];
        int width = snprintf(text, sizeof text, " %.12s %.3g", channel[i]->name, fabs(value[i]) < 5e-4 ? 0 : value[i]);
        if (target && !(i >= unasked && i < unasked + 4) && width > 0 && (size_t)width < sizeof text)
            width += snprintf(text + width, sizeof text - (size_t)width, ">%.3g", target[i]);
        if (used + width > columns) {
            used = fprintf(out, "%s%-9s", lines ? "\n" : "", lines ? "" : title) - (lines > 0);
            lines++;
        }
        used += fprintf(out, "%s", text);
    }
    if (lines)
        fputc('\n', out);
    return lines;
}

/* Where it is, where it is to go, what it does. Returns the lines. */
static int put_vehicle(FILE *out, const Hilbert__V1__Status *m, const Hilbert__V1__ModelInfo *model, int columns)
{
    int lines = 0;

    if (!model || model->hash != m->model_hash)
        return 0;
    if (m->n_state == model->n_state)
        lines += put_vector(out, m->n_target == m->n_state ? "state>aim" : "state", model->state, m->n_state, m->state,
                            m->n_target == m->n_state ? m->target : NULL, columns);
    else if (m->n_target == model->n_state)
        lines += put_vector(out, "target", model->state, m->n_target, m->target, NULL, columns);
    if (m->n_action == model->n_control)
        lines += put_vector(out, "action", model->control, m->n_action, m->action, NULL, columns);
    return lines;
}

/* What was learned, in words, and what drives the plan. Returns the lines. */
static int put_words(FILE *out, const Hilbert__V1__Status *m, int columns)
{
    const show_line terms = show_terms(m, 2);
    int lines = 0, used = columns;

    for (size_t i = 0; i < m->n_word; i++) {
        show_line text = show_learned(m->word[i]);
        int width = (int)strlen(text.text) + 2;
        if (used + width > columns) {
            used = fprintf(out, "%s%-10s", lines ? "\n" : "", lines ? "" : "learned") - (lines > 0);
            lines++;
        } else
            used += fprintf(out, ", ");
        used += fprintf(out, "%s", text.text);
    }
    if (lines)
        fputc('\n', out);
    if (*terms.text)
        fprintf(out, "driven by %s\n", terms.text);
    return lines + (*terms.text != 0);
}

/* As many coefficients as there are rows left, and how many more there are. */
static void put_coefficients(FILE *out, const screen *s, const Hilbert__V1__Status *m, int columns, int rows)
{
    int n = 0;
    char name[24];

    while (n < COEFFICIENTS && s->coefficient[n].n)
        n++;
    if (n > rows || (size_t)n < m->n_coefficient)
        n = n < rows - 1 ? n : rows - 1;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "c%d", i);
        line(out, name, &s->coefficient[i], "", columns);
    }
    n = n > 0 ? n : 0;
    if (m->n_coefficient > (size_t)n)
        fprintf(out, "  %zu more coefficients: hilbertctl status\n", m->n_coefficient - (size_t)n);
}

/* A word in a field of its width, green, yellow or red; also readable without: the word says it. */
typedef struct coloured {
    char text[64];
} coloured;

static coloured colour(const char *word, int how_bad)
{
    static const char *const code[] = {"\033[32m", "\033[33m", "\033[31m"};
    const bool plain = getenv("NO_COLOR") && *getenv("NO_COLOR");
    coloured c;

    snprintf(c.text, sizeof c.text, "%s%-12s%s", plain ? "" : code[how_bad], word, plain ? "" : "\033[0m");
    return c;
}

static int how_bad_actions(Hilbert__V1__ActionStatus status)
{
    switch (status) {
    case HILBERT__V1__ACTION_STATUS__ACTION_STATUS_UNSPECIFIED:
    case HILBERT__V1__ACTION_STATUS__ACTION_STATUS_CONVERGED:
        return 0;
    case HILBERT__V1__ACTION_STATUS__ACTION_STATUS_TRUNCATED:
    case HILBERT__V1__ACTION_STATUS__ACTION_STATUS_LIMITED:
    case HILBERT__V1__ACTION_STATUS__ACTION_STATUS_WARMING_UP:
        return 1;
    default:
        return 2;
    }
}

static int how_bad_estimate(Hilbert__V1__EstimateStatus status)
{
    return status == HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_OK            ? 0
           : status >= HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_OUT_OF_SPAN ? 2
                                                                                 : 1;
}

static void compose(FILE *out, const screen *s, const Hilbert__V1__Status *m, const char *trouble, int columns,
                    int rows)
{
    char status[32], estimate[32], fault[32] = "";

    hb_json_word(&hilbert__v1__action_status__descriptor, (int)m->last_status, status, sizeof status);
    hb_json_word(&hilbert__v1__estimate_status__descriptor, (int)m->health->status, estimate, sizeof estimate);
    fprintf(out, "%.20s  hilbertd %.12s  up %s  [q: quit]\n%s\n", m->name, m->version, show_span(m->uptime).text,
            trouble);
    fprintf(out, "actions   %s p50 %s  p99 %s  max %s of %s\n",
            colour(m->last_status ? status : "none yet", how_bad_actions(m->last_status)).text,
            show_us(m->total->p50_us, 0).text, show_us(m->total->p99_us, 0).text, show_us(m->total->max_us, 0).text,
            show_us(m->budget_us, 0).text);
    int lines = 3 + put_replies(out, m, columns);
    if (m->health->fault > HILBERT__V1__REASON__REASON_NONE)
        hb_json_word(&hilbert__v1__reason__descriptor, (int)m->health->fault, fault, sizeof fault);
    fprintf(out, "estimate  %s %" PRIu32 " samples over %.1f s%s%s%s\n",
            colour(estimate, how_bad_estimate(m->health->status)).text, m->health->samples, m->health->span_seconds,
            m->adapting ? "" : "; not used", *fault ? "; telemetry: " : "", fault);
    lines += 1 + put_vehicle(out, m, s->model, columns) + put_words(out, m, columns);
    line(out, "error", &s->error, "", columns);
    line(out, "expected", &s->expected, "", columns);
    line(out, "out of span", &s->span, "", columns);
    line(out, "latency p99", &s->latency, "ms", columns);
    line(out, "telemetry", &s->telemetry, "Hz", columns);
    line(out, "requests", &s->requests, "Hz", columns);
    put_coefficients(out, s, m, columns, rows - 1 - lines - 6);
}

/* Puts a text on the terminal, lines cut to its width (an UTF-8 character takes one column) and to its height. */
static void put_screen(const char *text, int columns, int rows)
{
    int row = 0, hidden = 0;

    printf("\033[H");
    for (const char *at = text; *at; row++) {
        size_t length = strcspn(at, "\n"), n = 0;
        int column = 0;
        while (n < length && (column < columns || ((unsigned char)at[n] & 0xc0) == 0x80 || at[n] == '\033')) {
            if (at[n] == '\033') /* a colour takes no room */
                n += strcspn(at + n, "m") + 1;
            else
                column += ((unsigned char)at[n++] & 0xc0) != 0x80;
        }
        bool last = row >= rows - 2 && at[length] && at[length + 1];
        if (row < rows - 1 && !last)
            printf("%.*s\033[K\n", (int)n, at);
        else
            hidden++;
        at += length + (at[length] != 0);
    }
    if (hidden)
        printf("%.*s\033[K", columns, "(more: make the window higher)");
    printf("\033[J");
    fflush(stdout);
}

static void draw(const screen *s, const Hilbert__V1__Status *m, const char *trouble)
{
    struct winsize size = {0};
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    if (!out)
        return;
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    int columns = size.ws_col ? size.ws_col : 80, rows = size.ws_row ? size.ws_row : 24;
    compose(out, s, m, trouble, columns, rows);
    if (fclose(out) == 0)
        put_screen(text, columns, rows);
    free(text);
}

/* Without a terminal: a line each time. */
static void print_plain(const Hilbert__V1__Status *m)
{
    char status[32], estimate[32];

    printf("%.1f s: %s, %.1f requests/s, p99 %s; telemetry %.1f Hz; %s, error %.3g, out of span %.2g\n", m->uptime,
           hb_json_word(&hilbert__v1__action_status__descriptor, (int)m->last_status, status, sizeof status),
           m->request_rate, show_us(m->total->p99_us, 0).text, m->telemetry_rate,
           hb_json_word(&hilbert__v1__estimate_status__descriptor, (int)m->health->status, estimate, sizeof estimate),
           m->health->one_step_error, m->health->out_of_span);
    fflush(stdout);
}

static void take_screen(screen *s)
{
    struct termios raw;

    s->live = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetattr(STDIN_FILENO, &s->before) == 0;
    if (!s->live)
        return;
    raw = s->before;
    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO | ISIG); /* ctrl-c arrives as a key, so that the screen is given back */
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    printf("\033[?1049h\033[?25l");
}

static void give_screen_back(const screen *s)
{
    if (!s->live)
        return;
    printf("\033[?25h\033[?1049l");
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
}

/* Waits until the next refresh; false when the user quits. */
static bool pause_for(const screen *s, double seconds)
{
    struct pollfd key = {.fd = s->live ? STDIN_FILENO : -1, .events = POLLIN};
    char letter;

    if (poll(&key, 1, (int)(1e3 * seconds)) <= 0)
        return true;
    return read(STDIN_FILENO, &letter, 1) == 1 && letter != 'q' && letter != 3;
}

/* Names of states and controls, once they are asked for, and again when another model flies. */
static void look_at_model(screen *s, ctl_connection *c, const ctl_command *self, const Hilbert__V1__Status *m)
{
    char why[640];

    if (s->model && s->model->hash == m->model_hash)
        return;
    Hilbert__V1__ControlReply *reply = ctl_try_for(c, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_MODEL,
                                                   HILBERT__V1__CONTROL_REPLY__RESULT_MODEL, why, sizeof why);
    if (reply) {
        hilbert__v1__model_info__free_unpacked(s->model, NULL);
        s->model = reply->model;
        reply->result_case = HILBERT__V1__CONTROL_REPLY__RESULT__NOT_SET;
    }
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
}

/* Asks for the status; NULL when there is no answer, with the reason in `why`. */
static Hilbert__V1__ControlReply *look(ctl_connection *c, const ctl_command *self, char *why, size_t size)
{
    return ctl_try_for(c, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_STATUS,
                       HILBERT__V1__CONTROL_REPLY__RESULT_STATUS, why, size);
}

static int run(const ctl_command *self, int argc, char **argv)
{
    double interval = 0.5, count = 0;
    const ctl_option own[] = {
        {'i', "interval", CTL_NUMBER, &interval, 0.05, 3600}, {'c', "count", CTL_NUMBER, &count, 1, 1e9}, {0}};
    ctl_connection c;
    screen s = {0};
    int result = ctl_connection_options(&c, self, argc, argv, own, 0);
    char why[640];

    if (result)
        return result;
    /* a daemon that was there once is waited for: it may be on its way back */
    Hilbert__V1__ControlReply *newest = look(&c, self, why, sizeof why);
    if (!newest) {
        ctl_connection_end(&c);
        return *why ? ctl_failure(self, "%s", why) : CTL_FAILURE;
    }
    take_screen(&s);
    for (long i = 0;; i++) {
        if (!*why) {
            remember(&s, newest->status);
            if (s.live)
                look_at_model(&s, &c, self, newest->status);
        }
        if (s.live)
            draw(&s, newest->status, *why ? "no answer: waiting for the daemon to come back" : "");
        else if (*why)
            printf("no answer: waiting for the daemon to come back\n");
        else
            print_plain(newest->status);
        fflush(stdout);
        if ((count > 0 && i + 1 >= (long)count) || !pause_for(&s, interval))
            break;
        c.timeout = fmin(c.timeout, 1);
        Hilbert__V1__ControlReply *next = look(&c, self, why, sizeof why);
        if (next) {
            hilbert__v1__control_reply__free_unpacked(newest, NULL);
            newest = next;
        }
    }
    hilbert__v1__control_reply__free_unpacked(newest, NULL);
    hilbert__v1__model_info__free_unpacked(s.model, NULL);
    give_screen_back(&s);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_top = {
    .name = "top",
    .arguments = "[OPTIONS]",
    .summary = "a running daemon, live",
    .help =
        "Redraws state and target, action, error, coefficients, rates and latency with their recent past until q is\n"
        "pressed, with colours unless NO_COLOR is set; without a terminal it prints a line each time. A daemon that "
        "goes\n"
        "away is waited for.\n"
        "\n"
        "  -i, --interval SECONDS 0.5\n"
        "  -c, --count N          stop after N times\n" CTL_CONNECTION_HELP,
    .run = run,
};
