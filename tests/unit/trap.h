/* Counts what the library takes from the heap: lib/ must take nothing after a _new. The linker sends every call of
 * malloc and its kin from our own code through here (see --wrap in meson.build). */
#ifndef HB_TRAP_H
#define HB_TRAP_H

/* Allocations by all threads since the start of the program. */
long trap_allocations(void);

#endif
