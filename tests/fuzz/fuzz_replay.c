/* A message of a recording as a replay reads it: the first byte says which topic, the others are the message. */
#include "fuzz.h"
#include "server/recorded.h"
#include "test_models.h"

enum { NH = 4 };

static hb_model *cart(void)
{
    static hb_model *m;

    if (!m)
        FUZZ_EXPECT(hb_test_cart(&m, NULL) == 0);
    return m;
}

static hb_wire *wire(void)
{
    static hb_wire *w;

    if (!w)
        FUZZ_EXPECT(hb_wire_new(&w,
                                &(hb_wire_sizes){.nx = cart()->nx,
                                                 .nu = cart()->nu,
                                                 .horizon = NH,
                                                 .ncoefficients = hb_model_ncoefficients(cart()),
                                                 .nb = cart()->nb,
                                                 .max_message = 4096},
                                NULL) == 0);
    return w;
}

static void head(const uint8_t *data, size_t size)
{
    hb_recorded_head h;

    if (hb_recorded_head_read(&h, data, size, NULL))
        return;
    FUZZ_EXPECT(h.name && h.model && h.configuration && (h.window || !h.nwindow));
    hb_recorded_head_free(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hb_recorded r;
    hb_error err;
    char what[256];

    if (size < 1)
        return 0;
    hb_topic topic = data[0] % HB_NTOPICS;
    if (topic == HB_TOPIC_RECORDING)
        head(data + 1, size - 1);
    if (hb_recorded_read(&r, topic, data + 1, size - 1, cart(), &err))
        return 0;
    if (r.kind == HB_RECORDED_REQUEST) {
        hb_action_request request;
        hb_recorded_request(&r, wire(), &request);
    }
    if (r.kind == HB_RECORDED_COMMAND) {
        const double zero[8] = {0};
        hb_command c = {.status = r.status, .action = zero};
        if (!hb_recorded_same(&r, wire(), &c, true, what))
            FUZZ_EXPECT(memchr(what, 0, sizeof what));
    }
    hb_recorded_free(&r);
    return 0;
}
