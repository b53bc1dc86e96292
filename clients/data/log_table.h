/* A log as a table of numbers: CSV, gzip or not; cells that are no numbers are NaN, true and false 1 and 0. */
#ifndef HB_LOG_TABLE_H
#define HB_LOG_TABLE_H

#include "base/base.h"

typedef struct hb_log_table {
    int ncolumns;
    char **name;   /* ncolumns */
    double *value; /* rows x ncolumns */
    size_t rows, room;
    char *names; /* memory of the names */
} hb_log_table;

/* The first line names the columns; a # before it is dropped. Rows with another number of fields are refused. */
int hb_log_table_read(hb_log_table *ret, const char *path, hb_error *err);
void hb_log_table_free(hb_log_table *t);
int hb_log_table_find(const hb_log_table *t, const char *name); /* -1: there is no such column */

#endif
