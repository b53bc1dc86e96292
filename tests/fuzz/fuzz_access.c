/* Any text as an authorized_keys file. Clients that it gives have names, keys of their own and rights, and reading them
 * back from lines gives the same ones. */
#include <zmq.h>

#include "fuzz.h"
#include "process/access.h"

enum { LINE = HB_NAME_SIZE + 40 + HB_RIGHTS_SIZE + 4 };

static void expect_good(const hb_access *a)
{
    FUZZ_EXPECT(a->n >= 0 && a->n <= HB_MAX_CLIENTS && a->pilot == 0);
    for (int i = 0; i < a->n; i++) {
        const hb_known_client *c = &a->client[i];
        FUZZ_EXPECT(memchr(c->name, 0, sizeof c->name) && *c->name && *c->name != '#');
        for (const char *s = c->name; *s; s++)
            FUZZ_EXPECT(*s > ' ' && *s <= '~');
        FUZZ_EXPECT(c->rights && !(c->rights & ~(unsigned)HB_ALL_RIGHTS));
        FUZZ_EXPECT(!(c->rights & HB_RIGHT_OPERATE) || c->rights & HB_RIGHT_OBSERVE);
        FUZZ_EXPECT(hb_access_find(a, c->key) == i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hb_access a, again;
    static char text[HB_MAX_CLIENTS * LINE];
    hb_error err = {0};
    size_t used = 0;

    memset(&a, 0, sizeof a);
    memset(&again, 0, sizeof again);
    if (hb_access_parse(&a, "keys", (const char *)data, size, &err)) {
        FUZZ_EXPECT(strncmp(err.text, "keys:", 5) == 0);
        return 0;
    }
    expect_good(&a);
    for (int i = 0; i < a.n; i++) {
        char key[41], rights[HB_RIGHTS_SIZE];
        FUZZ_EXPECT(zmq_z85_encode(key, a.client[i].key, HB_KEY_BYTES));
        hb_access_print(a.client[i].rights, rights);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s %s\n", a.client[i].name, key, rights);
    }
    FUZZ_EXPECT(hb_access_parse(&again, "keys", text, used, &err) == 0);
    FUZZ_EXPECT(again.n == a.n);
    for (int i = 0; i < a.n; i++)
        FUZZ_EXPECT(strcmp(again.client[i].name, a.client[i].name) == 0 &&
                    again.client[i].rights == a.client[i].rights &&
                    memcmp(again.client[i].key, a.client[i].key, HB_KEY_BYTES) == 0);
    return 0;
}
