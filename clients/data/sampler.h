/* Draws points of a data set's functions, normalised as a model wants them.
 *
 * The model's states and controls are looked up in the data by name. A control named hidden_NAME that the data do not
 * measure is the function's hidden parameter NAME: so an oracle is a model like any other. Where the data know what a
 * vehicle weighs, its controls are those of the model's vehicle, and points say what else is its own (vehicles.h). */
#ifndef HB_SAMPLER_H
#define HB_SAMPLER_H

#include "data/dataset.h"
#include "base/numeric.h"
#include "data/points.h"

typedef struct hb_sampler hb_sampler;

/* For stretches of nsteps transitions. Borrows both. -EINVAL when a name is missing, or a function has no episode of
 * that length. */
int hb_sampler_new(hb_sampler **ret, const hb_dataset *d, const hb_model *m, int nsteps, hb_error *err);
void hb_sampler_free(hb_sampler *s);

/* From now on points are drawn at the headings of the data. */
void hb_sampler_keep_headings(hb_sampler *s);

/* Stretches that a function has; they are numbered in order of episode and time. */
size_t hb_sampler_count(const hb_sampler *s, int function);

/* Puts stretch `start` of a function into lane `sample` of the points, whose nsteps is the sampler's or less. */
void hb_sampler_put(const hb_sampler *s, int function, size_t start, hb_points *points, int sample);
/* Makes the lanes beyond the last sample harmless. */
void hb_sampler_pad(const hb_sampler *s, hb_points *points);

/* Fills all points, drawn with replacement from stretches first .. first + count - 1: number p from
 * (key, index + p). Where the data stand for flights at all headings (hb_dataset.any_heading) each is turned by an
 * angle of its own, so that what a function is must be told alike at all of them. index below 2^63. */
void hb_sampler_draw(const hb_sampler *s, int function, size_t first, size_t count, hb_random_key key, uint64_t index,
                     hb_points *points);

#endif
