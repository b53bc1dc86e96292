/* hilbertctl predict: where the adapted model says that the vehicle goes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/connection.h"

typedef struct question {
    const char *state, *control; /* as given, or NULL */
    double steps, dt;
} question;

static void print_csv(const Hilbert__V1__ModelInfo *m, const Hilbert__V1__Prediction *p, double dt)
{
    size_t nx = m->n_state;

    printf("time");
    for (size_t i = 0; i < nx; i++)
        printf(",%s", m->state[i]->name);
    putchar('\n');
    for (size_t k = 0; k <= p->steps && (k + 1) * nx <= p->n_state; k++) {
        printf("%g", (double)k * dt);
        for (size_t i = 0; i < nx; i++)
            printf(",%.9g", p->state[k * nx + i]);
        putchar('\n');
    }
}

/* Starts from the newest state (or zero) and trim, changed by what was given; the control is held. */
static int predict(ctl_connection *c, const ctl_command *self, const question *q, const Hilbert__V1__ModelInfo *m,
                   const Hilbert__V1__Status *s)
{
    size_t nx = m->n_state, nu = m->n_control, steps = (size_t)q->steps;
    double *x = calloc(nx, sizeof *x), *u = calloc(steps * nu + 1, sizeof *u);
    Hilbert__V1__ControlReply *reply = NULL;
    int result = x && u ? CTL_OK : ctl_failure(self, "out of memory");

    if (!result && s->n_state == nx)
        memcpy(x, s->state, nx * sizeof *x);
    for (size_t i = 0; i < nu && !result; i++)
        u[i] = m->control[i]->trim;
    if (!result && q->state)
        result = ctl_read_vector(self, q->state, m->state, (int)nx, x);
    if (!result && q->control)
        result = ctl_read_vector(self, q->control, m->control, (int)nu, u);
    if (!result) {
        Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
        Hilbert__V1__Predict p = HILBERT__V1__PREDICT__INIT;
        for (size_t k = 1; k < steps; k++)
            memcpy(u + k * nu, u, nu * sizeof *u);
        p.count = 1;
        p.steps = (uint32_t)steps;
        p.dt = q->dt;
        p.n_state = nx;
        p.state = x;
        p.n_control = steps * nu;
        p.control = u;
        request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_PREDICT;
        request.predict = &p;
        reply = ctl_ask(c, self, &request);
        if (reply && reply->result_case == HILBERT__V1__CONTROL_REPLY__RESULT_PREDICTION)
            print_csv(m, reply->prediction, q->dt > 0 ? q->dt : m->dt);
        else
            result = CTL_FAILURE;
    }
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    free(u);
    free(x);
    return result;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    question q = {.steps = 10};
    const ctl_option own[] = {{'x', "state", CTL_TEXT, &q.state, 0, 0},
                              {'u', "control", CTL_TEXT, &q.control, 0, 0},
                              {'N', "steps", CTL_NUMBER, &q.steps, 1, 1e6},
                              {'d', "dt", CTL_NUMBER, &q.dt, 1e-9, 1e3},
                              {0}};
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, own, 0);

    if (result)
        return result;
    Hilbert__V1__ControlReply *model = ctl_ask_model(&c, self), *status = model ? ctl_ask_status(&c, self) : NULL;
    result = status ? predict(&c, self, &q, model->model, status->status) : CTL_FAILURE;
    hilbert__v1__control_reply__free_unpacked(status, NULL);
    hilbert__v1__control_reply__free_unpacked(model, NULL);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_predict = {
    .name = "predict",
    .arguments = "[OPTIONS]",
    .summary = "where the adapted model says that the vehicle goes",
    .help =
        "Prints, as CSV, the trajectory from a state with a control held, by the model with its present coefficients.\n"
        "\n"
        "  -x, --state LIST       1,2,3 or name=1,name=2; what is not named is as in the newest telemetry\n"
        "  -u, --control LIST     the same for controls; what is not named is at trim\n"
        "  -N, --steps N          10\n"
        "  -d, --dt SECONDS       of a step: the model's\n" CTL_CONNECTION_HELP,
    .run = run,
};
