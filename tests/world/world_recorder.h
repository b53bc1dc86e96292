/* The recorder of a simulated daemon, on a disk that fills up and with a process that is killed while it writes. After
 * each life what is on the disk is read back and compared with what was sent. */
#ifndef HB_WORLD_RECORDER_H
#define HB_WORLD_RECORDER_H

#include "server/recorder.h"

typedef struct world_recorder {
    hb_recorder opened; /* journal NULL: nothing is recorded */
    struct {
        uint64_t hash;
        bool on; /* it was to be recorded */
    } * sent;
    int nsent, room;
} world_recorder;

/* Files go to config->recorder.directory, which is empty. */
void world_recorder_start(world_recorder *r, const hb_config *config, const hb_model *model, hb_clock clock,
                          hb_log *log);
/* A reply that the daemon sends. */
void world_recorder_sent(world_recorder *r, const void *data, size_t size);
/* The recorder's thread has the processor. Files may not grow beyond so many bytes; negative: there is room. */
void world_recorder_step(world_recorder *r, long most);
/* The process ends; killed: in the middle of a write, of which this part is on the disk. Compares, and removes all
 * files. True, or false with what is wrong. */
bool world_recorder_end(world_recorder *r, bool killed, double part, char *text, size_t size);

#endif
