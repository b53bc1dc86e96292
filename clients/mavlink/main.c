/* hilbert-mavlink: lets hilbertd fly a vehicle with PX4 or ArduPilot. See bridge.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/monotonic.h"
#include "common/options.h"
#include "mavlink/bridge.h"

enum { EXIT_GOOD, EXIT_BAD, EXIT_WRONG_USAGE };

static volatile sig_atomic_t stop, engage, release;

static void on_signal(int number)
{
    if (number == SIGUSR1)
        engage = 1;
    else if (number == SIGUSR2)
        release = 1;
    else
        stop = 1;
}

static void print_help(void)
{
    printf("usage: hilbert-mavlink [--config FILE] [--connect LINK] [options]\n"
           "\n"
           "Lets hilbertd fly a vehicle with PX4 or ArduCopter: samples go to hilbertd, its actions back as body rates "
           "and\n"
           "thrust. Arming, take-off and landing stay with the autopilot. hilbertd's model must be one of thrust and\n"
           "rates (config/px4.yaml).\n"
           "\n"
           "  -f, --config FILE     settings (--print-config shows all)\n"
           "  -c, --connect LINK    udp:[ADDRESS:]PORT, udpout:HOST:PORT, serial:DEVICE[:BAUD] or tcp:HOST:PORT\n"
           "  -N, --name NAME       the daemon with sockets under /run/hilbertd/NAME: px4 for hilbertd@px4\n"
           "  -w, --waypoints FILE  fly along: lines of x y z [heading-in-degrees [seconds-to-stay]]\n"
           "  -n, --dry-run         plan and log, but send neither setpoints nor modes\n"
           "      --check           say what the autopilot streams, its delays, and whether flying would be allowed\n"
           "      --seconds N       how long --check listens [8]\n"
           "      --engage          go to offboard as soon as it is allowed, once\n"
           "      --log FILE        one line of CSV per cycle\n"
           "      --print-config    all settings with their comments\n"
           "  -h, --help; -V, --version\n"
           "\n"
           "signals: USR1 engages, USR2 hands over to the autopilot, TERM hands over and ends\n"
           "exit status: 0 done (--check: flying would be allowed), 1 failure, 2 wrong usage\n");
}

static int complain(int status, const hb_error *err)
{
    fprintf(stderr, "hilbert-mavlink: %s\n", err->text);
    return status;
}

static int check(hb_bridge *b, int for_seconds)
{
    double end = hb_now() + for_seconds;

    b->dry_run = true;
    fprintf(stderr, "listening on %s for %d s\n", b->s.connect, for_seconds);
    while (!stop && hb_now() < end)
        hb_bridge_step(b);
    return hb_bridge_check_report(b) ? EXIT_GOOD : EXIT_BAD;
}

static int fly(hb_bridge *b, bool engage_once)
{
    double end = 0; /* when to stop waiting for the autopilot to take over */
    char way[320];

    if (b->waypoints.n > 0) {
        hb_bridge_describe_way(b, sizeof way, way);
        fprintf(stderr, "%s\n", way);
    }
    while (!stop || end == 0 || (hb_bridge_responsible(b) && hb_now() < end)) {
        if (stop && end == 0)
            end = hb_now() + 3;
        if (engage_once && !hb_bridge_obstacle(b)) {
            b->engage = true;
            engage_once = false;
        }
        b->engage = b->engage || engage;
        b->release = b->release || stop || release;
        engage = release = 0;
        hb_bridge_step(b);
    }
    hb_bridge_report(b);
    if (hb_bridge_responsible(b)) {
        fprintf(stderr, "hilbert-mavlink: the autopilot did not take over within 3 s; its own time-out will\n");
        return EXIT_BAD;
    }
    return EXIT_GOOD;
}

static int open_log(hb_bridge *b, const char *path, hb_error *err)
{
    static const char header[] =
        "time,x,vx,y,vy,z,vz,qx,qy,qz,qw,wx,wy,wz,thrust,roll_rate,pitch_rate,yaw_rate,rung,doubt\n";

    b->log = fopen(path, "we");
    if (!b->log || fputs(header, b->log) < 0)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    return 0;
}

int main(int argc, char **argv)
{
    const char *config = NULL, *connect = NULL, *waypoints = NULL, *log = NULL, *name = NULL;
    bool dry_run = false, only_check = false, engage_once = false, print = false, version = false;
    int for_seconds = 8;
    const hb_option options[] = {
        {.name = "config", .type = HB_OPTION_TEXT, .to = &config, .letter = 'f'},
        {.name = "connect", .type = HB_OPTION_TEXT, .to = &connect, .letter = 'c'},
        {.name = "name", .type = HB_OPTION_TEXT, .to = &name, .letter = 'N'},
        {.name = "waypoints", .type = HB_OPTION_TEXT, .to = &waypoints, .letter = 'w'},
        {.name = "log", .type = HB_OPTION_TEXT, .to = &log},
        {.name = "dry-run", .type = HB_OPTION_FLAG, .to = &dry_run, .letter = 'n'},
        {.name = "check", .type = HB_OPTION_FLAG, .to = &only_check},
        {.name = "seconds", .type = HB_OPTION_WHOLE, .to = &for_seconds, .min = 1, .max = 3600},
        {.name = "engage", .type = HB_OPTION_FLAG, .to = &engage_once},
        {.name = "print-config", .type = HB_OPTION_FLAG, .to = &print},
        {.name = "version", .type = HB_OPTION_FLAG, .to = &version, .letter = 'V'},
    };
    struct sigaction action = {.sa_handler = on_signal};
    hb_mav_settings s;
    hb_bridge *b = NULL;
    hb_error err = {0};

    int code = hb_options_command("hilbert-mavlink", options, sizeof options / sizeof *options, argc, argv, print_help);
    if (code >= 0)
        return code;
    if (version) {
        printf("hilbert-mavlink %s\n", HB_VERSION);
        return EXIT_GOOD;
    }
    if (optind < argc) {
        fprintf(stderr, "hilbert-mavlink: '%s' is no option (try --help)\n", argv[optind]);
        return EXIT_WRONG_USAGE;
    }
    if (engage_once && (dry_run || only_check)) {
        fprintf(stderr, "hilbert-mavlink: --engage makes no sense with --dry-run or --check\n");
        return EXIT_WRONG_USAGE;
    }
    hb_mav_settings_default(&s);
    if ((config && hb_mav_settings_read(&s, config, &err)) ||
        (connect && hb_mav_settings_set(&s, "connect", connect, &err)) ||
        (name && hb_mav_settings_set(&s, "name", name, &err)) ||
        (waypoints && hb_mav_settings_set(&s, "waypoints", waypoints, &err)))
        return complain(EXIT_BAD, &err);
    if (hb_mav_settings_check(&s, &err))
        return complain(EXIT_BAD, &err);
    if (print) {
        hb_mav_settings_print(&s, stdout);
        return EXIT_GOOD;
    }
    if (hb_bridge_new(&b, &s, NULL, &err))
        return complain(EXIT_BAD, &err);
    b->dry_run = dry_run;
    if (log && open_log(b, log, &err)) {
        hb_bridge_free(b);
        return complain(EXIT_BAD, &err);
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stderr, NULL, _IOLBF, 0);
    int status = only_check ? check(b, for_seconds) : fly(b, engage_once);
    if (b->log && fclose(b->log)) {
        fprintf(stderr, "hilbert-mavlink: %s: %s\n", log, strerror(errno));
        status = EXIT_BAD;
    }
    hb_bridge_free(b);
    return status;
}
