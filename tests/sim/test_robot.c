/* Robots of one's own against MuJoCo itself: the same model loaded by its own functions, with the change written into
 * its text. The folder of the models is HB_ROBOTS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/check.h"
#include "sim/mujoco.h"
#include "sim/policy.h"
#include "sim/robot.h"

static char folder[] = "/tmp/hilbert-robot-XXXXXX";

/* a file of the folder */
static const char *in(const char *name)
{
    static char path[2][512];
    static int turn;
    char *to = path[turn++ % 2];

    snprintf(to, sizeof path[0], "%s/%s", folder, name);
    return to;
}

static void write_text(const char *name, const char *text)
{
    FILE *out = fopen(in(name), "w");

    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static char *read_model(const char *name)
{
    char path[512], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", HB_ROBOTS, name);
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    assert_true(getdelim(&text, &size, 0, file) > 0);
    fclose(file);
    return text;
}

/* A robot with files of its own in the folder. */
static const hb_plant_type *robot(const char *model, const char *yaml)
{
    const hb_plant_type *type = NULL;
    char *text = read_model(model), warning[700], name[64];
    hb_error err = {0};

    write_text(model, text);
    free(text);
    snprintf(name, sizeof name, "%.*s.yaml", (int)strlen(model) - 4, model);
    write_text(name, yaml);
    if (hb_robot_new(&type, in(model), warning, sizeof warning, &err))
        fail_msg("%s", err.text);
    return type;
}

static hb_plant *plant(const hb_plant_type *type, const double *x)
{
    hb_plant *p = NULL;
    hb_error err = {0};

    if (hb_plant_new(&p, type, &err) || hb_plant_reset(p, x, (hb_random_key){.seed = 1}, &err))
        fail_msg("%s", err.text);
    return p;
}

static void set(hb_plant *p, const char *name, double value)
{
    hb_error err = {0};
    const int index = hb_plant_parameter_find(p->type, name, &err);

    assert_true(index >= 0);
    assert_int_equal(hb_plant_set(p, index, value, &err), 0);
}

/* MuJoCo's own loading of a model whose text has `from` replaced by `to` */
static hb_mujoco changed(const char *model, const char *from, const char *to)
{
    char *text = read_model(model), *at = strstr(text, from), message[300];
    hb_mujoco sim;

    assert_non_null(at);
    FILE *out = fopen(in("changed.xml"), "w");
    assert_non_null(out);
    fprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(out);
    free(text);
    sim.model = mj_loadXML(in("changed.xml"), NULL, message, sizeof message);
    if (!sim.model)
        fail_msg("%s", message);
    sim.data = mj_makeData(sim.model);
    return sim;
}

static const char cartpole[] = "dt: 0.02\n"
                               "states:\n"
                               "  angle: {position: hinge}\n"
                               "  x: {position: slider}\n"
                               "  rate: {velocity: hinge}\n"
                               "  vx: {velocity: slider}\n"
                               "controls: {force: {actuator: push}}\n"
                               "hidden:\n"
                               "  pole: {body: pole, attribute: mass, range: [0.1, 0.4]}\n"
                               "  both: {body: [cart, pole], attribute: mass, scale: [0.5, 2]}\n"
                               "  gear: {actuator: push, attribute: gear, range: [5, 20]}\n"
                               "  rub: {joint: slider, attribute: damping, scale: [0, 10]}\n"
                               "  smooth: {joint: \"*\", attribute: damping, scale: [0, 10]}\n"
                               "  fall: {option: gravity, range: [-10, -1]}\n"
                               "start: {x: [-1, 1], angle: 3}\n"
                               "end: {x: [-2, 2]}\n";

/* each hidden parameter: the plant moves as MuJoCo does with that number in the model's text */
static void parameters_are_what_the_model_would_have(void **state)
{
    static const struct {
        const char *name;
        double value;
        const char *from, *to;
    } change[] = {
        {NULL, 0, "mass=\"1\"", "mass=\"1\""},
        {"pole", 0.35, "mass=\"0.2\"", "mass=\"0.35\""},
        {"gear", 17, "gear=\"10\"", "gear=\"17\""},
        {"rub", 4, "<joint damping=\"0.05\"/>", "<joint damping=\"0.2\"/>"},
        {"fall", -3, "integrator=\"RK4\"", "integrator=\"RK4\" gravity=\"0 0 -3\""},
    };
    const hb_plant_type *type = robot("cartpole.xml", cartpole);
    const double x0[4] = {0.4, -0.2, 0.3, 0.5};
    (void)state;

    assert_int_equal(type->nx, 4);
    assert_string_equal(type->state_unit[0], "rad");
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        hb_mujoco sim = changed("cartpole.xml", change[i].from, change[i].to);
        hb_plant *p = plant(type, x0);
        double x[4];
        /* in flight: the second half of the steps has it */
        for (int half = 0; half < 2; half++) {
            if (change[i].name)
                set(p, change[i].name, change[i].value);
            if (half == 0) {
                hb_error err = {0};
                assert_int_equal(hb_plant_reset(p, x0, (hb_random_key){.seed = 1}, &err), 0);
                sim.data->qpos[0] = x0[1];
                sim.data->qpos[1] = x0[0];
                sim.data->qvel[0] = x0[3];
                sim.data->qvel[1] = x0[2];
            }
            for (int k = 0; k < 25; k++) {
                const double u = sin(0.3 * k);
                hb_plant_step(p, &u, 0.02);
                sim.data->ctrl[0] = u;
                for (int n = 0; n < 4; n++)
                    mj_step(sim.model, sim.data);
            }
        }
        hb_plant_state(p, x);
        assert_near(x[0], sim.data->qpos[1], 1e-9);
        assert_near(x[1], sim.data->qpos[0], 1e-9);
        assert_near(x[2], sim.data->qvel[1], 1e-8);
        assert_near(x[3], sim.data->qvel[0], 1e-8);
        hb_plant_free(p);
        hb_mujoco_free(&sim);
    }
    hb_robot_free(type);
}

/* all masses by a factor: the same motion with forces by the same factor, exactly; and live as at a reset */
static void masses_scale_together(void **state)
{
    const hb_plant_type *type = robot("cartpole.xml", cartpole);
    const double x0[4] = {0.4, 0, 0, 0}, none[1] = {0};
    double x[2][4];
    (void)state;

    for (int k = 0; k < 2; k++) {
        hb_plant *p = plant(type, x0);
        set(p, "smooth", 0);
        set(p, "both", k == 0 ? 1 : 1.7);
        for (int i = 0; i < 50; i++)
            hb_plant_step(p, none, 0.02);
        hb_plant_state(p, x[k]);
        hb_plant_free(p);
    }
    for (int i = 0; i < 4; i++)
        assert_near(x[0][i], x[1][i], 1e-9);
    assert_true(fabs(x[0][0] - x0[0]) > 0.5);
    hb_robot_free(type);
}

static void it_ends_and_starts_where_the_file_says(void **state)
{
    const hb_plant_type *type = robot("cartpole.xml", cartpole);
    hb_plant *p = plant(type, (double[4]){0});
    hb_draws draws = {.key = {.seed = 3}};
    double least = 9, most = -9;
    hb_error err = {0};
    (void)state;

    for (int i = 0; i < 200; i++) {
        double x[4];
        assert_int_equal(type->start(p, &draws, x, &err), 0);
        assert_near(x[0], 3, 0);
        assert_near(x[2], 0, 0);
        least = fmin(least, x[1]);
        most = fmax(most, x[1]);
    }
    assert_true(least >= -1 && least < -0.9 && most <= 1 && most > 0.9);
    assert_null(hb_plant_failure(p));
    assert_int_equal(hb_plant_reset(p, (double[4]){0, 2.1}, (hb_random_key){0}, &err), 0);
    assert_string_equal(hb_plant_failure(p), "left its range: x is not within -2 to 2 m");
    hb_plant_free(p);
    hb_robot_free(type);
}

/* A command acts after its delay and not before, and with a lag in between. */
static void commands_wait(void **state)
{
    const hb_plant_type *type = robot("cartpole.xml", "dt: 0.02\n"
                                                      "states: {x: {position: slider}, vx: {velocity: slider}}\n"
                                                      "controls: {force: {actuator: push}}\n"
                                                      "delay: 0.06\n");
    hb_plant *p = plant(type, (double[2]){0});
    double x[2], u[1] = {1}, reported[1];
    (void)state;

    for (int k = 0; k < 3; k++) {
        hb_plant_step(p, u, 0.02);
        hb_plant_state(p, x);
        assert_near(x[1], 0, 1e-12);
    }
    hb_plant_step(p, u, 0.02);
    hb_plant_state(p, x);
    /* 10 N on 1.2 kg for 20 ms, less for the pole stays behind, which stands upright */
    assert_true(x[1] > 0.1 && x[1] < 0.22);
    hb_plant_control(p, HB_REPORT_IN_FORCE, (double[1]){-1}, reported);
    assert_near(reported[0], 1, 0);
    hb_plant_free(p);
    hb_robot_free(type);
}

static const char quadrotor[] =
    "dt: 0.02\n"
    "states:\n"
    "  x: {position: \"#0\", part: x}\n  y: {position: \"#0\", part: y}\n  z: {position: \"#0\", part: z}\n"
    "  qx: {position: \"#0\", part: qx}\n  qy: {position: \"#0\", part: qy}\n  qz: {position: \"#0\", part: qz}\n"
    "  qw: {position: \"#0\", part: qw}\n"
    "  vx: {velocity: \"#0\", part: vx}\n  vy: {velocity: \"#0\", part: vy}\n  vz: {velocity: \"#0\", part: vz}\n"
    "  wx: {velocity: \"#0\", part: wx}\n  wy: {velocity: \"#0\", part: wy}\n  wz: {velocity: \"#0\", part: wz}\n"
    "  place: {site: r1, part: y}\n"
    "controls: {a: {actuator: thrust1}, b: {actuator: thrust2}, c: {actuator: thrust3}, d: {actuator: thrust4}}\n"
    "start: {tilt: 0.3, yaw: 3.14, x: [-1, 1], z: [0.5, 1.5]}\n"
    "end: {tilt: 1, z: [0.1, 5]}\n"
    "noise: {x: 0.01, qx: 0.01, qy: 0.01, qz: 0.01, qw: 0.01}\n"
    "excitation: {noise: 0.1, time: 0.05, hold: lqr, wander: 1}\n";

static void a_free_body_hovers_at_its_trim(void **state)
{
    const hb_plant_type *type = robot("quadrotor.xml", quadrotor);
    const double s = sqrt(0.5), x0[14] = {[2] = 1, [5] = s, [6] = s}; /* turned by a right angle about z */
    hb_plant *p = plant(type, x0);
    double x[14];
    (void)state;

    /* nobody said what it weighs: 0.5 kg on four rotors */
    for (int i = 0; i < 4; i++)
        assert_near(type->control_trim[i], 0.5 * 9.81 / 4, 1e-6);
    for (int i = 0; i < 50; i++)
        hb_plant_step(p, type->control_trim, 0.02);
    hb_plant_state(p, x);
    for (int i = 0; i < 13; i++)
        assert_near(x[i], x0[i], 1e-6);
    /* the rotor at (0.1, 0.1) is at (-0.1, 0.1) of the world */
    assert_near(x[13], 0.1, 1e-6);
    /* turned about x by a torque of the two on the left: b at y > 0 */
    double u[4];
    memcpy(u, type->control_trim, sizeof u);
    u[0] += 0.1;
    u[1] += 0.1;
    hb_plant_step(p, u, 0.02);
    hb_plant_state(p, x);
    assert_true(x[10] > 0.05 && fabs(x[11]) < 1e-6);
    hb_plant_free(p);
    hb_robot_free(type);
}

static void attitudes_are_drawn_and_disturbed_as_quaternions(void **state)
{
    const hb_plant_type *type = robot("quadrotor.xml", quadrotor);
    hb_plant *p = plant(type, (double[14]){[2] = 1, [6] = 1});
    hb_draws draws = {.key = {.seed = 3}};
    double tilt = 0, sum = 0, square = 0;
    hb_error err = {0};
    (void)state;

    for (int i = 0; i < 300; i++) {
        double x[14];
        assert_int_equal(type->start(p, &draws, x, &err), 0);
        assert_near(x[3] * x[3] + x[4] * x[4] + x[5] * x[5] + x[6] * x[6], 1, 1e-12);
        /* z of the body's z axis is 1 - 2 (qx^2 + qy^2) */
        const double angle = acos(1 - 2 * (x[3] * x[3] + x[4] * x[4]));
        assert_true(angle <= 0.3 + 1e-9);
        tilt = fmax(tilt, angle);
    }
    assert_true(tilt > 0.25);
    for (int i = 0; i < 4000; i++) {
        double x[14];
        hb_plant_observe(p, x);
        assert_near(x[3] * x[3] + x[4] * x[4] + x[5] * x[5] + x[6] * x[6], 1, 1e-12);
        sum += x[0];
        square += x[0] * x[0];
    }
    /* 4000 draws: the deviation is known to 1.1 %; four times that */
    assert_near(sqrt(square / 4000), 0.01, 0.00045);
    assert_near(sum / 4000, 0, 0.0007);
    hb_plant_free(p);
    hb_robot_free(type);
}

/* The regulator of the excitation keeps it in the air, wherever it starts, and goes to places. */
static void excitation_holds_it(void **state)
{
    const hb_plant_type *type = robot("quadrotor.xml", quadrotor);
    const hb_policy *policy = hb_policy_find(NULL, type, NULL);
    double most = -9, least = 9;
    hb_error err = {0};
    (void)state;

    assert_string_equal(policy->name, "excite");
    for (int episode = 0; episode < 10; episode++) {
        hb_draws draws = {.key = {.seed = 7, .stream = (uint64_t)episode}};
        hb_policy_memory memory = {.draws.key = {.seed = 8, .stream = (uint64_t)episode}, .dt = 0.02};
        double x[14], u[4];
        hb_plant *p = plant(type, (double[14]){[2] = 1, [6] = 1});
        assert_int_equal(type->start(p, &draws, x, &err), 0);
        assert_int_equal(hb_plant_reset(p, x, (hb_random_key){.seed = 9}, &err), 0);
        policy->start(&memory, p);
        for (int k = 0; k < 250; k++) {
            hb_plant_state(p, x);
            policy->act(&memory, p, x, u);
            hb_plant_step(p, u, 0.02);
            assert_null(hb_plant_failure(p));
            most = fmax(most, x[0]);
            least = fmin(least, x[0]);
        }
        hb_plant_free(p);
    }
    assert_true(most > 0.6 && least < -0.6);
    hb_robot_free(type);
}

/* What describe writes is read again, for every model, and says what is there. */
static void every_model_describes_itself(void **state)
{
    static const struct {
        const char *model;
        int nx, nu;
        const char *state, *control;
    } expected[] = {{"cartpole.xml", 4, 1, "hinge", "push"},
                    {"quadrotor.xml", 13, 4, "qw", "thrust3"},
                    {"arm.xml", 7, 3, "both_act", "both"},
                    {"legged.xml", 36, 8, "tail_qx", "br_knee_command"}};
    (void)state;

    char *parts = read_model("arm_parts.xml");
    write_text("arm_parts.xml", parts);
    free(parts);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char *text = read_model(expected[i].model), warning[700], *yaml = NULL, *config = NULL;
        size_t size;
        hb_error err = {0};
        write_text(expected[i].model, text);
        free(text);
        FILE *out = open_memstream(&yaml, &size), *settings = open_memstream(&config, &size);
        if (hb_robot_describe(in(expected[i].model), out, settings, warning, sizeof warning, &err))
            fail_msg("%s", err.text);
        fclose(out);
        fclose(settings);
        const hb_plant_type *type = robot(expected[i].model, yaml);
        assert_int_equal(type->nx, expected[i].nx);
        assert_int_equal(type->nu, expected[i].nu);
        bool state_there = false, control_there = false;
        for (int k = 0; k < type->nx; k++)
            state_there = state_there || strcmp(type->state_name[k], expected[i].state) == 0;
        for (int k = 0; k < type->nu; k++)
            control_there = control_there || strcmp(type->control_name[k], expected[i].control) == 0;
        assert_true(state_there && control_there);
        assert_true((strcmp(expected[i].model, "arm.xml") == 0) == (strstr(warning, "link.stl") != NULL));
        hb_robot_free(type);
        free(yaml);
        free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_what_the_model_would_have),
        cmocka_unit_test(masses_scale_together),
        cmocka_unit_test(it_ends_and_starts_where_the_file_says),
        cmocka_unit_test(commands_wait),
        cmocka_unit_test(a_free_body_hovers_at_its_trim),
        cmocka_unit_test(attitudes_are_drawn_and_disturbed_as_quaternions),
        cmocka_unit_test(excitation_holds_it),
        cmocka_unit_test(every_model_describes_itself),
    };
    if (!mkdtemp(folder))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[600];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) || failed;
}
