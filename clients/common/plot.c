#include "common/plot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/child.h"

struct hb_plot {
    char *name, *script;
    size_t size;
    FILE *out;
    int width, height;
};

int hb_plot_available(hb_error *err)
{
    FILE *nowhere = tmpfile();
    char *const arguments[] = {(char *)"gnuplot", (char *)"--version", NULL};
    int status = nowhere ? hb_child_run(&(hb_child){arguments, -1, fileno(nowhere), fileno(nowhere)}) : -1;

    if (nowhere)
        fclose(nowhere);
    if (status)
        return hb_fail(err, ENOENT,
                       "gnuplot cannot be run, which draws the pictures: install gnuplot-nox, or plot nothing");
    return 0;
}

void hb_plot_free(hb_plot *p)
{
    if (!p)
        return;
    if (p->out)
        fclose(p->out);
    free(p->script);
    free(p->name);
    free(p);
}

int hb_plot_new(hb_plot **ret, const char *name, int width, int height, hb_error *err)
{
    hb_plot *p = calloc(1, sizeof *p);

    if (p) {
        *p = (hb_plot){.name = strdup(name), .width = width, .height = height};
        p->out = open_memstream(&p->script, &p->size);
    }
    if (!p || !p->name || !p->out) {
        hb_plot_free(p);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    *ret = p;
    return 0;
}

FILE *hb_plot_script(hb_plot *p)
{
    return p->out;
}

/* a path as gnuplot's single-quoted string */
static void print_quoted(FILE *out, const char *name, const char *suffix)
{
    fputc('\'', out);
    for (const char *c = name; *c; c++)
        fprintf(out, *c == '\'' ? "''" : "%c", *c);
    fprintf(out, "%s'", suffix);
}

static int draw(const hb_plot *p, hb_error *err)
{
    FILE *in = tmpfile(), *errors = tmpfile();
    char *const arguments[] = {(char *)"gnuplot", NULL};
    char text[300] = "";
    int status = -1;

    if (in && errors) {
        fprintf(in, "set terminal svg size %d,%d dynamic font 'sans-serif,13' background '#ffffff'\nset output ",
                p->width, p->height);
        print_quoted(in, p->name, ".svg");
        fprintf(in, "\n%s\nunset output\nreset\nset terminal pngcairo size %d,%d font 'sans-serif,10'\nset output ",
                p->script, p->width, p->height);
        print_quoted(in, p->name, ".png");
        fprintf(in, "\n%s\nunset output\n", p->script);
        fflush(in);
        rewind(in);
        status = hb_child_run(&(hb_child){arguments, fileno(in), fileno(errors), fileno(errors)});
        rewind(errors);
        text[fread(text, 1, sizeof text - 1, errors)] = 0;
    }
    if (in)
        fclose(in);
    if (errors)
        fclose(errors);
    if (status < 0)
        return hb_plot_available(err) ? -ENOENT : hb_fail(err, EIO, "%s: gnuplot could not be run", p->name);
    if (status > 0)
        return hb_fail(err, EIO, "%s: gnuplot failed: %s", p->name, text);
    return 0;
}

int hb_plot_finish(hb_plot *p, hb_error *err)
{
    int status = 0;

    if (fclose(p->out))
        status = hb_fail(err, ENOMEM, "out of memory");
    p->out = NULL;
    if (!status)
        status = draw(p, err);
    hb_plot_free(p);
    return status;
}
