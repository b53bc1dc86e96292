#include "data/flight_log.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/numeric.h"
#include "base/statistics.h"

const char *const hb_series_name[] = {
#define X(id, name, topic, message, columns) name,
    HB_SERIES(X)
#undef X
};
const char *const hb_series_topic[] = {
#define X(id, name, topic, message, columns) topic,
    HB_SERIES(X)
#undef X
};
const char *const hb_series_message[] = {
#define X(id, name, topic, message, columns) message,
    HB_SERIES(X)
#undef X
};
const int hb_series_columns[] = {
#define X(id, name, topic, message, columns) columns,
    HB_SERIES(X)
#undef X
};

uint64_t hb_log_unsigned(const uint8_t *at, size_t size)
{
    uint64_t v = 0;

    for (size_t i = 0; i < size; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

int hb_series_add(hb_series *s, int columns, double time, const double *value, hb_error *err)
{
    if (!isfinite(time) || (s->n && time <= s->time[s->n - 1]))
        return 0;
    if (!hb_all_finite(value, columns))
        return 0;
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        double *times = realloc(s->time, room * sizeof *times);
        if (times)
            s->time = times;
        double *values = realloc(s->value, room * (size_t)columns * sizeof *values);
        if (values)
            s->value = values;
        if (!times || !values)
            return hb_fail(err, ENOMEM, "out of memory");
        s->room = room;
    }
    s->time[s->n] = time;
    memcpy(s->value + s->n * (size_t)columns, value, (size_t)columns * sizeof *value);
    s->n++;
    return 0;
}

/* It changed in flight. */
static int remember(hb_flight_log *log, const char *name, double before, hb_error *err)
{
    if (log->nchanges == log->change_room) {
        size_t room = log->change_room ? 2 * log->change_room : 16;
        hb_log_change *more = realloc(log->change, room * sizeof *more);
        if (!more)
            return hb_fail(err, ENOMEM, "out of memory");
        log->change = more;
        log->change_room = room;
    }
    hb_log_change *c = &log->change[log->nchanges++];
    *c = (hb_log_change){.time = log->now, .before = before};
    snprintf(c->name, sizeof c->name, "%s", name);
    return 0;
}

int hb_flight_log_set(hb_flight_log *log, const char *name, size_t length, double value, hb_error *err)
{
    if (length == 0 || length >= HB_LOG_NAME)
        return 0;
    for (size_t i = 0; i < log->nparameters; i++)
        if (strlen(log->parameter[i].name) == length && memcmp(log->parameter[i].name, name, length) == 0) {
            double before = log->parameter[i].value;
            log->parameter[i].value = value;
            return value != before && log->now > 0 ? remember(log, log->parameter[i].name, before, err) : 0;
        }
    if (log->nparameters == log->parameter_room) {
        size_t room = log->parameter_room ? 2 * log->parameter_room : 256;
        hb_log_parameter *more = realloc(log->parameter, room * sizeof *more);
        if (!more)
            return hb_fail(err, ENOMEM, "out of memory");
        log->parameter = more;
        log->parameter_room = room;
    }
    hb_log_parameter *p = &log->parameter[log->nparameters++];
    memset(p, 0, sizeof *p);
    memcpy(p->name, name, length);
    p->value = value;
    return 0;
}

const double *hb_flight_log_parameter(const hb_flight_log *log, const char *name)
{
    for (size_t i = 0; i < log->nparameters; i++)
        if (strcmp(log->parameter[i].name, name) == 0)
            return &log->parameter[i].value;
    return NULL;
}

double hb_flight_log_parameter_at(const hb_flight_log *log, const char *name, double time)
{
    const double *last = hb_flight_log_parameter(log, name);
    double value = last ? *last : NAN;

    for (size_t i = log->nchanges; i-- > 0;)
        if (log->change[i].time > time && strcmp(log->change[i].name, name) == 0)
            value = log->change[i].before;
    return value;
}

double hb_series_rate(const hb_series *s)
{
    if (s->n < 2)
        return 0;
    double *step = malloc((s->n - 1) * sizeof *step), rate = 0;
    if (step) {
        for (size_t i = 0; i + 1 < s->n; i++)
            step[i] = s->time[i + 1] - s->time[i];
        rate = 1 / hb_quantile(step, (int)(s->n - 1), 0.5);
    }
    free(step);
    return rate;
}

void hb_flight_log_free(hb_flight_log *log)
{
    for (int i = 0; i < HB_NSERIES; i++) {
        free(log->series[i].time);
        free(log->series[i].value);
    }
    free(log->parameter);
    free(log->change);
    *log = (hb_flight_log){0};
}

int hb_flight_log_read(hb_flight_log *log, const char *path, hb_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status;
    struct stat s;

    if (fd < 0)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    if (fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_size < 4) {
        close(fd);
        return hb_fail(err, EINVAL, "%s: is no log: no file, or shorter than 4 bytes", path);
    }
    size_t n = (size_t)s.st_size;
    const uint8_t *data = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    if (memcmp(data, "ULog", 4) == 0)
        status = hb_ulog_read(log, path, data, n, err);
    else if (data[0] == 0xA3 && data[1] == 0x95)
        status = hb_ardupilot_read(log, path, data, n, err);
    else
        status =
            hb_fail(err, EINVAL, "%s: offset 0: is neither a PX4 ULog ('ULog') nor an ArduPilot .bin (A3 95)", path);
    munmap((void *)(uintptr_t)data, n);
    return status;
}
