#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "world.h"

static const char usage[] = "usage: hilbert-world [OPTION]\n"
                            "Runs the daemon in simulated worlds, and says which of them break a promise.\n"
                            "\n"
                            "  -s, --seed N        the first seed (1)\n"
                            "  -n, --seeds N       how many seeds (1)\n"
                            "  -t, --seconds S     simulated seconds of each (60)\n"
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

int main(int argc, char **argv)
{
    static const struct option list[] = {
        {"seed", required_argument, NULL, 's'},    {"seeds", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 't'}, {"trace", required_argument, NULL, 'T'},
        {"quiet", no_argument, NULL, 'q'},         {"promises", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},          {0}};
    uint64_t seed = 1, seeds = 1, bad = 0, broken[NPROMISES] = {0};
    double seconds = 60;
    const char *trace = NULL;
    bool quiet = false;
    int letter;

    while ((letter = getopt_long(argc, argv, "s:n:t:T:qph", list, NULL)) != -1) {
        switch (letter) {
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            seeds = strtoull(optarg, NULL, 10);
            break;
        case 't':
            seconds = strtod(optarg, NULL);
            break;
        case 'T':
            trace = optarg;
            break;
        case 'q':
            quiet = true;
            break;
        case 'p':
            for (int i = 0; i < NPROMISES; i++)
                printf("%-18s %s\n", promise_name[i], promise_meaning[i]);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs("Try hilbert-world --help.\n", stderr);
            return 2;
        }
    }
    if (optind < argc || !(seconds > 0) || seeds < 1) {
        fputs("hilbert-world: wrong usage\nTry hilbert-world --help.\n", stderr);
        return 2;
    }
    hb_numeric_single_thread();
    for (uint64_t i = 0; i < seeds; i++) {
        FILE *out = trace && i + 1 == seeds ? fopen(trace, "w") : NULL;
        world_result r = world_run(seed + i, seconds, out);
        if (out)
            fclose(out);
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
    printf("%" PRIu64 " worlds, %" PRIu64 " broke a promise\n", seeds, bad);
    return bad != 0;
}
