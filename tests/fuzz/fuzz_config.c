/* Any text as hilbertd's configuration. What is taken prints as a text that is read as the same, and can be put to a
 * model without harm. */
#include "config/config.h"
#include "fuzz.h"
#include "test_models.h"

/* beside the shipped models, so that the default one is found */
static const char name[] = FUZZ_SOURCE "/config/fuzz.yaml";

static char *print(const hb_config *c)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    FUZZ_EXPECT(out);
    hb_config_print(c, false, out);
    FUZZ_EXPECT(fclose(out) == 0);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hb_config config, again;
    static hb_config_errors errors;
    static hb_model *model;

    if (!model)
        FUZZ_EXPECT(hb_test_quadrotor(&model, 2, 4, NULL) == 0);
    if (hb_config_parse(&config, name, (const char *)data, size, &errors)) {
        for (int i = 0; i < errors.n && i < HB_CONFIG_ERRORS; i++)
            FUZZ_EXPECT(memchr(errors.text[i], 0, sizeof errors.text[i]) && *errors.text[i]);
        return 0;
    }
    char *text = print(&config);
    if (hb_config_parse(&again, name, text, strlen(text), &errors)) {
        fprintf(stderr, "%s\nof\n%s\n", errors.text[0], text);
        abort();
    }
    char *back = print(&again);
    FUZZ_EXPECT(strcmp(text, back) == 0);
    free(text);
    free(back);
    hb_config_resolve(&config, model, &errors);
    return 0;
}
