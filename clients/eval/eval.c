/* hilbert-eval: how well models predict. */
#include "eval/eval.h"

#include <stdio.h>
#include <string.h>

#include "base/numeric.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"predict", "errors of models on a data set, over steps, hidden parameters and numbers of examples",
     hb_eval_predict},
#ifdef HB_RECORDINGS
    {"flight", "what happened in a recorded flight: a page of pictures, and a table", hb_eval_flight},
#endif
    {"paper", "the paper's comparison on a quadrotor, a Half-Cheetah or an Ant: data, models, tables, flights",
     hb_eval_paper},
    {"prior", "errors over numbers of examples and of basis functions, with the coefficients' prior and without it",
     hb_eval_prior},
    {"real", "models of real vehicles, trained on some of their flights and tried on others: tables in physical units",
     hb_eval_real},
#ifdef HB_ROBUST
    {"bound", "what a simulated plant itself allows: its own errors when a state or the hidden parameters are off",
     hb_eval_bound},
    {"robust", "flights as vehicles are: lag, delay, noise, wind, wrong masses, lies; with a PID beside them",
     hb_eval_robust},
    {"tune", "weights and horizon of a configuration that are better in all of chosen conditions at once", hb_eval_tune},
#endif
    {"vanderpol", "the paper's first system from data to figure: trains three models and compares them",
     hb_eval_vanderpol},
};

enum { NCOMMANDS = sizeof commands / sizeof *commands };

int hb_eval_complain(int exit_code, const hb_error *err)
{
    fprintf(stderr, "hilbert-eval: %s\n", err->text);
    return exit_code;
}

int hb_eval_options(const hb_option *table, int n, int argc, char **argv, void (*help)(void))
{
    return hb_options_command("hilbert-eval", table, n, argc, argv, help);
}

const char *hb_eval_row(const hb_model *m)
{
    if (m->nb == 0)
        return m->nu && strncmp(m->control_name[m->nu - 1], "hidden_", 7) == 0 ? "Oracle" : "NODE";
    if (m->architecture == HB_SHARED)
        return m->average == HB_AVERAGE_NOMINAL ? "shared + nominal"
               : m->integration == HB_DIRECT    ? "shared, direct"
                                                : "shared";
    if (m->integration == HB_DIRECT)
        return m->average == HB_AVERAGE_NONE ? "FE" : "FE + Res";
    return m->average == HB_AVERAGE_NONE ? "FE + NODE" : "FE + NODE + Res";
}

static void print_help(void)
{
    printf("usage: hilbert-eval COMMAND [options]\n\n");
    for (int i = 0; i < NCOMMANDS; i++)
        printf("  %-10s  %s\n", commands[i].name, commands[i].help);
    printf("\nhilbert-eval COMMAND --help says more; --version prints the version.\n"
           "Exit codes: 0 done, 1 failure, 2 usage.\n");
}

int main(int argc, char **argv)
{
    hb_numeric_single_thread();
    if (argc < 2) {
        fprintf(stderr, "hilbert-eval: say what to do (try --help)\n");
        return HB_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return HB_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("hilbert-eval %s\n", HB_VERSION);
        return HB_EXIT_OK;
    }
    for (int i = 0; i < NCOMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "hilbert-eval: there is no command '%s' (try --help)\n", argv[1]);
    return HB_EXIT_USAGE;
}
