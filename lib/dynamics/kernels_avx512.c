#define HB_KERNELS_SYMBOL hb_kernels_avx512
#define HB_KERNELS_NAME   avx512
#define VECTOR_BYTES      64
#define VECTOR_REGISTERS  32
#include "dynamics/kernels_body.h"
