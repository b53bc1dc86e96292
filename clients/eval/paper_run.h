/* The results of a comparison, and the steps to it. */
#ifndef HB_PAPER_RUN_H
#define HB_PAPER_RUN_H

#include "eval/error_summary.h"
#include "eval/paper.h"

enum { HB_PAPER_QUARTILES = 3 };

/* Over flights; quartiles over those that did not crash, NaN when all did. */
typedef struct hb_paper_flights {
    int n, crashes;                      /* n = 0: not flown */
    double distance[HB_PAPER_QUARTILES]; /* metres from the target, mean over the last second */
    double slew[HB_PAPER_QUARTILES];     /* summed mean squared change of the controls */
    double planning;                     /* seconds per plan, median */
} hb_paper_flights;

typedef struct hb_paper_result {
    const hb_paper_row *row;
    hb_settings settings;
    hb_model *model;
    double seconds, cpu_seconds; /* of training */
    hb_error_summary errors;
    hb_paper_flights flights;
} hb_paper_result;

typedef struct hb_paper_results {
    int nrows;
    hb_paper_result row[HB_PAPER_MAX_ROWS];
    int nbases;
    hb_paper_result bases[2 * HB_PAPER_MAX_BASES]; /* rows with other numbers of basis functions */
    int nagain[HB_PAPER_MAX_ROWS];                 /* further trainings of each row, a seed each */
    hb_paper_result again[HB_PAPER_MAX_ROWS][HB_PAPER_MAX_SEEDS - 1];
} hb_paper_results;

/* Runs hilbert-sim collect unless the file, of the folder, is there. purpose: a seed of its own for each file. */
int hb_paper_collect(const hb_paper *p, const char *name, int functions, int purpose, hb_dataset **ret, hb_error *err);
/* Flies a row's model with hilbert-sim, or reads what is left of earlier flights. */
int hb_paper_fly(const hb_paper *p, hb_paper_result *r, hb_error *err);

void hb_paper_print(const hb_paper *p, const hb_paper_results *r, const hb_dataset *train, const hb_dataset *test,
                    FILE *out);
/* With the machine and the time. */
json_t *hb_paper_json(const hb_paper *p, const hb_paper_results *r, const hb_dataset *train, const hb_dataset *test);
/* name.svg and name.png. */
int hb_paper_draw(const hb_paper *p, const hb_paper_results *r, const hb_dataset *test, const char *name,
                  hb_error *err);

#endif
