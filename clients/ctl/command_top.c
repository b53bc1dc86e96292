/* hilbertctl top: a running daemon, live, in 80 columns. */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/connection.h"
#include "json.h"
#include "ctl/show.h"

enum { HISTORY = 60, COEFFICIENTS = 8, COLUMNS = 80 };

/* The newest values of something, oldest first. */
typedef struct history {
    int n;
    double value[HISTORY];
} history;

typedef struct screen {
    history error, span, latency, telemetry, requests, coefficient[COEFFICIENTS];
    bool live; /* a terminal: redraw in place, keys are read */
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
    add(&s->span, m->health->out_of_span);
    add(&s->latency, 1e-3 * (double)m->total->p99_us);
    add(&s->telemetry, m->telemetry_rate);
    add(&s->requests, m->request_rate);
    for (size_t i = 0; i < COEFFICIENTS && i < m->n_coefficient; i++)
        add(&s->coefficient[i], m->coefficient[i]);
}

static void line(const char *name, const history *h, const char *unit)
{
    char spark[4 * HISTORY + 1];
    double newest = h->n ? h->value[h->n - 1] : 0;

    show_spark(h->value, h->n, 46, spark, sizeof spark);
    printf("  %-13s %9.4g %-4s %s\033[K\n", name, newest, unit, spark);
}

static void draw(screen *s, const Hilbert__V1__Status *m)
{
    char status[32], estimate[32], name[24];

    hb_json_word(&hilbert__v1__action_status__descriptor, (int)m->last_status, status, sizeof status);
    hb_json_word(&hilbert__v1__estimate_status__descriptor, (int)m->health->status, estimate, sizeof estimate);
    printf("\033[H%.20s  hilbertd %.12s  up %s  [q: quit]\033[K\n\033[K\n", m->name, m->version,
           show_span(m->uptime).text);
    printf("actions   %-12s p50 %s  p99 %s  max %s of %s\033[K\n", m->last_status ? status : "none yet",
           show_us(m->total->p50_us, 0).text, show_us(m->total->p99_us, 0).text, show_us(m->total->max_us, 0).text,
           show_us(m->budget_us, 0).text);
    printf("          converged %" PRIu64 "  truncated %" PRIu64 "  fallback %" PRIu64 "  refused %" PRIu64
           "  late %" PRIu64 "\033[K\n",
           m->replies->converged, m->replies->truncated, m->replies->fallback, m->replies->refused,
           m->counters->replies_late);
    printf("estimate  %-12s %" PRIu32 " samples over %.1f s, condition %.2g%s\033[K\n\033[K\n", estimate,
           m->health->samples, m->health->span_seconds, m->health->condition, m->adapting ? "" : "; not used");
    line("error", &s->error, "");
    line("out of span", &s->span, "");
    line("latency p99", &s->latency, "ms");
    line("telemetry", &s->telemetry, "Hz");
    line("requests", &s->requests, "Hz");
    for (int i = 0; i < COEFFICIENTS && s->coefficient[i].n; i++) {
        snprintf(name, sizeof name, "c%d", i);
        line(name, &s->coefficient[i], "");
    }
    printf("\033[J");
    fflush(stdout);
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

/* Waits for the next time to look; false when a key says quit. */
static bool pause_for(const screen *s, double seconds)
{
    struct pollfd key = {.fd = s->live ? STDIN_FILENO : -1, .events = POLLIN};
    char letter;

    if (poll(&key, 1, (int)(1e3 * seconds)) <= 0)
        return true;
    return read(STDIN_FILENO, &letter, 1) == 1 && letter != 'q' && letter != 3;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    double interval = 0.5, count = 0;
    const ctl_option own[] = {
        {'i', "interval", CTL_NUMBER, &interval, 0.05, 3600}, {'c', "count", CTL_NUMBER, &count, 1, 1e9}, {0}};
    ctl_connection c;
    screen s = {0};
    int result = ctl_connection_options(&c, self, argc, argv, own, 0);

    if (result)
        return result;
    take_screen(&s);
    for (long i = 0; count == 0 || i < (long)count; i++) {
        Hilbert__V1__ControlReply *reply = ctl_ask_status(&c, self);
        if (!reply) {
            result = CTL_FAILURE;
            break;
        }
        remember(&s, reply->status);
        if (s.live)
            draw(&s, reply->status);
        else
            print_plain(reply->status);
        hilbert__v1__control_reply__free_unpacked(reply, NULL);
        if ((count > 0 && i + 1 >= (long)count) || !pause_for(&s, interval))
            break;
    }
    give_screen_back(&s);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_top = {
    .name = "top",
    .arguments = "[OPTIONS]",
    .summary = "a running daemon, live",
    .help = "Redraws error, coefficients, rates and latency with their recent past until q is pressed; without a "
            "terminal it\n"
            "prints a line each time.\n"
            "\n"
            "  -i, --interval SECONDS 0.5\n"
            "  -c, --count N          stop after N times\n" CTL_CONNECTION_HELP,
    .run = run,
};
