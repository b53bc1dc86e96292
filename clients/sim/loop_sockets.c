/* The loop over hilbertd's sockets. */
#include "sim/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hilbert_client.h"

typedef struct socket_loop {
    hb_loop loop;
    hilbert_client *client;
} socket_loop;

/* lib orders statuses from best to worst, the wire by the time of their invention: the words are the same */
static hb_status status_of(hilbert_status on_the_wire)
{
    for (int i = 0; i < HB_NSTATUSES; i++)
        if (strcmp(hb_status_name[i], hilbert_status_name(on_the_wire)) == 0)
            return (hb_status)i;
    return HB_STATUS_REFUSED;
}

static int publish(hb_loop *l, int64_t time_us, const double *x, const double *u, uint32_t reset_counter, hb_error *err)
{
    socket_loop *s = (socket_loop *)l;
    const hilbert_telemetry t = {
        .time_us = time_us,
        .state = x,
        .nstate = l->nx,
        .control = u,
        .ncontrol = l->nu,
        .reset_counter = reset_counter,
    };
    int status = hilbert_publish(s->client, &t);

    return status ? hb_fail(err, -status, "telemetry: %s", hilbert_error(s->client)) : 0;
}

static int ask(hb_loop *l, const hb_loop_question *q, hb_error *err)
{
    socket_loop *s = (socket_loop *)l;
    const hilbert_action_request r = {
        .time_us = q->time_us,
        .state = q->x,
        .nstate = l->nx,
        .target = q->target,
        .ntarget = q->ntargets * l->nx,
        .budget = q->budget,
        .reset_counter = q->reset_counter,
    };
    int status = hilbert_ask(s->client, &r, 2);

    return status ? hb_fail(err, -status, "request: %s", hilbert_error(s->client)) : 0;
}

static int answer(hb_loop *l, double timeout, hb_loop_answer *ret, hb_error *err)
{
    socket_loop *s = (socket_loop *)l;
    hilbert_action_reply reply;
    int status = hilbert_answer(s->client, timeout, &reply);

    if (status == -ETIMEDOUT)
        return 1;
    if (status)
        return hb_fail(err, -status, "answer: %s", hilbert_error(s->client));
    if (reply.naction != 0 && reply.naction != l->nu)
        return hb_fail(err, EPROTO, "the daemon answered with %d controls, the plant has %d: is it the right model?",
                       reply.naction, l->nu);
    if (l->virtual_time && reply.guest)
        return hb_fail(err, EBUSY, "another client came after us, and flies now");
    if (strcmp(reply.reason, "clock") == 0)
        return hb_fail(err, EINVAL, "%s%s", reply.detail, l->virtual_time ? "" : " (--lockstep)");
    *ret = (hb_loop_answer){
        .has_action = reply.naction == l->nu,
        .status = status_of(reply.status),
        .cost = reply.cost,
        .planning = reply.total,
        .iterations = reply.iterations,
        .one_step_error = reply.one_step_error,
        .out_of_span = reply.out_of_span,
    };
    snprintf(ret->reason, sizeof ret->reason, "%s", reply.reason);
    if (ret->has_action)
        memcpy(ret->action, reply.action, (size_t)l->nu * sizeof *ret->action);
    return 0;
}

/* Subscriptions take a moment to be made. A vehicle on the ground would publish all the time; here time stands still,
 * and samples are sent until the daemon no longer calls its telemetry old. Each has a reset counter of its own, so that
 * no two of them are joined into a transition. */
static int prepare(hb_loop *l, const hb_loop_question *q, const double *u, hb_error *err)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    hb_loop_question trial = *q;
    hb_loop_answer reply = {0};

    for (int i = 0; i < 200; i++) {
        trial.time_us = q->time_us - 10000000 + 10000 * i;
        trial.reset_counter = q->reset_counter + 0x80000000u + (uint32_t)i;
        int status = publish(l, trial.time_us, q->x, u, trial.reset_counter, err);
        nanosleep(&pause, NULL);
        if (!status)
            status = ask(l, &trial, err);
        if (!status)
            status = answer(l, 5, &reply, err);
        if (status > 0)
            return hb_fail(err, ETIMEDOUT, "no answer within 5 s: is hilbertd running?");
        if (status)
            return status;
        bool old = reply.status == HB_STATUS_STALE ||
                   (reply.status == HB_STATUS_FALLBACK && strcmp(reply.reason, "stale") == 0);
        if (!old)
            return 0;
    }
    return hb_fail(err, ETIMEDOUT, "the daemon answers but gets no telemetry: is the telemetry endpoint right?");
}

static void free_loop(hb_loop *l)
{
    socket_loop *s = (socket_loop *)l;

    hilbert_close(s->client);
    free(s);
}

int hb_loop_over_sockets(hb_loop **ret, const hb_plant_type *plant, const hb_loop_endpoints *endpoints, hb_error *err)
{
    socket_loop *s = calloc(1, sizeof *s);
    if (!s)
        return hb_fail(err, ENOMEM, "out of memory");
    s->loop = (hb_loop){
        .nx = plant->nx,
        .nu = plant->nu,
        .virtual_time = endpoints->lockstep,
        .prepare = endpoints->lockstep ? NULL : prepare, /* nothing to wait for: telemetry goes with the requests */
        .publish = publish,
        .ask = ask,
        .answer = answer,
        .free = free_loop,
    };
    const hilbert_options options = {
        .telemetry = endpoints->telemetry,
        .actions = endpoints->actions,
        .server_key = endpoints->server_key,
        .client_key = endpoints->client_key,
        .lockstep = endpoints->lockstep,
    };
    char text[400] = "";
    int status = hilbert_connect(&s->client, &options, text, sizeof text);
    if (status) {
        free(s);
        return hb_fail(err, -status, "%s", text);
    }
    *ret = &s->loop;
    return 0;
}
