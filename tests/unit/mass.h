/* A vehicle that can be worked out by hand, and a controller that flies it: a mass on a line,
 *
 *     x' = v, v' = (1 + c) u        the basis function is u; c, the lightness, says how light the vehicle is
 */
#ifndef HB_TEST_MASS_H
#define HB_TEST_MASS_H

#include "controller/controller.h"

enum { NX = 2, NU = 1 };
static const double period = 0.05;

/* a clock that is set, and runs a little with each look at it */
typedef struct test_clock {
    double time, tick; /* s */
    hb_clock clock;
} test_clock;

double test_clock_look(void *context);

typedef struct fixture {
    hb_model *m;
    hb_pool *pool;
    hb_controller *c;
    hb_controller_settings s;
    test_clock clock;
    double x[NX], u[NU];
    int64_t time_us;
    uint64_t tick;
} fixture;

int mass_set_up(void **state);
int mass_tear_down(void **state);

/* a new controller with the fixture's settings */
void start(fixture *f);
/* what the mass does for dt seconds, exactly */
void move(double *x, double lightness, double u, double dt);
/* time passes for vehicle and daemon */
void pass(fixture *f, double seconds);
/* flies with changing controls, so that there is something to learn, and reports each period */
void fly(fixture *f, int periods, double lightness);

hb_request request(const fixture *f);
const hb_command *command(fixture *f);
hb_reason observe(fixture *f);
hb_counters counters(const fixture *f);

#endif
