#define HB_ARITHMETIC_SYMBOL hb_arithmetic_avx512
#define HB_ARITHMETIC_NAME   avx512
#define VECTOR_BYTES         64
#include "estimate/arithmetic_body.h"
