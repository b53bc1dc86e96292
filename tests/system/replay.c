/* lib's controller on a script, without daemon or clock. usage: replay CONFIG <SCRIPT
 *
 *     T time state... control...      a sample
 *     P stages                        prepares for the next request, in so many stages
 *     R time state...                 a request; its action, plan and predicted states are printed as one word of hex
 *
 * Numbers are C's hexadecimal floating point. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "base/numeric.h"

static double standing_still(void *context)
{
    (void)context;
    return 0;
}

static void print_bytes(const double *v, int n)
{
    const unsigned char *byte = (const unsigned char *)v;

    for (size_t i = 0; i < (size_t)n * sizeof *v; i++)
        printf("%02x", byte[i]);
}

static int replay(hb_controller *c, const hb_model *m)
{
    const hb_clock clock = {.now = standing_still};
    char line[65536];
    uint64_t tick = 0;

    while (fgets(line, sizeof line, stdin)) {
        double number[2 * HB_MAX_VEHICLE_STATES];
        char *p = line + 1;
        long long time = strtoll(p, &p, 10);
        if (line[0] == 'P') {
            hb_controller_prepare(c, &clock, NULL, (uint64_t)time);
            continue;
        }
        int wanted = line[0] == 'T' ? m->nx + m->nu : m->nx;
        for (int i = 0; i < wanted; i++) {
            char *before = p;
            number[i] = strtod(p, &p);
            if (p == before)
                return fprintf(stderr, "replay: too few numbers: %s", line);
        }
        if (line[0] == 'T') {
            const hb_observation o = {.time_us = time, .x = number, .nx = m->nx, .u = number + m->nx, .nu = m->nu};
            hb_controller_observe(c, &o, 0);
            continue;
        }
        const hb_request r = {.time_us = time, .x = number, .nx = m->nx, .tick = tick++};
        hb_controller_observe_request(c, &r, 0);
        const hb_command *reply = hb_controller_command(c, &r, &clock);
        print_bytes(reply->action, m->nu);
        print_bytes(reply->plan, reply->horizon * m->nu);
        print_bytes(reply->states, (reply->horizon + 1) * m->nx);
        putchar('\n');
    }
    return 0;
}

int main(int argc, char **argv)
{
    hb_config *config = calloc(1, sizeof *config);
    hb_config_errors errors;
    hb_error err = {.text = "configuration"};
    hb_model *m = NULL;
    hb_pool *pool = NULL;
    hb_controller *c = NULL;
    int bad = 1;

    hb_numeric_single_thread();
    if (argc == 2 && config && !hb_config_load(config, argv[1], &errors) && !hb_model_load(&m, config->model, &err) &&
        !hb_config_resolve(config, m, &errors) && !hb_pool_new(&pool, 1, NULL, NULL, &err) &&
        !hb_controller_new(&c, m, &config->controller, pool, NULL, NULL, &err))
        bad = replay(c, m) != 0;
    else
        fprintf(stderr, "replay: %s\n", err.text);
    hb_controller_free(c);
    hb_pool_free(pool);
    hb_model_free(m);
    free(config);
    return bad;
}
