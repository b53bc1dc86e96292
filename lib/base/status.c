/* Names and explanations, from the lists in status.h. */
#include "base/status.h"

const char *const hb_status_name[] = {
#define X(id, name, help) name,
    HB_STATUSES(X)
#undef X
};

const char *const hb_status_help[] = {
#define X(id, name, help) help,
    HB_STATUSES(X)
#undef X
};

const char *const hb_reason_name[] = {
#define X(id, name, help) name,
    HB_REASONS(X)
#undef X
};

const char *const hb_reason_help[] = {
#define X(id, name, help) help,
    HB_REASONS(X)
#undef X
};
