/* hilbert-sim collect: options, progress and a summary around collect.c. */
#include "sim/commands.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/collect.h"
#include "common/progress.h"
#include "sim/weather.h"

static const char help[] =
    "usage: hilbert-sim collect PLANT -o FILE.h5 [OPTIONS]\n"
    "\n"
    "Simulates versions of a plant (functions), each with hidden parameters of its own, several times (episodes), and\n"
    "writes the trajectories as a data set. The same seed gives the same file for any number of threads.\n"
    "\n"
    "  -o, --output FILE     the data set to write\n"
    "  -f, --functions N     versions of the plant (default 100)\n"
    "  -e, --episodes N      episodes of each (default 8)\n"
    "  -n, --steps N         control periods an episode; crashes end one early (default 125;\n"
    "                        half-cheetah and ant, as in the paper: 1000)\n"
    "  -s, --seed S          of all random draws (default 0)\n"
    "  -p, --policy NAME     what moves it (default: the plant's own; see hilbert-sim list)\n"
    "  -r, --range P=LOW:HIGH, P=VALUE\n"
    "                        draw hidden parameter P from this range, or fix it; may be given many times\n"
    "  -w, --weather W,...   fix hidden parameters by a name of hilbert-sim list, or by P=VALUE; what concerns the "
    "link\n"
    "                        between a vehicle and a controller is of no account here\n"
    "      --dt SECONDS      control period (default: the plant's)\n"
    "      --irregular       steps of 0.5 to 1.5 periods\n"
    "      --shard K/N       only part K of N: functions of their own in FILE-K-of-N.h5; all parts together are what "
    "one\n"
    "                        process makes. Under mpirun and srun the rank says which (hilbert-train reads "
    "'FILE-*.h5')\n"
    "  -j, --threads N       default: one for each processor\n"
    "  -q, --quiet           no progress, no summary\n"
    "  -h, --help            this text\n";

enum { OPTION_DT = 256, OPTION_IRREGULAR, OPTION_SHARD };

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"functions", required_argument, NULL, 'f'},
    {"episodes", required_argument, NULL, 'e'},
    {"steps", required_argument, NULL, 'n'},
    {"seed", required_argument, NULL, 's'},
    {"policy", required_argument, NULL, 'p'},
    {"range", required_argument, NULL, 'r'},
    {"weather", required_argument, NULL, 'w'},
    {"dt", required_argument, NULL, OPTION_DT},
    {"irregular", no_argument, NULL, OPTION_IRREGULAR},
    {"shard", required_argument, NULL, OPTION_SHARD},
    {"threads", required_argument, NULL, 'j'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static void show(void *context, int done, int of)
{
    hb_progress_update(context, (double)done / of, NULL);
}

static int usage(const char *what, const char *value)
{
    return hb_usage_error("collect", "%s '%s' is not possible", what, value);
}

static bool parse_count(const char *text, long max, int *ret)
{
    long n;

    if (!hb_parse_integer(text, 1, max, &n))
        return false;
    *ret = (int)n;
    return true;
}

/* Wind and gusts act through drag: without it they would be hidden parameters that change nothing. */
static bool wind_without_drag(const hb_collect *c)
{
    int drag = hb_plant_parameter_find(c->plant, "drag", NULL);

    if (drag < 0 || c->high[drag] > 0)
        return false;
    for (int i = 0; i < c->plant->nparameters; i++) {
        const char *name = c->plant->parameter[i].name;
        bool air = strncmp(name, "wind_", 5) == 0 || strcmp(name, "gust") == 0;
        if (air && (c->low[i] != 0 || c->high[i] != 0))
            return true;
    }
    return false;
}

/* K/N with K from 1 to N */
static bool parse_shard(const char *text, int *ret_shard, int *ret_nshards)
{
    char *end;
    long shard = strtol(text, &end, 10), nshards = *end == '/' ? strtol(end + 1, &end, 10) : 0;

    if (*end || shard < 1 || nshards < shard || nshards > 1000000)
        return false;
    *ret_shard = (int)shard;
    *ret_nshards = (int)nshards;
    return true;
}

/* As mpirun of Open MPI, of MPICH, and srun tell a process its place. Parts know nothing of each other, so that no
 * messages are needed. */
static void find_rank(int *ret_shard, int *ret_nshards)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rank = getenv(names[i][0]), *size = getenv(names[i][1]);
        if (!rank || !size)
            continue;
        *ret_shard = atoi(rank) + 1;
        *ret_nshards = atoi(size);
        return;
    }
}

/* FILE.h5 becomes FILE-K-of-N.h5; names sort in the order of functions */
static void take_shard(hb_collect *c, int shard, int nshards, char path[PATH_MAX])
{
    int all = c->functions, width = snprintf(NULL, 0, "%d", nshards);
    const char *dot = strrchr(c->path, '.'), *slash = strrchr(c->path, '/');
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - c->path) : strlen(c->path);

    c->first = (int)((long)all * (shard - 1) / nshards);
    c->functions = (int)((long)all * shard / nshards) - c->first;
    snprintf(path, PATH_MAX, "%.*s-%0*d-of-%d%s", (int)stem, c->path, width, shard, nshards, c->path + stem);
    c->path = path;
}

int hb_command_collect(int argc, char **argv)
{
    hb_collect c = {.functions = 100, .episodes = 8};
    hb_error err = {0};
    const char *policy = NULL;
    bool quiet = false;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int option, parameter, shard = 1, nshards = 1;
    double low, high;
    char path[PATH_MAX];

    find_rank(&shard, &nshards);

    c.threads = processors < 1 ? 1 : processors > 64 ? 64 : (int)processors;
    /* the plant comes first, because ranges refer to it */
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        fputs(help, stdout);
        return 0;
    }
    if (argc < 2 || argv[1][0] == '-')
        return hb_usage_error("collect", "the plant is missing: it comes first");
    c.plant = hb_plant_type_find(argv[1], &err);
    if (!c.plant)
        return hb_usage_error("collect", "%s", err.text);
    c.dt = c.plant->dt;
    c.steps = c.plant->episode_steps ? c.plant->episode_steps : HB_PLANT_EPISODE;
    c.irregular = c.plant->irregular;
    for (int i = 0; i < c.plant->nparameters; i++) {
        const hb_plant_parameter *p = &c.plant->parameter[i];
        c.low[i] = p->low != p->high ? p->low : p->nominal;
        c.high[i] = p->low != p->high ? p->high : p->nominal;
    }

    optind = 2;
    while ((option = getopt_long(argc, argv, "o:f:e:n:s:p:r:w:j:qh", options, NULL)) >= 0) {
        switch (option) {
        case 'o':
            c.path = optarg;
            break;
        case 'f':
            if (!parse_count(optarg, INT_MAX, &c.functions))
                return usage("--functions", optarg);
            break;
        case 'e':
            if (!parse_count(optarg, 1 << 20, &c.episodes))
                return usage("--episodes", optarg);
            break;
        case 'n':
            if (!parse_count(optarg, 10000000, &c.steps))
                return usage("--steps", optarg);
            break;
        case 's': {
            char *end;
            c.seed = strtoull(optarg, &end, 10);
            if (end == optarg || *end || optarg[0] == '-')
                return usage("--seed", optarg);
            break;
        }
        case 'p':
            policy = optarg;
            break;
        case 'r':
            if (hb_parse_range(c.plant, optarg, &parameter, &low, &high, &err))
                return hb_usage_error("collect", "--range %s", err.text);
            c.low[parameter] = low;
            c.high[parameter] = high;
            break;
        case 'w':
            if (hb_weather_read(c.plant, optarg, c.low, c.high, &(hb_link){0}, &err))
                return hb_usage_error("collect", "--weather %s", err.text);
            break;
        case OPTION_DT:
            if (!hb_parse_number(optarg, 1e-4, 10, &c.dt))
                return usage("--dt", optarg);
            break;
        case OPTION_IRREGULAR:
            c.irregular = true;
            break;
        case OPTION_SHARD:
            if (!parse_shard(optarg, &shard, &nshards))
                return usage("--shard", optarg);
            break;
        case 'j':
            if (!parse_count(optarg, 256, &c.threads))
                return usage("--threads", optarg);
            break;
        case 'q':
            quiet = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            return 2;
        }
    }
    if (optind < argc)
        return hb_usage_error("collect", "'%s' is one argument too many", argv[optind]);
    if (!c.path)
        return hb_usage_error("collect", "-o FILE is missing");
    c.policy = hb_policy_find(policy, c.plant, &err);
    if (!c.policy)
        return hb_usage_error("collect", "%s", err.text);
    if (wind_without_drag(&c))
        return hb_usage_error("collect", "wind and gusts act through drag: give a range for drag too");

    if (nshards > c.functions)
        return hb_usage_error("collect", "%d functions cannot be shared among %d parts", c.functions, nshards);
    if (nshards > 1)
        take_shard(&c, shard, nshards, path);

    hb_progress progress;
    hb_collected collected;
    hb_progress_start(&progress, c.plant->name);
    if (!quiet) {
        c.progress = show;
        c.context = &progress;
    }
    int status = hb_collect_run(&c, &collected, &err);
    hb_progress_end(&progress);
    if (status)
        return hb_failure("collect", &err);
    if (!quiet) {
        double seconds = hb_progress_elapsed(&progress);
        printf("%s: %d functions x %d episodes, %ld transitions (%ld episodes cut short, %ld starts and %ld functions "
               "drawn again), %.1f s, %.0f transitions/s\n",
               c.path, c.functions, c.episodes, collected.transitions, collected.cut, collected.refused,
               collected.redrawn, seconds, (double)collected.transitions / seconds);
    }
    return 0;
}
