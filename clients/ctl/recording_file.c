#include "ctl/recording_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static void look(ctl_recording *r, const hb_mcap_message *m)
{
    hb_topic topic = hb_topic_find(m->channel->topic);
    ProtobufCMessage *message =
        topic < HB_NTOPICS ? protobuf_c_message_unpack(hb_topic_descriptor[topic], NULL, m->size, m->data) : NULL;

    if (topic == HB_NTOPICS)
        return;
    r->start = !r->end || m->log_time < r->start ? m->log_time : r->start;
    r->end = m->log_time > r->end ? m->log_time : r->end;
    r->count[topic]++;
    if (topic == HB_TOPIC_GAPS && message) {
        r->gaps++;
        r->lost += ((Hilbert__V1__RecordingGap *)message)->lost;
    }
    if (topic == HB_TOPIC_REPLIES && message) {
        const Hilbert__V1__RecordedReply *reply = (const Hilbert__V1__RecordedReply *)message;
        if (reply->reply && (unsigned)reply->reply->status < 16 && !reply->unsent)
            r->replies[reply->reply->status]++;
    }
    if (topic == HB_TOPIC_RECORDING && message && !r->head)
        r->head = (Hilbert__V1__Recording *)message;
    else
        protobuf_c_message_free_unpacked(message, NULL);
}

int ctl_recording_open(ctl_recording *ret, const char *path, hb_error *err)
{
    ctl_recording r = {0};
    hb_mcap_message m;
    struct stat st;
    int got = hb_mcap_reader_open(&r.reader, path, err);

    if (got == -EBADMSG) {
        /* the index may be all that is damaged */
        r.damaged = true;
        r.damage = *err;
        got = hb_mcap_reader_open_damaged(&r.reader, path, err);
    }
    if (got)
        return got;
    r.size = stat(path, &st) ? 0 : (uint64_t)st.st_size;
    for (;;) {
        while ((got = hb_mcap_reader_next(r.reader, &m, err)) > 0)
            look(&r, &m);
        if (got == 0)
            break;
        if (!r.damaged)
            r.damage = *err;
        r.damaged = true;
        if (!hb_mcap_reader_skip(r.reader))
            break;
    }
    r.cut = hb_mcap_reader_cut(r.reader, &r.cut_at);
    *ret = r;
    return 0;
}

void ctl_recording_close(ctl_recording *r)
{
    hilbert__v1__recording__free_unpacked(r->head, NULL);
    hb_mcap_reader_free(r->reader);
}
