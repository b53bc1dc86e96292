#include "daemon_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "bench.h"
#include "test_models.h"

static const int patience_ms = 20000;

static int listen_for_ready(const char *folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", folder);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address))
        bench_fail("%s: %s", address.sun_path, strerror(errno));
    return fd;
}

void daemon_process_prepare(daemon_process *d, const hb_model *m, const char *more)
{
    char path[128];
    hb_error err;

    *d = (daemon_process){.folder = "/tmp/hilbert-bench-XXXXXX"};
    if (!mkdtemp(d->folder))
        bench_fail("%s: %s", d->folder, strerror(errno));
    snprintf(path, sizeof path, "%s/model.safetensors", d->folder);
    if (hb_model_save(m, path, &err))
        bench_fail("%s", err.text);
    snprintf(d->telemetry, sizeof d->telemetry, "ipc://%s/telemetry", d->folder);
    snprintf(d->actions, sizeof d->actions, "ipc://%s/actions", d->folder);
    snprintf(d->control, sizeof d->control, "ipc://%s/control", d->folder);
    snprintf(path, sizeof path, "%s/config.yaml", d->folder);
    FILE *file = fopen(path, "w");
    if (!file)
        bench_fail("%s: %s", path, strerror(errno));
    fprintf(file, "model: model.safetensors\nsockets:\n  telemetry: %s\n  actions: %s\n  control: %s\n  status: []\n%s",
            d->telemetry, d->actions, d->control, more);
    fclose(file);
    d->notify = listen_for_ready(d->folder);
}

/* Waits until a datagram says READY=1. */
static bool wait_for_ready(daemon_process *d)
{
    double end = hb_now() + 1e-3 * patience_ms;
    char text[4096];

    while (hb_now() < end) {
        struct pollfd item = {.fd = d->notify, .events = POLLIN};
        if (poll(&item, 1, 100) > 0) {
            ssize_t n = recv(d->notify, text, sizeof text - 1, 0);
            text[n > 0 ? n : 0] = 0;
            if (strstr(text, "READY=1"))
                return true;
        }
        if (waitpid(d->pid, NULL, WNOHANG) == d->pid)
            return false;
    }
    return false;
}

void daemon_process_start(daemon_process *d)
{
    char config[128], notify[128], log[128];

    snprintf(config, sizeof config, "%s/config.yaml", d->folder);
    snprintf(notify, sizeof notify, "%s/notify", d->folder);
    snprintf(log, sizeof log, "%s/log", d->folder);
    d->started = hb_now();
    d->pid = fork();
    if (d->pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, STDERR_FILENO);
        setenv("NOTIFY_SOCKET", notify, 1);
        execl(HB_BUILD_ROOT "/daemon/hilbertd", "hilbertd", config, (char *)NULL);
        _exit(127);
    }
    if (d->pid < 0 || !wait_for_ready(d))
        bench_fail("%s/daemon/hilbertd does not start: see %s", HB_BUILD_ROOT, log);
    d->ready = hb_now();
}

void daemon_process_stop(daemon_process *d, int signal)
{
    char text[4096];

    if (d->pid > 0) {
        /* nobody has listened to what it said since it was ready */
        while (recv(d->notify, text, sizeof text, 0) >= 0) {
        }
        kill(d->pid, signal);
        waitpid(d->pid, NULL, 0);
    }
    d->pid = 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

void daemon_process_clean(daemon_process *d)
{
    close(d->notify);
    nftw(d->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

Hilbert__V1__ControlReply *daemon_process_status(const daemon_process *d)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Nothing nothing = HILBERT__V1__NOTHING__INIT;
    Hilbert__V1__ControlReply *reply = NULL;
    uint8_t frame[64];
    int zero = 0;
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    zmq_msg_t message;

    request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_STATUS;
    request.get_status = &nothing;
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    zmq_connect(socket, d->control);
    zmq_send(socket, frame, hilbert__v1__control_request__pack(&request, frame), 0);
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, 0) >= 0)
        reply = hilbert__v1__control_reply__unpack(NULL, zmq_msg_size(&message), zmq_msg_data(&message));
    zmq_msg_close(&message);
    zmq_close(socket);
    zmq_ctx_term(context);
    if (!reply || !reply->ok || reply->result_case != HILBERT__V1__CONTROL_REPLY__RESULT_STATUS)
        bench_fail("hilbertd does not answer: see %s/log", d->folder);
    return reply;
}

const char *daemon_process_scheduling(const daemon_process *d)
{
    char path[64];
    const char *found = "other";

    snprintf(path, sizeof path, "/proc/%d/task", (int)d->pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        if (atoi(task->d_name) > 0 && sched_getscheduler(atoi(task->d_name)) == SCHED_FIFO)
            found = "fifo";
    if (tasks)
        closedir(tasks);
    return found;
}

bool daemon_process_keeps_awake(const daemon_process *d)
{
    char path[64], target[256];
    bool found = false;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)d->pid);
    DIR *files = opendir(path);
    for (struct dirent *file; files && (file = readdir(files));) {
        ssize_t n = readlinkat(dirfd(files), file->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found |= strcmp(target, "/dev/cpu_dma_latency") == 0;
    }
    if (files)
        closedir(files);
    return found;
}

double daemon_process_rss_mb(const daemon_process *d)
{
    char path[64], line[256];
    double kb = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)d->pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kb = strtod(line + 6, NULL);
    if (file)
        fclose(file);
    return kb / 1024;
}

hb_model *daemon_process_quadrotor(bench *b)
{
    hb_model *m = NULL;
    hb_error err;

    if (hb_model_load(&m, HB_SOURCE_MODELS "/quadrotor.safetensors", NULL) == 0) {
        bench_set_text(b, "model", "shipped");
    } else {
        if (hb_test_quadrotor(&m, 8, 64, &err))
            bench_fail("%s", err.text);
        bench_set_text(b, "model", "random");
    }
    return m;
}
