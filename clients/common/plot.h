/* Pictures by gnuplot, as SVG and PNG from one description. */
#ifndef HB_PLOT_H
#define HB_PLOT_H

#include <stdio.h>

#include "base/base.h"

typedef struct hb_plot hb_plot;

/* name: path without .svg and .png. width, height: pixels. -ENOENT when there is no gnuplot. */
int hb_plot_new(hb_plot **ret, const char *name, int width, int height, hb_error *err);
/* Gnuplot's language goes here: data blocks, settings, then plot commands. It is run once for each picture, after
 * terminal and output are set, so it must set neither. */
FILE *hb_plot_script(hb_plot *p);
/* Runs gnuplot and frees the plot, also on failure. */
int hb_plot_finish(hb_plot *p, hb_error *err);
/* Frees the plot without drawing it. */
void hb_plot_free(hb_plot *p);

/* -ENOENT, with the remedy, when there is no gnuplot. Ask before long work. */
int hb_plot_available(hb_error *err);

#endif
