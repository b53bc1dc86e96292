#include "data/log_check.h"

#include <math.h>

#include "data/rotor_order.h"
#include "data/vehicles.h"

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
            "standard deviations apart). Put them into that order%s\n",
            100 * o->explained, 100 * o->as_given, o->deviations, map ? ", in the description:" : "");
    for (int rotor = 0; rotor < HB_ROTORS && map; rotor++)
        for (int i = 0; i < HB_ROTORS; i++)
            if (o->rotor[i] == rotor)
                fprintf(out, "    '%s[%s]': %s\n", h->control_name[rotor], h->control_unit[rotor],
                        map->signal[map->nstates + i].text);
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
    int warnings = 0;

    if (hb_rotor_order_find(&order, d, NULL))
        return 0;
    double ratio = ratio_of(d, torque_ratio);
    if (order.wrong)
        warnings += warn_of_order(&order, d, map, out);
    if (order.sense_told && !isnan(ratio) && (ratio < 0) != order.reversed)
        warnings += warn_of_sense(&order, ratio, out);
    return warnings;
}
