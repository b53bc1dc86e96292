/* Recorded samples under their names: topic `signals`, with a schema made of the model's names, so that Foxglove,
 * PlotJuggler and any reader of protobuf in MCAP show state z as signals.state.z, without a table beside it. Units are
 * in the channel's metadata: "state.z" -> "m".
 *
 *     message Signals { message State { double x = 1; ... }  message Control { double f0 = 1; ... }
 *                       State state = 1;  Control control = 2; } */
#ifndef HB_SIGNALS_H
#define HB_SIGNALS_H

#include "model/model.h"

#define HB_SIGNALS_TOPIC  "signals"
#define HB_SIGNALS_SCHEMA "hilbert.Signals"

typedef struct hb_signals {
    uint8_t *schema; /* FileDescriptorSet */
    size_t size;
    int nunits;
    char (*unit)[2][HB_NAME_SIZE + 16]; /* name and unit */
} hb_signals;

int hb_signals_new(hb_signals *ret, const hb_model *m, hb_error *err);
void hb_signals_free(hb_signals *s);

/* Bytes of a message at most. */
size_t hb_signals_size(int nx, int nu);
/* A sample as a message; returns its bytes. */
size_t hb_signals_write(int nx, const double *x, int nu, const double *u, uint8_t *to);

#endif
