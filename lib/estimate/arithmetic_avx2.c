#define HB_ARITHMETIC_SYMBOL hb_arithmetic_avx2
#define HB_ARITHMETIC_NAME   avx2
#define VECTOR_BYTES         32
#include "estimate/arithmetic_body.h"
