/* hilbert-train words: what a model's coefficients mean, from the hidden parameters of the functions in a data set. */
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/prior.h"
#include "train/words.h"

static void print_help(void)
{
    printf(
        "usage: hilbert-train words MODEL --data FILE --output FILE [options]\n\n"
        "Fits maps from a model's coefficients to what is hidden in the data (mass, drag ...), and writes the model\n"
        "with those that explain at least half of the variance on functions that were held back. Status, page and\n"
        "reports then say what was learned in these words. Nothing else changes: the model plans and estimates as\n"
        "before, and keeps its hash. Training does this by itself with all hidden parameters.\n\n"
        "  --data FILE      data set: the one that it was trained on, or vehicles as they will be in service\n"
        "  --map TEXT       how to read a foreign one (hilbert-train data --help)\n"
        "  --output FILE    the basis file to write; may be MODEL itself\n"
        "  --word TEXT      NAME, NAME[UNIT] or NAME[UNIT]=EXPRESSION of hidden parameters, as often as wanted:\n"
        "                   'effective_mass[kg]=4*mass/(rotor0+rotor1+rotor2+rotor3)' [all hidden parameters]\n"
        "  --examples N     transitions of each function that coefficients come from [%d]\n"
        "  --seed N         of the draws [0]\n"
        "  --threads N      0: as many as there are processors [0]\n"
        "  --force          replace an output that exists and is not MODEL\n",
        HB_PRIOR_EXAMPLES);
}

static int add_words(const hb_train_input *i, hb_word_wishes *wishes, hb_error *err)
{
    hb_word_result result[HB_MAX_WORDS];
    hb_model *with = NULL;
    hb_progress progress;

    if (wishes->n == 0)
        hb_words_wish_all(wishes, i->data);
    if (wishes->n == 0)
        return hb_fail(err, EINVAL, "%s: no hidden parameter differs between its functions", i->data_path);
    char *notes = hb_train_input_notes(i, "words");
    if (!notes)
        return hb_fail(err, ENOMEM, "out of memory");
    hb_progress_start(&progress, "words");
    const hb_word_source from = {
        .model = i->model, .data = i->data, .examples = i->examples, .seed = i->seed, .notes = notes};
    int status = hb_words_fit(&with, &from, wishes, i->pool, &(hb_watch){.progress = &progress}, result, err);
    hb_progress_end(&progress);
    free(notes);
    if (!status) {
        hb_words_print(wishes, result, stdout);
        status = hb_model_save(with, i->output, err);
    }
    hb_model_free(with);
    return status;
}

int hb_train_words(int argc, char **argv)
{
    hb_train_input i = {.examples = HB_PRIOR_EXAMPLES};
    hb_word_wishes wishes = {0};
    hb_error err = {0};
    const hb_option word = {"word", HB_OPTION_CALL, &(hb_option_call){hb_words_wish, &wishes}, 0, 0, 0};
    int code = hb_train_input_read(&i, "words", &word, 1, argc, argv, print_help);

    if (code >= 0)
        return code;
    bool failed = hb_train_input_open(&i, &err) || add_words(&i, &wishes, &err);
    hb_train_input_close(&i);
    return failed ? hb_train_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
