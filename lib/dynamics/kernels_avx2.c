#define HB_KERNELS_SYMBOL hb_kernels_avx2
#define HB_KERNELS_NAME   avx2
#define VECTOR_BYTES      32
#define VECTOR_REGISTERS  16
#include "dynamics/kernels_body.h"
