#include "server/in_force.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/monotonic.h"
#include "config/config_edit.h"
#include "process/machine.h"
#include "server/shadow.h"

int hb_in_force_new(hb_in_force *f, hb_log *log)
{
    *f = (hb_in_force){
        .log = log,
        .config = calloc(1, sizeof *f->config),
        .next = calloc(1, sizeof *f->next),
        .spare = calloc(1, sizeof *f->spare),
        .shadow_settings = calloc(1, sizeof *f->shadow_settings),
        .errors = calloc(1, sizeof *f->errors),
        .order = calloc(1, sizeof *f->order),
        .changed = calloc(HB_CHANGED_KEYS, sizeof *f->changed),
    };
    hb_notify_inherited(&f->inherited);
    return f->config && f->next && f->spare && f->shadow_settings && f->errors && f->order && f->changed ? 0 : -ENOMEM;
}

void hb_in_force_free(hb_in_force *f)
{
    hb_model_free(f->shadow_model);
    hb_model_free(f->model);
    free(f->changed);
    free(f->order);
    free(f->errors);
    free(f->shadow_settings);
    free(f->spare);
    free(f->next);
    free(f->config);
}

/* ---- reading ---- */

/* What the configuration means for the shadow's model; its errors go to *errors, with the place of shadow.model. */
static int understand_shadow(const hb_config *c, const hb_model *model, const hb_model *shadow,
                             hb_controller_settings *ret, hb_config_errors *errors)
{
    hb_config *own = malloc(sizeof *own);
    hb_config_errors *wrong = malloc(sizeof *wrong);
    hb_error err = {0};
    const char *why = "out of memory";

    if (own && wrong) {
        *own = *c;
        why = hb_shadow_fits(model, shadow, &err)          ? err.text
              : hb_config_resolve(own, shadow, wrong) != 0 ? wrong->text[0]
                                                           : NULL;
    }
    if (why)
        hb_config_error(errors, c, c->mark[hb_config_find("shadow.model")], "shadow.model", "%s", why);
    else
        *ret = own->controller;
    free(wrong);
    free(own);
    return errors->n;
}

/* Loads it too, where the configuration names one. */
static int load_shadow(const hb_config *c, const hb_model *model, hb_model **shadow, hb_controller_settings *ret,
                       hb_config_errors *errors)
{
    hb_error err;

    if (!*c->shadow.model)
        return 0;
    if (!*shadow && hb_model_load(shadow, c->shadow.model, &err))
        hb_config_error(errors, c, c->mark[hb_config_find("shadow.model")], "shadow.model", "%s", err.text);
    else
        understand_shadow(c, model, *shadow, ret, errors);
    return errors->n;
}

/* The model that gives a configuration's names a meaning, and all that can be said of both on this machine. Returns the
 * number of errors. */
static int understand(hb_config *c, hb_model **model, const hb_inherited *inherited, hb_config_errors *errors)
{
    hb_error err;

    *errors = (hb_config_errors){0};
    if (!*model && hb_model_load(model, c->model, &err))
        hb_config_error(errors, c, c->mark[hb_config_find("model")], "model", "%s", err.text);
    else if (!hb_config_resolve(c, *model, errors))
        hb_machine_check(c, *model, inherited, errors);
    return errors->n;
}

int hb_in_force_load(hb_in_force *f, const char *file)
{
    int wrong = hb_config_load(f->config, file, f->errors);

    if (!wrong) {
        hb_notify("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=loading %s", f->config->model);
        wrong = understand(f->config, &f->model, &f->inherited, f->errors);
    }
    if (!wrong)
        wrong = load_shadow(f->config, f->model, &f->shadow_model, f->shadow_settings, f->errors);
    return wrong;
}

char *hb_in_force_text(const hb_config *c)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    hb_config_print(c, false, out);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- reload ---- */

/* Says whether a restart with what was read for a reload would fail: its other keys hold only then. */
static void foresee_restart(hb_in_force *f)
{
    hb_model *other = NULL, *shadow = NULL;
    bool same = strcmp(f->next->model, f->config->model) == 0;
    hb_model **model = same ? &f->model : &other;

    *f->spare = *f->next;
    if (understand(f->spare, model, &f->inherited, f->errors) ||
        load_shadow(f->spare, *model, &shadow, &f->order->shadow_settings, f->errors)) {
        hb_log_line(f->log, HB_LOG_ERROR, "reload: a restart would fail: %s", f->errors->text[0]);
        snprintf(f->order->restart_error, sizeof f->order->restart_error, "%s", f->errors->text[0]);
    }
    hb_model_free(shadow);
    hb_model_free(other);
}

/* What in f->next can change now, as an order; *text is its recording's. */
static void order_next(hb_in_force *f, char **text)
{
    hb_order *order = f->order;

    *f->spare = *f->config;
    order->nrestart = hb_config_merge(f->spare, f->next, order->restart);
    hb_config_resolve(f->spare, f->model, f->errors);
    order->settings = f->spare->controller;
    if (f->shadow_model && understand_shadow(f->spare, f->model, f->shadow_model, &order->shadow_settings, f->errors))
        order->error = f->errors->text[0];
    order->status_period = f->spare->status_period;
    order->configuration = *text = hb_in_force_text(f->spare);
}

void hb_in_force_reload(hb_in_force *f)
{
    hb_order *order = f->order;
    char *text = NULL;
    hb_error err;

    hb_notify("RELOADING=1\nMONOTONIC_USEC=%.0f\nSTATUS=reloading", 1e6 * hb_now());
    *order = (hb_order){0};
    if (hb_config_load(f->next, f->config->file, f->errors) || hb_config_resolve(f->next, f->model, f->errors)) {
        for (int i = 0; i < f->errors->n && i < HB_CONFIG_ERRORS; i++)
            hb_log_line(f->log, HB_LOG_ERROR, "reload: %s", f->errors->text[i]);
        order->error = f->errors->text[0];
    } else {
        for (int i = 0; i < f->next->warnings.n; i++)
            hb_log_line(f->log, HB_LOG_WARNING, "reload: %s", f->next->warnings.text[i]);
        foresee_restart(f);
        order_next(f, &text);
    }
    if (hb_server_order(f->server, order, &err)) {
        hb_log_line(f->log, HB_LOG_ERROR, "reload: nothing was changed%s: %s",
                    order->error ? ", and a restart would fail" : "", err.text);
    } else {
        *f->config = *f->spare;
        *f->shadow_settings = order->shadow_settings;
        atomic_store(&f->log->level, f->config->log_level);
        hb_log_line(f->log, HB_LOG_NOTICE, "reload: done%s",
                    f->nchanged ? "; keys that were set on request are the file's again" : "");
        f->nchanged = 0;
        for (int i = 0; i < order->nrestart; i++)
            hb_log_line(f->log, HB_LOG_WARNING, "reload: %s changed, which holds only after a restart",
                        order->restart[i]);
    }
    free(text);
    hb_notify("READY=1\nSTATUS=reloaded");
}

/* ---- keys that clients change ---- */

/* The file's text with `n` keys changed; allocated, NULL with the reason. File values of the keys are filled in. */
static char *changed_text(hb_in_force *f, hb_changed_key *changed, int n, hb_error *err)
{
    char *text = hb_config_read_text(f->config->file, err), *defaults = NULL;

    if (text && n) {
        hb_config_default(f->spare);
        defaults = hb_in_force_text(f->spare);
    }
    for (int i = 0; i < n && text; i++) {
        char *next = NULL, *before = NULL;
        if (hb_config_lookup(text, changed[i].key, &before, NULL) == 0)
            snprintf(changed[i].file_value, sizeof changed[i].file_value, "%s", before ? before : "");
        if (hb_config_edit(text, changed[i].key, changed[i].value, defaults, &next, err)) {
            char why[sizeof err->text];
            snprintf(why, sizeof why, "%s", err->text);
            hb_fail(err, EINVAL, "%s: %.400s", changed[i].key, why);
        }
        free(before);
        free(text);
        text = next;
    }
    free(defaults);
    return text;
}

/* The row of the table that a key is of, or is in: cost of cost.distance.weight; -1: none. */
static int row_of(const char *key)
{
    char name[HB_EDIT_KEY];

    snprintf(name, sizeof name, "%s", key);
    while (hb_config_find(name) < 0) {
        char *dot = strrchr(name, '.');
        if (!dot)
            return -1;
        *dot = 0;
    }
    return hb_config_find(name);
}

/* An error of the file with a key changed, without its place: that would be in a text that nobody wrote. */
static int as_of_key(const hb_in_force *f, const char *key, hb_error *err)
{
    const char *text = f->errors->text[0], *file = f->config->file;
    const size_t n = strlen(file);

    if (strncmp(text, file, n) == 0 && text[n] == ':')
        text += n + strspn(text + n, ":0123456789 ");
    return strncmp(text, key, strlen(key)) ? hb_fail(err, EINVAL, "%s: %s", key, text)
                                           : hb_fail(err, EINVAL, "%s", text);
}

/* Puts the file with these keys changed in force, because a client asked for one of them, or (NULL) its time is over.
 */
static int put_in_force(hb_in_force *f, hb_changed_key *changed, int n, const char *asked, hb_error *err)
{
    char *text = changed_text(f, changed, n, err), *recorded = NULL;
    int r = text ? 0 : -EINVAL;

    *f->order = (hb_order){.setting = asked, .unasked = !asked};
    if (!r && (hb_config_parse(f->next, f->config->file, text, strlen(text), f->errors) ||
               hb_config_resolve(f->next, f->model, f->errors)))
        r = asked ? as_of_key(f, asked, err) : hb_fail(err, EINVAL, "%s", f->errors->text[0]);
    if (!r)
        order_next(f, &recorded);
    if (r)
        f->order->error = err->text;
    hb_error why;
    if (hb_server_order(f->server, f->order, &why)) {
        *err = why;
        r = -EINVAL;
    } else if (!r) {
        *f->config = *f->spare;
        *f->shadow_settings = f->order->shadow_settings;
        atomic_store(&f->log->level, f->config->log_level);
        memmove(f->changed, changed, (size_t)n * sizeof *changed);
        f->nchanged = n;
    }
    free(recorded);
    free(text);
    return r;
}

void hb_in_force_set(hb_in_force *f, const hb_setting_wish *wish)
{
    hb_changed_key *next = calloc(HB_CHANGED_KEYS + 1, sizeof *next);
    const int row = row_of(wish->key);
    hb_error err = {0};
    int n = 0, r = 0;

    for (int i = 0; next && i < f->nchanged; i++)
        if (strcmp(f->changed[i].key, wish->key))
            next[n++] = f->changed[i];
    if (!next)
        r = hb_fail(&err, ENOMEM, "out of memory");
    else if (row < 0)
        r = hb_fail(&err, EINVAL, "%s: there is no such key", wish->key);
    else if (!hb_config_row(row).live)
        r = hb_fail(&err, EINVAL, "%s: holds only after a restart: change it in %s", wish->key, f->config->file);
    else if (!*wish->value && n == f->nchanged)
        r = hb_fail(&err, EINVAL, "%s: was not set: it is the file's", wish->key);
    else if (*wish->value && n == HB_CHANGED_KEYS)
        r = hb_fail(&err, EINVAL, "%d keys are set by now: save them first", n);
    if (!r && *wish->value) {
        hb_changed_key *new = &next[n++];
        memcpy(new->key, wish->key, sizeof new->key);
        memcpy(new->value, wish->value, sizeof new->value);
        memcpy(new->by, wish->by, sizeof new->by);
        new->until = wish->seconds > 0 ? hb_now() + wish->seconds : 0;
    }
    if (r) {
        *f->order = (hb_order){.setting = true, .error = err.text};
        hb_error told;
        hb_server_order(f->server, f->order, &told);
    } else
        r = put_in_force(f, next, n, wish->key, &err);
    if (r)
        hb_log_line(f->log, HB_LOG_WARNING, "set: nothing was changed for %s: %s", wish->by, err.text);
    else if (!*wish->value)
        hb_log_line(f->log, HB_LOG_NOTICE, "set by %s: %s is the file's again", wish->by, wish->key);
    else if (wish->seconds > 0)
        hb_log_line(f->log, HB_LOG_NOTICE, "set by %s: %s is %s for %g s", wish->by, wish->key, wish->value,
                    wish->seconds);
    else
        hb_log_line(f->log, HB_LOG_NOTICE, "set by %s: %s is %s until a reload or a restart", wish->by, wish->key,
                    wish->value);
    free(next);
}

void hb_in_force_tell(hb_in_force *f)
{
    enum { MOST_LINES = 2 * HB_CONFIG_ROWS };
    char *text = hb_in_force_text(f->config), *line[MOST_LINES], *save = NULL;
    int n = 0;

    for (char *at = strtok_r(text ? text : (char[]){""}, "\n", &save); at && n < MOST_LINES;
         at = strtok_r(NULL, "\n", &save))
        line[n++] = at;
    const hb_settings_told told = {.file = f->config->file,
                                   .line = line,
                                   .nlines = n,
                                   .changed = f->changed,
                                   .nchanged = f->nchanged,
                                   .now = hb_now()};
    hb_error err;

    *f->order = (hb_order){.setting = true, .told = &told};
    hb_server_order(f->server, f->order, &err);
    free(text);
}

double hb_in_force_expire(hb_in_force *f)
{
    double now = hb_now(), next = -1;
    hb_changed_key *left = NULL;
    int n = 0;

    for (int i = 0; i < f->nchanged; i++) {
        const hb_changed_key *c = &f->changed[i];
        if (c->until > 0 && c->until <= now && !left && !(left = calloc(HB_CHANGED_KEYS, sizeof *left)))
            return 1; /* again in a second */
        if (c->until > 0 && c->until > now && (next < 0 || c->until - now < next))
            next = c->until - now;
    }
    for (int i = 0; left && i < f->nchanged; i++) {
        if (f->changed[i].until > 0 && f->changed[i].until <= now)
            hb_log_line(f->log, HB_LOG_NOTICE, "%s is the file's again", f->changed[i].key);
        else
            left[n++] = f->changed[i];
    }
    hb_error err = {0};
    if (left && put_in_force(f, left, n, NULL, &err)) {
        hb_log_line(f->log, HB_LOG_ERROR, "the file's values could not be put in force: %s", err.text);
        next = 1;
    }
    free(left);
    return next;
}

/* ---- promotion ---- */

void hb_in_force_exchange(hb_in_force *f)
{
    hb_model *model = f->model;

    f->model = f->shadow_model;
    f->shadow_model = model;
    *f->spare = *f->config;
    f->config->controller = *f->shadow_settings;
    *f->shadow_settings = f->spare->controller;
    memcpy(f->config->model, f->spare->shadow.model, sizeof f->config->model);
    memcpy(f->config->shadow.model, f->spare->model, sizeof f->config->shadow.model);
}
