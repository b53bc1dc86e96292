/* The levels of log lines, by which the configuration's log_level names one. */
#ifndef HB_LOG_LEVEL_H
#define HB_LOG_LEVEL_H

/* identifier, name, and the journal's number */
#define HB_LOG_LEVELS(X)                                                                                               \
    X(ERROR, "error", 3)                                                                                               \
    X(WARNING, "warning", 4)                                                                                           \
    X(NOTICE, "notice", 5)                                                                                             \
    X(INFO, "info", 6)                                                                                                 \
    X(DEBUG, "debug", 7)

typedef enum {
#define X(id, name, journal) HB_LOG_##id,
    HB_LOG_LEVELS(X)
#undef X
        HB_LOG_NLEVELS
} hb_log_level;

extern const char *const hb_log_level_name[];

#endif
