#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/numeric.h"
#include "common/options.h"
#include "world.h"

static const char usage[] = "usage: hilbert-world [OPTION]\n"
                            "Runs the daemon in simulated worlds, and says which of them break a promise.\n"
                            "\n"
                            "  -s, --seed N        the first seed (1)\n"
                            "  -n, --seeds N       how many seeds (1)\n"
                            "  -t, --seconds S     simulated seconds of each (15)\n"
                            "  -T, --trace FILE    a line for each event of the last seed\n"
                            "  -q, --quiet         only seeds that break a promise, and the sum\n"
                            "  -p, --promises      list the promises, and exit\n"
                            "  -h, --help\n"
                            "\n"
                            "Exit status: 0 all promises were kept, 1 some were not, 2 wrong usage.\n";

static void print_result(uint64_t seed, const world_result *r)
{
    printf("seed %" PRIu64 ": %s, %ld events, %ld requests, %ld replies, %ld lives, %ld crashes, %016" PRIx64 "%s%s\n",
           seed, weather_name[r->weather], r->events, r->requests, r->replies, r->lives, r->crashes, r->hash,
           *r->first ? ": BROKEN " : "", r->first);
}

static void print_usage(void)
{
    fputs(usage, stdout);
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, seeds = 1, bad = 0, broken[NPROMISES] = {0};
    double seconds = 15;
    const char *trace = NULL;
    bool quiet = false, promises = false;
    const hb_option table[] = {
        {"seed", HB_OPTION_COUNT, &seed, 0, INT64_MAX, 's'},
        {"seeds", HB_OPTION_COUNT, &seeds, 1, INT64_MAX, 'n'},
        {"seconds", HB_OPTION_NUMBER, &(hb_option_number){&seconds, 1e-3, 1e6}, 0, 0, 't'},
        {"trace", HB_OPTION_TEXT, &trace, 0, 0, 'T'},
        {"quiet", HB_OPTION_FLAG, &quiet, 0, 0, 'q'},
        {"promises", HB_OPTION_FLAG, &promises, 0, 0, 'p'},
    };
    int code = hb_options_command("hilbert-world", table, sizeof table / sizeof *table, argc, argv, print_usage);

    if (code >= 0)
        return code;
    if (promises) {
        for (int i = 0; i < NPROMISES; i++)
            printf("%-18s %s\n", promise_name[i], promise_meaning[i]);
        return 0;
    }
    if (optind < argc) {
        fprintf(stderr, "hilbert-world: '%s' is not an option (try --help)\n", argv[optind]);
        return 2;
    }
    FILE *out = trace ? fopen(trace, "w") : NULL;
    if (trace && !out) {
        perror(trace);
        return 2;
    }
    char folder[] = "/dev/shm/hilbert-world.XXXXXX", here[] = "/tmp/hilbert-world.XXXXXX";
    const char *place = mkdtemp(folder) ? folder : mkdtemp(here);
    if (!place || chdir(place) || mkdir("recordings", 0700)) {
        perror("hilbert-world: a folder for recordings");
        return 2;
    }
    signal(SIGXFSZ, SIG_IGN); /* a full disk is a limit on the size of files */
    hb_numeric_single_thread();
    for (uint64_t i = 0; i < seeds; i++) {
        world_result r = world_run(seed + i, seconds, i + 1 == seeds ? out : NULL);
        bad += *r.first != 0;
        for (int k = 0; k < NPROMISES; k++)
            broken[k] += r.broken[k];
        if (!quiet || *r.first)
            print_result(seed + i, &r);
        fflush(stdout);
    }
    for (int k = 0; k < NPROMISES; k++)
        if (broken[k])
            printf("%s: broken in %" PRIu64 " of %" PRIu64 " worlds\n", promise_name[k], broken[k], seeds);
    if (out)
        fclose(out);
    if (rmdir("recordings") || chdir("/") || rmdir(place))
        perror("hilbert-world: recordings were left behind");
    printf("%" PRIu64 " worlds, %" PRIu64 " broke a promise\n", seeds, bad);
    return bad != 0;
}
