/* What the bridge never lets through, whatever the plan says. */
#ifndef HB_MAVLINK_LIMITS_H
#define HB_MAVLINK_LIMITS_H

#include "mavlink/convert.h"

typedef struct hb_limits {
    double rate, yaw_rate;         /* rad/s, of commands */
    double thrust_min, thrust_max; /* 0..1, of commands */
    double tilt;                   /* rad, of the vehicle */
    double speed;                  /* m/s, of the vehicle */
    double box_min[3], box_max[3]; /* m, model's frame */
} hb_limits;

/* Brings a command within its limits. False: it holds something that is no number, and must not be sent. */
bool hb_limits_clamp(const hb_limits *l, double u[HB_NCONTROL]);
/* Which limit the vehicle is beyond, or NULL. */
const char *hb_limits_exceeded(const hb_limits *l, const double x[HB_NSTATE]);
/* The point of the box that is nearest to x, y, z. */
void hb_limits_nearest(const hb_limits *l, double point[3]);

#endif
