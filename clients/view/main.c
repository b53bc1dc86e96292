/* hilbert-view: a page for operators. It watches daemons and shows recordings; see view/web.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "common/options.h"
#include "common/progress.h"
#include "view/flight_json.h"
#include "view/web.h"

static volatile sig_atomic_t stopping;

static void stop(int signal_number)
{
    (void)signal_number;
    stopping = 1;
}

static void print_help(void)
{
    printf(
        "usage: hilbert-view [OPTIONS] [FLIGHT.mcap...]\n\n"
        "Serves a page that shows running daemons live, one or a fleet, and /metrics for Prometheus; and recordings\n"
        "of flights, one over another. Without --name, --socket and recordings it watches all daemons with sockets\n"
        "below /run/hilbertd, also those that come later.\n\n"
        "  -n, --name NAME        the daemon with sockets under /run/hilbertd/NAME; may be repeated\n"
        "  -s, --socket PLACE     or those under a folder, or tcp://HOST:PORT of its control socket, a comma, and\n"
        "                         tcp://HOST:PORT of its status socket; may be repeated\n"
        "  -K, --server-key FILE  the daemons' public key, for tcp\n"
        "  -k, --client-key FILE  our secret key, for tcp\n"
        "  -a, --address ADDRESS  to listen on: 127.0.0.1; another one needs --certificate, or --insecure\n"
        "  -p, --port PORT        8765; 0: any that is free\n"
        "      --control          the page may set targets and live keys, reset and reload, of daemons over tcp that "
        "know\n"
        "                         our key: it asks back, and they log it with the key's name. Whoever reaches the page "
        "may\n"
        "      --certificate FILE with --certificate-key FILE: https\n"
        "      --insecure         without https on any address: whoever reaches it sees everything\n"
        "      --origin URL       a page of this origin may connect, too; may be repeated\n"
        "  -h, --help             this text\n"
        "  -V, --version          the version\n\n"
        "exit status: 0 ended by a signal, 1 failure, 2 wrong usage\n");
}

typedef struct options {
    hb_view_settings web;
    hb_view_fleet fleet;
    char *place[HB_VIEW_VEHICLES]; /* of daemons that were named */
    int nplaces;
    hb_view_recording recording[HB_VIEW_RECORDINGS];
    int nrecordings;
    bool insecure, version;
} options;

static int keep_place(options *o, const char *folder, const char *text, hb_error *err)
{
    if (o->nplaces == HB_VIEW_VEHICLES)
        return hb_fail(err, EINVAL, "more than %d daemons", HB_VIEW_VEHICLES);
    if (asprintf(&o->place[o->nplaces], "%s%s", folder, text) < 0)
        return hb_fail(err, ENOMEM, "out of memory");
    o->nplaces++;
    return 0;
}

static int add_place(void *context, const char *text, hb_error *err)
{
    return keep_place(context, "", text, err);
}

static int add_name(void *context, const char *text, hb_error *err)
{
    return keep_place(context, "/run/hilbertd/", text, err);
}

static int add_origin(void *context, const char *text, hb_error *err)
{
    hb_view_settings *s = context;

    if (s->norigins == HB_VIEW_ORIGINS)
        return hb_fail(err, EINVAL, "more than %d origins", HB_VIEW_ORIGINS);
    s->origin[s->norigins++] = text;
    return 0;
}

static int wrong(const char *what)
{
    fprintf(stderr, "hilbert-view: %s (try --help)\n", what);
    return 2;
}

/* What options say together; 0, or 2 after a message. */
static int check(const options *o)
{
    bool local = strcmp(o->web.address, "127.0.0.1") == 0 || strcmp(o->web.address, "::1") == 0;

    if (!o->web.certificate != !o->web.certificate_key)
        return wrong("--certificate and --certificate-key belong together");
    if (!o->fleet.keys.server != !o->fleet.keys.client)
        return wrong("--server-key and --client-key belong together");
    if (o->web.control && !o->fleet.keys.client)
        return wrong("--control: daemons must know who changes them: give --server-key and --client-key");
    if (o->web.control && !local && !o->web.certificate)
        return wrong("--control: on other addresses than this machine's own only with --certificate");
    if (!local && !o->web.certificate && !o->insecure)
        return wrong("--address: others could read along: give --certificate and --certificate-key, or --insecure");
    return 0;
}

/* The keys are known only now. */
static int add_vehicles(options *o)
{
    char why[300];

    for (int i = 0; i < o->nplaces; i++)
        if (hb_view_fleet_add(&o->fleet, o->place[i], why, sizeof why)) {
            fprintf(stderr, "hilbert-view: %s\n", why);
            return 1;
        }
    if (!o->nplaces && !o->nrecordings)
        o->fleet.folder = "/run/hilbertd";
    return 0;
}

/* A recording as JSON; 1 after a message. */
static int read_recording(hb_view_recording *ret, const char *path)
{
    const char *slash = strrchr(path, '/');
    hb_recorded_flight *flight = NULL;
    hb_error err = {0};

    if (hb_recorded_flight_read(&flight, &path, 1, &err)) {
        fprintf(stderr, "hilbert-view: %s\n", err.text);
        return 1;
    }
    ret->name = slash ? slash + 1 : path;
    FILE *out = open_memstream(&ret->json, &ret->size);
    if (out)
        hb_view_write_flight(flight, NULL, out);
    hb_recorded_flight_free(flight);
    if (!out || fclose(out)) {
        fprintf(stderr, "hilbert-view: %s: out of memory\n", path);
        return 1;
    }
    return 0;
}

static int read_recordings(options *o, char **path, int n)
{
    hb_progress progress;
    int failed = 0;

    if (n > HB_VIEW_RECORDINGS) {
        fprintf(stderr, "hilbert-view: %d recordings: at most %d are shown at once\n", n, HB_VIEW_RECORDINGS);
        return 2;
    }
    hb_progress_start(&progress, "read");
    for (int i = 0; i < n && !failed; i++) {
        hb_progress_update(&progress, (double)i / n, path[i]);
        failed = read_recording(&o->recording[o->nrecordings++], path[i]);
    }
    hb_progress_end(&progress);
    return failed;
}

static int run(options *o)
{
    if (add_vehicles(o))
        return 1;
    hb_view_web *web = hb_view_web_new(&o->web, &o->fleet, o->recording, o->nrecordings);

    if (!web)
        return 1;
    printf("http%s://%s:%d/\n", o->web.certificate ? "s" : "", o->web.address, hb_view_web_port(web));
    fflush(stdout);
    while (!stopping)
        hb_view_web_turn(web);
    hb_view_web_free(web);
    return 0;
}

int main(int argc, char **argv)
{
    static options o = {.web = {.address = "127.0.0.1", .port = 8765}};
    hb_option_call place = {add_place, &o}, name = {add_name, &o}, origin = {add_origin, &o.web};
    const hb_option table[] = {
        {"name", HB_OPTION_CALL, &name, 0, 0, 'n'},
        {"socket", HB_OPTION_CALL, &place, 0, 0, 's'},
        {"server-key", HB_OPTION_TEXT, &o.fleet.keys.server, 0, 0, 'K'},
        {"client-key", HB_OPTION_TEXT, &o.fleet.keys.client, 0, 0, 'k'},
        {"address", HB_OPTION_TEXT, &o.web.address, 0, 0, 'a'},
        {"port", HB_OPTION_WHOLE, &o.web.port, 0, 65535, 'p'},
        {"certificate", HB_OPTION_TEXT, &o.web.certificate, 0, 0, 0},
        {"certificate-key", HB_OPTION_TEXT, &o.web.certificate_key, 0, 0, 0},
        {"control", HB_OPTION_FLAG, &o.web.control, 0, 0, 0},
        {"insecure", HB_OPTION_FLAG, &o.insecure, 0, 0, 0},
        {"origin", HB_OPTION_CALL, &origin, 0, 0, 0},
        {"version", HB_OPTION_FLAG, &o.version, 0, 0, 'V'},
    };

    o.fleet.context = zmq_ctx_new();
    int code = o.fleet.context
                   ? hb_options_command("hilbert-view", table, sizeof table / sizeof *table, argc, argv, print_help)
                   : 1;
    if (code < 0 && o.version) {
        printf("hilbert-view %s\n", HB_VERSION);
        code = 0;
    }
    if (code < 0 && (code = check(&o)) == 0 && (code = read_recordings(&o, argv + optind, argc - optind)) == 0) {
        signal(SIGINT, stop);
        signal(SIGTERM, stop);
        signal(SIGPIPE, SIG_IGN);
        code = run(&o);
    }
    hb_view_fleet_end(&o.fleet);
    for (int i = 0; i < o.nplaces; i++)
        free(o.place[i]);
    for (int i = 0; i < o.nrecordings; i++)
        free(o.recording[i].json);
    if (o.fleet.context)
        zmq_ctx_term(o.fleet.context);
    return code;
}
