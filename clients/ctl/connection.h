/* hilbertctl's way to the daemon: the options that all its commands share, and questions over the control socket. */
#ifndef HB_CTL_CONNECTION_H
#define HB_CTL_CONNECTION_H

#include "handshake.h"
#include "hilbert.pb-c.h"
#include "ctl/options.h"

typedef struct ctl_connection {
    char control[256], actions[256], status[256]; /* endpoints */
    const char *server_key, *client_key;          /* files, or NULL */
    double timeout;                               /* seconds */
    void *context, *socket;                       /* of the control socket, once it is needed */
    void *watch;                                  /* of its handshakes, over tcp */
    hb_handshakes seen;
    uint64_t id;
} ctl_connection;

#define CTL_CONNECTION_HELP                                                                                            \
    "  -n, --name NAME        the daemon with sockets under /run/hilbertd/NAME\n"                                      \
    "  -s, --socket FOLDER    or under ipc://FOLDER, or tcp://HOST:PORT of its control socket\n"                       \
    "  -K, --server-key FILE  the daemon's public key, for tcp\n"                                                      \
    "  -k, --client-key FILE  our secret key, for tcp\n"                                                               \
    "  -t, --timeout SECONDS  how long to wait for an answer: 2\n"                                                     \
    "  -h, --help             this text\n"

/* Reads a command's own options (a table as in options.h, or NULL) and these. Defaults: environment (HILBERT_SOCKET,
 * HILBERT_SERVER_KEY, HILBERT_CLIENT_KEY), else /run/hilbertd. Returns as ctl_read_options. */
int ctl_connection_options(ctl_connection *c, const ctl_command *self, int argc, char **argv, const ctl_option *own,
                           int operands);
void ctl_connection_end(ctl_connection *c);
/* Endpoints of a folder, or of a control socket's own. */
void ctl_connection_place(ctl_connection *c, const char *where);

/* The daemons of this machine, a row each: CTL_FAILURE when one is in trouble. */
int ctl_list(ctl_connection *c, const ctl_command *self, bool json);

/* A socket of the given type connected to an endpoint, with keys; NULL after a message. */
void *ctl_open(ctl_connection *c, const ctl_command *self, int type, const char *endpoint);

/* Asks; a reply (to be freed with hilbert__v1__control_reply__free_unpacked) or NULL after a message. A reply that says
 * no is a NULL, too. */
Hilbert__V1__ControlReply *ctl_ask(ctl_connection *c, const ctl_command *self, Hilbert__V1__ControlRequest *request);
/* The same without a message: what went wrong goes to `why`, of `size` bytes. */
Hilbert__V1__ControlReply *ctl_try(ctl_connection *c, const ctl_command *self, Hilbert__V1__ControlRequest *request,
                                   char *why, size_t size);
/* The same of a command without arguments; another result than expected is a NULL, too (NOT_SET: any will do). */
Hilbert__V1__ControlReply *ctl_ask_for(ctl_connection *c, const ctl_command *self,
                                       Hilbert__V1__ControlRequest__CommandCase what,
                                       Hilbert__V1__ControlReply__ResultCase expected);
Hilbert__V1__ControlReply *ctl_try_for(ctl_connection *c, const ctl_command *self,
                                       Hilbert__V1__ControlRequest__CommandCase what,
                                       Hilbert__V1__ControlReply__ResultCase expected, char *why, size_t size);
/* The two questions that most commands begin with. */
Hilbert__V1__ControlReply *ctl_ask_status(ctl_connection *c, const ctl_command *self);
Hilbert__V1__ControlReply *ctl_ask_model(ctl_connection *c, const ctl_command *self);

/* "1,2,3", or "name=1" pairs over what `values` (n) holds. CTL_OK, or CTL_USAGE after a message. */
int ctl_read_vector(const ctl_command *self, const char *text, Hilbert__V1__Channel **channels, int n, double *values);

#endif
