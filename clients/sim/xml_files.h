/* The files that an MJCF file speaks of, before MuJoCo opens them: it would wait for a fifo's other end. */
#ifndef HB_XML_FILES_H
#define HB_XML_FILES_H

#include "base/base.h"

/* 0: what is there of path, all that it includes, and their shapes and pictures is regular files or folders. What is
 * not there is MuJoCo's to miss. */
int hb_xml_files_check(const char *path, hb_error *err);

#endif
