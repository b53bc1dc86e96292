/* hilbertctl keygen: a pair of CURVE keys as files. */
#include <stdio.h>
#include <string.h>

#include <zmq.h>

#include "keys.h"
#include "ctl/options.h"

static int run(const ctl_command *self, int argc, char **argv)
{
    char public[HB_KEY_SIZE], secret[HB_KEY_SIZE], secret_path[512], public_path[512], text[640];
    int result = ctl_read_options(self, argc, argv, (ctl_option[]){{0}}, 1);

    if (result)
        return result;
    if (argc - optind != 1 || strlen(argv[optind]) > 480)
        return ctl_usage_error(self, "one name is expected");
    snprintf(secret_path, sizeof secret_path, "%s.key", argv[optind]);
    snprintf(public_path, sizeof public_path, "%s.pub", argv[optind]);
    if (zmq_curve_keypair(public, secret))
        return ctl_failure(self, "this libzmq has no CURVE: %s", zmq_strerror(zmq_errno()));
    int bad = hb_key_write(secret_path, true, secret, text, sizeof text) ||
              hb_key_write(public_path, false, public, text, sizeof text);
    explicit_bzero(secret, sizeof secret);
    if (bad)
        return ctl_failure(self, "%s", text);
    printf("%s  keep it secret: security.server_key of a daemon, or --client-key of a client\n", secret_path);
    printf("%s  give it away: security.client_keys of a daemon, or --server-key of a client\n", public_path);
    const char *name = strrchr(argv[optind], '/');
    printf("or, with fewer rights, as a line of its security.authorized_keys:\n%s %s observe\n",
           name ? name + 1 : argv[optind], public);
    return CTL_OK;
}

const ctl_command ctl_command_keygen = {
    .name = "keygen",
    .arguments = "NAME",
    .summary = "make a pair of keys for tcp sockets",
    .help =
        "Writes NAME.key (secret, readable by you alone) and NAME.pub (public). A daemon and each of its clients has\n"
        "a pair; each is told the other's public key. Existing files are never overwritten.\n",
    .run = run,
};
