/* libFuzzer target: any bytes as a recording. */
#include "fuzz.h"
#include "mcap/mcap_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hb_mcap_reader *r;
    hb_mcap_message m;
    hb_error err;
    uint64_t sum = 0;
    int got;

    if (hb_mcap_reader_of(&r, "file", data, size, &err))
        return 0;
    do {
        while ((got = hb_mcap_reader_next(r, &m, &err)) > 0) {
            sum += strlen(m.channel->topic);
            for (size_t i = 0; i < m.size; i++)
                sum += m.data[i];
        }
        if (got < 0 && !strstr(err.text, "offset") && !strstr(err.text, "memory"))
            abort();
    } while (got < 0 && hb_mcap_reader_skip(r));
    hb_mcap_reader_seek(r, sum);
    hb_mcap_reader_next(r, &m, &err);
    hb_mcap_reader_free(r);
    return 0;
}
