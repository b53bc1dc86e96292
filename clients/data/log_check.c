#include "data/log_check.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/vehicles.h"

/* --- remedies --- */

static hb_log_signal *state_of(hb_log_map *m, const char *name)
{
    for (int i = 0; i < m->nstates; i++)
        if (strcmp(m->signal[i].name, name) == 0)
            return &m->signal[i];
    return NULL;
}

static bool is_slope(const hb_log_signal *s)
{
    return strncmp(s->text, "derivative(", strlen("derivative(")) == 0;
}

/* A state is `sign` times what the description had for another one, divided by a unit. */
static void rewrite(hb_log_map *to, const hb_log_map *m, const char *name, const char *from, int sign, double unit)
{
    hb_log_signal *state = state_of(to, name);
    const hb_log_signal *of = state_of((hb_log_map *)(uintptr_t)m, from);
    char text[HB_LOG_TEXT + 64];

    if (!state || !of || is_slope(state)) /* a slope follows its position */
        return;
    size_t n = 0;
    for (bool bare = true; bare && of->text[n]; n++)
        bare = isalnum((unsigned char)of->text[n]) || strchr("_.[]/", of->text[n]);
    bool whole = !of->text[n];
    if (sign > 0 && unit == 1)
        snprintf(text, sizeof text, "%s", of->text);
    else
        snprintf(text, sizeof text, whole ? "%s%s" : "%s(%s)", sign < 0 ? "-" : "", of->text);
    if (unit != 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), " / %.10g", unit);
    if (strlen(text) < sizeof state->text)
        strcpy(state->text, text);
}

void hb_log_put_frames_right(hb_log_map *m, const hb_frames *f)
{
    static const char *const place[] = {"x", "y", "z"}, *const velocity[] = {"vx", "vy", "vz"},
                             *const part[] = {"qx", "qy", "qz", "qw"}, *const rate[] = {"wx", "wy", "wz"};
    hb_log_map *was = malloc(sizeof *was);

    if (!was)
        return;
    *was = *m;
    m->world_rates = (m->world_rates || f->world_rates) && !f->turned_rates;
    for (int i = 0; i < 3; i++) {
        hb_log_signal *v = state_of(m, velocity[i]);
        rewrite(m, was, place[i], place[f->position.axis[i]], f->position.sign[i], 1);
        if (f->body_velocity && v)
            snprintf(v->text, sizeof v->text, "derivative(%s)", place[i]);
        rewrite(m, was, velocity[i], velocity[f->velocity.axis[i]], f->velocity.sign[i], f->velocity_unit);
        rewrite(m, was, rate[i], rate[f->rates.axis[i]], f->rates.sign[i], f->rate_unit);
    }
    for (int i = 0; i < 4; i++)
        rewrite(m, was, part[i], part[f->quaternion[i]], f->quaternion_sign[i], 1);
    free(was);
}

void hb_log_put_rotors_right(hb_log_map *m, const hb_rotor_order *o)
{
    char text[HB_ROTORS][HB_LOG_TEXT];

    for (int i = 0; i < HB_ROTORS; i++)
        memcpy(text[o->rotor[i]], m->signal[m->nstates + i].text, HB_LOG_TEXT);
    for (int i = 0; i < HB_ROTORS; i++)
        memcpy(m->signal[m->nstates + i].text, text[i], HB_LOG_TEXT);
}

/* Lines of a description that is put right, which differ from those that were. */
static void print_changes(const hb_log_map *was, const hb_log_map *is, FILE *out)
{
    fprintf(out, "  In the description:\n");
    if (is->world_rates != was->world_rates)
        fprintf(out, "    rates: %s\n", is->world_rates ? "world" : "body");
    for (int i = 0; i < is->nstates + is->ncontrols; i++)
        if (strcmp(is->signal[i].text, was->signal[i].text) != 0)
            fprintf(out, "    '%s[%s]': %s\n", is->signal[i].name, is->signal[i].unit, is->signal[i].text);
}

/* --- warnings --- */

static int warn_of_frames(const hb_frames *f, const hb_log_map *map, FILE *out)
{
    fprintf(out,
            "warning: the log's frames are not what its flights say (the physics has z up, the body's x forward, y "
            "left, z up):\n");
    if (f->attitude_wrong && (f->real_first || f->inverse))
        fprintf(out, "  its rates are those of its quaternion when that is read with%s%s%s\n",
                f->real_first ? " its real part first" : "", f->real_first && f->inverse ? " and" : "",
                f->inverse ? " the other sense (from the world to the body)" : "");
    if (f->world_rates)
        fprintf(out, "  its rates are those of its quaternion in the world's frame\n");
    if (f->turned_rates)
        fprintf(out, "  its rates were the body's before 'rates: world' turned them\n");
    if (f->rate_unit != 1)
        fprintf(out, "  its rates are %.4g times those of its quaternion%s\n", f->rate_unit,
                f->rate_unit > 1 ? ": degrees per second" : "");
    if (f->attitude_wrong && !f->real_first && !f->inverse && !f->world_rates && !f->turned_rates && f->rate_unit == 1)
        fprintf(out, "  axes of its rates are not those of its quaternion\n");
    if (f->body_velocity)
        fprintf(out, "  its velocities are those of its positions as the body sees them\n");
    else if (f->motion_wrong)
        fprintf(out, "  its velocities are those of its positions along other axes, or in another unit\n");
    if (f->push_wrong)
        fprintf(out, "  it accelerates as it tilts when %s\n",
                f->body_down && f->world_down ? "z points down, of the world and of the body (NED, FRD)"
                : f->body_down                ? "the body's z points down (FRD)"
                : f->world_down               ? "the world's z, to which the attitude is given, points down (NED)"
                                              : "positions have other axes than the attitude's world");
    hb_log_map *right = map ? malloc(sizeof *right) : NULL;
    if (right) {
        *right = *map;
        hb_log_put_frames_right(right, f);
        print_changes(map, right, out);
        free(right);
    }
    return 1;
}

static int warn_of_order(const hb_rotor_order *o, const hb_dataset *d, const hb_log_map *map, FILE *out)
{
    const hb_dataset_header *h = &d->header;

    fprintf(out, "warning: the controls are not in the order of nominal:quadrotor (front left, back left, back right, "
                 "front right):\n ");
    for (int i = 0; i < HB_ROTORS; i++)
        fprintf(out, "%s %s", i ? "," : "", h->control_name[i]);
    fprintf(out, " act as its rotors");
    for (int i = 0; i < HB_ROTORS; i++)
        fprintf(out, "%s %d", i ? "," : "", o->rotor[i]);
    fprintf(out,
            ". So they explain %.0f %% of how roll and pitch accelerations change,\n  as given %.0f %% (%.0f "
            "standard deviations apart). Put them into that order.\n",
            100 * o->explained, 100 * o->as_given, o->deviations);
    hb_log_map *right = map ? malloc(sizeof *right) : NULL;
    if (right) {
        *right = *map;
        hb_log_put_rotors_right(right, o);
        print_changes(map, right, out);
        free(right);
    }
    return 1;
}

/* The torque ratio that the data know of their vehicles, or the one given; NaN: none. */
static double ratio_of(const hb_dataset *d, double given)
{
    const hb_nominal *n = hb_nominal_find("quadrotor");
    double known[HB_NOMINAL_PARAMETERS];

    hb_vehicles_of(d, n, 0, known);
    double of_data = known[hb_nominal_parameter(n, "torque_ratio")];
    return isnan(of_data) ? given : of_data;
}

static int warn_of_sense(const hb_rotor_order *o, double ratio, FILE *out)
{
    fprintf(out,
            "warning: the rotors turn the other way round than torque_ratio %.4g says (%.0f standard deviations): give "
            "%.4g, or\n  none, and it is identified\n",
            ratio, o->reversed_deviations, -ratio);
    return 1;
}

int hb_log_check(const hb_dataset *d, const hb_log_map *map, double torque_ratio, FILE *out)
{
    hb_rotor_order order;
    hb_frames frames;
    int warnings = 0;

    if (!hb_frames_find(&frames, d, NULL) && (frames.attitude_wrong || frames.motion_wrong || frames.push_wrong))
        warnings += warn_of_frames(&frames, map, out);
    /* rotors are told by rates of the body: those come first */
    if (warnings || hb_rotor_order_find(&order, d, NULL))
        return warnings;
    double ratio = ratio_of(d, torque_ratio);
    if (order.wrong)
        warnings += warn_of_order(&order, d, map, out);
    if (order.sense_told && !isnan(ratio) && (ratio < 0) != order.reversed)
        warnings += warn_of_sense(&order, ratio, out);
    return warnings;
}
