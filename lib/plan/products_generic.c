/* What every machine of an architecture has. */
#define HB_PRODUCTS_SYMBOL hb_products_generic
#define HB_PRODUCTS_NAME   generic
#define VECTOR_BYTES       16
#include "plan/products_body.h"
