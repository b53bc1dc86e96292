/* A flight stack in 40 lines: a cart on a rail (position, velocity; force) that hilbertd brings to x = 1. Nobody tells
 * the daemon its mass and its drag. The daemon runs with config/cart.yaml.
 * usage: hilbert-example [telemetry endpoint] [actions endpoint] */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "hilbert_client.h"

int main(int argc, char **argv)
{
    hilbert_options options = {.telemetry = argc > 1 ? argv[1] : NULL, .actions = argc > 2 ? argv[2] : NULL};
    hilbert_client *h;
    char why[256];
    if (hilbert_connect(&h, &options, why, sizeof why)) {
        fprintf(stderr, "hilbert-example: %s\n", why);
        return 1;
    }
    double state[2] = {0, 0}, force[1] = {0}, target[2] = {1, 0};
    const double dt = 0.05, mass = 1.5, drag = 0.5;
    int answered = 0;
    for (int k = 0; k < 120; k++) {
        hilbert_telemetry sample = {.time_us = k * 50000, .state = state, .nstate = 2, .control = force, .ncontrol = 1};
        hilbert_action_request request = {.time_us = sample.time_us, .state = state, .nstate = 2,
                                          .target = target, .ntarget = 2};
        hilbert_action_reply reply;
        if (hilbert_request(h, &request, dt, &reply))
            fprintf(stderr, "hilbert-example: %s\n", hilbert_error(h));
        else if (reply.naction != 1)
            fprintf(stderr, "hilbert-example: %s: %s\n", hilbert_status_name(reply.status), reply.detail);
        else
            force[0] = reply.action[0], answered++;
        hilbert_publish(h, &sample); /* the force from this moment on */
        state[1] += dt * (force[0] - drag * state[1]) / mass;
        state[0] += dt * state[1];
        usleep((useconds_t)(dt * 1e6));
    }
    printf("%d actions; the cart is at %.3f\n", answered, state[0]);
    hilbert_close(h);
    return answered && fabs(state[0] - target[0]) < 0.1 ? 0 : 1;
}
