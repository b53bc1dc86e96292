/* Training runs: the same bytes for any number of threads, after any interruption, and a model that learns. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "dynamics/predictor.h"
#include "check.h"
#include "folder.h"
#include "train/prediction_errors.h"
#include "train/reference.h"
#include "train/run.h"

enum { FUNCTIONS = 12, EPISODES = 2, STEPS = 60, INTERRUPTIONS = 6 };

/* damped oscillators x'' = u - k x - d x', integrated finely; k and d are hidden, or known of logs */
static void write_data(const char *path, bool logs)
{
    char state[2][HB_NAME_SIZE] = {"x", "v"}, state_unit[2][HB_NAME_SIZE] = {"m", "m/s"};
    char control[1][HB_NAME_SIZE] = {"u"}, control_unit[1][HB_NAME_SIZE] = {"N"};
    char hidden[2][HB_NAME_SIZE] = {"damping", "stiffness"};
    double min = -2, max = 2, trim = 0;
    hb_dataset_header h = {.nx = 2,
                           .nu = 1,
                           .dt = 0.1,
                           .plant = "oscillator",
                           .state_name = state,
                           .state_unit = state_unit,
                           .control_name = control,
                           .control_unit = control_unit,
                           .control_min = &min,
                           .control_max = &max,
                           .control_trim = &trim,
                           .nhidden = 2,
                           .hidden_name = hidden,
                           .parameters_known = logs};
    hb_dataset_writer *w = NULL;
    hb_error err = {0};

    assert_int_equal(hb_dataset_writer_new(&w, path, &h, &err), 0);
    for (int e = 0; e < FUNCTIONS * EPISODES; e++) {
        double x[(STEPS + 1) * 2], u[STEPS], time[STEPS + 1], parameter[2];
        hb_random_key key = {.seed = 1, .stream = (uint64_t)(e / EPISODES)}, own = {.seed = 2, .stream = (uint64_t)e};
        parameter[0] = 0.1 + hb_random_uniform(key, 0);
        parameter[1] = 0.5 + 2 * hb_random_uniform(key, 1);
        x[0] = hb_random_normal(own, 0);
        x[1] = hb_random_normal(own, 1);
        time[0] = 0;
        for (int i = 0; i < STEPS; i++) {
            double p = x[2 * i], v = x[2 * i + 1], dt = 0.05 + 0.1 * hb_random_uniform(own, (uint64_t)(1000 + i));
            u[i] = fmax(-2, fmin(2, hb_random_normal(own, (uint64_t)(2000 + i))));
            for (int k = 0; k < 1000; k++) {
                double a = u[i] - parameter[1] * p - parameter[0] * v;
                p += dt / 1000 * v;
                v += dt / 1000 * a;
            }
            x[2 * i + 2] = p;
            x[2 * i + 3] = v;
            time[i + 1] = time[i] + dt;
        }
        if (hb_dataset_writer_append(w, e / EPISODES, STEPS, x, u, time, parameter, &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(hb_dataset_writer_close(w, &err), 0);
}

static hb_settings small_run(const char *output)
{
    hb_settings s;
    hb_settings_default(&s);
    snprintf(s.data, sizeof s.data, "%s", in_folder("data.h5"));
    snprintf(s.output, sizeof s.output, "%s", in_folder(output));
    s.nb = 3;
    s.hidden = (hb_widths){2, {12, 12}};
    s.functions = 7;
    s.examples = 40;
    s.queries = 50;
    s.steps = 60;
    s.validate_every = 25;
    s.threads = 2;
    s.decay = HB_DECAY_COSINE;
    s.seed = 3;
    return s;
}

static hb_run_result train(const hb_settings *s, const hb_run_options *with)
{
    hb_run_options o = with ? *with : (hb_run_options){0};
    hb_run_result r = {0};
    hb_error err = {0};
    o.quiet = true;
    if (hb_run(s, &o, &r, &err))
        fail_msg("%s", err.text);
    return r;
}

static char *read_file(const char *path, size_t *size)
{
    FILE *in = fopen(path, "rb");
    struct stat st;
    assert_non_null(in);
    assert_int_equal(fstat(fileno(in), &st), 0);
    char *bytes = malloc((size_t)st.st_size + 1);
    *size = fread(bytes, 1, (size_t)st.st_size, in);
    assert_int_equal(*size, st.st_size);
    fclose(in);
    return bytes;
}

static void assert_same_files(const char *a, const char *b)
{
    size_t na, nb;
    char *in_a = read_file(in_folder(a), &na), *in_b = read_file(in_folder(b), &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(in_a, in_b, na);
    free(in_a);
    free(in_b);
}

static void test_threads(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        hb_settings s = small_run("threads");
        s.threads = threads;
        train(&s, NULL);
        assert_same_files("reference", "threads");
    }
}

static void test_other_seed(void **state)
{
    (void)state;
    hb_settings s = small_run("seed");
    size_t na, nb;
    s.seed = 4;
    train(&s, NULL);
    char *a = read_file(in_folder("reference"), &na), *b = read_file(in_folder("seed"), &nb);
    assert_true(na != nb || memcmp(a, b, na) != 0);
    free(a);
    free(b);
}

/* goes on from the checkpoint if there is one, from the start otherwise */
static int run_or_resume(const hb_settings *s, const volatile sig_atomic_t *stop, hb_run_result *ret, hb_error *err)
{
    hb_checkpoint *c = NULL;
    hb_settings from_file = *s;
    char path[HB_PATH_SIZE];

    hb_run_checkpoint_path(s, path);
    if (access(path, F_OK) == 0) {
        int status = hb_checkpoint_load(&c, path, err);
        if (status)
            return status;
        hb_settings_default(&from_file);
        if ((status = hb_settings_parse(&from_file, hb_checkpoint_settings(c), path, err)))
            return status;
    }
    int status = hb_run(&from_file, &(hb_run_options){.resume = c, .stop = stop, .quiet = true}, ret, err);
    hb_checkpoint_free(c);
    return status;
}

static volatile sig_atomic_t alarm_rang;

static void ring(int signal_number)
{
    (void)signal_number;
    alarm_rang = 1;
}

/* a run that is asked to stop again and again */
static void stop_and_resume(const hb_settings *s)
{
    struct sigaction action = {.sa_handler = ring};
    struct itimerval soon = {.it_value = {.tv_usec = 15000}}, never = {0};
    hb_run_result r = {.stopped = true};
    hb_error err = {0};
    int stops = 0;

    sigaction(SIGALRM, &action, NULL);
    alarm_rang = 1;
    assert_int_equal(run_or_resume(s, &alarm_rang, &r, &err), 0);
    assert_true(r.stopped);
    assert_int_equal(r.steps, 0);
    /* to start over over an interrupted run is refused */
    assert_int_equal(hb_run(s, &(hb_run_options){.quiet = true}, &r, &err), -EEXIST);
    assert_non_null(strstr(err.text, "--resume"));

    for (; r.stopped; stops++) {
        alarm_rang = 0;
        if (stops < INTERRUPTIONS)
            setitimer(ITIMER_REAL, &soon, NULL);
        if (run_or_resume(s, &alarm_rang, &r, &err))
            fail_msg("%s", err.text);
        setitimer(ITIMER_REAL, &never, NULL);
    }
}

static void test_stop_and_resume(void **state)
{
    (void)state;
    hb_settings s = small_run("stopped");

    stop_and_resume(&s);
    assert_same_files("reference", "stopped");
}

/* When the steps are done, a prior is made: that is left when asked to, too, and gone on with to the same bytes. A
 * checkpoint of that moment is left by a run whose model cannot be written. */
static void test_stop_after_the_last_step(void **state)
{
    (void)state;
    hb_settings s = small_run("closing");
    volatile sig_atomic_t stop = 1;
    hb_run_result r = {0};
    hb_error err = {0};

    assert_int_equal(mkdir(in_folder("closing"), 0700), 0);
    assert_int_not_equal(hb_run(&s, &(hb_run_options){.quiet = true}, &r, &err), 0);
    assert_int_equal(rmdir(in_folder("closing")), 0);
    assert_int_equal(run_or_resume(&s, &stop, &r, &err), 0);
    assert_true(r.stopped);
    assert_int_equal(r.steps, s.steps);
    assert_int_equal(access(in_folder("closing"), F_OK), -1);
    stop = 0;
    assert_int_equal(run_or_resume(&s, &stop, &r, &err), 0);
    assert_false(r.stopped);
    assert_same_files("reference", "closing");
}

/* a run that is killed at any moment, while it writes a checkpoint after every step */
static void test_kill_and_resume(void **state)
{
    (void)state;
    hb_settings s = small_run("killed");
    hb_run_result r = {0};
    hb_error err = {0};

    s.checkpoint_every = 0;
    for (int i = 0; i < INTERRUPTIONS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(run_or_resume(&s, NULL, &r, &err) ? 1 : 0);
        usleep((useconds_t)(5000 + 7000 * i));
        kill(child, SIGKILL);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how) || WEXITSTATUS(how) == 0);
        if (!WIFSIGNALED(how))
            break;
    }
    if (access(in_folder("killed"), F_OK) != 0 && run_or_resume(&s, NULL, &r, &err))
        fail_msg("%s", err.text);
    assert_same_files("reference", "killed");
}

static void test_resume_refuses_other_data(void **state)
{
    (void)state;
    hb_settings s = small_run("refused");
    volatile sig_atomic_t stop = 1;
    hb_run_result r;
    hb_error err = {0};
    hb_checkpoint *c = NULL;
    char path[HB_PATH_SIZE];

    train(&s, &(hb_run_options){.stop = &stop});
    hb_run_checkpoint_path(&s, path);
    assert_int_equal(hb_checkpoint_load(&c, path, &err), 0);
    /* validation data are data too */
    snprintf(s.validation, sizeof s.validation, "%s", s.data);
    assert_int_equal(hb_run(&s, &(hb_run_options){.resume = c, .quiet = true}, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "other data"));
    hb_checkpoint_free(c);
}

/* every kind, through the whole run: adaptation must bring something where there are coefficients */
static void test_kinds_learn(void **state)
{
    (void)state;
    for (int kind = 0; kind < HB_NKINDS; kind++) {
        hb_settings s = small_run("kind");
        hb_error err = {0};
        hb_model *m = NULL;
        s.kind = kind;
        s.nb = kind == HB_KIND_NODE || kind == HB_KIND_ORACLE ? -1 : 3;
        s.steps = 500;
        s.hold_out = 4;
        s.learning_rate = 5e-3;
        hb_run_result r = train(&s, NULL);
        /* of what there was to learn, nearly all is learned, but by networks that give increments directly: they are
         * not told how long a step is; and coefficients bring their part */
        double left = kind == HB_KIND_FE_RES ? 0.1 : 0.05;
        if (!(r.last.terms.query < left) || !(s.nb < 0 || r.validation.one_step < r.without.one_step))
            fail_msg("%s: loss %g, one-step error %g, with c = 0 %g", hb_kind_name[kind], r.last.terms.query,
                     r.validation.one_step, r.without.one_step);
        if (hb_model_load(&m, s.output, &err))
            fail_msg("%s", err.text);
        assert_int_equal(m->nu, kind == HB_KIND_ORACLE ? 3 : 1);
        assert_non_null(strstr(m->notes, "hilbert-train --data"));
        hb_model_free(m);
    }
}

/* basis functions that must not act on the position leave it to the average, whatever trains them, and still learn */
static void test_output_mask(void **state)
{
    (void)state;
    const struct {
        int kind, optimiser, shape, join;
    } how[] = {{HB_KIND_SHARED, HB_ADAM, HB_VECTOR, 0},
               {HB_KIND_SHARED, HB_MUON, HB_VECTOR, 0},
               {HB_KIND_SHARED, HB_ADAM, HB_PER_STATE, 0},
               {HB_KIND_SHARED, HB_ADAM, HB_PER_STATE, 2},
               {HB_KIND_FE_NODE_RES, HB_ADAM, HB_VECTOR, 0}};

    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        hb_settings s = small_run("masked");
        hb_error err = {0};
        hb_model *m = NULL;
        s.kind = how[i].kind;
        s.optimiser = how[i].optimiser;
        s.shape = how[i].shape;
        s.join = how[i].join;
        s.steps = 400;
        s.hold_out = 4;
        s.learning_rate = 5e-3;
        strcpy(s.outputs, "-x");
        hb_run_result r = train(&s, NULL);
        if (!(r.validation.one_step < 0.8 * r.without.one_step))
            fail_msg("%zu: one-step error %g, with c = 0 %g", i, r.validation.one_step, r.without.one_step);
        if (hb_model_load(&m, s.output, &err))
            fail_msg("%zu: %s", i, err.text);
        assert_false(m->output[0]);
        assert_true(m->output[1]);
        /* what no function acts on repeats what its derivative leaves, and is not believed more than that */
        assert_true(m->has_prior);
        assert_true(m->noise[0] >= m->noise[1]);
        hb_model_free(m);
    }
}

/* logs have the noise of their sensors, also where no function acts: bands are as wide as errors are */
static void test_noise_of_logs(void **state)
{
    (void)state;
    hb_settings s = small_run("of-logs");
    hb_error err = {0};
    hb_model *m = NULL;

    snprintf(s.data, sizeof s.data, "%s", in_folder("logs.h5"));
    strcpy(s.outputs, "-x");
    s.steps = 400;
    s.learning_rate = 5e-3;
    train(&s, NULL);
    if (hb_model_load(&m, s.output, &err))
        fail_msg("%s", err.text);
    assert_true(m->has_prior);
    if (!(m->noise[0] < 0.5 * m->noise[1])) /* half a period of what the derivative leaves */
        fail_msg("position %g, velocity %g", m->noise[0], m->noise[1]);
    hb_model_free(m);
}

/* states weigh by how much they change, which is what an average that says nothing leaves of them in a step */
static void test_weights_by_change(void **state)
{
    (void)state;
    const struct {
        int weighting, rollout;
    } how[] = {{HB_WEIGHT_EACH, 1}, {HB_WEIGHT_CHANGE, 1}, {HB_WEIGHT_EACH, 3}, {HB_WEIGHT_CHANGE, 3}};
    double error[4];

    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        hb_settings s = small_run("weighed");
        strcpy(s.average, "none");
        s.weighting = how[i].weighting;
        s.rollout = how[i].rollout;
        s.hold_out = 4;
        error[i] = train(&s, NULL).validation.one_step;
    }
    assert_near(error[1] / error[0], 1, 1e-3);
    assert_true(fabs(error[3] / error[2] - 1) > 1e-3);
}

/* lag acts once, also in the verdict: training has made acting controls of the data's commands already */
static void test_verdict_of_late_controls(void **state)
{
    (void)state;
    enum { HELD = 4 };
    hb_settings s = small_run("late");
    hb_error err = {0};
    hb_model *m = NULL;
    hb_dataset *d = NULL;
    hb_pool *pool = NULL;
    hb_online online;
    double reference[2];
    int function[FUNCTIONS];

    s.steps = 100;
    s.hold_out = HELD;
    strcpy(s.lag, "0.15");
    hb_run_result r = train(&s, &(hb_run_options){.verdict = true});
    if (hb_model_load(&m, s.output, &err) || hb_dataset_read(&d, s.data, NULL, &err) ||
        hb_pool_new(&pool, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    hb_held_back_order(FUNCTIONS, s.seed, function);
    hb_online_settings how = {.estimator = hb_estimator_defaults,
                              .starts = 30,
                              .function = function + FUNCTIONS - HELD,
                              .nfunctions = HELD,
                              .long_run = reference};
    how.estimator.actuators.identify = false; /* as they are in the model */
    if (hb_online_measure(&online, m, d, &how, pool, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++)
            assert_near(r.verdict.online.error[4][k][i] / online.error[4][k][i], 1, 0.05);
        assert_near(m->reference_noise[i] / reference[i], 1, 0.05);
    }
    hb_pool_free(pool);
    hb_dataset_free(d);
    hb_model_free(m);
}

/* of a model for which nothing was held back too there is a reference */
static void test_reference_without_held_back(void **state)
{
    (void)state;
    hb_settings s = small_run("all");
    hb_error err = {0};
    hb_model *m = NULL;

    s.steps = 20;
    s.hold_out = 0;
    hb_run_result r = train(&s, &(hb_run_options){.verdict = true});
    assert_false(r.verdict.known);
    if (hb_model_load(&m, s.output, &err))
        fail_msg("%s", err.text);
    assert_true(m->has_prior);
    for (int i = 0; i < m->nx; i++)
        assert_true(m->reference_noise[i] > 0);
    hb_model_free(m);
}

/* what is held out is predicted as a daemon would, and what is left of it stands in the file */
static void test_verdict(void **state)
{
    (void)state;
    hb_settings s = small_run("judged");
    hb_error err = {0};
    hb_model *m = NULL;
    char *text = NULL;
    size_t size;

    s.steps = 400;
    s.hold_out = 4;
    s.learning_rate = 5e-3;
    hb_run_result r = train(&s, &(hb_run_options){.verdict = true});
    assert_true(r.verdict.known);
    assert_true(r.verdict.online.starts > 20);
    assert_int_equal(r.verdict.online.nquantities, 2);
    if (hb_model_load(&m, s.output, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < m->nx; i++) {
        /* errors that add up over 0.4 s, four periods: of white ones as much as of one step, of lasting ones up to
         * (1 + b) / (1 - b) = 7 times its square */
        assert_true(m->reference_noise[i] > 0.3 * m->noise[i]);
        assert_true(m->reference_noise[i] < 10 * m->noise[i]);
        assert_true(r.verdict.online.error[4][1][i] < r.verdict.online.error[0][1][i]);
    }
    hb_model_free(m);
    FILE *out = open_memstream(&text, &size);
    hb_verdict_print(&r.verdict, out);
    fclose(out);
    double without = fmin(r.verdict.online.error[0][1][0], r.verdict.online.error[1][1][0]);
    if (!strstr(text, r.verdict.online.error[4][1][0] < 0.9 * without ? "x: adapting pays: after 10 steps"
                                                                      : "x: adapting brings little: after 10 steps"))
        fail_msg("%s", text);
    assert_null(strstr(text, "HURTS"));
    free(text);
    /* of one that brings much, and of one that is worse than none, it says so */
    r.verdict.online.error[4][1][0] = 0.5 * without;
    out = open_memstream(&text, &size);
    hb_verdict_print(&r.verdict, out);
    fclose(out);
    assert_non_null(strstr(text, "x: adapting pays"));
    free(text);
    for (int q = 0; q < 2; q++)
        r.verdict.online.error[4][1][q] = 2 * r.verdict.online.error[0][1][q] + 2 * r.verdict.online.error[1][1][q];
    out = open_memstream(&text, &size);
    hb_verdict_print(&r.verdict, out);
    fclose(out);
    assert_non_null(strstr(text, "x: adapting HURTS"));
    assert_non_null(strstr(text, "better predicted without its data"));
    free(text);
}

/* the average of one run, trunk and head, is the frozen network of the next */
static void test_given_average(void **state)
{
    (void)state;
    hb_settings s = small_run("given");
    hb_model *reference = NULL, *m = NULL;
    hb_error err = {0};

    snprintf(s.average, sizeof s.average, "%s", in_folder("reference"));
    train(&s, NULL);
    assert_int_equal(hb_model_load(&reference, in_folder("reference"), &err), 0);
    assert_int_equal(hb_model_load(&m, in_folder("given"), &err), 0);
    assert_int_equal(m->average, HB_AVERAGE_NETWORK);

    const hb_mlp *b = &reference->basis, *a = &m->average_network;
    size_t width = (size_t)b->width[b->nlayers - 1], rows = (size_t)b->width[b->nlayers];
    size_t trunk = b->nparameters - rows * (width + 1);
    const hb_real *network = m->parameter + m->nparameters - a->nparameters;
    assert_int_equal(a->nparameters, trunk + 2 * (width + 1));
    assert_memory_equal(network, reference->parameter, trunk * sizeof *network);
    assert_memory_equal(network + trunk, reference->parameter + trunk + (rows - 2) * width,
                        2 * width * sizeof *network);
    assert_memory_equal(network + trunk + 2 * width, reference->parameter + b->nparameters - 2, 2 * sizeof *network);
    hb_model_free(m);
    hb_model_free(reference);
}

/* constants come behind what was learned, which stays what it was, and take part in the prior */
static void test_constants(void **state)
{
    (void)state;
    hb_settings plain = small_run("plain"), s = small_run("constants");
    hb_model *a = NULL, *b = NULL;
    hb_error err = {0};

    s.constants = 1;
    train(&plain, NULL);
    train(&s, NULL);
    if (hb_model_load(&a, plain.output, &err) || hb_model_load(&b, s.output, &err))
        fail_msg("%s", err.text);
    assert_int_equal(a->nb, 3);
    assert_int_equal(b->nb, 5);
    assert_true(b->has_prior);
    for (int i = 3; i < 5; i++)
        assert_true(b->prior_covariance[i * 5 + i] > 0);
    /* the same step with constants of 0; with others a rate of its own for each state, whatever the state is */
    hb_workspace *wa = NULL, *wb = NULL;
    hb_predictor *pa = NULL, *pb = NULL;
    assert_int_equal(hb_workspace_new(&wa, a, false, &err), 0);
    assert_int_equal(hb_workspace_new(&wb, b, false, &err), 0);
    assert_int_equal(hb_predictor_new(&pa, a, &err), 0);
    assert_int_equal(hb_predictor_new(&pb, b, &err), 0);
    for (int k = 0; k < 3; k++) {
        const hb_real c[] = {(hb_real)0.3, (hb_real)-0.2, (hb_real)0.5, k == 1 ? 2 : 0, k == 2 ? -1 : 0};
        hb_real z[2 * HB_STRIDE] = {0}, u[HB_STRIDE] = {0}, dt[HB_STRIDE], za[2 * HB_STRIDE], zb[2 * HB_STRIDE];
        for (int i = 0; i < HB_STRIDE; i++)
            dt[i] = (hb_real)1e-4;
        z[0] = (hb_real)0.4;
        z[HB_STRIDE] = (hb_real)-0.7;
        u[0] = (hb_real)0.2;
        hb_batch in = {.n = 1, .z = z, .u = u, .dt = dt};
        hb_predictor_set(pa, c);
        hb_predictor_set(pb, c);
        hb_predictor_step(pa, wa, &in, za, NULL);
        hb_predictor_step(pb, wb, &in, zb, NULL);
        for (int i = 0; i < 2; i++) {
            double expected = 1e-4 * (k == 1 && i == 0 ? 2 : k == 2 && i == 1 ? -1 : 0);
            assert_true(fabs((double)zb[i * HB_STRIDE] - (double)za[i * HB_STRIDE] - expected) < 2e-6);
        }
    }
    hb_predictor_free(pa);
    hb_predictor_free(pb);
    hb_workspace_free(wa);
    hb_workspace_free(wb);
    hb_model_free(a);
    hb_model_free(b);
    /* not with a coefficient for each state */
    hb_run_result r;
    s.shape = HB_PER_STATE;
    assert_int_equal(hb_run(&s, &(hb_run_options){.quiet = true, .force = true}, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "constants"));
}

static void test_bad_settings(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *complaint;
    } bad[] = {
        {"inputs", "x,w", "no state 'w'"},
        {"inputs", "x,-v", "either name the states"},
        {"average", "nominal:zeppelin", "quadrotor"},
        {"average", "nominal:quadrotor", "states"},
        {"average", "/nowhere", "/nowhere"},
        {"hold-out", "12", "none to train on"},
        {"rollout", "61", "no episode of 61 steps"},
        {"data", "/nowhere.h5", "/nowhere.h5"},
        {"data", "", "--data"},
        {"nb", "0", "basis function"},
        {"join", "2", "per_state"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hb_settings s = small_run("bad");
        hb_run_result r;
        hb_error err = {0};
        assert_int_equal(hb_settings_set(&s, bad[i].name, bad[i].value, &err), 0);
        assert_true(hb_run(&s, &(hb_run_options){.quiet = true}, &r, &err) < 0);
        if (!strstr(err.text, bad[i].complaint))
            fail_msg("%s %s: '%s' does not say '%s'", bad[i].name, bad[i].value, err.text, bad[i].complaint);
    }
}

static hb_settings run_with_muon(const char *output)
{
    hb_settings s = small_run(output);

    s.optimiser = HB_MUON;
    s.averaging = 0.5;
    s.shape = HB_PER_STATE;
    s.join = 4;
    return s;
}

/* orthogonal steps, averaging and joint coefficients: the same bytes, for threads and after interruptions; and it
 * learns */
static void test_muon_and_the_rest(void **state)
{
    (void)state;
    hb_settings s = run_with_muon("muon");
    hb_model *m = NULL;

    train(&s, NULL);
    for (int threads = 1; threads <= 3; threads += 2) {
        s = run_with_muon("muon-threads");
        s.threads = threads;
        train(&s, NULL);
        assert_same_files("muon", "muon-threads");
    }
    s = run_with_muon("muon-stopped");
    stop_and_resume(&s);
    assert_same_files("muon", "muon-stopped");
    assert_int_equal(hb_model_load(&m, in_folder("muon"), NULL), 0);
    assert_true(m->nb == 4 && m->shape == HB_VECTOR && m->has_prior);
    hb_model_free(m);

    s = run_with_muon("muon-learns");
    s.steps = 500;
    s.averaging = 0.1;
    s.hold_out = 4;
    s.learning_rate = 5e-3;
    hb_run_result r = train(&s, NULL);
    if (!(r.last.terms.query < 0.05) || !(r.with_prior.ten_step < r.without.ten_step))
        fail_msg("loss %g, ten-step error %g, with c = 0 %g", r.last.terms.query, r.with_prior.ten_step,
                 r.without.ten_step);
}

/* 15 states, each of which decays at a rate of its own, and a function's control pushes all of them */
static void write_wide(const char *path)
{
    enum { WIDE = 15, WIDE_STEPS = 40, WIDE_FUNCTIONS = 4 };
    char state[WIDE][HB_NAME_SIZE], control[1][HB_NAME_SIZE] = {"u"}, unit[WIDE][HB_NAME_SIZE] = {""};
    double x[(WIDE_STEPS + 1) * WIDE], u[WIDE_STEPS], min = -1, max = 1, trim = 0;
    hb_dataset_header h = {.nx = WIDE,
                           .nu = 1,
                           .dt = 0.1,
                           .state_name = state,
                           .state_unit = unit,
                           .control_name = control,
                           .control_unit = unit,
                           .control_min = &min,
                           .control_max = &max,
                           .control_trim = &trim};
    hb_dataset_writer *w = NULL;
    hb_error err = {0};

    for (int i = 0; i < WIDE; i++)
        snprintf(state[i], sizeof state[i], "x%d", i);
    assert_int_equal(hb_dataset_writer_new(&w, path, &h, &err), 0);
    for (int f = 0; f < WIDE_FUNCTIONS; f++) {
        hb_random_key key = {.seed = 6, .stream = (uint64_t)f};
        for (int i = 0; i < WIDE; i++)
            x[i] = hb_random_normal(key, (uint64_t)i);
        for (int k = 0; k < WIDE_STEPS; k++) {
            u[k] = 2 * hb_random_uniform(key, (uint64_t)(100 + k)) - 1;
            for (int i = 0; i < WIDE; i++)
                x[(k + 1) * WIDE + i] = (0.7 + 0.02 * i) * x[k * WIDE + i] + 0.1 * (f + 1) * u[k];
        }
        if (hb_dataset_writer_append(w, f, WIDE_STEPS, x, u, NULL, NULL, &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(hb_dataset_writer_close(w, &err), 0);
}

/* parameters after a few steps with this optimiser; -1: the model's own */
static hb_model *trained_by(const char *data, int optimiser)
{
    hb_settings s = small_run("optimiser");
    hb_model *m = NULL;

    snprintf(s.data, sizeof s.data, "%s", in_folder(data));
    s.optimiser = optimiser;
    s.steps = 5;
    train(&s, NULL);
    assert_int_equal(hb_model_load(&m, s.output, NULL), 0);
    return m;
}

/* few states: Adam; many: Muon */
static void test_optimiser_by_itself(void **state)
{
    (void)state;
    write_wide(in_folder("wide.h5"));
    for (int wide = 0; wide <= 1; wide++) {
        const char *data = wide ? "wide.h5" : "data.h5";
        hb_model *own = trained_by(data, -1), *adam = trained_by(data, HB_ADAM), *muon = trained_by(data, HB_MUON);
        size_t size = own->nparameters * sizeof *own->parameter;
        assert_memory_equal(own->parameter, (wide ? muon : adam)->parameter, size);
        assert_true(memcmp(own->parameter, (wide ? adam : muon)->parameter, size) != 0);
        hb_model_free(own);
        hb_model_free(adam);
        hb_model_free(muon);
    }
}

/* the mean parameters of the last three steps, each of which is the last of a run of its own */
static void test_averaging(void **state)
{
    (void)state;
    hb_settings s = small_run("averaged");
    hb_model *m = NULL, *of[3] = {0};

    s.decay = HB_DECAY_NONE;
    s.averaging = 0.05;
    train(&s, NULL);
    assert_int_equal(hb_model_load(&m, in_folder("averaged"), NULL), 0);
    s.averaging = 0;
    for (int k = 0; k < 3; k++) {
        snprintf(s.output, sizeof s.output, "%s", in_folder("one-of-three"));
        s.steps = (uint64_t)(58 + k);
        train(&s, NULL);
        assert_int_equal(hb_model_load(&of[k], s.output, NULL), 0);
    }
    /* the head's average is centred later */
    bool differ = false;
    for (size_t i = 0; i < hb_mlp_head(&m->basis).weight; i++) {
        double mean = ((double)of[0]->parameter[i] + (double)of[1]->parameter[i] + (double)of[2]->parameter[i]) / 3;
        assert_true(fabs((double)m->parameter[i] - mean) < 1e-6 + 1e-5 * fabs(mean));
        differ |= fabs((double)of[0]->parameter[i] - (double)of[2]->parameter[i]) > 1e-3;
    }
    assert_true(differ);
    for (int k = 0; k < 3; k++)
        hb_model_free(of[k]);
    hb_model_free(m);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/hilbert-test-run-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    write_data(in_folder("data.h5"), false);
    write_data(in_folder("logs.h5"), true);
    hb_settings s = small_run("reference");
    hb_run_result r = train(&s, NULL);
    return r.steps == s.steps && !r.stopped && access(in_folder("reference.checkpoint"), F_OK) != 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A model to go on from, without a step: the same network. Data of few vehicles leave it its prior. */
static void test_initial(void **state)
{
    (void)state;
    hb_settings s = small_run("first"), next = small_run("next");
    hb_error err = {0};
    hb_model *a = NULL, *b = NULL;
    hb_run_result r;

    train(&s, NULL);
    snprintf(next.initial, sizeof next.initial, "%s", in_folder("first"));
    snprintf(next.lag, sizeof next.lag, "0.05");
    next.controls = HB_CONTROLS_ACTING;
    next.nb = -1;
    next.hidden.n = 0;
    next.steps = 0;
    train(&next, NULL);
    assert_int_equal(hb_model_load(&a, in_folder("first"), &err), 0);
    assert_int_equal(hb_model_load(&b, in_folder("next"), &err), 0);
    assert_int_equal(a->nparameters, b->nparameters);
    assert_memory_equal(a->parameter, b->parameter, a->nparameters * sizeof *a->parameter);
    assert_memory_equal(a->state_mean, b->state_mean, 2 * sizeof(double));
    assert_true(a->has_prior && b->has_prior);
    assert_memory_equal(a->prior_covariance, b->prior_covariance, 9 * sizeof(double));
    assert_true(b->actuator_lag[0] == 0.05 && a->actuator_lag[0] == 0);
    hb_model_free(b);

    /* and it learns from there: after as many steps again, with a small rate, it is better */
    *next.lag = 0;
    next.steps = 60;
    next.learning_rate = 1e-3;
    snprintf(next.output, sizeof next.output, "%s", in_folder("better"));
    r = train(&next, NULL);
    snprintf(next.output, sizeof next.output, "%s", in_folder("same"));
    next.steps = 0;
    assert_true(r.validation.one_step < train(&next, NULL).validation.one_step);
    hb_model_free(a);

    /* what the file settles is not asked for again */
    next.nb = 4;
    assert_int_equal(hb_run(&next, &(hb_run_options){.quiet = true}, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "nb: that of"));
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* the authors' metric: from step 20 of each episode, all rollouts together, here one step of the average after another
 */
static void test_pooled_errors(void **state)
{
    enum { FIRST = 20, LONG = 10, ALL = FUNCTIONS * EPISODES };
    hb_settings s = small_run("pooled");
    hb_error err = {0};
    hb_model *m = NULL;
    hb_dataset *d = NULL;
    hb_pool *pool = NULL;
    hb_prediction_errors *e = NULL;
    hb_predictor *p = NULL;
    hb_workspace *w = NULL;
    double lower[LONG], median[LONG], upper[LONG], error[LONG][ALL] = {{0}};
    (void)state;

    train(&s, NULL);
    assert_int_equal(hb_model_load(&m, in_folder("pooled"), &err), 0);
    assert_int_equal(hb_dataset_read(&d, in_folder("data.h5"), NULL, &err), 0);
    assert_int_equal(hb_pool_new(&pool, 2, NULL, NULL, &err), 0);
    const hb_prediction_settings how = {.examples = 30, .rollouts = 5, .steps = LONG};
    assert_int_equal(hb_prediction_errors_new(&e, m, d, NULL, 0, &how, pool, &err), 0);
    assert_int_equal(hb_prediction_errors_pooled(e, false, FIRST, lower, median, upper, &err), 0);

    assert_int_equal(hb_predictor_new(&p, m, &err), 0);
    assert_int_equal(hb_workspace_new(&w, m, false, &err), 0);
    hb_predictor_set(p, NULL);
    assert_int_equal(d->nepisodes, ALL);
    for (int k = 0; k < ALL; k++) {
        const hb_episode *x = &d->episode[k];
        hb_real z[2 * HB_STRIDE] = {0}, u[HB_STRIDE] = {0}, dt[HB_STRIDE] = {0};
        for (int i = 0; i < 2; i++)
            z[i * HB_STRIDE] = (hb_real)((x->x[2 * FIRST + i] - m->state_mean[i]) / m->state_std[i]);
        for (int step = 0; step < LONG; step++) {
            hb_batch in = {.n = 1, .z = z, .u = u, .dt = dt};
            u[0] = (hb_real)((x->u[FIRST + step] - m->control_mean[0]) / m->control_std[0]);
            dt[0] = (hb_real)(x->time[FIRST + step + 1] - x->time[FIRST + step]);
            hb_predictor_step(p, w, &in, z, NULL);
            for (int i = 0; i < 2; i++)
                error[step][k] += pow((double)z[i * HB_STRIDE] -
                                          (x->x[2 * (FIRST + step + 1) + i] - m->state_mean[i]) / m->state_std[i],
                                      2) /
                                  2;
        }
    }
    for (int step = 0; step < LONG; step++) {
        qsort(error[step], ALL, sizeof error[step][0], by_size);
        double middle = (error[step][ALL / 2 - 1] + error[step][ALL / 2]) / 2;
        assert_true(fabs(median[step] - middle) < 1e-4 * middle);
        assert_true(lower[step] < median[step] && median[step] < upper[step]);
    }
    /* episodes that are too short have no rollout */
    assert_int_equal(hb_prediction_errors_pooled(e, true, STEPS, lower, median, upper, &err), 0);
    assert_true(isnan(median[0]));
    hb_workspace_free(w);
    hb_predictor_free(p);
    hb_prediction_errors_free(e);
    hb_pool_free(pool);
    hb_dataset_free(d);
    hb_model_free(m);
}

/* 20 functions with 150 MB of numbers in all: an oscillator's motion, cheaply made */
static void write_large(const char *path)
{
    enum { LARGE_STEPS = 62500, LARGE_EPISODES = 100 };
    char state[2][HB_NAME_SIZE] = {"x", "v"}, control[1][HB_NAME_SIZE] = {"u"}, unit[2][HB_NAME_SIZE] = {"", ""};
    hb_dataset_header h = {.nx = 2,
                           .nu = 1,
                           .dt = 0.1,
                           .state_name = state,
                           .state_unit = unit,
                           .control_name = control,
                           .control_unit = unit};
    hb_dataset_writer *w = NULL;
    hb_error err = {0};
    double *x = calloc(2 * (LARGE_STEPS + 1), sizeof *x), *u = calloc(LARGE_STEPS, sizeof *u);

    assert_int_equal(hb_dataset_writer_new(&w, path, &h, &err), 0);
    for (int e = 0; e < LARGE_EPISODES; e++) {
        double stiffness = 0.5 + 0.1 * (e / 5);
        hb_random_key key = {.seed = 4, .stream = (uint64_t)e};
        for (int k = 0; k < LARGE_STEPS; k++) {
            u[k] = hb_random_uniform(key, (uint64_t)k) - 0.5;
            x[2 * k + 3] = 0.95 * x[2 * k + 1] + 0.1 * (u[k] - stiffness * x[2 * k]);
            x[2 * k + 2] = x[2 * k] + 0.1 * x[2 * k + 3];
        }
        assert_int_equal(hb_dataset_writer_append(w, e / 5, LARGE_STEPS, x, u, NULL, NULL, &err), 0);
    }
    assert_int_equal(hb_dataset_writer_close(w, &err), 0);
    free(x);
    free(u);
}

/* kB at most of a process that trains with these settings */
static long memory_of_run(const hb_settings *s)
{
    struct rusage usage;
    int status = 1;
    pid_t child = fork();

    if (child == 0) {
        hb_run_result r;
        hb_error err = {0};
        _exit(hb_run(s, &(hb_run_options){.quiet = true}, &r, &err) ? 1 : 0);
    }
    assert_true(child > 0 && wait4(child, &status, 0, &usage) == child);
    assert_int_equal(status, 0);
    return usage.ru_maxrss;
}

/* The data stay on disk: the same bytes come of it, and memory is that of a small set and HB_STREAM_MEMORY at most. */
static void test_stream(void **state)
{
    hb_settings s = small_run("streamed"), small = small_run("of-small");
    (void)state;

    write_large(in_folder("large.h5"));
    s.steps = small.steps = 20;
    long little = memory_of_run(&small);
    snprintf(s.data, sizeof s.data, "%s", in_folder("large.h5"));
    s.stream = 1;
    long streamed = memory_of_run(&s);
    snprintf(s.output, sizeof s.output, "%s", in_folder("in-memory"));
    s.stream = 0;
    long whole = memory_of_run(&s);
    assert_same_files("streamed", "in-memory");
    assert_true(streamed < little + (HB_STREAM_MEMORY >> 10) + (16 << 10));
    assert_true(whole > little + (140 << 10));

    /* what changes controls cannot leave them in the file */
    hb_run_result r;
    hb_error err = {0};
    s.stream = 1;
    snprintf(s.lag, sizeof s.lag, "0.1");
    assert_int_equal(hb_run(&s, &(hb_run_options){.quiet = true}, &r, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--stream"));
    unlink(in_folder("large.h5"));
}

/* fits held by a prior that is made anew on the way: another result, and the same after an interruption */
static void test_fit_by_prior(void **state)
{
    hb_settings s = small_run("by-prior"), stopped = small_run("by-prior-stopped");
    hb_run_result r = {0};
    hb_error err = {0};
    (void)state;

    s.fit = stopped.fit = HB_FIT_BY_PRIOR;
    s.prior_every = stopped.prior_every = 20;
    r = train(&s, NULL);
    assert_true(r.steps == 60 && r.validation.one_step < 0.1);

    /* a checkpoint between two priors */
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_handler = ring};
        sigaction(SIGALRM, &action, NULL);
        alarm_rang = 0;
        stopped.checkpoint_every = 0;
        _exit(run_or_resume(&stopped, &alarm_rang, &r, &err) ? 1 : 0);
    }
    usleep(30000);
    kill(child, SIGALRM);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    stopped.checkpoint_every = 60;
    if (access(in_folder("by-prior-stopped"), F_OK) != 0 && run_or_resume(&stopped, NULL, &r, &err))
        fail_msg("%s", err.text);
    assert_same_files("by-prior", "by-prior-stopped");

    size_t n, m;
    char *with = read_file(in_folder("by-prior"), &n), *without = read_file(in_folder("reference"), &m);
    assert_true(n != m || memcmp(with, without, n) != 0);
    free(with);
    free(without);
}

static bool differ(const char *a, const char *b)
{
    size_t n, m;
    char *one = read_file(in_folder(a), &n), *other = read_file(in_folder(b), &m);
    /* the headers name the settings: the numbers stand behind them */
    size_t tail = 512;
    bool different = n < tail || m < tail || memcmp(one + n - tail, other + m - tail, tail) != 0;
    free(one);
    free(other);
    return different;
}

/* rollouts that grow are as long as those that do not once they have grown, and shorter before */
static void test_rollouts_grow(void **state)
{
    (void)state;
    hb_settings full = small_run("full-rollouts"), at_once = small_run("at-once"), half = small_run("half");
    full.rollout = at_once.rollout = half.rollout = 3;
    full.steps = at_once.steps = half.steps = 12;
    at_once.rollout_growth = 1e-3; /* of twelve steps: none */
    half.rollout_growth = 0.5;
    train(&full, NULL);
    train(&at_once, NULL);
    train(&half, NULL);
    assert_false(differ("full-rollouts", "at-once"));
    assert_true(differ("full-rollouts", "half"));

    /* the first step rolls out one transition instead of three, whose error is a fraction */
    full.steps = half.steps = 1;
    half.rollout_growth = 1;
    assert_true(train(&full, NULL).last.terms.query > 1.5 * train(&half, NULL).last.terms.query);
}

/* steps of 1 s, of which one was disturbed, and a prior of 7 s at the end */
static void test_seconds_of_a_log(void **state)
{
    static const double at[] = {5, 6, 7, 11, 12, 13, 20};
    enum { LINES = sizeof at / sizeof *at };
    hb_training_log_seconds seconds;
    hb_error err = {0};
    FILE *out = fopen(in_folder("seconds.jsonl"), "w");
    (void)state;

    assert_non_null(out);
    for (int i = 0; i < LINES; i++)
        fprintf(out, "{\"step\": %d, %s\"cpu_seconds\": %g}\n", i, i < LINES - 1 ? "" : "\"prior\": true, ", at[i]);
    fclose(out);
    assert_int_equal(hb_training_log_step_seconds(in_folder("seconds.jsonl"), &seconds, &err), 0);
    assert_true(fabs(seconds.usual - 1) < 1e-12);
    assert_true(fabs(seconds.longest - 4) < 1e-12);
    assert_true(fabs(seconds.end - 7) < 1e-12);

    /* of a run: the prior counts too */
    double wall, cpu;
    hb_settings s = small_run("timed");
    hb_run_result r = train(&s, NULL);
    assert_int_equal(hb_training_log_times(in_folder("timed.jsonl"), &wall, &cpu, &err), 0);
    assert_true(cpu > r.cpu_seconds);
}

static void test_patience(void **state)
{
    (void)state;
    hb_settings s = small_run("patient");
    s.learning_rate = 0;
    s.validate_every = 5;
    s.patience = 3;
    hb_run_result r = train(&s, NULL);
    /* the first validation is the best there is */
    assert_true(r.flat && !r.stopped);
    assert_int_equal(r.steps, 20);
    assert_int_equal(access(in_folder("patient"), F_OK), 0);
    s.learning_rate = 0.01;
    s.validate_every = 20;
    s.patience = 2;
    snprintf(s.output, sizeof s.output, "%s", in_folder("learns"));
    r = train(&s, NULL);
    assert_true(!r.flat && r.steps == 60);
}

int main(void)
{
    hb_numeric_single_thread();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_other_seed),
        cmocka_unit_test(test_stop_and_resume),
        cmocka_unit_test(test_stop_after_the_last_step),
        cmocka_unit_test(test_kill_and_resume),
        cmocka_unit_test(test_resume_refuses_other_data),
        cmocka_unit_test(test_kinds_learn),
        cmocka_unit_test(test_muon_and_the_rest),
        cmocka_unit_test(test_averaging),
        cmocka_unit_test(test_optimiser_by_itself),
        cmocka_unit_test(test_output_mask),
        cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_noise_of_logs),
        cmocka_unit_test(test_weights_by_change),
        cmocka_unit_test(test_verdict_of_late_controls),
        cmocka_unit_test(test_reference_without_held_back),
        cmocka_unit_test(test_given_average),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_initial),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_fit_by_prior),
        cmocka_unit_test(test_rollouts_grow),
        cmocka_unit_test(test_seconds_of_a_log),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_pooled_errors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
