#include "view/files.h"

const hb_view_file hb_view_files[] = {
    {"/", "text/html; charset=utf-8", hb_view_html, &hb_view_html_size},
    {"/page.css", "text/css; charset=utf-8", hb_view_css, &hb_view_css_size},
    {"/plot.js", "text/javascript; charset=utf-8", hb_view_plot_js, &hb_view_plot_js_size},
    {"/limits.js", "text/javascript; charset=utf-8", hb_view_limits_js, &hb_view_limits_js_size},
    {"/scene.js", "text/javascript; charset=utf-8", hb_view_scene_js, &hb_view_scene_js_size},
    {"/panels.js", "text/javascript; charset=utf-8", hb_view_panels_js, &hb_view_panels_js_size},
    {"/flight.js", "text/javascript; charset=utf-8", hb_view_flight_js, &hb_view_flight_js_size},
    {"/control.js", "text/javascript; charset=utf-8", hb_view_control_js, &hb_view_control_js_size},
    {"/page.js", "text/javascript; charset=utf-8", hb_view_page_js, &hb_view_page_js_size},
    {0},
};
