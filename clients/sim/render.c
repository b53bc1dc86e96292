/* EGL is looked for at run time, so that hilbert-sim neither needs it to build nor to run without --render. */
#include "sim/render.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/gif.h"
#include "sim/mujoco.h"
#include "sim/png_file.h"

enum { WIDTH = 640, HEIGHT = 480, GIF_STRIDE = 2 };

/* The little of EGL that is used, after the Khronos registry. */
enum {
    EGL_NONE = 0x3038,
    EGL_RED_SIZE = 0x3024,
    EGL_GREEN_SIZE = 0x3023,
    EGL_BLUE_SIZE = 0x3022,
    EGL_DEPTH_SIZE = 0x3025,
    EGL_SURFACE_TYPE = 0x3033,
    EGL_PBUFFER_BIT = 0x0001,
    EGL_RENDERABLE_TYPE = 0x3040,
    EGL_OPENGL_BIT = 0x0008,
    EGL_OPENGL_API = 0x30A2,
    EGL_PLATFORM_SURFACELESS_MESA = 0x31DD,
};

typedef struct egl {
    void *library;
    void *(*get_platform_display)(unsigned platform, void *native, const intptr_t *attributes);
    unsigned (*initialize)(void *display, int *major, int *minor);
    unsigned (*bind_api)(unsigned api);
    unsigned (*choose_config)(void *display, const int *attributes, void **configs, int size, int *count);
    void *(*create_context)(void *display, void *config, void *share, const int *attributes);
    unsigned (*make_current)(void *display, void *draw, void *read, void *context);
    unsigned (*destroy_context)(void *display, void *context);
    unsigned (*terminate)(void *display);
    void *display, *context;
} egl;

struct hb_render {
    egl gl;
    bool ready; /* scene and context are made */
    mjvScene scene;
    mjvCamera camera;
    mjvOption option;
    mjrContext context;
    char folder[400];
    int frames;
    hb_gif *gif; /* every GIF_STRIDE-th frame, GIF_STRIDE times smaller */
    unsigned char small[HEIGHT / GIF_STRIDE][WIDTH / GIF_STRIDE][3];
    unsigned char pixels[HEIGHT][WIDTH][3], upright[HEIGHT][WIDTH][3];
};

static int find_functions(egl *gl, hb_error *err)
{
    const struct {
        void **to;
        const char *name;
    } function[] = {
        {(void **)&gl->get_platform_display, "eglGetPlatformDisplay"},
        {(void **)&gl->initialize, "eglInitialize"},
        {(void **)&gl->bind_api, "eglBindAPI"},
        {(void **)&gl->choose_config, "eglChooseConfig"},
        {(void **)&gl->create_context, "eglCreateContext"},
        {(void **)&gl->make_current, "eglMakeCurrent"},
        {(void **)&gl->destroy_context, "eglDestroyContext"},
        {(void **)&gl->terminate, "eglTerminate"},
    };

    gl->library = dlopen("libEGL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!gl->library)
        return hb_fail(err, ENOENT, "cannot draw: libEGL.so.1 is missing (Debian: libegl1 and libegl-mesa0)");
    for (size_t i = 0; i < sizeof function / sizeof *function; i++)
        if (!(*function[i].to = dlsym(gl->library, function[i].name)))
            return hb_fail(err, ENOENT, "cannot draw: libEGL.so.1 has no %s (EGL 1.5 is needed)", function[i].name);
    return 0;
}

static int make_context(egl *gl, hb_error *err)
{
    static const int wanted[] = {EGL_SURFACE_TYPE,
                                 EGL_PBUFFER_BIT,
                                 EGL_RENDERABLE_TYPE,
                                 EGL_OPENGL_BIT,
                                 EGL_RED_SIZE,
                                 8,
                                 EGL_GREEN_SIZE,
                                 8,
                                 EGL_BLUE_SIZE,
                                 8,
                                 EGL_DEPTH_SIZE,
                                 24,
                                 EGL_NONE};
    void *config;
    int count = 0, status = find_functions(gl, err);

    if (status)
        return status;
    gl->display = gl->get_platform_display(EGL_PLATFORM_SURFACELESS_MESA, NULL, NULL);
    if (!gl->display || !gl->initialize(gl->display, NULL, NULL))
        return hb_fail(err, ENODEV,
                       "cannot draw: EGL has no off-screen display (Debian: libegl-mesa0, libgl1-mesa-dri)");
    if (!gl->bind_api(EGL_OPENGL_API) || !gl->choose_config(gl->display, wanted, &config, 1, &count) || count < 1 ||
        !(gl->context = gl->create_context(gl->display, config, NULL, NULL)) ||
        !gl->make_current(gl->display, NULL, NULL, gl->context))
        return hb_fail(err, ENODEV, "cannot draw: EGL gives no OpenGL context (Debian: libgl1-mesa-dri)");
    return 0;
}

int hb_render_new(hb_render **ret, const hb_plant *p, const char *folder, double period, hb_error *err)
{
    char path[512];

    if (!p->type->mujoco)
        return hb_fail(err, EINVAL, "plant %s has no body to draw", p->type->name);
    if (mkdir(folder, 0777) && errno != EEXIST)
        return hb_fail(err, errno, "%s: %s", folder, strerror(errno));
    hb_render *r = calloc(1, sizeof *r);
    if (!r)
        return hb_fail(err, ENOMEM, "out of memory");
    if (snprintf(r->folder, sizeof r->folder, "%s", folder) >= (int)sizeof r->folder) {
        free(r);
        return hb_fail(err, ENAMETOOLONG, "%s: too long a name", folder);
    }
    int status = make_context(&r->gl, err);
    snprintf(path, sizeof path, "%s/flight.gif", r->folder);
    if (!status)
        status = hb_gif_new(&r->gif, path, WIDTH / GIF_STRIDE, HEIGHT / GIF_STRIDE, GIF_STRIDE * period, err);
    if (status) {
        hb_render_free(r);
        return status;
    }
    *ret = r;
    return 0;
}

/* The scene belongs to the compiled model, which exists after the plant's reset. */
static int make_scene(hb_render *r, const mjModel *m, hb_error *err)
{
    mjv_defaultScene(&r->scene);
    mjv_defaultCamera(&r->camera);
    mjv_defaultOption(&r->option);
    mjr_defaultContext(&r->context);
    mjv_makeScene(m, &r->scene, 1000);
    mjr_makeContext(m, &r->context, mjFONTSCALE_100);
    r->ready = true;
    mjr_setBuffer(mjFB_OFFSCREEN, &r->context);
    if (r->context.currentBuffer != mjFB_OFFSCREEN)
        return hb_fail(err, ENODEV, "cannot draw: OpenGL has no off-screen buffer");
    r->camera.type = mjCAMERA_FIXED;
    r->camera.fixedcamid = mj_name2id(m, mjOBJ_CAMERA, "view");
    if (r->camera.fixedcamid < 0) {
        /* from where all of it is seen, following what flies or walks */
        mjv_defaultFreeCamera(m, &r->camera);
        for (int j = m->njnt - 1; j >= 0; j--)
            if (m->jnt_type[j] == mjJNT_FREE) {
                r->camera.type = mjCAMERA_TRACKING;
                r->camera.trackbodyid = m->jnt_bodyid[j];
            }
    }
    return 0;
}

/* means over squares of pixels */
static void shrink(hb_render *r)
{
    for (int y = 0; y < HEIGHT / GIF_STRIDE; y++)
        for (int x = 0; x < WIDTH / GIF_STRIDE; x++)
            for (int c = 0; c < 3; c++) {
                int sum = 0;
                for (int i = 0; i < GIF_STRIDE * GIF_STRIDE; i++)
                    sum += r->upright[GIF_STRIDE * y + i / GIF_STRIDE][GIF_STRIDE * x + i % GIF_STRIDE][c];
                r->small[y][x][c] = (unsigned char)(sum / (GIF_STRIDE * GIF_STRIDE));
            }
}

int hb_render_frame(hb_render *r, const hb_plant *p, hb_error *err)
{
    const struct hb_mujoco *sim = p->type->mujoco(p);
    const mjrRect view = {0, 0, WIDTH, HEIGHT};
    char path[512];

    if (!r->ready) {
        int status = make_scene(r, sim->model, err);
        if (status)
            return status;
    }
    /* positions of bodies follow from the state; the flight's own data are left alone */
    mjData *d = mj_copyData(NULL, sim->model, sim->data);
    mj_forward(sim->model, d);
    mjv_updateScene(sim->model, d, &r->option, NULL, &r->camera, mjCAT_ALL, &r->scene);
    mj_deleteData(d);
    mjr_render(view, &r->scene, &r->context);
    mjr_readPixels(&r->pixels[0][0][0], NULL, view, &r->context);

    /* OpenGL counts rows from below */
    for (int y = 0; y < HEIGHT; y++)
        memcpy(r->upright[y], r->pixels[HEIGHT - 1 - y], sizeof r->pixels[0]);
    if (r->frames % GIF_STRIDE == 0) {
        shrink(r);
        hb_gif_frame(r->gif, &r->small[0][0][0]);
    }
    snprintf(path, sizeof path, "%s/%04d.png", r->folder, r->frames++);
    return hb_png_write(path, WIDTH, HEIGHT, &r->upright[0][0][0], err);
}

int hb_render_finish(hb_render *r, hb_error *err)
{
    int status = hb_gif_close(r->gif, err);

    r->gif = NULL;
    return status;
}

void hb_render_free(hb_render *r)
{
    if (!r)
        return;
    hb_gif_close(r->gif, NULL);
    if (r->ready) {
        mjr_freeContext(&r->context);
        mjv_freeScene(&r->scene);
    }
    if (r->gl.context) {
        r->gl.make_current(r->gl.display, NULL, NULL, NULL);
        r->gl.destroy_context(r->gl.display, r->gl.context);
    }
    if (r->gl.display)
        r->gl.terminate(r->gl.display);
    /* the library stays loaded: drivers do not survive being unloaded */
    free(r);
}
