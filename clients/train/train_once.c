#include "train/train_once.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool hb_train_once_done(const hb_settings *s)
{
    return access(s->output, F_OK) == 0;
}

static int check(const hb_model *m, const hb_settings *s, hb_error *err)
{
    hb_settings made;

    if (!hb_settings_of_notes(&made, m->notes))
        return hb_fail(err, EEXIST, "%s: it does not say how it was made: remove it, or use another folder", s->output);
    /* the same data may have another path today */
    snprintf(made.data, sizeof made.data, "%s", s->data);
    snprintf(made.validation, sizeof made.validation, "%s", s->validation);
    hb_error why = {0};
    if (hb_settings_same_result(&made, s, &why))
        return hb_fail(err, EEXIST, "%s: it was made with another %.*s: remove it, or use another folder", s->output,
                       (int)strcspn(why.text, ":"), why.text);
    return 0;
}

static int go_on(const hb_settings *s, const char *path, hb_run_options o, hb_run_result *result, hb_error *err)
{
    hb_checkpoint *c = NULL;
    hb_settings before;
    int status = hb_checkpoint_load(&c, path, err);

    if (!status) {
        hb_settings_default(&before);
        status = hb_settings_parse(&before, hb_checkpoint_settings(c), path, err);
    }
    if (!status) {
        snprintf(before.data, sizeof before.data, "%s", s->data);
        snprintf(before.validation, sizeof before.validation, "%s", s->validation);
        if (hb_settings_same_result(&before, s, err))
            status = hb_fail(err, EEXIST, "%s: of a run with other settings: remove it, or use another folder", path);
    }
    if (!status) {
        o.resume = c;
        status = hb_run(s, &o, result, err);
    }
    hb_checkpoint_free(c);
    return status;
}

int hb_train_once_run(const hb_settings *s, const hb_run_options *o, hb_train_once *ret, hb_error *err)
{
    char checkpoint[HB_PATH_SIZE], log[HB_PATH_SIZE];
    hb_run_result result = {0};
    int status = 0;

    *ret = (hb_train_once){0};
    hb_run_checkpoint_path(s, checkpoint);
    hb_run_log_path(s, log);
    if (access(checkpoint, F_OK) == 0)
        status = go_on(s, checkpoint, *o, &result, err);
    else if (!hb_train_once_done(s))
        status = hb_run(s, o, &result, err);
    if (status || result.stopped)
        return status;
    if ((status = hb_training_log_times(log, &ret->seconds, &ret->cpu_seconds, err)) ||
        (status = hb_model_load(&ret->model, s->output, err)))
        return status;
    if ((status = check(ret->model, s, err))) {
        hb_model_free(ret->model);
        ret->model = NULL;
    }
    return status;
}
