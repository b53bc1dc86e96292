/* What recordings consist of: their topics, and the description of all messages that goes into each file. */
#ifndef HILBERT_RECORDING_H
#define HILBERT_RECORDING_H

#include <stddef.h>
#include <stdint.h>

/* topic, its message in hilbert.proto */
#define HB_TOPICS(X)                                                                                                   \
    X(RECORDING, "recording", "hilbert.v1.Recording")                                                                  \
    X(TELEMETRY, "telemetry", "hilbert.v1.RecordedSample")                                                             \
    X(REQUESTS, "requests", "hilbert.v1.RecordedRequest")                                                              \
    X(REPLIES, "replies", "hilbert.v1.RecordedReply")                                                                  \
    X(COEFFICIENTS, "coefficients", "hilbert.v1.RecordedCoefficients")                                                 \
    X(CONTROL, "control", "hilbert.v1.RecordedControl")                                                                \
    X(CHANGES, "changes", "hilbert.v1.RecordedChange")                                                                 \
    X(STATUS, "status", "hilbert.v1.Status")                                                                           \
    X(GAPS, "gaps", "hilbert.v1.RecordingGap")

typedef enum {
#define X(id, topic, message) HB_TOPIC_##id,
    HB_TOPICS(X)
#undef X
        HB_NTOPICS
} hb_topic;

#define HB_RECORDING_PROFILE "hilbertd"

extern const char *const hb_topic_name[HB_NTOPICS], *const hb_topic_message[HB_NTOPICS];

/* The topic of a name; HB_NTOPICS: none of ours. */
hb_topic hb_topic_find(const char *name);

/* A FileDescriptorSet of hilbert.proto. */
extern const uint8_t hb_descriptor_set[];
extern const size_t hb_descriptor_set_size;

#endif
