/* Messages that clients send: the first byte says which, the others are the message. What is taken has the right sizes
 * and finite numbers, and every reply to it can be unpacked. */
#include <math.h>

#include "fuzz.h"
#include "hilbert.pb-c.h"
#include "server/wire.h"

enum { NX = 3, NU = 2, NH = 4, NC = 5, ROWS = 256 };

static hb_wire *wire(void)
{
    static hb_wire *w;

    if (!w)
        FUZZ_EXPECT(
            hb_wire_new(
                &w,
                &(hb_wire_sizes){.nx = NX, .nu = NU, .horizon = NH, .ncoefficients = NC, .nb = NC, .max_message = 4096},
                NULL) == 0);
    return w;
}

static void expect_finite(const double *value, size_t n)
{
    for (size_t i = 0; value && i < n; i++)
        FUZZ_EXPECT(isfinite(value[i]));
}

static void telemetry(const uint8_t *data, size_t size)
{
    hb_observation o;
    uint64_t sequence;

    if (hb_wire_read_telemetry(wire(), data, size, &o, &sequence) != HB_REASON_NONE)
        return;
    FUZZ_EXPECT(o.nx == NX && o.nu == NU && o.time_us >= 0);
    expect_finite(o.x, NX);
    expect_finite(o.u, NU);
}

static void request(const uint8_t *data, size_t size)
{
    hb_action_request r;
    const void *reply;

    hb_reason why = hb_wire_read_request(wire(), data, size, &r);
    FUZZ_EXPECT(memchr(r.detail, 0, sizeof r.detail));
    if (why == HB_REASON_NONE) {
        FUZZ_EXPECT(r.request.nx == NX && r.request.ntargets <= ROWS && r.request.time_us >= 0);
        expect_finite(r.request.x, NX);
        expect_finite(r.request.target, (size_t)r.request.ntargets * NX);
        expect_finite(r.request.target_time, (size_t)r.request.ntargets);
        expect_finite(r.request.applied, NU);
        FUZZ_EXPECT(isfinite(r.budget) && r.budget >= 0);
    }
    hb_action_reply answer = {.id = r.id, .status = HB_STATUS_REFUSED, .reason = why, .detail = r.detail};
    size_t n = hb_wire_write_reply(wire(), &answer, &reply);
    Hilbert__V1__ActionReply *m = hilbert__v1__action_reply__unpack(NULL, n, reply);
    FUZZ_EXPECT(m && m->id == answer.id);
    hilbert__v1__action_reply__free_unpacked(m, NULL);
}

static void control(const uint8_t *data, size_t size)
{
    hb_control_request r;
    hb_error err = {0};
    const void *reply;

    int bad = hb_wire_read_control(wire(), data, size, &r, &err);
    FUZZ_EXPECT(!bad || *err.text);
    if (!bad && r.kind == HB_CONTROL_SET_TARGET)
        expect_finite(r.target, NX);
    /* the controller judges their size */
    for (int i = 0; !bad && r.kind == HB_CONTROL_SET_COEFFICIENTS && i < NC; i++)
        FUZZ_EXPECT(!isnan((double)r.coefficient[i]));
    if (!bad && r.kind == HB_CONTROL_PREDICT) {
        FUZZ_EXPECT(r.predict.count > 0 && r.predict.steps > 0 && r.predict.dt >= 0);
        expect_finite(r.predict.state, (size_t)r.predict.count * NX);
        expect_finite(r.predict.control, (size_t)r.predict.count * (size_t)r.predict.steps * NU);
    }
    size_t n = hb_wire_write_control(wire(), &(hb_control_reply){.id = r.id, .error = bad ? err.text : NULL}, &reply);
    Hilbert__V1__ControlReply *m = hilbert__v1__control_reply__unpack(NULL, n, reply);
    FUZZ_EXPECT(m && m->id == r.id && m->ok == !bad);
    hilbert__v1__control_reply__free_unpacked(m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const reader[])(const uint8_t *, size_t) = {telemetry, request, control};

    if (size > 0)
        reader[data[0] % 3](data + 1, size - 1);
    return 0;
}
