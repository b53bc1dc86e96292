/* libFuzzer target: any bytes as a recording. */
#include "fuzz.h"
#include "mcap/mcap_reader.h"

/* Reads up to the end or what is damaged; the number of messages, and what came last. */
static uint64_t read_on(hb_mcap_reader *r, int *ret_got, hb_error *err)
{
    hb_mcap_message m;
    uint64_t messages = 0;
    unsigned sum = 0;

    while ((*ret_got = hb_mcap_reader_next(r, &m, err)) > 0) {
        sum += (unsigned)strlen(m.channel->topic);
        for (size_t i = 0; i < m.size; i++)
            sum += m.data[i];
        messages++;
    }
    FUZZ_EXPECT(messages || !sum);
    return messages;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hb_mcap_reader *r;
    hb_error err;
    int got, again;

    if (hb_mcap_reader_of(&r, "file", data, size, &err))
        return 0;
    const uint64_t first = read_on(r, &got, &err);
    for (;;) {
        FUZZ_EXPECT(got == 0 || strstr(err.text, "offset") || strstr(err.text, "memory"));
        if (got == 0 || !hb_mcap_reader_skip(r))
            break;
        read_on(r, &got, &err);
    }
    hb_mcap_reader_rewind(r);
    FUZZ_EXPECT(read_on(r, &again, &err) >= first); /* more where a channel was described behind the damage */
    hb_mcap_reader_free(r);
    return 0;
}
