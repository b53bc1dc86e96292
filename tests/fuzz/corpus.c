/* Runs a fuzz target once over every file of an archive: what was found once is tried in every build, without
 * libFuzzer. The archive is one of tar's (ustar), as tests/fuzz/run.sh --merge packs it.
 *
 * usage: corpus_TARGET ARCHIVE */
#include "fuzz.h"

enum { BLOCK = 512, SIZE_AT = 124, SIZE_DIGITS = 11, TYPE_AT = 156 }; /* of a header, which is a block */

/* The next file of an archive, as long as its input exactly, so that the address sanitizer sees a read beyond it.
 * Returns 1, 0 at the archive's end, -1: it is damaged. */
static int next(FILE *archive, char *ret_name, uint8_t **ret_data, size_t *ret_size)
{
    char header[BLOCK], digits[SIZE_DIGITS + 1] = "";

    if (fread(header, BLOCK, 1, archive) != 1)
        return -1;
    if (!header[0])
        return 0;
    memcpy(digits, header + SIZE_AT, SIZE_DIGITS);
    size_t size = strtoul(digits, NULL, 8), padding = (BLOCK - size % BLOCK) % BLOCK;
    uint8_t *data = header[TYPE_AT] == '0' ? malloc(size ? size : 1) : NULL;
    if (!data || fread(data, 1, size, archive) != size || fseek(archive, (long)padding, SEEK_CUR)) {
        free(data);
        return -1;
    }
    snprintf(ret_name, 101, "%.100s", header);
    *ret_data = data;
    *ret_size = size;
    return 1;
}

int main(int argc, char **argv)
{
    FILE *archive = argc == 2 ? fopen(argv[1], "re") : NULL;
    uint8_t *data = NULL;
    char name[101];
    size_t size;
    int n = 0, r;

    if (!archive) {
        fprintf(stderr, "usage: %s ARCHIVE\n", argv[0]);
        return 2;
    }
    for (; (r = next(archive, name, &data, &size)) > 0; n++) {
        printf("%s\n", name); /* the last one printed is the one that failed */
        fflush(stdout);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    fclose(archive);
    if (r < 0)
        fprintf(stderr, "%s: damaged after %d files\n", argv[1], n);
    printf("%d inputs\n", n);
    return r == 0 && n > 0 ? 0 : 1;
}
