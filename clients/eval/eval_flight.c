/* hilbert-eval flight: what happened in a recorded flight. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "eval/eval.h"
#include "eval/flight.h"

typedef struct options {
    const char *output, *model;
    bool force, text;
} options;

static void print_help(void)
{
    printf("usage: hilbert-eval flight FILE.mcap... --output FILE.html [options]\n\n"
           "Makes a page of what people look at after a flight, from a recording of hilbertd: state against target,\n"
           "predicted against actual, coefficients with their uncertainty, errors, statuses, latency, controls. It is "
           "one\n"
           "file that any browser opens without a network, to zoom, to hover, dark or light. Files of one flight are "
           "given\n"
           "in their order.\n\n"
           "  -o, --output FILE    where to write\n"
           "      --model FILE     the model of the flight, for predictions [where the recording says it was]\n"
           "      --text           print the table and write nothing; --output is not needed then\n"
           "      --force          write over a file that exists\n"
           "  -h, --help           this text\n");
}

/* Before the work: the file is not there, or may be written over. */
static int may_write(const options *o, hb_error *err)
{
    struct stat there;

    if (stat(o->output, &there))
        return 0;
    if (S_ISDIR(there.st_mode))
        return hb_fail(err, EISDIR, "%s: is a folder: name a file", o->output);
    if (!o->force)
        return hb_fail(err, EEXIST, "%s exists: name another --output, or add --force", o->output);
    return 0;
}

/* Predictions need the model; without it, `why` says so. A model that was asked for must do. */
static int predict(const options *o, const hb_recorded_flight *f, hb_flight_prediction *p, char why[512], hb_error *err)
{
    hb_model *m = NULL;
    int r = hb_model_load(&m, o->model ? o->model : f->model, err);

    if (!r)
        r = hb_flight_predict(p, f, m, err);
    hb_model_free(m);
    if (r && !o->model) {
        snprintf(why, 512, "Nothing is predicted: %.400s (--model names the file)", err->text);
        return 0;
    }
    if (!r && !p->n)
        snprintf(why, 512, "Nothing is predicted: there is no telemetry without gaps.");
    return r;
}

static int report(const options *o, const hb_recorded_flight *f, hb_error *err)
{
    hb_flight_prediction p = {0};
    hb_flight_summary s;
    char why[512] = "";
    int r = predict(o, f, &p, why, err);

    if (r)
        return r;
    hb_recorded_flight_summarise(&s, f);
    hb_flight_print(f, &s, &p, stdout);
    if (*why)
        printf("\n%s\n", why);
    if (!o->text) {
        r = hb_flight_write_page(f, &s, &p, *why ? why : NULL, o->output, err);
        if (!r)
            printf("\n%s is written\n", o->output);
    }
    hb_flight_prediction_free(&p);
    return r;
}

int hb_eval_flight(int argc, char **argv)
{
    options o = {0};
    const hb_option table[] = {{"output", HB_OPTION_TEXT, &o.output, 0, 0, 'o'},
                               {"model", HB_OPTION_TEXT, &o.model, 0, 0, 0},
                               {"text", HB_OPTION_FLAG, &o.text, 0, 0, 0},
                               {"force", HB_OPTION_FLAG, &o.force, 0, 0, 0}};
    hb_recorded_flight *f = NULL;
    hb_error err = {0};
    int code = hb_eval_options(table, sizeof table / sizeof *table, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (optind == argc || (!o.output && !o.text)) {
        fprintf(stderr, "hilbert-eval: flight wants a recording and --output (try --help)\n");
        return HB_EXIT_USAGE;
    }
    int r = o.text ? 0 : may_write(&o, &err);
    if (!r)
        r = hb_recorded_flight_read(&f, (const char *const *)argv + optind, argc - optind, &err);
    if (!r && !f->nsamples && !f->nreplies)
        r = hb_fail(&err, EINVAL, "%s: neither samples nor replies were recorded", argv[optind]);
    if (!r)
        r = report(&o, f, &err);
    hb_recorded_flight_free(f);
    return r ? hb_eval_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
