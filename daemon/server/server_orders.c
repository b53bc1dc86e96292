/* The main thread's orders, and the descriptors by which it and the server wake each other. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/server_internal.h"
#include "server/wake.h"

/* Both return false when it has to wait for a later turn. */
static bool take_reload(hb_server *s, const hb_order *order)
{
    if (order->error)
        hb_fail(&s->orders.error, EINVAL, "%s", order->error);
    else if (s->shadow.thread && !hb_shadow_claim(s->shadow.thread))
        return false;
    else {
        s->retuned = order->settings;
        s->shadow.retuned = order->shadow_settings;
        const bool stays = hb_server_reload_target(s, &s->retuned, &s->shadow.retuned);
        if (hb_server_retune(s, &s->retuned, &s->shadow.retuned, &s->orders.error) == 0) {
            s->status.period = order->status_period;
            hb_server_reloaded_target(s, &order->settings);
            hb_server_record_change(s,
                                    &(hb_recorded_change){.stays = stays ? s->settings.target : NULL,
                                                          .prepared = s->record.prepared_before},
                                    order->configuration);
        }
    }
    s->status.counters.reloads++;
    s->status.counters.reload_errors += s->orders.error.code != 0;
    hb_server_reloaded(s, order, s->orders.error.code ? s->orders.error.text : NULL);
    return true;
}

/* Answers a client with the settings in force. */
static bool take_settings(hb_server *s, const hb_order *order)
{
    hb_server_answer(s, &s->control.setter, &(hb_control_reply){.settings = order->told, .error = order->error});
    return true;
}

static bool take_promotion(hb_server *s, const hb_order *order)
{
    if (order->error)
        hb_fail(&s->orders.error, EINVAL, "%s", order->error);
    else if (hb_server_promote(s, &s->orders.error) == -EAGAIN)
        return false;
    hb_server_promoted(s, s->orders.error.code ? s->orders.error.text : NULL);
    return true;
}

void hb_server_take_order(hb_server *s)
{
    if (atomic_load_explicit(&s->orders.state, memory_order_acquire) != HB_ORDER_POSTED ||
        !hb_worker_idle(s->actions.worker))
        return;
    s->orders.error = (hb_error){0};
    if (!(s->orders.order->promote ? take_promotion
          : s->orders.order->told  ? take_settings
                                   : take_reload)(s, s->orders.order))
        return;
    atomic_store_explicit(&s->orders.state, HB_ORDER_DONE, memory_order_release);
    hb_wake(s->orders.done_fd);
}

void hb_server_order_post(hb_server *s, const hb_order *order)
{
    s->orders.order = order;
    atomic_store_explicit(&s->orders.state, HB_ORDER_POSTED, memory_order_release);
    hb_wake(s->orders.wake_fd);
}

int hb_server_order_taken(hb_server *s, hb_error *err)
{
    if (atomic_load_explicit(&s->orders.state, memory_order_acquire) != HB_ORDER_DONE)
        return 1;
    atomic_store_explicit(&s->orders.state, HB_ORDER_NONE, memory_order_relaxed);
    *err = s->orders.error;
    return -s->orders.error.code;
}

int hb_server_order(hb_server *s, const hb_order *order, hb_error *err)
{
    int r;

    hb_server_order_post(s, order);
    while ((r = hb_server_order_taken(s, err)) > 0) {
        struct pollfd done = {.fd = s->orders.done_fd, .events = POLLIN};
        if (poll(&done, 1, -1) > 0)
            hb_wake_drain(s->orders.done_fd);
    }
    return r;
}

void hb_server_stop(hb_server *s)
{
    atomic_store_explicit(&s->orders.stop, true, memory_order_release);
    hb_wake(s->orders.wake_fd);
}

int hb_server_setting_fd(const hb_server *s)
{
    return s->orders.setting_fd;
}

const hb_setting_wish *hb_server_setting_wish(const hb_server *s)
{
    return &s->control.wish;
}

int hb_server_reload_fd(const hb_server *s)
{
    return s->orders.reload_fd;
}

int hb_server_orders_open(hb_server_orders *o, hb_error *err)
{
    int *fd[] = {&o->wake_fd, &o->done_fd, &o->reload_fd, &o->promote_fd, &o->setting_fd};
    int r = 0;

    for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
        if ((*fd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
            r = hb_fail(err, errno, "eventfd: %s", strerror(errno));
    return r;
}

void hb_server_orders_close(const hb_server_orders *o)
{
    const int fd[] = {o->wake_fd, o->done_fd, o->reload_fd, o->promote_fd, o->setting_fd};

    for (size_t i = 0; i < sizeof fd / sizeof *fd; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}
