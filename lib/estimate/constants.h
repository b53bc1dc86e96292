/* All numbers that decide something in the estimator and are no settings: each has a unit and a reason.
 *
 * States are normalised: 1 is a standard deviation of the trained ones. What is counted in transitions is a bound on
 * work, never a time. */
#ifndef HB_ESTIMATE_CONSTANTS_H
#define HB_ESTIMATE_CONSTANTS_H

/* ---- seconds ---- */

/* A model errs in one direction for so long: evidence from within this time counts once, and runs are born so often. */
#define HB_CORRELATION_TIME 0.16
/* Errors that last are summed up over this time, several of the above; noise counts for as much at first. */
#define HB_LASTING_TIME 0.4
/* Behind the noise: it must be learned within seconds, and stay while nothing is excited. */
#define HB_NOISE_MEMORY 10.0
/* Behind the variance of lasting errors, of which there is a piece of evidence each HB_LASTING_TIME only. */
#define HB_SLOW_MEMORY 30.0
/* What is promised within half a second: what was known for less is no former belief, and the span is a mean over it.
 * Half of it is the least that says anything: a run is given as much before another may take its place. */
#define HB_SOON 0.5
/* A change is told to people when it has lasted so long, as foreign dynamics last at least: shorter is a disturbance.
 * It is told HB_SOON later at the latest; a flight is young until then, and nothing of it is left for later. */
#define HB_CONFIRM_TIME 1.0
/* What a vehicle's actuators are taken to be where nothing is known. One that is 40 ms faster or slower than planned
 * for swings, and with requests 40 ms apart ever more: this lies between. */
#define HB_USUAL_LAG   0.015
#define HB_USUAL_DELAY 0.005
/* How far they may be from where they start, before anything is seen: rotors and servos, radio links. */
#define HB_LAG_SPREAD   0.04
#define HB_DELAY_SPREAD 0.02
/* Deviation of each below which one may rely on them: a fifth of a period of 40 ms. */
#define HB_ACTUATORS_KNOWN 0.008

/* ---- probabilities and odds ---- */

/* That a vehicle is the average one, or the population's mean, before anything is seen: one of ten is told in two
 * pieces of evidence. A newborn run has at most as much. */
#define HB_KNOWN_SHARE 0.1
/* That a glitch's wrong sample also begins the next transition; else, as with a command that was never given, only one
 * is wrong: nothing says which. */
#define HB_GLITCH_RETURNS 0.5
/* Ten times, 10 dB, is much: former coefficients did so much worse, squared, when a change is told; coefficients from
 * elsewhere are worth so much more than the prior. */
#define HB_MUCH 10.0
/* Degrees of freedom of the errors' tails, for the weights of runs: errors of ten deviations happen. */
#define HB_TAIL_FREEDOM 5.0
/* Below this a hypothesis or a transition moves nothing but rounding; sums that have faded so far are scaled. */
#define HB_NEGLIGIBLE 1e-9
/* log of the weight of what does not live: finite, as all that is kept. */
#define HB_NONE (-1 / HB_NEGLIGIBLE)

/* ---- sizes, in deviations ---- */

/* What is more than usual: a single error counts for at most so much when noise is learned, and lasting errors of so
 * many times those of training are out of span with probability 1/2. */
#define HB_CLIP 3.0
/* What is nothing that a vehicle does: an outlier's width, the most that one channel alone adds to the span, and what a
 * belief that was kept may leave, and be away from the population. */
#define HB_FAR 10.0
/* Least noise of a transition where no file tells: networks compute in single precision. */
#define HB_LEAST_NOISE 1e-4
/* Share by which what is known to first order alone errs: the way back from a glitch, what unknown actuators change. */
#define HB_FIRST_ORDER 0.3
/* Theta is at most this, so that whitening forgets within ten transitions. */
#define HB_MOST_THETA 0.9
/* The prior is this much wider than the population, as a variance: few functions were trained on, and vehicles differ
 * more. */
#define HB_POPULATION_SPREAD 2.0
/* Where no population is known: a coefficient is a rate, and one above this, per period, can be neither stepped (it is
 * the limit of stability of RK4) nor linearised at. */
#define HB_FASTEST 2.8
/* Relative size of what is nothing: width of a population that has none in a direction, changes of f, and in seconds a
 * lag. */
#define HB_NOTHING 1e-6

/* Deviations by which a state is moved for Phi: the square root of single precision's rounding is about 3e-4, and
 * increments are hundredths, so that both rounding and curvature stay below a hundredth of Phi - I. */
#define HB_PHI_STEP 0.02
/* Seconds that a variant of the actuators differs by at least, for the same reason. */
#define HB_LEAST_STEP 0.002
/* Condition (by the factor's diagonal) from which a window does not determine the coefficients: increments have single
 * precision, so what is left of a smaller eigenvalue is nothing. */
#define HB_SINGULAR (1 / (HB_NOTHING * HB_NOTHING))
/* Without posterior: unexplained motion, as a fraction of all motion, below which a vehicle is never out of span. */
#define HB_SPAN_MOTION 0.1

/* ---- telemetry ---- */

/* Lags after which nothing is left of an actuator's old state: 1e-3. */
#define HB_SETTLED_LAGS 7.0
/* Of a period: samples within it are averaged into an end. */
#define HB_END_WIDTH 0.25
/* Times the usual gap: a sample is missing, and jitter is no longer likely. */
#define HB_LOST_SAMPLE 1.6
/* Reports in a row that equal no command, after which somebody else is flying: two may be late. */
#define HB_STRANGERS 3
/* Model's periods of a block in which channels are compared: a hung rate shows within two. */
#define HB_CHANNEL_PERIODS 5
/* Chance that a channel fails in a block: a few times in an hour of blocks. */
#define HB_CHANNEL_FAILS 1e-4
/* Blocks that the file's noise counts for when the vehicle's own is learned: one or two are chance. */
#define HB_FILE_BLOCKS 4.0
/* Where no file says anything of noise: that of a sensor, of what its state spans. It counts for one block, and the
 * vehicle's own may be less. */
#define HB_CHANNEL_NOISE 0.02
/* Rates of an estimator are off by about so much of what they span, for seconds: an error that the noise of a step does
 * not show, nor a few blocks in a row. PX4's velocities have 0.1 m/s of 0.9. */
#define HB_RATE_BIAS 0.12

/* ---- work ---- */

/* Transitions that are looked back at, at most: to explain a young flight again (some milliseconds), and for commands
 * whose effect may last. */
enum { HB_LOOKED_BACK = 48 };
/* Numbers of a Cholesky factor, in all, above which only two runs live: a millisecond's work. */
#define HB_LARGE_BASIS 2e6
/* Prediction errors behind hb_health.one_step_error: what an eye can follow. */
enum { HB_RECENT = 10 };
/* Solves of the window alone, of which one is examined: that costs more than solving, and conditions change slowly. */
enum { HB_EXAMINE_EVERY = 8 };

#endif
