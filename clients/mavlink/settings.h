/* What the bridge can be told: one table of keys, from which the file is read, checked, printed and documented. */
#ifndef HB_MAVLINK_SETTINGS_H
#define HB_MAVLINK_SETTINGS_H

#include <stdio.h>

#include "base/base.h"
#include "mavlink/limits.h"

enum { HB_SETTING_TEXT = 256 };

typedef struct hb_mav_settings {
    /* links */
    char connect[HB_SETTING_TEXT], signing_key[HB_SETTING_TEXT];
    char name[HB_SETTING_TEXT]; /* of the daemon */
    char telemetry[HB_SETTING_TEXT], actions[HB_SETTING_TEXT], control[HB_SETTING_TEXT];
    char server_key[HB_SETTING_TEXT], client_key[HB_SETTING_TEXT];
    int system; /* of the autopilot; 0: the first that is heard */
    /* the loop */
    int telemetry_every, request_every; /* of the autopilot's samples */
    double reply_timeout;
    double stale_after; /* seconds without a sample */
    double max_age;     /* seconds of a sample, by the autopilot's clock */
    /* the ladder */
    char engage[HB_SETTING_TEXT]; /* "pilot" or "operator" */
    double hold_for, uneasy_for;
    int good_cycles;
    double settle; /* seconds of holding after an estimator reset */
    int battery_min;
    hb_limits limits;
    /* waypoints */
    char waypoints[HB_SETTING_TEXT];
    double waypoint_speed, waypoint_radius;
    double status_every;
} hb_mav_settings;

void hb_mav_settings_default(hb_mav_settings *s);
/* Sets one value from text; -EINVAL names the key, what was found and what is expected. */
int hb_mav_settings_set(hb_mav_settings *s, const char *key, const char *text, hb_error *err);
/* A YAML mapping; a list stands for its items separated by commas. Errors begin with path:line. */
int hb_mav_settings_read(hb_mav_settings *s, const char *path, hb_error *err);
/* What belongs together: the box, thrust. */
int hb_mav_settings_check(const hb_mav_settings *s, hb_error *err);
/* hilbertd's socket: as it is given, or else that of the daemon's name. */
void hb_mav_settings_socket(const hb_mav_settings *s, const char *given, const char *socket,
                            char endpoint[2 * HB_SETTING_TEXT]);
/* All values with their comments, as YAML that reads back as the same. */
void hb_mav_settings_print(const hb_mav_settings *s, FILE *out);

#endif
