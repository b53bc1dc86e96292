/* Where the code of the executable lies, to tell its calls from those of libraries. */
#ifndef HB_TEST_EXECUTABLE_TEXT_H
#define HB_TEST_EXECUTABLE_TEXT_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

static uintptr_t text_first, text_last;

static inline int find_text(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            text_first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            text_last = text_first + info->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the first object is the executable */
}

static inline bool is_of_executable(const void *caller)
{
    return (uintptr_t)caller >= text_first && (uintptr_t)caller < text_last;
}

#endif
