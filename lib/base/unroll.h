/* Short loops over registers: unrolled in full, in functions that become part of their callers. */
#ifndef HB_UNROLL_H
#define HB_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define INLINE static inline __attribute__((always_inline))

#endif
