/* libFuzzer targets: any bytes as a ULog (READER hb_ulog_read), or as an ArduPilot .bin log (hb_ardupilot_read). */
#include "data/flight_log.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hb_flight_log log = {0};
    hb_error err;

    READER(&log, "log", data, size, &err);
    for (int i = 0; i < HB_NSERIES; i++)
        for (size_t k = 1; k < log.series[i].n; k++)
            if (!(log.series[i].time[k] > log.series[i].time[k - 1]))
                abort();
    hb_flight_log_free(&log);
    return 0;
}
