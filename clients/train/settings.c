#include "train/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/yaml_file.h"
#include "model/safetensors.h"

const char *const hb_kind_name[] = {
#define X(id, name, help) name,
    HB_KINDS(X)
#undef X
        NULL};
const char *const hb_kind_help[] = {
#define X(id, name, help) help,
    HB_KINDS(X)
#undef X
        NULL};
static const char *const decay_name[] = {"none", "cosine", NULL};
static const char *const optimiser_name[] = {"adam", "muon", NULL};
static const char *const weighting_name[] = {"alike", "each", "change", NULL};
static const char *const headings_name[] = {"logged", "any", NULL};
static const char *const fit_name[] = {"ridge", "prior", NULL};
static const char *const stream_name[] = {"no", "yes", NULL};
static const char *const yes_or_no[] = {"no", "yes", NULL};
static const char *const controls_name[] = {"commanded", "acting", NULL};

typedef enum { TEXT, INTEGER, COUNT, NUMBER, CHOICE, WIDTHS } type;

typedef struct setting {
    const char *name;
    type type;
    size_t offset;
    double min, max;
    const char *const *choice; /* of CHOICE */
    const char *initial;       /* default, as text */
    bool changes_result;
    const char *help;
} setting;

#define AT(field) offsetof(hb_settings, field)

/* sections of the help stand where a name is NULL */
static const setting table[] = {
    {.help = "Files"},
    {"data", TEXT, AT(data), 0, 0, NULL, "", true,
     "data set to train on (HDF5); several files and patterns, joined by commas, are one"},
    {"validation", TEXT, AT(validation), 0, 0, NULL, "", true, "data set of held-out functions; else --hold-out"},
    {"hold-out", INTEGER, AT(hold_out), -1, 1e6, NULL, "-1", true,
     "functions of the data kept for validation; -1: a tenth"},
    {"map", TEXT, AT(map), 0, 0, NULL, "", true,
     "how to read a foreign data set: key=value;key=value (hilbert-train data --help)"},
    {"headings", CHOICE, AT(headings), 0, 0, headings_name, "", true,
     "any: each example is turned about the vertical by an angle of its own, since physics does not depend on where "
     "the "
     "nose points (but wind does: logged); needs states vx, vy, qx, qy, qz, qw. \"\": any for logs of mostly one "
     "heading "
     "with a vehicle's nominal physics, else logged"},
    {"initial", TEXT, AT(initial), 0, 0, NULL, "", true,
     "basis file to start from: its sizes, normalisation and parameters are taken (start with a tenth of the learning "
     "rate)"},
    {"output", TEXT, AT(output), 0, 0, NULL, "model.safetensors", false, "the basis file to write"},
    {"checkpoint", TEXT, AT(checkpoint), 0, 0, NULL, "", false,
     "checkpoint file; \"\": the output's name and .checkpoint"},
    {"log", TEXT, AT(log), 0, 0, NULL, "", false, "JSON lines; \"\": the output's name and .jsonl"},
    {"plot", TEXT, AT(plot), 0, 0, NULL, "", false,
     "draw training curves to this name, with .svg and .png (needs gnuplot)"},

    {.help = "Model"},
    {"kind", CHOICE, AT(kind), 0, 0, hb_kind_name, "shared", true, "which model"},
    {"nb", INTEGER, AT(nb), -1, 4096, NULL, "-1", true,
     "basis functions; -1: for shared twice the hidden parameters that the data name, 8 to 32; 100 for the paper's"},
    {"hidden", WIDTHS, AT(hidden), 1, 4096, NULL, "", true,
     "hidden layers; \"\": 64,64,64 (shared; 192,192,192 for more than 14 states), 51,51,51,51 (the paper's), "
     "512,512,512,512 "
     "(node)"},
    {"activation", CHOICE, AT(activation), 0, 0, hb_activation_name, "", true,
     "\"\": silu for shared, relu for the paper's"},
    {"integration", CHOICE, AT(integration), 0, 0, hb_integration_name, "", true,
     "how increments come from networks: separate or combined RK4, or direct (no ODE: for one period only); \"\": the "
     "kind's own"},
    {"average", TEXT, AT(average), 0, 0, NULL, "", true,
     "F_avg: none, head (shared), network, FILE.yaml[:parameter=value,...] (physics as expressions), "
     "nominal:NAME[:parameter=value,...], or a basis file to copy and freeze; \"\": the kind's own"},
    {"average-hidden", WIDTHS, AT(average_hidden), 1, 4096, NULL, "", true,
     "hidden layers of the average network; \"\": as hidden"},
    {"angles", TEXT, AT(angles), 0, 0, NULL, "", true,
     "states that are angles in radians, comma-separated: they wrap from pi to -pi"},
    {"inputs", TEXT, AT(inputs), 0, 0, NULL, "", true,
     "states that feed the networks, comma-separated, or all; -NAME leaves one out; \"\": by the data, see below"},
    {"outputs", TEXT, AT(outputs), 0, 0, NULL, "", true,
     "states that basis functions act on, likewise, or all; \"\": all but those whose rate a nominal average knows "
     "exactly "
     "(position, attitude)"},
    {"method", CHOICE, AT(method), 0, 0, hb_method_name, "least_squares", true, "how coefficients come from examples"},
    {"coefficients", CHOICE, AT(shape), 0, 0, hb_shape_name, "vector", true, "their shape"},
    {"ridge", NUMBER, AT(ridge), 0, 1e6, NULL, "0.0001", true, "lambda of least squares"},
    {"join", INTEGER, AT(join), 0, 4096, NULL, "0", true,
     "with a coefficient for each state: after training the principal components of all states' coefficients become "
     "so many basis functions with one coefficient each; 0: no"},
    {"constants", CHOICE, AT(constants), 0, 0, yes_or_no, "no", true,
     "yes: beside what was learned, a constant in the rate of each state that basis functions act on, for what they "
     "cannot say"},
    {"volume", NUMBER, AT(volume), 1e-12, 1e12, NULL, "1", true, "V of the inner product"},
    {"substeps", INTEGER, AT(substeps), 1, 100, NULL, "1", true, "RK4 steps per control period"},
    {"delay", TEXT, AT(delay), 0, 0, NULL, "", true,
     "seconds until a command begins to act, one number or one for each control: goes into the basis file"},
    {"lag", TEXT, AT(lag), 0, 0, NULL, "", true, "time constant of the actuators behind the delay, in the same form"},
    {"controls", CHOICE, AT(controls), 0, 0, controls_name, "commanded", true,
     "what the data's controls are, where there is a delay or a lag: commands, which become what acts, or that "
     "already"},
    {"identify", CHOICE, AT(identify), 0, 0, yes_or_no, "", true,
     "with physics as the average: find its parameters, and delay and lag of the controls, as far as neither options "
     "nor data say them (hilbert-train identify); \"\": where the data are logs, not a simulator's with parameters "
     "hidden"},

    {.help = "Loss"},
    {"functions", INTEGER, AT(functions), 1, 1e6, NULL, "16", true, "functions in a step (the paper: 50)"},
    {"examples", INTEGER, AT(examples), 1, 1e6, NULL, "100", true, "example points of each (the paper: 200)"},
    {"queries", INTEGER, AT(queries), 1, 1e6, NULL, "100", true, "query points of each (the paper: 800)"},
    {"rollout", INTEGER, AT(rollout), 1, 1000, NULL, "1", true, "transitions that each query point is rolled out for"},
    {"rollout-growth", NUMBER, AT(rollout_growth), 0, 1, NULL, "0", true,
     "part of the steps over which rollouts grow from one transition to that length; 0: none"},
    {"refinements", INTEGER, AT(refinements), 0, HB_MAX_REFINEMENTS, NULL, "0", true,
     "further fits of a shared model's coefficients, along the model that the last one gave, as in flight"},
    {"regulariser", NUMBER, AT(regulariser), 0, 1e6, NULL, "0.1", true,
     "weight of mean((diag A - 1)^2), with least squares"},
    {"matryoshka", NUMBER, AT(matryoshka), 0, 1e6, NULL, "0", true,
     "weight of the loss of the first n basis functions alone, n drawn at each step"},
    {"weighting", CHOICE, AT(weighting), 0, 0, weighting_name, "alike", true,
     "errors of all states count by their deviation in the data; or each by what the untrained average leaves of it in "
     "a step; or each by how much it changes over a rollout"},
    {"fit", CHOICE, AT(fit), 0, 0, fit_name, "ridge", true,
     "what holds the fits of the training itself: the ridge, or the prior of the functions' coefficients, as it is at "
     "the time"},
    {"prior-every", COUNT, AT(prior_every), 1, 1e12, NULL, "1000", true, "steps from one such prior to the next"},

    {.help = "Optimiser"},
    {"steps", COUNT, AT(steps), 0, 1e12, NULL, "10000", true, "gradient steps"},
    {"learning-rate", NUMBER, AT(learning_rate), 0, 10, NULL, "0.01", true, "of Adam (the paper: 0.001)"},
    {"decay", CHOICE, AT(decay), 0, 0, decay_name, "cosine", true,
     "cosine: the learning rate falls to zero over the steps (the paper: none)"},
    {"optimiser", CHOICE, AT(optimiser), 0, 0, optimiser_name, "", true,
     "muon: steps of first and hidden layers are orthogonal matrices, as large as Adam's; the rest is Adam's. \"\": "
     "muon for shared models of more than 14 states, else adam"},
    {"averaging", NUMBER, AT(averaging), 0, 1, NULL, "0", true,
     "part of the steps, at the end, whose mean parameters the model gets; 0: those of the last step"},
    {"clip", NUMBER, AT(clip), 0, 1e12, NULL, "1", true, "norm of the gradient at most; 0: no limit"},
    {"seed", COUNT, AT(seed), 0, 1.9e19, NULL, "0", true, "of parameters and draws"},

    {.help = "Run"},
    {"threads", INTEGER, AT(threads), 0, 1024, NULL, "0", false, "0: as many as there are processors"},
    {"stream", CHOICE, AT(stream), 0, 0, stream_name, "no", false,
     "yes: the data stay on disk, for sets larger than memory; of each about 64 MB are in memory at a time"},
    {"patience", INTEGER, AT(patience), 0, 1e6, NULL, "0", false,
     "end when so many validations in a row were not better than the best by 1 %; 0: never"},
    {"validate-every", COUNT, AT(validate_every), 1, 1e12, NULL, "500", false, "steps from validation to validation"},
    {"log-every", NUMBER, AT(log_every), 0, 1e9, NULL, "20", false, "steps from line to line of the log"},
    {"checkpoint-every", NUMBER, AT(checkpoint_every), 0, 1e9, NULL, "60", false,
     "seconds from checkpoint to checkpoint"},
};

enum { NSETTINGS = sizeof table / sizeof *table };
_Static_assert((int)NSETTINGS <= (int)HB_MOST_SETTINGS, "there are more settings than room for them");

static const setting *find(const char *name)
{
    for (int i = 0; i < NSETTINGS; i++)
        if (table[i].name && strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static int set_choice(const setting *t, int *to, const char *text, hb_error *err)
{
    char known[300] = "";

    /* an empty default means: the kind's own */
    if (!*text && !*t->initial) {
        *to = -1;
        return 0;
    }
    for (int i = 0; t->choice[i]; i++) {
        if (strcmp(t->choice[i], text) == 0) {
            *to = i;
            return 0;
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", t->choice[i]);
    }
    return hb_fail(err, EINVAL, "%s: '%s' is not one of %s", t->name, text, known);
}

static int read_number(const setting *t, const char *text, double *ret, hb_error *err)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);

    if (end == text || *end || errno || !isfinite(value) || (t->type != NUMBER && value != floor(value)))
        return hb_fail(err, EINVAL, "%s: '%s' is not a%s number", t->name, text, t->type == NUMBER ? "" : " whole");
    if (value < t->min || value > t->max)
        return hb_fail(err, EINVAL, "%s: %s is not in %g..%g", t->name, text, t->min, t->max);
    *ret = value;
    return 0;
}

static int set_widths(const setting *t, hb_widths *to, const char *text, hb_error *err)
{
    hb_widths widths = {0};
    char copy[256], *save, *item;

    if (strlen(text) >= sizeof copy)
        return hb_fail(err, EINVAL, "%s: too long", t->name);
    strcpy(copy, text);
    for (item = strtok_r(copy, ", ", &save); item; item = strtok_r(NULL, ", ", &save)) {
        double value = 0;
        int status = read_number(t, item, &value, err);
        if (status)
            return status;
        if (widths.n == HB_MAX_HIDDEN)
            return hb_fail(err, EINVAL, "%s: more than %d layers", t->name, HB_MAX_HIDDEN);
        widths.width[widths.n++] = (int)value;
    }
    *to = widths;
    return 0;
}

/* whole numbers of 64 bits, which a double cannot hold */
static int set_count(const setting *t, uint64_t *to, const char *text, hb_error *err)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    double ignored;

    if (*text >= '0' && *text <= '9' && !*end && !errno) {
        if ((double)value < t->min || (double)value > t->max)
            return hb_fail(err, EINVAL, "%s: %s is not in %g..%g", t->name, text, t->min, t->max);
        *to = value;
        return 0;
    }
    /* 1e5 is a whole number too */
    int status = read_number(t, text, &ignored, err);
    if (!status)
        *to = (uint64_t)ignored;
    return status;
}

static int set_value(hb_settings *s, const setting *t, const char *text, hb_error *err)
{
    char *at = (char *)s + t->offset;
    double value;
    int status = 0;

    switch (t->type) {
    case TEXT:
        if (strlen(text) >= HB_PATH_SIZE)
            return hb_fail(err, EINVAL, "%s: longer than %d characters", t->name, HB_PATH_SIZE - 1);
        if (strchr(text, '\n'))
            return hb_fail(err, EINVAL, "%s: must be one line", t->name);
        strcpy(at, text);
        return 0;
    case CHOICE:
        return set_choice(t, (int *)(void *)at, text, err);
    case WIDTHS:
        return set_widths(t, (hb_widths *)(void *)at, text, err);
    case COUNT:
        return set_count(t, (uint64_t *)(void *)at, text, err);
    case INTEGER:
        status = read_number(t, text, &value, err);
        if (!status)
            *(int *)(void *)at = (int)value;
        return status;
    case NUMBER:
        status = read_number(t, text, &value, err);
        if (!status)
            *(double *)(void *)at = value;
        return status;
    }
    return status;
}

void hb_settings_default(hb_settings *s)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < NSETTINGS; i++)
        if (table[i].name)
            set_value(s, &table[i], table[i].initial, NULL);
}

int hb_settings_set(hb_settings *s, const char *name, const char *text, hb_error *err)
{
    const setting *t = find(name);
    if (!t)
        return hb_fail(err, EINVAL, "there is no setting '%s' (hilbert-train --help lists them)", name);
    int status = set_value(s, t, text, err);
    s->given[t - table] = s->given[t - table] || !status;
    return status;
}

/* the settings are what follows the two first lines */
bool hb_settings_of_notes(hb_settings *ret, const char *notes)
{
    hb_settings made;
    const char *text = notes ? notes : "";

    for (int line = 0; line < 2 && text; line++)
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    hb_settings_default(&made);
    if (!text || hb_settings_parse(&made, text, "notes", NULL))
        return false;
    *ret = made;
    return true;
}

bool hb_settings_given(const hb_settings *s, const char *name)
{
    const setting *t = find(name);
    return t && s->given[t - table];
}

/* the value of a key: a scalar, or a list of scalars joined by commas */
static int read_value(yaml_document_t *d, const yaml_node_t *node, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    if (node->type == YAML_SCALAR_NODE)
        return snprintf(text, size, "%s", (const char *)node->data.scalar.value) < (int)size ? 0 : -1;
    if (node->type != YAML_SEQUENCE_NODE)
        return -1;
    for (const yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        const yaml_node_t *item = yaml_document_get_node(d, *i);
        if (!item || item->type != YAML_SCALAR_NODE)
            return -1;
        int written =
            snprintf(text + used, size - used, "%s%s", used ? "," : "", (const char *)item->data.scalar.value);
        if (written < 0 || (size_t)written >= size - used)
            return -1;
        used += (size_t)written;
    }
    return 0;
}

static int read_document(hb_settings *s, yaml_document_t *d, const char *path, hb_error *err)
{
    const yaml_node_t *root = yaml_document_get_root_node(d);
    char text[HB_PATH_SIZE];

    if (!root)
        return 0;
    if (root->type != YAML_MAPPING_NODE)
        return hb_fail(err, EINVAL, "%s:1: expected lines of 'setting: value'", path);
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(d, p->key), *value = yaml_document_get_node(d, p->value);
        size_t line = key->start_mark.line + 1;
        hb_error inner = {0};

        if (key->type != YAML_SCALAR_NODE || read_value(d, value, text, sizeof text))
            return hb_fail(err, EINVAL, "%s:%zu: expected 'setting: value' or 'setting: [a, b]'", path, line);
        int status = hb_settings_set(s, (const char *)key->data.scalar.value, text, &inner);
        if (status)
            return hb_fail(err, -status, "%s:%zu: %.400s", path, line, inner.text);
    }
    return 0;
}

/* Takes over what a document says, and deletes it. */
static int take_document(hb_settings *s, yaml_document_t *d, const char *path, hb_error *err)
{
    hb_settings changed = *s;
    int status = read_document(&changed, d, path, err);

    yaml_document_delete(d);
    if (!status)
        *s = changed;
    return status;
}

int hb_settings_parse(hb_settings *s, const char *yaml, const char *path, hb_error *err)
{
    yaml_document_t d;
    int status = hb_yaml_text_load(&d, path, yaml, strlen(yaml), err);

    return status ? status : take_document(s, &d, path, err);
}

static int read_file(hb_settings *s, const char *path, hb_error *err)
{
    yaml_document_t d;
    int status = hb_yaml_file_load(&d, path, err);

    return status ? status : take_document(s, &d, path, err);
}

int hb_settings_arguments(hb_settings *s, int argc, char **argv, int *ret_next, hb_error *err)
{
    int i = 0;

    while (i < argc && strncmp(argv[i], "--", 2) == 0) {
        char name[64];
        const char *equals = strchr(argv[i], '='), *value;
        size_t length = equals ? (size_t)(equals - argv[i] - 2) : strlen(argv[i]) - 2;

        if (length == 0 || length >= sizeof name)
            return hb_fail(err, EINVAL, "'%s' is not an option (try --help)", argv[i]);
        memcpy(name, argv[i] + 2, length);
        name[length] = 0;
        if (!find(name) && strcmp(name, "config") != 0)
            break;
        value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            return hb_fail(err, EINVAL, "--%s wants a value (try --help)", name);
        int status = strcmp(name, "config") == 0 ? read_file(s, value, err) : hb_settings_set(s, name, value, err);
        if (status)
            return status;
        i++;
    }
    *ret_next = i;
    return 0;
}

static void print_value(FILE *out, const hb_settings *s, const setting *t)
{
    const char *at = (const char *)s + t->offset;
    char number[HB_NUMBER_TEXT];

    switch (t->type) {
    case TEXT:
        fputc('\'', out);
        for (const char *c = at; *c; c++)
            fprintf(out, *c == '\'' ? "''" : "%c", *c);
        fputc('\'', out);
        break;
    case CHOICE: {
        int chosen = *(const int *)(const void *)at;
        fputs(chosen < 0 ? "''" : t->choice[chosen], out);
        break;
    }
    case WIDTHS: {
        const hb_widths *w = (const hb_widths *)(const void *)at;
        fputc('[', out);
        for (int i = 0; i < w->n; i++)
            fprintf(out, "%s%d", i ? ", " : "", w->width[i]);
        fputc(']', out);
        break;
    }
    case COUNT:
        fprintf(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
        break;
    case INTEGER:
        fprintf(out, "%d", *(const int *)(const void *)at);
        break;
    case NUMBER:
        fputs(hb_number_text(*(const double *)(const void *)at, number), out);
        break;
    }
}

/* 'name: value' for each setting that `wanted` asks for */
static char *print_text(const hb_settings *s, bool (*wanted)(const hb_settings *, const setting *),
                        void (*print)(FILE *, const hb_settings *, const setting *), const char *begin)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    fputs(begin, out);
    for (int i = 0; i < NSETTINGS; i++)
        if (table[i].name && wanted(s, &table[i]))
            print(out, s, &table[i]);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

static bool always(const hb_settings *s, const setting *t)
{
    (void)s;
    (void)t;
    return true;
}

static bool changes_result(const hb_settings *s, const setting *t)
{
    (void)s;
    return t->changes_result;
}

static char *value_text(const hb_settings *s, const setting *t)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    print_value(out, s, t);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

static bool same_value(const hb_settings *a, const hb_settings *b, const setting *t)
{
    char *of_a = value_text(a, t), *of_b = value_text(b, t);
    bool same = of_a && of_b && strcmp(of_a, of_b) == 0;
    free(of_a);
    free(of_b);
    return same;
}

static bool changed(const hb_settings *s, const setting *t)
{
    hb_settings initial;
    hb_settings_default(&initial);
    return t->changes_result && !same_value(s, &initial, t);
}

const char *hb_settings_settled_by_model(const hb_settings *s)
{
    static const char *const settled[] = {"kind",         "nb",     "hidden",   "activation",    "integration",
                                          "average",      "angles", "inputs",   "outputs",       "method",
                                          "coefficients", "volume", "substeps", "average-hidden"};

    for (size_t i = 0; i < sizeof settled / sizeof *settled; i++)
        if (changed(s, find(settled[i])))
            return settled[i];
    return NULL;
}

static void print_line(FILE *out, const hb_settings *s, const setting *t)
{
    fprintf(out, "%s: ", t->name);
    print_value(out, s, t);
    fputc('\n', out);
}

static void print_option(FILE *out, const hb_settings *s, const setting *t)
{
    const hb_widths *w = (const hb_widths *)(const void *)((const char *)s + t->offset);

    fprintf(out, " --%s ", t->name);
    if (t->type == WIDTHS)
        for (int i = 0; i < w->n; i++)
            fprintf(out, "%s%d", i ? "," : "", w->width[i]);
    else
        print_value(out, s, t);
}

char *hb_settings_text(const hb_settings *s, bool only_result)
{
    return print_text(s, only_result ? changes_result : always, print_line, "");
}

char *hb_settings_command(const hb_settings *s)
{
    return print_text(s, changed, print_option, "hilbert-train");
}

int hb_settings_same_result(const hb_settings *a, const hb_settings *b, hb_error *err)
{
    for (int i = 0; i < NSETTINGS; i++) {
        const setting *t = &table[i];
        bool free_steps = t->offset == AT(steps) && t->type == COUNT && a->decay == HB_DECAY_NONE;
        if (t->name && t->changes_result && !free_steps && !same_value(a, b, t))
            return hb_fail(err, EINVAL, "%s: cannot change on the way, start over", t->name);
    }
    return 0;
}

void hb_settings_help(FILE *out)
{
    for (int i = 0; i < NSETTINGS; i++) {
        const setting *t = &table[i];
        if (!t->name) {
            fprintf(out, "\n%s:\n", t->help);
            continue;
        }
        int width = fprintf(out, "  --%s ", t->name);
        static const char *const placeholder[] = {"TEXT", "N", "N", "X", "", "N,N,..."};
        if (t->type == CHOICE)
            for (int k = 0; t->choice[k]; k++)
                width += fprintf(out, "%s%s", k ? "|" : "", t->choice[k]);
        else
            width += fprintf(out, "%s", placeholder[t->type]);
        fprintf(out, "%*s%s", width < 30 ? 30 - width : 2, "", t->help);
        if (*t->initial && t->type != TEXT)
            fprintf(out, " [%s]", t->initial);
        fputc('\n', out);
    }
    fprintf(out, "\nKinds:\n");
    for (int i = 0; hb_kind_name[i]; i++)
        fprintf(out, "  %-14s %s\n", hb_kind_name[i], hb_kind_help[i]);
}
