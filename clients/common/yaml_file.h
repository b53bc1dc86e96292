/* Files that people write in YAML: settings, descriptions of logs, physics, robots. They are data from outside: a fifo
 * does not hold us, and what is larger or nested deeper than any such file is refused before libyaml, which takes time
 * by the square of the depth, is asked what it means. */
#ifndef HB_YAML_FILE_H
#define HB_YAML_FILE_H

#include <stdio.h>
#include <yaml.h>

#include "base/base.h"

enum { HB_YAML_LARGEST = 1 << 20 /* bytes */, HB_YAML_DEEPEST = 32 /* levels */ };

/* The document, to be deleted by the caller; it keeps nothing of the text. Errors begin with path, or path:line:column.
 */
int hb_yaml_file_load(yaml_document_t *ret, const char *path, hb_error *err);
int hb_yaml_text_load(yaml_document_t *ret, const char *path, const char *text, size_t size, hb_error *err);

/* A stream of a regular file, for the caller to close. */
int hb_open_regular(FILE **ret, const char *path, hb_error *err);

#endif
