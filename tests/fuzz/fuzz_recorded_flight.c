/* A recording as reports and imports read it. The input is a list of messages, each as topic, time since the last
 * message (ms), length (two bytes) and its bytes; they are put into a whole file, so that what is tried is the messages
 * and not the container (fuzz_mcap). */
#include <math.h>

#include "data/recorded_flight.h"
#include "fuzz.h"
#include "mcap/mcap_writer.h"
#include "recording.h"

static void write_recording(int fd, const uint8_t *data, size_t size)
{
    static hb_mcap_writer *w;
    uint16_t channel[HB_NTOPICS];
    uint64_t time = 1;

    if (!w)
        FUZZ_EXPECT(hb_mcap_writer_new(&w,
                                       &(hb_mcap_writer_settings){.chunk_size = 65536, .message = 65536, .chunks = 100},
                                       NULL) == 0);
    FUZZ_EXPECT(hb_mcap_writer_begin(w, fd, HB_RECORDING_PROFILE, "fuzz", NULL) == 0);
    for (int i = 0; i < HB_NTOPICS; i++)
        FUZZ_EXPECT((channel[i] = hb_mcap_writer_channel(w, 0, hb_topic_name[i], "protobuf")));
    for (size_t at = 0; at + 4 <= size;) {
        size_t n = data[at + 2] | (size_t)data[at + 3] << 8, left = size - at - 4;
        n = n < left ? n : left;
        time += data[at + 1] * UINT64_C(1000000);
        FUZZ_EXPECT(hb_mcap_writer_message(w, channel[data[at] % HB_NTOPICS], 0, time, time, data + at + 4, n, NULL) ==
                    0);
        at += 4 + n;
    }
    FUZZ_EXPECT(hb_mcap_writer_end(w, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file file = fuzz_file_of(NULL, 0);
    const char *path = file.path;
    hb_recorded_flight *f = NULL;
    hb_error err = {0};
    char word[HB_NAME_SIZE];

    write_recording(file.fd, data, size);
    if (hb_recorded_flight_read(&f, &path, 1, &err)) {
        FUZZ_EXPECT(*err.text);
    } else {
        double sum = 0;
        for (size_t i = 0; i < f->nsamples * (size_t)f->nx; i++)
            sum += f->x[i];
        for (size_t i = 0; i < f->nsamples * (size_t)f->nu; i++)
            sum += f->u[i];
        for (size_t i = 0; i < f->nreplies; i++) {
            FUZZ_EXPECT(*hb_recorded_status_word(f->reply[i].status, word));
            for (int k = 0; k < f->nu; k++)
                sum += f->action[i * (size_t)f->nu + (size_t)k];
        }
        for (size_t i = 0; i < f->nestimates * (size_t)f->nc; i++)
            sum += (double)(f->coefficient[i] + f->deviation[i]);
        for (size_t i = 1; i < f->nsamples; i++)
            FUZZ_EXPECT(f->sample[i].time >= f->sample[i - 1].time);
        (void)sum;
    }
    hb_recorded_flight_free(f);
    close(file.fd);
    return 0;
}
