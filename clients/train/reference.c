#include "train/reference.h"

#include <errno.h>
#include <stdlib.h>

#include "base/numeric.h"
#include "train/online.h"

enum { MEASURED = 20, STARTS = 1 }; /* functions at most; predictions, which nobody looks at here */

/* random numbers that no gradient step has */
static const uint64_t split_stream = UINT64_MAX - 1;

void hb_held_back_order(int nfunctions, uint64_t seed, int *function)
{
    hb_random_key key = {.seed = seed, .stream = split_stream};

    for (int i = 0; i < nfunctions; i++) {
        int other = (int)(hb_random_bits(key, (uint64_t)i) % (uint64_t)(i + 1));
        function[i] = function[other];
        function[other] = i;
    }
}

int hb_held_back_count(int nfunctions)
{
    return nfunctions < 2 ? 0 : nfunctions < 20 ? 1 : nfunctions / 10;
}

int hb_reference_measure(hb_model *m, const hb_dataset *d, uint64_t seed, hb_pool *pool, hb_error *err)
{
    int n = d->nfunctions, held = hb_held_back_count(n), *function = calloc((size_t)n + 1, sizeof *function);
    hb_online *online = calloc(1, sizeof *online);
    int status = function && online ? 0 : hb_fail(err, ENOMEM, "out of memory");

    if (!status) {
        hb_held_back_order(n, seed, function);
        held = held ? held : n;
        hb_online_settings s = {.estimator = hb_estimator_defaults,
                                .starts = STARTS,
                                .function = function + n - held,
                                .nfunctions = held < MEASURED ? held : MEASURED,
                                .long_run = m->reference_noise};
        s.estimator.method = m->method;
        s.estimator.actuators = hb_online_acting;
        status = hb_online_measure(online, m, d, &s, pool, err);
    }
    free(online);
    free(function);
    return status;
}
