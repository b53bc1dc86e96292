/* A cart that is flown in lock-step through libhilbert-client, with a sample between two requests and a brake that
 * begins to drag on its way. Prints every reply, numbers to the last bit.
 * usage: lockstep_flight ACTIONS-ENDPOINT STEPS */
#include <stdio.h>
#include <stdlib.h>

#include "hilbert_client.h"

int main(int argc, char **argv)
{
    const hilbert_options options = {.actions = argc > 1 ? argv[1] : NULL, .lockstep = true, .connect_timeout = 20};
    const int steps = argc > 2 ? atoi(argv[2]) : 0;
    const double dt = 0.01;
    double state[2] = {0, 0}, force[1] = {0};
    hilbert_client *h;
    char why[256];

    if (hilbert_connect(&h, &options, why, sizeof why)) {
        fprintf(stderr, "lockstep_flight: %s\n", why);
        return 1;
    }
    for (int k = 0; k < 2 * steps; k++) {
        const int64_t now = 1000000 + 10000 * (int64_t)k;
        if (k % 2 == 0) {
            const hilbert_action_request request = {.time_us = now, .state = state, .nstate = 2, .want_plan = true};
            hilbert_action_reply r;
            if (hilbert_request(h, &request, 60, &r) || r.naction != 1) {
                fprintf(stderr, "lockstep_flight: %s\n", hilbert_error(h));
                return 1;
            }
            force[0] = r.action[0];
            printf("%d %s %s %a %a %d %a %a %a %a %d %lu %a %s %a %a", k, hilbert_status_name(r.status), r.reason,
                   r.action[0], r.cost, r.iterations, r.queue, r.planning, r.total, r.preparing, r.corrected,
                   (unsigned long)r.coefficient_version, r.coefficient_age, r.estimate, r.one_step_error,
                   r.out_of_span);
            for (int i = 0; i < r.nplan; i++)
                printf(" %a", r.plan[i]);
            putchar('\n');
        }
        const hilbert_telemetry sample = {
            .time_us = now, .state = state, .nstate = 2, .control = force, .ncontrol = 1};
        if (hilbert_publish(h, &sample)) {
            fprintf(stderr, "lockstep_flight: %s\n", hilbert_error(h));
            return 1;
        }
        state[1] += dt * (force[0] - (k < steps ? 0.3 : 0.8) * state[1]);
        state[0] += dt * state[1];
    }
    printf("%a %a\n", state[0], state[1]);
    hilbert_close(h);
    return 0;
}
