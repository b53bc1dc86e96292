/* What is known of the autopilot, from its messages: who it is, its mode, its samples, its clock and its parameters.
 * Nothing is sent from here, and no clock is read: `now` is seconds and `now_ns` the same clock in nanoseconds. */
#ifndef HB_MAVLINK_AUTOPILOT_H
#define HB_MAVLINK_AUTOPILOT_H

#include "base/base.h"
#include "mavlink/codec.h"
#include "mavlink/convert.h"
#include "mavlink/ladder.h"
#include "mavlink/timesync.h"

typedef enum { HB_AUTOPILOT_UNKNOWN, HB_AUTOPILOT_PX4, HB_AUTOPILOT_ARDUPILOT } hb_autopilot_kind;

/* A parameter that decides over what happens when the bridge dies. */
typedef struct hb_parameter {
    const char *name;
    const char *advice; /* the value to set, as text */
    const char *why;
    bool whole;      /* an int32 in PX4, which packs its bytes into the float */
    double min, max; /* that are accepted */
    int bit;         /* this bit must be set instead; 0: none */
    /* as received */
    bool known;
    double value;
    int asked; /* times */
} hb_parameter;

enum { HB_MAX_PARAMETERS = 4, HB_AGES = 512, HB_OWN_CONTROLS = 16, HB_LANDED_IN_AIR = 2 };

/* What the autopilot's own controllers command, from ATTITUDE_TARGET. */
typedef struct hb_own_control {
    int64_t time_us; /* autopilot's clock */
    double u[HB_NCONTROL];
} hb_own_control;

/* Messages of a kind: how many, and how many a second of late. */
typedef struct hb_stream_count {
    uint64_t count;
    double last;   /* arrival */
    double rate;   /* a second, of the last second or the last two messages; 0: not known yet */
    double since;  /* when the next second began, */
    double within; /* and how many came in it */
} hb_stream_count;

typedef struct hb_autopilot {
    int wanted_system; /* 0: the first that is heard */
    hb_autopilot_kind kind;
    hb_mav_address address;
    double heartbeat;       /* when it was heard last */
    uint32_t mode;          /* custom_mode, */
    uint32_t intended_mode; /* and the one that was asked for last, from CURRENT_MODE */
    double mode_heard, current_mode_heard;
    bool armed;
    int battery; /* percent; -1: unknown */
    int landed;  /* EXTENDED_SYS_STATE; 0: unknown */

    hb_timesync sync;
    int nparameters;
    hb_parameter parameter[HB_MAX_PARAMETERS];

    /* the newest sample */
    bool sampled;
    int64_t time_us; /* autopilot's clock */
    double arrived;  /* ours */
    double x[HB_NSTATE];
    uint32_t resets;            /* changes whenever the state jumped, */
    uint32_t estimator_resets;  /* and whenever it was the autopilot's estimator that did it, said or not */
    uint64_t samples, repeated; /* taken, and not newer than the one before */
    double age[HB_AGES];        /* seconds from sample to arrival, of the last ones */

    /* ArduPilot: the attitude that waits for its position */
    bool have_attitude;
    hb_mav_attitude_quaternion attitude;
    bool have_reset;
    uint8_t reset_counter; /* of ODOMETRY */

    hb_own_control own[HB_OWN_CONTROLS];
    uint64_t nown;

    hb_stream_count stream[32]; /* by index in the table of messages */
    uint16_t acknowledged;      /* command of the last COMMAND_ACK, */
    int result;                 /* and its result; -1: none yet */
    char text[51];              /* the last STATUSTEXT of weight; "": none since it was cleared */
} hb_autopilot;

void hb_autopilot_start(hb_autopilot *a, int wanted_system);
/* Takes a message in. True: there is a new sample. */
bool hb_autopilot_receive(hb_autopilot *a, const hb_mav_received *r, double now, int64_t now_ns);

/* Whether it is the autopilot that speaks from there. */
bool hb_autopilot_is(const hb_autopilot *a, hb_mav_address from);
bool hb_autopilot_heard(const hb_autopilot *a, double now); /* within 3 s */
bool hb_autopilot_offboard(const hb_autopilot *a);          /* PX4: offboard; ArduCopter: GUIDED */
hb_intent hb_autopilot_intent(const hb_autopilot *a, double now);
double hb_autopilot_intent_heard(const hb_autopilot *a); /* when it told */
/* Seconds without setpoints until it takes their stream for lost; 0: not known. */
double hb_autopilot_patience(const hb_autopilot *a);
void hb_autopilot_mode_name(const hb_autopilot *a, char text[32]);
const char *hb_autopilot_kind_name(const hb_autopilot *a);

/* COMMAND_LONG to go to offboard, or to Hold (PX4) or Brake (ArduCopter). */
hb_mav_command_long hb_autopilot_command_mode(const hb_autopilot *a, bool offboard);

/* The next parameter to ask for, or NULL. */
hb_parameter *hb_autopilot_next_parameter(hb_autopilot *a);
bool hb_parameter_good(const hb_parameter *p);
/* Whether all are known and good; if not, *ret_problem is the first that is not. */
bool hb_autopilot_parameters_good(const hb_autopilot *a, const hb_parameter **ret_problem);

/* Thrust and rates that the autopilot's own controllers had in force at a time of its clock, in the model's frame.
 * NULL: not known, or it stands on the ground. PX4 tells them while it flies by itself or to a position, and no longer
 * once rates come from outside: what is old is never used. */
const double *hb_autopilot_own_control(const hb_autopilot *a, int64_t time_us);

/* Seconds since the newest sample was true, by the autopilot's clock; NAN: not known. */
double hb_autopilot_sample_age(const hb_autopilot *a, int64_t now_ns);
/* Of the samples' ages at arrival: a quantile 0..1, seconds. */
double hb_autopilot_age(const hb_autopilot *a, double quantile);
/* Messages a second of a stream; 0: none. */
double hb_autopilot_rate(const hb_autopilot *a, uint32_t id);

#endif
