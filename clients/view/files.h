/* The files of the page, inside the program: it works without a network and without an installation. */
#ifndef HB_VIEW_FILES_H
#define HB_VIEW_FILES_H

#include <stddef.h>
#include <stdint.h>

typedef struct hb_view_file {
    const char *path, *type;
    const uint8_t *data;
    const size_t *size;
} hb_view_file;

extern const hb_view_file hb_view_files[]; /* up to one without a path */

extern const uint8_t hb_view_html[], hb_view_css[], hb_view_plot_js[], hb_view_limits_js[], hb_view_scene_js[],
    hb_view_panels_js[], hb_view_flight_js[], hb_view_control_js[], hb_view_page_js[];
extern const size_t hb_view_html_size, hb_view_css_size, hb_view_plot_js_size, hb_view_limits_js_size,
    hb_view_scene_js_size, hb_view_panels_js_size, hb_view_flight_js_size, hb_view_control_js_size,
    hb_view_page_js_size;

#endif
