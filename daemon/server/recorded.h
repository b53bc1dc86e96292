/* Messages of a recording in plain types, for a replay. Generated types do not leave recorded.c. */
#ifndef HB_RECORDED_H
#define HB_RECORDED_H

#include "recording.h"
#include "server/wire.h"

typedef enum {
    HB_RECORDED_NOTHING, /* a replay has no use for it */
    HB_RECORDED_SAMPLE,
    HB_RECORDED_REQUEST,
    HB_RECORDED_COMMAND,      /* what the controller was asked for: a reply with its decision */
    HB_RECORDED_STALLED,      /* what was answered because the controller did not come back */
    HB_RECORDED_COEFFICIENTS, /* as they were from here on */
    HB_RECORDED_RESET,
    HB_RECORDED_SEED,
    HB_RECORDED_TARGET,
    HB_RECORDED_RELOAD,
    HB_RECORDED_PREDICTION,
    HB_RECORDED_PROMOTION,
    HB_RECORDED_GAP,
} hb_recorded_kind;

typedef struct hb_recorded {
    hb_recorded_kind kind;
    void *message; /* that all this points into */
    uint8_t *sent; /* REQUEST, COMMAND, STALLED: the client's message, or the one that was sent to it, */
    size_t nsent;  /* of so many bytes */

    hb_observation observation; /* SAMPLE */
    double moment;              /* SAMPLE: arrival; REQUEST, COMMAND: receipt of the request */
    uint64_t heard;             /* SAMPLE, REQUEST */
    bool more, guest;

    hb_decision decision; /* COMMAND; its prepared and decisions are the two below */
    hb_prepared prepared; /* COMMAND, TARGET, RELOAD, PREDICTION */
    hb_decisions decisions;
    bool unsent;
    hb_status status;     /* of the reply */
    double cost, error;   /* of the plan; one-step error of the model */
    const double *action; /* nu, or NULL */

    uint64_t version; /* COEFFICIENTS */
    const float *value;
    size_t nvalue;
    const double *seed; /* SEED: nvalue numbers */

    const double *target; /* TARGET: nx; RELOAD: the one that stays, or NULL */
    const char *configuration;
    uint64_t lost; /* GAP */
} hb_recorded;

/* The first message of a file. */
typedef struct hb_recorded_head {
    char *name, *model, *configuration; /* allocated */
    uint64_t model_hash, run;
    uint32_t file;
    bool whole;
    uint8_t *window;
    size_t nwindow;
} hb_recorded_head;

/* 0, or -EBADMSG: not such a message, or not of such a vehicle. */
int hb_recorded_read(hb_recorded *ret, hb_topic topic, const void *data, size_t size, const hb_model *m, hb_error *err);
void hb_recorded_free(hb_recorded *r);
/* The request of a REQUEST, by the wire's own reader: valid until its next read. */
hb_reason hb_recorded_request(const hb_recorded *r, hb_wire *w, hb_action_request *ret);
/* Whether a COMMAND's reply is the one that would be sent for this command, to the byte, times aside; if not, `what`
 * names the first field that differs, with both values. */
bool hb_recorded_same(const hb_recorded *r, hb_wire *w, const hb_command *c, bool want_plan, char what[256]);

int hb_recorded_head_read(hb_recorded_head *ret, const void *data, size_t size, hb_error *err);
void hb_recorded_head_free(hb_recorded_head *h);

#endif
