/* What recordings consist of: their topics, and the description of all messages that goes into each file. */
#ifndef HILBERT_RECORDING_H
#define HILBERT_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#include "hilbert.pb-c.h"

/* topic, its message in hilbert.proto as C spells it */
#define HB_TOPICS(X)                                                                                                   \
    X(RECORDING, "recording", recording)                                                                               \
    X(TELEMETRY, "telemetry", recorded_sample)                                                                         \
    X(REQUESTS, "requests", recorded_request)                                                                          \
    X(REPLIES, "replies", recorded_reply)                                                                              \
    X(COEFFICIENTS, "coefficients", recorded_coefficients)                                                             \
    X(CONTROL, "control", recorded_control)                                                                            \
    X(CHANGES, "changes", recorded_change)                                                                             \
    X(STATUS, "status", status)                                                                                        \
    X(GAPS, "gaps", recording_gap)

typedef enum {
#define X(id, topic, message) HB_TOPIC_##id,
    HB_TOPICS(X)
#undef X
        HB_NTOPICS
} hb_topic;

#define HB_RECORDING_PROFILE "hilbertd"

extern const char *const hb_topic_name[HB_NTOPICS];
extern const ProtobufCMessageDescriptor *const hb_topic_descriptor[HB_NTOPICS];

/* The topic of a name; HB_NTOPICS: none of ours. */
hb_topic hb_topic_find(const char *name);

/* A FileDescriptorSet of hilbert.proto. */
extern const uint8_t hb_descriptor_set[];
extern const size_t hb_descriptor_set_size;

#endif
