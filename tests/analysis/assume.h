/* What the analyzers are told of functions that they do not see, since they look at one file at a time. */
#include "../../lib/base/base.h"

/* never 0: the code is an errno value that is set */
#define hb_fail(...) ((void)hb_fail(__VA_ARGS__), -1)
