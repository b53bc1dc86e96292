/* cmocka with what it needs, and comparison of doubles (cmocka's own works in float). */
#ifndef HB_CHECK_H
#define HB_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* |a - b| <= tolerance; NaN is near nothing */
#define assert_near(a, b, tolerance) check_near((a), (b), (tolerance), #a, __FILE__, __LINE__)

static inline void check_near(double a, double b, double tolerance, const char *what, const char *file, int line)
{
    if (!(fabs(a - b) <= tolerance)) {
        print_error("%s is %.17g, expected %.17g within %g\n", what, a, b, tolerance);
        _fail(file, line);
    }
}

#endif
