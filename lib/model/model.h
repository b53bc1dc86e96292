/* A basis file in memory: sizes, metadata and parameters of pretrained basis functions. Immutable once loaded.
 *
 *     z' = f_avg(z, u) + sum_i c_i g_i(z, u)        z = (x - state_mean) / state_std, u is normalised in the same way
 *
 * Parameters are one flat vector, so that an optimiser needs to know nothing about networks. Its order:
 *
 *     shared       the trunk's layers, then the head: nb x nx rows (basis 0 first), then nx rows of the average
 *                  when it is HB_AVERAGE_HEAD. Trunk and head together are one MLP with a linear last layer.
 *     independent  basis 0's layers, basis 1's layers, ...
 *     then, with HB_AVERAGE_NETWORK, the layers of the average network.
 *
 * A layer is weight (nout x nin, row-major), then bias (nout). */
#ifndef HB_MODEL_H
#define HB_MODEL_H

#include <stdbool.h>

#include "base/base.h"
#include "model/nominal.h"

enum { HB_MAX_LAYERS = 16, HB_MAX_WORDS = 32 };
/* noise of a state where no file tells, in deviations of the trained states: ordinary sensors */
#define HB_USUAL_NOISE 0.03
enum { HB_MAX_STATES = 4096, HB_MAX_BASIS = 65536, HB_MAX_WIDTH = 65536, HB_MAX_SUBSTEPS = 1000 };

typedef enum { HB_SHARED, HB_INDEPENDENT } hb_architecture;
typedef enum { HB_RELU, HB_TANH, HB_SILU } hb_activation;
typedef enum { HB_LEAST_SQUARES, HB_INNER_PRODUCT } hb_method;
typedef enum { HB_VECTOR, HB_PER_STATE } hb_shape; /* c is nb, or nb x nx */

typedef enum {
    HB_AVERAGE_NONE,
    HB_AVERAGE_HEAD,    /* rows of the shared head */
    HB_AVERAGE_NETWORK, /* a network of its own */
    HB_AVERAGE_NOMINAL, /* an analytic field, see nominal.h */
} hb_average;

/* How a step is made of g: `separate` integrates every basis function (and the average) along a trajectory of its
 * own, as the paper's authors do; `combined` takes common stage points along the model in use; `direct` takes
 * the network's output as the increment itself (no ODE: the paper's FE + Res row). */
typedef enum { HB_SEPARATE, HB_COMBINED, HB_DIRECT } hb_integration;

/* The shape of one multilayer perceptron; every layer but the last is followed by the activation. */
typedef struct hb_mlp {
    int nlayers;                  /* linear layers; 0: there is no such network */
    int width[HB_MAX_LAYERS + 1]; /* width[0] inputs, ..., width[nlayers] outputs */
    size_t nparameters;
} hb_mlp;

typedef struct hb_model {
    int nx, nu, nb;
    hb_architecture architecture;
    hb_activation activation;
    hb_average average;
    hb_integration integration; /* shared: combined or direct; independent: any */
    int substeps;               /* RK4 steps per control period, >= 1 */
    hb_method method;           /* what the basis was trained with */
    hb_shape shape;
    double ridge;  /* lambda of least squares */
    double volume; /* V of the inner product */
    double dt;     /* nominal control period, seconds */

    int ninputs;  /* states that feed the networks (the input mask) */
    int *input;   /* ninputs, their indices, ascending */
    bool *output; /* nx: do basis functions act on this state? Elsewhere their rows of g are zero (output mask) */
    hb_mlp basis; /* shared: trunk and head; independent: each one of the nb */
    hb_mlp average_network;

    bool has_prior; /* the fields prior_* and noise are there; false: they are NULL */
    int nwords;     /* hidden parameters that coefficients tell of: the fields word_*; see words.h */

    const hb_nominal *nominal;                       /* with HB_AVERAGE_NOMINAL, else NULL */
    double nominal_parameter[HB_NOMINAL_PARAMETERS]; /* in the order of nominal->parameter_name */

    char (*state_name)[HB_NAME_SIZE], (*state_unit)[HB_NAME_SIZE];     /* nx */
    char (*control_name)[HB_NAME_SIZE], (*control_unit)[HB_NAME_SIZE]; /* nu */
    bool *angle;                                                       /* nx: is it an angle, in radians? */
    double *state_mean, *state_std;                                    /* nx */
    double *control_mean, *control_std;                                /* nu */
    double *control_min, *control_max, *control_trim;                  /* nu, physical units */

    /* What stands between a command and the control that acts: a' = (command(t - delay) - a) / lag, |a'| <= rate. */
    double *actuator_delay, *actuator_lag; /* nu, seconds; 0: none */
    double *actuator_rate;                 /* nu, physical units per second; 0: no limit */

    /* Coefficients over the functions that the basis was trained on, c ~ N(prior_mean, prior_covariance), and what the
     * fitted basis leaves of a step. A covariance is symmetric, and positive semidefinite up to rounding. */
    double *prior_mean;       /* as coefficients: nb, or nb x nx */
    double *prior_covariance; /* nb x nb; with per-state coefficients nx blocks of nb x nb, one per state */
    double *noise;            /* nx, standard deviation of the residual of one step of dt, normalised, above 0 */
    double *reference_noise; /* nx, what the adapted model leaves of functions that were held back, in the long run: the
                                root of the innovations' long-run variance per step, normalised; 0: not measured */

    char (*word_name)[HB_NAME_SIZE], (*word_unit)[HB_NAME_SIZE]; /* nwords */
    int *word_form;                                              /* nwords, of hb_word_form */
    double *word_offset, *word_slope, *word_error;               /* nwords, nwords x coefficients, nwords */

    size_t nparameters;
    hb_real *parameter; /* nparameters, see the order above */
    char *notes;        /* free text: how it was made */
    uint64_t hash;      /* of parameters and metadata but notes and words: names the model in state files and replies */
} hb_model;

/* Checks the fields up to and including nominal_parameter, and works out those that follow from others: widths of
 * inputs and outputs and the numbers of parameters. hb_model_new does it by itself. A network without outputs (nb = 0
 * and no average in it) gets nlayers = 0. */
int hb_model_size(hb_model *shape_of, hb_error *err);
/* Checks everything, so that what passes can be saved and will load. */
int hb_model_check(const hb_model *m, hb_error *err);

/* A model to fill in: `shape_of` gives every field up to and including nominal_parameter (input may be NULL for all
 * states, output NULL likewise). The rest is set so that it says nothing: names x0.., u0.., no units, mean 0, std 1,
 * bounds -1..1, trim 0, ideal actuators, prior (when shape_of has one) 0 with noise 1, words w0.. that are always 0,
 * parameters 0. Of basis and
 * average_network only nlayers and the hidden widths (width[1..nlayers-1]) are read. notes is copied (NULL: empty). The
 * model is one block of memory; of a nominal model that is expressions it has a copy. */
int hb_model_new(hb_model **ret, const hb_model *shape_of, const char *notes, hb_error *err);
/* Reads a basis file (model_layout.h says what is in it) or refuses it with the reason. */
int hb_model_load(hb_model **ret, const char *path, hb_error *err);
/* Writes to a temporary file beside `path`, syncs, and renames: a reader never sees half a model. */
int hb_model_save(const hb_model *m, const char *path, hb_error *err);
void hb_model_free(hb_model *m);
/* A copy with room for a prior when `with_prior`, else without one, and without words. A prior that m has is copied;
 * one that it has not is to be filled in (mean 0, covariance 0, noise 1), and the copy sealed again. notes: NULL for
 * those of m. */
int hb_model_copy(hb_model **ret, const hb_model *m, bool with_prior, const char *notes, hb_error *err);

/* A copy with room for so many words, to be filled in, in the place of those that m has. */
int hb_model_copy_with_words(hb_model **ret, const hb_model *m, int nwords, const char *notes, hb_error *err);

/* Makes it the model of another vehicle, of which some nominal parameters are known (nominal->nparameters; NaN:
 * unknown). Where controls are forces, they are those of its mass: normalisation, bounds and trim grow with it. -EINVAL
 * when it has no nominal average, or a parameter cannot be. */
int hb_model_set_vehicle(hb_model *m, const double *known, hb_error *err);

/* Recomputes the hash. Call it after filling in the fields or parameters of a new model. */
void hb_model_seal(hb_model *m);

/* -EINVAL when coefficients must not be computed this way: the inner product presumes an orthonormal basis, which
 * training with least squares does not give. */
int hb_model_allows(const hb_model *m, hb_method method, hb_error *err);

static inline int hb_model_ncoefficients(const hb_model *m)
{
    return m->shape == HB_PER_STATE ? m->nb * m->nx : m->nb;
}

/* Problems by which coefficients are fitted, nb unknowns each: one, or one per state. */
static inline int hb_model_nproblems(const hb_model *m)
{
    return m->shape == HB_PER_STATE ? m->nx : 1;
}

/* The last layer of a network, as places in the network's parameters: all weights, row by row, then all biases. What
 * stands before the weights is the trunk. A shared network's rows are nx for each basis function, then nx for the
 * average if that is a head too. */
typedef struct hb_head {
    size_t rows, width;  /* outputs, inputs */
    size_t weight, bias; /* offsets */
} hb_head;

static inline hb_head hb_mlp_head(const hb_mlp *mlp)
{
    hb_head h = {0};

    if (mlp->nlayers > 0) {
        h.rows = (size_t)mlp->width[mlp->nlayers];
        h.width = (size_t)mlp->width[mlp->nlayers - 1];
        h.bias = mlp->nparameters - h.rows;
        h.weight = h.bias - h.rows * h.width;
    }
    return h;
}

/* Where the average's own network starts among the parameters. */
static inline size_t hb_model_average_at(const hb_model *m)
{
    return m->nparameters - m->average_network.nparameters;
}

/* Between physical units and the normalised ones in which the networks work. */
static inline double hb_normalised_state(const hb_model *m, int i, double x)
{
    return (x - m->state_mean[i]) / m->state_std[i];
}

static inline double hb_normalised_control(const hb_model *m, int i, double u)
{
    return (u - m->control_mean[i]) / m->control_std[i];
}

static inline double hb_physical_state(const hb_model *m, int i, double z)
{
    return m->state_mean[i] + m->state_std[i] * z;
}

/* Sets what the output mask leaves out to zero in a vector like `parameter`: parameters, or their gradient. */
void hb_model_mask(const hb_model *m, hb_real *vector);

/* Index of the first of four states in a row that are an attitude, named qx qy qz qw; -1: there are none. */
int hb_model_quaternion(const hb_model *m);

/* How a word follows from y = offset + slope c: y itself, or 1 / y. */
typedef enum { HB_WORD_LINEAR, HB_WORD_RECIPROCAL } hb_word_form;

/* Names of the enumerations, as in files and configurations; NULL-terminated. */
extern const char *const hb_architecture_name[],
    *const hb_activation_name[], *const hb_method_name[], *const hb_shape_name[], *const hb_average_name[],
                                                                                      *const hb_integration_name[],
                                                                                          *const hb_word_form_name[];

#endif
