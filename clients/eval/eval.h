/* The commands of hilbert-eval. */
#ifndef HB_EVAL_H
#define HB_EVAL_H

#include "model/model.h"
#include "common/options.h"

enum { HB_EXIT_OK = 0, HB_EXIT_FAILURE = 1, HB_EXIT_USAGE = 2 };

/* argv[0] is the command's name; each returns an exit code. */
int hb_eval_bound(int argc, char **argv);  /* where there is a simulator */
int hb_eval_flight(int argc, char **argv); /* where recordings can be read */
int hb_eval_paper(int argc, char **argv);
int hb_eval_predict(int argc, char **argv);
int hb_eval_prior(int argc, char **argv);
int hb_eval_real(int argc, char **argv);
int hb_eval_robust(int argc, char **argv); /* where there is a simulator */
int hb_eval_tune(int argc, char **argv);   /* where there is a simulator */
int hb_eval_vanderpol(int argc, char **argv);

/* Writes "hilbert-eval: TEXT" to standard error and returns the exit code. */
int hb_eval_complain(int exit_code, const hb_error *err);
/* Reads the options of a command; help prints its own. Returns an exit code, or -1 to go on: optind is the first
 * argument that is no option. */
int hb_eval_options(const hb_option *table, int n, int argc, char **argv, void (*help)(void));

/* Which row of the paper's tables a model is: "FE + NODE + Res", "shared", ... */
const char *hb_eval_row(const hb_model *m);

#endif
