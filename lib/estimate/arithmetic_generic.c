/* What every machine of an architecture has. */
#define HB_ARITHMETIC_SYMBOL hb_arithmetic_generic
#define HB_ARITHMETIC_NAME   generic
#define VECTOR_BYTES         16
#include "estimate/arithmetic_body.h"
