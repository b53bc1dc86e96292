/* Arithmetic of a log's columns: what a state, a control or a condition is made of.
 *
 *     3.72e-8 * (m1_erpm * 2 * pi / 360)^2          -vy[m/s]          z > 0.25 && "motor on" == 1
 *
 * Numbers, columns, + - * / ^, comparisons (1 or 0), && ||, parentheses, pi, and sqrt abs sin cos exp log min max. A
 * column is a name as in the log's first line, with a unit in brackets if it has one there; in double quotes where it
 * has other characters. What is made of something that is not a number is not a number. */
#ifndef HB_LOG_EXPRESSION_H
#define HB_LOG_EXPRESSION_H

#include "base/base.h"

typedef struct hb_log_expression hb_log_expression;

/* Index of a column, or -1 with `value` set (a constant), or -2: there is none of that name. */
typedef int hb_log_lookup(void *context, const char *name, double *value);

/* Errors say what was found where. */
int hb_log_expression_new(hb_log_expression **ret, const char *text, hb_log_lookup *lookup, void *context,
                          hb_error *err);
void hb_log_expression_free(hb_log_expression *e);

/* Of one row of the log. */
double hb_log_expression_value(const hb_log_expression *e, const double *row);

#endif
