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

bool hb_reason_is_fault(hb_reason reason)
{
    return reason == HB_REASON_DIMENSION || reason == HB_REASON_NOT_FINITE || reason == HB_REASON_QUATERNION ||
           reason == HB_REASON_BAD_CONTROL || reason == HB_REASON_FROZEN || reason == HB_REASON_IMPLAUSIBLE ||
           reason == HB_REASON_MIXED;
}
