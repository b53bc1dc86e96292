#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <zmq.h>

#include "process/access.h"

enum { KEYS = 3 };

typedef struct fixture {
    char folder[64];
    char key[KEYS][41];
    uint8_t binary[KEYS][HB_KEY_BYTES];
    hb_config config;
    hb_access access;
    hb_error err;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    char secret[41];

    assert_non_null(f);
    strcpy(f->folder, "/tmp/test_access.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(zmq_curve_keypair(f->key[i], secret), 0);
        zmq_z85_decode(f->binary[i], f->key[i]);
    }
    *state = f;
    return 0;
}

static const char *const files[] = {"authorized_keys", "alice.pub", "pilot.pub"};

static void path_of(const fixture *f, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", f->folder, name);
}

static int tear_down(void **state)
{
    fixture *f = *state;
    char path[128];

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        path_of(f, files[i], path, sizeof path);
        unlink(path);
    }
    rmdir(f->folder);
    free(f);
    return 0;
}

static void write_file(const fixture *f, const char *name, const char *text)
{
    char path[128];

    path_of(f, name, path, sizeof path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, 0644);
}

static int parse(fixture *f, const char *format, ...)
{
    char text[4096];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    f->access = (hb_access){0};
    return hb_access_parse(&f->access, "keys", text, strlen(text), &f->err);
}

static void test_lines(void **state)
{
    fixture *f = *state;
    const hb_known_client *c = f->access.client;
    char text[HB_RIGHTS_SIZE];

    assert_int_equal(parse(f,
                           "# who may what\n\nautopilot %s telemetry,act\n\tground\t%s   operate\r\n  # further\n"
                           "tower %s observe",
                           f->key[0], f->key[1], f->key[2]),
                     0);
    assert_int_equal(f->access.n, 3);
    assert_string_equal(c[0].name, "autopilot");
    assert_int_equal(c[0].rights, HB_RIGHT_TELEMETRY | HB_RIGHT_ACT);
    assert_int_equal(c[1].rights, HB_RIGHT_OPERATE | HB_RIGHT_OBSERVE);
    assert_int_equal(c[2].rights, HB_RIGHT_OBSERVE);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(hb_access_find(&f->access, f->binary[i]), i);
    assert_int_equal(hb_access_find(&f->access, (const uint8_t[HB_KEY_BYTES]){0}), -1);
    hb_access_print(c[0].rights, text);
    assert_string_equal(text, "telemetry,act");
    hb_access_print(c[1].rights, text);
    assert_string_equal(text, "operate");
    hb_access_print(HB_ALL_RIGHTS, text);
    assert_string_equal(text, "telemetry,act,operate");
}

static void test_what_is_wrong_is_told_with_its_line(void **state)
{
    fixture *f = *state;
    const struct {
        const char *format, *expected;
    } all[] = {
        {"a %s\n", "keys:1: expected a name, a public key and rights"},
        {"\na %s act, observe\n", "keys:2: expected a name, a public key and rights"},
        {"a %s fly\n", "keys:1: a: expected rights of"},
        {"a %s ,\n", "keys:1: a: expected rights of"},
        {"a %.39s act\n", "keys:1: a: not a public key"},
        {"a %s act\na act act\n", "keys:2: a: not a public key"},
        {"caf\xc3\xa9 %s act\n", "keys:1: expected a name"},
        {"0123456789012345678901234567890123456789012345678901234567890123456789 %s act\n", "keys:1: expected a name"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_not_equal(parse(f, all[i].format, f->key[0]), 0);
        if (!strstr(f->err.text, all[i].expected))
            fail_msg("%s: %s", all[i].format, f->err.text);
    }
    assert_int_not_equal(parse(f, "a %s act\nb %s act\n", f->key[0], f->key[0]), 0);
    assert_non_null(strstr(f->err.text, "keys:2: b has the same key as a"));
    assert_int_not_equal(parse(f, "a %s act\na %s act\n", f->key[0], f->key[1]), 0);
    assert_non_null(strstr(f->err.text, "keys:2: another client is called a"));
    assert_int_not_equal(hb_access_parse(&f->access, "keys", "a\0b", 3, &f->err), 0);
}

static void test_a_configuration(void **state)
{
    fixture *f = *state;
    hb_config *c = &f->config;
    char line[128];

    c->security.client_keys.n = 1;
    path_of(f, "alice.pub", c->security.client_keys.at[0], HB_CONFIG_PATH_SIZE);
    path_of(f, "authorized_keys", c->security.authorized_keys, HB_CONFIG_PATH_SIZE);
    write_file(f, "alice.pub", f->key[0]);
    write_file(f, "pilot.pub", f->key[2]);
    snprintf(line, sizeof line, "tower %s observe\n", f->key[1]);
    write_file(f, "authorized_keys", line);
    assert_int_equal(hb_access_read(&f->access, c, &f->err), 0);
    assert_int_equal(f->access.n, 2);
    assert_int_equal(f->access.pilot, 0);
    assert_string_equal(f->access.client[0].name, "alice");
    assert_int_equal(f->access.client[0].rights, HB_ALL_RIGHTS);

    /* who flies need not be named twice, */
    path_of(f, "pilot.pub", c->security.pilot_key, HB_CONFIG_PATH_SIZE);
    assert_int_equal(hb_access_read(&f->access, c, &f->err), 0);
    assert_int_equal(f->access.pilot, 3);
    assert_int_equal(f->access.client[2].rights, HB_ALL_RIGHTS);
    /* and has the rights of its line, if there is one */
    snprintf(line, sizeof line, "p %s telemetry,act\n", f->key[2]);
    write_file(f, "authorized_keys", line);
    assert_int_equal(hb_access_read(&f->access, c, &f->err), 0);
    assert_int_equal(f->access.pilot, 2);
    assert_int_equal(f->access.client[1].rights, HB_RIGHT_TELEMETRY | HB_RIGHT_ACT);
    snprintf(line, sizeof line, "p %s observe\n", f->key[2]);
    write_file(f, "authorized_keys", line);
    assert_int_not_equal(hb_access_read(&f->access, c, &f->err), 0);
    assert_non_null(strstr(f->err.text, "security.pilot_key: p flies, and has no right to act"));

    /* files that cannot be trusted */
    chmod(c->security.authorized_keys, 0664);
    assert_int_not_equal(hb_access_read(&f->access, c, &f->err), 0);
    assert_non_null(strstr(f->err.text, "security.authorized_keys: "));
    assert_non_null(strstr(f->err.text, "chmod go-w"));
    write_file(f, "authorized_keys", "# nobody\n");
    assert_int_not_equal(hb_access_read(&f->access, c, &f->err), 0);
    assert_non_null(strstr(f->err.text, "no client is in it"));
    unlink(c->security.authorized_keys);
    assert_int_not_equal(hb_access_read(&f->access, c, &f->err), 0);
    assert_int_equal(mkfifo(c->security.authorized_keys, 0600), 0);
    assert_int_not_equal(hb_access_read(&f->access, c, &f->err), 0);
    assert_non_null(strstr(f->err.text, "not a regular file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_wrong_is_told_with_its_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_configuration, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
