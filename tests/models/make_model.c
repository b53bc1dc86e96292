/* usage: make_model cart|wrong-cart|quadrotor|paper FILE */
#include <stdio.h>
#include <string.h>

#include "test_models.h"

int main(int argc, char **argv)
{
    const char *kind = argc == 3 ? argv[1] : "";
    hb_model *m = NULL;
    hb_error err = {0};
    int r = -1;

    if (!strcmp(kind, "cart"))
        r = hb_test_cart(&m, &err);
    else if (!strcmp(kind, "wrong-cart"))
        r = hb_test_wrong_cart(&m, &err);
    else if (!strcmp(kind, "quadrotor"))
        r = hb_test_quadrotor(&m, 8, 32, &err);
    else if (!strcmp(kind, "paper"))
        r = hb_test_paper(&m, 100, &err);
    else
        fputs("usage: make_model cart|wrong-cart|quadrotor|paper FILE\n", stderr);
    if (!r)
        r = hb_model_save(m, argv[2], &err);
    if (r && err.code)
        fprintf(stderr, "make_model: %s\n", err.text);
    hb_model_free(m);
    return r ? 1 : 0;
}
