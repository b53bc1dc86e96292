#include "server/recorded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "server/wire_internal.h"

/* ---- reading ---- */

static uint64_t take_varint(const uint8_t *data, size_t size, size_t *at)
{
    uint64_t v = 0;

    for (int shift = 0; *at < size && shift < 64; shift += 7) {
        const uint8_t byte = data[(*at)++];
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return v;
}

/* Copies the message as it came or went, which is field 1 of what the recorder wrapped it in. */
static int take_sent(hb_recorded *r, const uint8_t *data, size_t size)
{
    enum { VARINT, FIXED64, LENGTH, FIXED32 = 5, SENT = 1 << 3 | LENGTH };
    const uint8_t *sent = data;

    for (size_t at = 0; at < size;) {
        const uint64_t tag = take_varint(data, size, &at), kind = tag & 7;
        uint64_t n = kind == FIXED64 ? 8 : kind == FIXED32 ? 4 : 0;
        if (kind == VARINT || kind == LENGTH)
            n = take_varint(data, size, &at);
        if (kind == VARINT)
            continue;
        if ((!n && kind != LENGTH) || n > size - at)
            return -EBADMSG;
        if (tag == SENT) {
            sent = data + at;
            r->nsent = (size_t)n;
        }
        at += (size_t)n;
    }
    if (!(r->sent = malloc(r->nsent + 1)))
        return -ENOMEM;
    memcpy(r->sent, sent, r->nsent);
    return 0;
}

static void take_refused(hb_decisions *to, size_t n, const uint32_t *refused, bool lost)
{
    to->nrefused = (int)(n < HB_REFUSALS ? n : HB_REFUSALS);
    to->lost = lost || n > HB_REFUSALS;
    if (to->nrefused)
        memcpy(to->refused, refused, (size_t)to->nrefused * sizeof *refused);
}

static void take_prepared(hb_prepared *to, const Hilbert__V1__Prepared *p)
{
    if (!p)
        return;
    to->calls = p->calls;
    take_refused(&to->decisions, p->n_refused, p->refused, p->lost);
}

static bool read_sample(hb_recorded *r, const Hilbert__V1__RecordedSample *m, const hb_model *model)
{
    const Hilbert__V1__Telemetry *t = m->telemetry;

    if (!t || t->n_state != (size_t)model->nx || t->n_control != (size_t)model->nu)
        return false;
    r->kind = HB_RECORDED_SAMPLE;
    r->observation = (hb_observation){.time_us = t->time_us,
                                      .x = t->state,
                                      .nx = model->nx,
                                      .u = t->control,
                                      .nu = model->nu,
                                      .reset_counter = t->reset_counter};
    r->moment = m->arrived;
    r->heard = m->heard;
    r->more = m->more;
    return true;
}

static bool read_reply(hb_recorded *r, const Hilbert__V1__RecordedReply *m, const hb_model *model)
{
    const Hilbert__V1__Decision *d = m->decision;

    if (!m->reply)
        return false;
    r->moment = m->received;
    r->action = m->reply->n_action == (size_t)model->nu ? m->reply->action : NULL;
    if (!d && m->reply->reason == HILBERT__V1__REASON__REASON_STALLED && r->action)
        r->kind = HB_RECORDED_STALLED;
    if (!d)
        return true;
    r->kind = HB_RECORDED_COMMAND;
    r->unsent = m->unsent;
    r->decision = (hb_decision){.tick = d->tick,
                                .snapshot = d->snapshot,
                                .begun = d->begun,
                                .budget = d->budget,
                                .fallback = d->fallback,
                                .fresh = d->fresh,
                                .guest = d->guest};
    take_prepared(&r->prepared, d->prepared);
    take_refused(&r->decisions, d->n_refused, d->refused, d->lost);
    r->status = (hb_status)0;
    for (int i = 0; i < HB_NSTATUSES; i++) {
        char word[32];
        if (strcmp(hb_json_word(&hilbert__v1__action_status__descriptor, (int)m->reply->status, word, sizeof word),
                   hb_status_name[i]) == 0)
            r->status = (hb_status)i;
    }
    r->cost = m->reply->cost;
    r->error = m->reply->health ? m->reply->health->one_step_error : 0;
    return true;
}

static bool read_control(hb_recorded *r, const Hilbert__V1__RecordedControl *m)
{
    if (!m->request || *m->error)
        return m->request != NULL;
    if (m->request->command_case == HILBERT__V1__CONTROL_REQUEST__COMMAND_RESET_WINDOW)
        r->kind = HB_RECORDED_RESET;
    if (m->request->command_case == HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_COEFFICIENTS) {
        r->kind = HB_RECORDED_SEED;
        r->seed = m->request->set_coefficients->value;
        r->nvalue = m->request->set_coefficients->n_value;
    }
    return true;
}

static bool read_change(hb_recorded *r, const Hilbert__V1__RecordedChange *m, const hb_model *model)
{
    take_prepared(&r->prepared, m->prepared);
    switch (m->change_case) {
    case HILBERT__V1__RECORDED_CHANGE__CHANGE_TARGET:
        r->kind = HB_RECORDED_TARGET;
        r->target = m->target->state;
        return m->target->n_state == (size_t)model->nx;
    case HILBERT__V1__RECORDED_CHANGE__CHANGE_CONFIGURATION:
        r->kind = HB_RECORDED_RELOAD;
        r->configuration = m->configuration;
        r->target = m->stays ? m->stays->state : NULL;
        return !m->stays || m->stays->n_state == (size_t)model->nx;
    case HILBERT__V1__RECORDED_CHANGE__CHANGE_PREDICTION:
        r->kind = HB_RECORDED_PREDICTION;
        r->decision.snapshot = m->snapshot;
        return true;
    case HILBERT__V1__RECORDED_CHANGE__CHANGE_PROMOTION:
        r->kind = HB_RECORDED_PROMOTION;
        return true;
    default:
        return true;
    }
}

int hb_recorded_read(hb_recorded *ret, hb_topic topic, const void *data, size_t size, const hb_model *m, hb_error *err)
{
    bool good = true;

    *ret = (hb_recorded){.kind = HB_RECORDED_NOTHING};
    if (topic >= HB_NTOPICS || topic == HB_TOPIC_RECORDING || topic == HB_TOPIC_STATUS)
        return 0; /* nothing was decided by these */
    ret->message = protobuf_c_message_unpack(hb_topic_descriptor[topic], NULL, size, data);
    int failed = ret->message ? 0 : -EBADMSG;
    if (!failed && (topic == HB_TOPIC_REQUESTS || topic == HB_TOPIC_REPLIES))
        failed = take_sent(ret, data, size);
    if (failed) {
        hb_recorded_free(ret);
        return failed == -ENOMEM ? hb_fail(err, ENOMEM, "out of memory")
                                 : hb_fail(err, EBADMSG, "a message of %s cannot be understood", hb_topic_name[topic]);
    }
    if (topic == HB_TOPIC_TELEMETRY) {
        good = read_sample(ret, ret->message, m);
    } else if (topic == HB_TOPIC_REQUESTS) {
        const Hilbert__V1__RecordedRequest *r = ret->message;
        good = r->request != NULL;
        ret->kind = HB_RECORDED_REQUEST;
        ret->moment = r->received;
        ret->heard = r->heard;
        ret->decision.fresh = r->fresh;
        ret->guest = r->guest;
    } else if (topic == HB_TOPIC_REPLIES) {
        good = read_reply(ret, ret->message, m);
    } else if (topic == HB_TOPIC_COEFFICIENTS) {
        const Hilbert__V1__RecordedCoefficients *c = ret->message;
        ret->kind = HB_RECORDED_COEFFICIENTS;
        ret->version = c->version;
        ret->value = c->value;
        ret->nvalue = c->n_value;
    } else if (topic == HB_TOPIC_CONTROL) {
        good = read_control(ret, ret->message);
    } else if (topic == HB_TOPIC_CHANGES) {
        good = read_change(ret, ret->message, m);
    } else {
        ret->kind = HB_RECORDED_GAP;
        ret->lost = ((const Hilbert__V1__RecordingGap *)ret->message)->lost;
    }
    if (good)
        return 0;
    hb_recorded_free(ret);
    return hb_fail(err, EBADMSG, "a message of %s is not of a vehicle with %d states and %d controls",
                   hb_topic_name[topic], m->nx, m->nu);
}

void hb_recorded_free(hb_recorded *r)
{
    if (r->message)
        protobuf_c_message_free_unpacked(r->message, NULL);
    free(r->sent);
    *r = (hb_recorded){0};
}

hb_reason hb_recorded_request(const hb_recorded *r, hb_wire *w, hb_action_request *ret)
{
    const hb_reason why = hb_wire_read_request(w, r->sent, r->nsent, ret);

    ret->request.received = r->moment;
    ret->request.fresh = r->decision.fresh;
    return why;
}

/* ---- comparing ---- */

/* The first field in which two messages of a kind differ; false: there is none. */
static bool differ(const ProtobufCMessage *a, const ProtobufCMessage *b, char what[256])
{
    for (unsigned i = 0; i < a->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &a->descriptor->fields[i];
        const char *pa = (const char *)a + f->offset, *pb = (const char *)b + f->offset;
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            const ProtobufCMessage *ma = *(ProtobufCMessage *const *)(const void *)pa,
                                   *mb = *(ProtobufCMessage *const *)(const void *)pb;
            char inner[256];
            if (ma && mb && differ(ma, mb, inner)) {
                snprintf(what, 256, "%.40s.%.180s", f->name, inner);
                return true;
            }
            if (!ma != !mb) {
                snprintf(what, 256, "%s is there once", f->name);
                return true;
            }
        } else if (f->label == PROTOBUF_C_LABEL_REPEATED && f->type == PROTOBUF_C_TYPE_DOUBLE) {
            size_t na = *(const size_t *)(const void *)((const char *)a + f->quantifier_offset),
                   nb = *(const size_t *)(const void *)((const char *)b + f->quantifier_offset);
            const double *va = *(double *const *)(const void *)pa, *vb = *(double *const *)(const void *)pb;
            if (na != nb) {
                snprintf(what, 256, "%s: %zu numbers, recorded %zu", f->name, nb, na);
                return true;
            }
            for (size_t k = 0; k < na; k++)
                if (memcmp(&va[k], &vb[k], sizeof *va) != 0) {
                    snprintf(what, 256, "%s[%zu] is %.17g, recorded %.17g", f->name, k, vb[k], va[k]);
                    return true;
                }
        } else if (f->type == PROTOBUF_C_TYPE_DOUBLE && memcmp(pa, pb, sizeof(double)) != 0) {
            snprintf(what, 256, "%s is %.17g, recorded %.17g", f->name, *(const double *)(const void *)pb,
                     *(const double *)(const void *)pa);
            return true;
        } else if (f->type == PROTOBUF_C_TYPE_STRING &&
                   strcmp(*(char *const *)(const void *)pa, *(char *const *)(const void *)pb) != 0) {
            snprintf(what, 256, "%s is '%.60s', recorded '%.60s'", f->name, *(char *const *)(const void *)pb,
                     *(char *const *)(const void *)pa);
            return true;
        } else if (f->type == PROTOBUF_C_TYPE_ENUM &&
                   *(const int *)(const void *)pa != *(const int *)(const void *)pb) {
            char wa[40], wb[40];
            hb_json_word(f->descriptor, *(const int *)(const void *)pa, wa, sizeof wa);
            hb_json_word(f->descriptor, *(const int *)(const void *)pb, wb, sizeof wb);
            snprintf(what, 256, "%s is %s, recorded %s", f->name, wb, wa);
            return true;
        } else if (f->type == PROTOBUF_C_TYPE_UINT64 && memcmp(pa, pb, sizeof(uint64_t)) != 0) {
            snprintf(what, 256, "%s is %llu, recorded %llu", f->name,
                     (unsigned long long)*(const uint64_t *)(const void *)pb,
                     (unsigned long long)*(const uint64_t *)(const void *)pa);
            return true;
        } else if (f->type == PROTOBUF_C_TYPE_UINT32 && memcmp(pa, pb, sizeof(uint32_t)) != 0) {
            snprintf(what, 256, "%s is %u, recorded %u", f->name, *(const uint32_t *)(const void *)pb,
                     *(const uint32_t *)(const void *)pa);
            return true;
        } else if (f->type == PROTOBUF_C_TYPE_BOOL && memcmp(pa, pb, sizeof(protobuf_c_boolean)) != 0) {
            snprintf(what, 256, "%s differs", f->name);
            return true;
        }
    }
    return false;
}

bool hb_recorded_same(const hb_recorded *r, hb_wire *w, const hb_command *c, bool want_plan, char what[256])
{
    const Hilbert__V1__ActionReply *then = ((const Hilbert__V1__RecordedReply *)r->message)->reply;
    const hb_action_reply reply = {.id = then->id,
                                   .status = c->status,
                                   .reason = c->reason,
                                   .action = c->action,
                                   .command = c,
                                   .want_plan = want_plan && !r->unsent,
                                   .queue = 1e-6 * then->queue_us,
                                   .planning = 1e-6 * then->planning_us,
                                   .preparing = 1e-6 * then->preparing_us,
                                   .total = 1e-6 * then->total_us};
    const void *data;
    const size_t n = hb_wire_write_reply(w, &reply, &data);

    if (n == r->nsent && memcmp(r->sent, data, n) == 0)
        return true;
    Hilbert__V1__ActionReply *now = hilbert__v1__action_reply__unpack(NULL, n, data);
    snprintf(what, 256, "the messages differ");
    if (now)
        differ(&then->base, &now->base, what);
    hilbert__v1__action_reply__free_unpacked(now, NULL);
    return false;
}

/* ---- the head ---- */

int hb_recorded_head_read(hb_recorded_head *ret, const void *data, size_t size, hb_error *err)
{
    Hilbert__V1__Recording *m = hilbert__v1__recording__unpack(NULL, size, data);

    if (!m)
        return hb_fail(err, EBADMSG, "its first message cannot be understood");
    *ret = (hb_recorded_head){.name = strdup(m->name),
                              .model = strdup(m->model),
                              .configuration = strdup(m->configuration),
                              .model_hash = m->model_hash,
                              .run = m->run,
                              .file = m->file,
                              .whole = m->whole,
                              .nwindow = m->window.len};
    ret->window = m->window.len ? malloc(m->window.len) : NULL;
    if (ret->window)
        memcpy(ret->window, m->window.data, m->window.len);
    hilbert__v1__recording__free_unpacked(m, NULL);
    if (ret->name && ret->model && ret->configuration && (ret->window || !ret->nwindow))
        return 0;
    hb_recorded_head_free(ret);
    return hb_fail(err, ENOMEM, "out of memory");
}

void hb_recorded_head_free(hb_recorded_head *h)
{
    free(h->name);
    free(h->model);
    free(h->configuration);
    free(h->window);
    *h = (hb_recorded_head){0};
}
