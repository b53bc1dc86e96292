/* hilbert-sim describe: the first files of a robot of one's own. */
#include "sim/commands.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/robot.h"

static const char help[] = "usage: hilbert-sim describe ROBOT.xml [OPTIONS]\n"
                           "\n"
                           "Writes ROBOT.yaml beside an MJCF file, with all that is found in the model (states, "
                           "controls, what may be hidden,\n"
                           "starts, ends, what moves it), and ROBOT-control.yaml, first settings of hilbertd. Read "
                           "them, and change what is a\n"
                           "guess; then hilbert-sim list, collect and fly take ROBOT.xml as a plant.\n"
                           "\n"
                           "      --stdout          print ROBOT.yaml instead, and write nothing\n"
                           "      --force           replace files that exist\n"
                           "  -h, --help            this text\n";

/* Writes text to a file that does not exist, or that may be replaced. */
static int write_file(const char *path, const char *text, bool force, hb_error *err)
{
    if (!force && access(path, F_OK) == 0)
        return hb_fail(err, EEXIST, "%s exists: add --force to replace it, or --stdout to look at a new one", path);
    FILE *out = fopen(path, "we");
    if (!out)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    fputs(text, out);
    const int bad = ferror(out);
    return fclose(out) || bad ? hb_fail(err, EIO, "%s: cannot be written: is the disk full?", path) : 0;
}

int hb_command_describe(int argc, char **argv)
{
    bool to_stdout = false, force = false;
    const hb_option options[] = {
        {"stdout", HB_OPTION_FLAG, &to_stdout, 0, 0, 0},
        {"force", HB_OPTION_FLAG, &force, 0, 0, 0},
    };
    char yaml[PATH_MAX], control[PATH_MAX], warning[700], *robot_text = NULL, *config_text = NULL;
    size_t robot_size, config_size;
    hb_error err = {0};

    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        fputs(help, stdout);
        return 0;
    }
    if (argc < 2 || argv[1][0] == '-')
        return hb_usage_error("describe", "the robot is missing: it comes first");
    if (!hb_robot_named(argv[1]))
        return hb_usage_error("describe", "'%s': expected a file of MuJoCo's whose name ends in .xml", argv[1]);
    int code = hb_plant_options("describe", help, options, 2, argc, argv);
    if (code >= 0)
        return code;
    hb_robot_yaml(argv[1], yaml, sizeof yaml);
    snprintf(control, sizeof control, "%.*s-control.yaml", (int)strlen(argv[1]) - 4, argv[1]);

    FILE *robot = open_memstream(&robot_text, &robot_size), *config = open_memstream(&config_text, &config_size);
    int status = robot && config ? hb_robot_describe(argv[1], robot, config, warning, sizeof warning, &err)
                                 : hb_fail(&err, ENOMEM, "out of memory");
    if (robot)
        fclose(robot);
    if (config)
        fclose(config);
    if (!status && *warning)
        fprintf(stderr, "hilbert-sim describe: warning: %s\n", warning);
    if (!status && to_stdout)
        fputs(robot_text, stdout);
    if (!status && !to_stdout && !(status = write_file(yaml, robot_text, force, &err)) &&
        !(status = write_file(control, config_text, force, &err)))
        printf("%s and %s are written: read them, and change what is a guess\n", yaml, control);
    free(robot_text);
    free(config_text);
    return status ? hb_failure("describe", &err) : 0;
}
