#include "recording.h"

#include <string.h>

const char *const hb_topic_name[HB_NTOPICS] = {
#define X(id, topic, message) topic,
    HB_TOPICS(X)
#undef X
};

const ProtobufCMessageDescriptor *const hb_topic_descriptor[HB_NTOPICS] = {
#define X(id, topic, message) &hilbert__v1__##message##__descriptor,
    HB_TOPICS(X)
#undef X
};

hb_topic hb_topic_find(const char *name)
{
    int i = 0;

    while (i < HB_NTOPICS && strcmp(hb_topic_name[i], name) != 0)
        i++;
    return (hb_topic)i;
}
