#include "common/child.h"

#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int hb_child_run(const hb_child *c)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;

    if (posix_spawn_file_actions_init(&actions))
        return -1;
    if (c->input >= 0)
        posix_spawn_file_actions_adddup2(&actions, c->input, STDIN_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    if (c->output >= 0)
        posix_spawn_file_actions_adddup2(&actions, c->output, STDOUT_FILENO);
    if (c->errors >= 0)
        posix_spawn_file_actions_adddup2(&actions, c->errors, STDERR_FILENO);
    int failed = posix_spawnp(&child, c->arguments[0], &actions, NULL, c->arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}
