/* Runs a fuzz target once over every file of a folder: what was found once is tried in every build, without libFuzzer.
 *
 * usage: corpus_TARGET FOLDER */
#include <dirent.h>

#include "fuzz.h"

static int run(const char *folder, const char *name)
{
    char path[4096];
    uint8_t *data = NULL;
    struct stat info;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &info)) {
        perror(path);
        return 1;
    }
    /* exactly as long as the input, so that the address sanitizer sees a read beyond it */
    size_t size = (size_t)info.st_size;
    data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, file) != size) {
        perror(path);
        return 1;
    }
    fclose(file);
    printf("%s\n", path); /* the last one printed is the one that failed */
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    int n = 0;

    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (struct dirent *e; (e = readdir(folder));)
        if (*e->d_name != '.') {
            if (run(argv[1], e->d_name))
                return 1;
            n++;
        }
    closedir(folder);
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
