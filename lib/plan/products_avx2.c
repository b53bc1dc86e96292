#define HB_PRODUCTS_SYMBOL hb_products_avx2
#define HB_PRODUCTS_NAME   avx2
#define VECTOR_BYTES       32
#include "plan/products_body.h"
