/* What every machine of an architecture has: SSE2 on x86-64, NEON on aarch64. */
#define HB_KERNELS_SYMBOL hb_kernels_generic
#define VECTOR_BYTES      16
#ifdef __aarch64__
#define HB_KERNELS_NAME  neon
#define VECTOR_REGISTERS 32
#else
#define HB_KERNELS_NAME  generic
#define VECTOR_REGISTERS 16
#endif
#include "dynamics/kernels_body.h"
