/* hilbert-sim collect: options, progress and a summary around collect.c. */
#include "sim/commands.h"

#include <errno.h>
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
    "  -n, --steps N         control periods per episode; crashes end one early (default 125;\n"
    "                        half-cheetah and ant, as in the paper: 1000)\n"
    "  -s, --seed S          of all random draws (default 0)\n"
    "  -p, --policy NAME     what moves it (default: the plant's own; see hilbert-sim list)\n"
    "  -r, --range P=LOW:HIGH, P=VALUE\n"
    "                        draw hidden parameter P from this range, or fix it; may be given many times\n"
    "  -w, --weather W,...   fix hidden parameters by a name of hilbert-sim list, or by P=VALUE; what concerns the "
    "link\n"
    "                        between a vehicle and a controller is ignored here\n"
    "      --dt SECONDS      control period (default: the plant's)\n"
    "      --irregular       steps of 0.5 to 1.5 periods\n"
    "      --shard K/N       only part K of N: functions of their own in FILE-K-of-N.h5; all parts together are what "
    "one\n"
    "                        process makes. Under mpirun and srun the rank says which (hilbert-train reads "
    "'FILE-*.h5')\n"
    "      --force           replace a file that exists\n"
    "  -j, --threads N       default: one for each processor\n"
    "  -q, --quiet           no progress, no summary\n"
    "  -h, --help            this text\n";

static void show(void *context, int done, int of)
{
    hb_progress_update(context, (double)done / of, NULL);
}

/* --range: "P=LOW:HIGH" or "P=VALUE" */
static int read_range(void *context, const char *text, hb_error *err)
{
    hb_collect *c = context;
    double low, high;
    int parameter, status = hb_parse_range(c->plant, text, &parameter, &low, &high, err);

    if (status)
        return status;
    c->low[parameter] = low;
    c->high[parameter] = high;
    return 0;
}

static int read_weather(void *context, const char *text, hb_error *err)
{
    hb_collect *c = context;

    return hb_weather_read(c->plant, text, c->low, c->high, &(hb_link){0}, err);
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

/* Which part of how many. */
typedef struct part {
    int shard, nshards; /* from 1 to nshards */
} part;

/* --shard: K/N with K from 1 to N */
static int read_shard(void *context, const char *text, hb_error *err)
{
    part *ret = context;
    char *end;
    long shard = strtol(text, &end, 10), nshards = *end == '/' ? strtol(end + 1, &end, 10) : 0;

    if (*end || shard < 1 || nshards < shard || nshards > 1000000)
        return hb_fail(err, EINVAL, "'%s' is not K/N with K from 1 to N", text);
    *ret = (part){(int)shard, (int)nshards};
    return 0;
}

/* As mpirun of Open MPI, of MPICH, and srun tell a process its place. Parts know nothing of each other, so that no
 * messages are needed. */
static void find_rank(part *ret)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rank = getenv(names[i][0]), *size = getenv(names[i][1]);
        if (!rank || !size)
            continue;
        *ret = (part){atoi(rank) + 1, atoi(size)};
        return;
    }
}

/* FILE.h5 becomes FILE-K-of-N.h5; names sort in the order of functions */
static void take_shard(hb_collect *c, const part *p, char path[PATH_MAX])
{
    int all = c->functions, width = snprintf(NULL, 0, "%d", p->nshards);
    const char *dot = strrchr(c->path, '.'), *slash = strrchr(c->path, '/');
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - c->path) : strlen(c->path);

    c->first = (int)((long)all * (p->shard - 1) / p->nshards);
    c->functions = (int)((long)all * p->shard / p->nshards) - c->first;
    snprintf(path, PATH_MAX, "%.*s-%0*d-of-%d%s", (int)stem, c->path, width, p->shard, p->nshards, c->path + stem);
    c->path = path;
}

/* The plant's own ranges, period and length of an episode. */
static void take_defaults(hb_collect *c)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    c->threads = processors < 1 ? 1 : processors > 64 ? 64 : (int)processors;
    c->dt = c->plant->dt;
    c->steps = c->plant->episode_steps ? c->plant->episode_steps : HB_PLANT_EPISODE;
    c->irregular = c->plant->irregular;
    for (int i = 0; i < c->plant->nparameters; i++) {
        const hb_plant_parameter *p = &c->plant->parameter[i];
        c->low[i] = p->low != p->high ? p->low : p->nominal;
        c->high[i] = p->low != p->high ? p->high : p->nominal;
    }
}

/* With the plant in c. */
static int collect(hb_collect *c, int argc, char **argv)
{
    part p = {1, 1};
    const char *policy = NULL;
    bool quiet = false, force = false;
    const hb_option options[] = {
        {"output", HB_OPTION_TEXT, &c->path, 0, 0, 'o'},
        {"functions", HB_OPTION_WHOLE, &c->functions, 1, INT_MAX, 'f'},
        {"episodes", HB_OPTION_WHOLE, &c->episodes, 1, 1 << 20, 'e'},
        {"steps", HB_OPTION_WHOLE, &c->steps, 1, 10000000, 'n'},
        {"seed", HB_OPTION_COUNT, &c->seed, 0, INT64_MAX, 's'},
        {"policy", HB_OPTION_TEXT, &policy, 0, 0, 'p'},
        {"range", HB_OPTION_CALL, &(hb_option_call){read_range, c}, 0, 0, 'r'},
        {"weather", HB_OPTION_CALL, &(hb_option_call){read_weather, c}, 0, 0, 'w'},
        {"dt", HB_OPTION_NUMBER, &(hb_option_number){&c->dt, 1e-4, 10}, 0, 0, 0},
        {"irregular", HB_OPTION_FLAG, &c->irregular, 0, 0, 0},
        {"shard", HB_OPTION_CALL, &(hb_option_call){read_shard, &p}, 0, 0, 0},
        {"force", HB_OPTION_FLAG, &force, 0, 0, 0},
        {"threads", HB_OPTION_WHOLE, &c->threads, 1, 256, 'j'},
        {"quiet", HB_OPTION_FLAG, &quiet, 0, 0, 'q'},
    };
    hb_error err = {0};
    char path[PATH_MAX];

    take_defaults(c);
    find_rank(&p);
    int code = hb_plant_options("collect", help, options, sizeof options / sizeof *options, argc, argv);
    if (code >= 0)
        return code;
    if (!c->path)
        return hb_usage_error("collect", "-o FILE is missing");
    c->policy = hb_policy_find(policy, c->plant, &err);
    if (!c->policy)
        return hb_usage_error("collect", "%s", err.text);
    if (wind_without_drag(c))
        return hb_usage_error("collect", "wind and gusts act through drag: give a range for drag too");

    if (p.nshards > c->functions)
        return hb_usage_error("collect", "%d functions cannot be shared among %d parts", c->functions, p.nshards);
    if (p.nshards > 1)
        take_shard(c, &p, path);
    if (!force && access(c->path, F_OK) == 0) {
        hb_fail(&err, EEXIST, "%s exists: name another --output, or add --force to replace it", c->path);
        return hb_failure("collect", &err);
    }

    hb_progress progress;
    hb_collected collected;
    hb_progress_start(&progress, c->plant->name);
    if (!quiet) {
        c->progress = show;
        c->context = &progress;
    }
    int status = hb_collect_run(c, &collected, &err);
    hb_progress_end(&progress);
    if (status)
        return hb_failure("collect", &err);
    if (!quiet) {
        double seconds = hb_progress_elapsed(&progress);
        printf("%s: %d functions x %d episodes, %ld transitions (%ld episodes cut short, %ld starts and %ld functions "
               "drawn again), %.1f s, %.0f transitions/s\n",
               c->path, c->functions, c->episodes, collected.transitions, collected.cut, collected.refused,
               collected.redrawn, seconds, (double)collected.transitions / seconds);
    }
    return 0;
}

int hb_command_collect(int argc, char **argv)
{
    hb_collect c = {.functions = 100, .episodes = 8};

    /* the plant comes first, because ranges refer to it */
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        fputs(help, stdout);
        return 0;
    }
    if (argc < 2 || argv[1][0] == '-')
        return hb_usage_error("collect", "the plant is missing: it comes first");
    int code = hb_plant_named("collect", argv[1], &c.plant);
    if (code)
        return code;
    code = collect(&c, argc, argv);
    hb_plant_done(c.plant);
    return code;
}
