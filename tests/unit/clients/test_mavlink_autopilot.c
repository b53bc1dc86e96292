/* What messages of an autopilot become: states in the model's frame, modes, clocks, parameters; limits and waypoints.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "mavlink/autopilot.h"
#include "mavlink/limits.h"
#include "mavlink/settings.h"
#include "mavlink/waypoints.h"

/* Through a real frame, as it would come. */
static bool tell(hb_autopilot *a, uint32_t id, const void *body, double now)
{
    uint8_t frame[HB_MAV_FRAME];
    const uint8_t *at = frame;
    hb_mav_parser p = {0};
    hb_mav_received r;
    size_t n = (size_t)hb_mav_encode(frame, id, body, (hb_mav_address){7, 1}, 0, NULL);

    assert_true(hb_mav_parse(&p, &at, &n, NULL, &r));
    return hb_autopilot_receive(a, &r, now, (int64_t)(now * 1e9));
}

static hb_autopilot meet(uint8_t kind)
{
    hb_autopilot a;
    hb_mav_heartbeat h = {.type = 2, .autopilot = kind, .base_mode = 128 + 1, .custom_mode = 4u << 16 | 3u << 24};
    hb_autopilot_start(&a, 0);
    assert_false(tell(&a, HB_MAV_ID_HEARTBEAT, &h, 0));
    return a;
}

/* rotation matrix of a quaternion w x y z, column-wise products written out by themselves */
static void rotate(const double q[4], const double v[3], double to[3])
{
    double w = q[0], x = q[1], y = q[2], z = q[3];
    to[0] = (w * w + x * x - y * y - z * z) * v[0] + 2 * (x * y - w * z) * v[1] + 2 * (x * z + w * y) * v[2];
    to[1] = 2 * (x * y + w * z) * v[0] + (w * w - x * x + y * y - z * z) * v[1] + 2 * (y * z - w * x) * v[2];
    to[2] = 2 * (x * z - w * y) * v[0] + 2 * (y * z + w * x) * v[1] + (w * w - x * x - y * y + z * z) * v[2];
}

/* a vector of the body, turned into the world in either frame, is the same vector */
static void frames_describe_the_same_vehicle(void **state)
{
    (void)state;
    unsigned draw = 1;
    for (int n = 0; n < 100; n++) {
        double q[4], norm = 0, frd[3], ned[3], nwu[3], x[HB_NSTATE];
        float f[13];
        for (int i = 0; i < 13; i++) {
            draw = draw * 1664525u + 1013904223u;
            f[i] = (float)(draw >> 8) / (1 << 23) - 1;
        }
        for (int i = 0; i < 4; i++)
            norm += (double)f[6 + i] * (double)f[6 + i];
        for (int i = 0; i < 4; i++)
            q[i] = (double)f[6 + i] / sqrt(norm);
        hb_state_from_ned(f, f + 3, f + 6, f + 10, x);

        for (int i = 0; i < 3; i++)
            frd[i] = (double)f[10 + i];
        rotate(q, frd, ned);
        const double model[4] = {x[HB_QW], x[HB_QX], x[HB_QY], x[HB_QZ]}, flu[3] = {frd[0], -frd[1], -frd[2]};
        rotate(model, flu, nwu);
        assert_float_equal(nwu[0], ned[0], 1e-6);
        assert_float_equal(nwu[1], -ned[1], 1e-6);
        assert_float_equal(nwu[2], -ned[2], 1e-6);
        assert_float_equal(x[HB_Z], -f[2], 1e-7);
        assert_float_equal(x[HB_VY], -f[4], 1e-7);
        assert_float_equal(x[HB_WY], -f[11], 1e-7);

        /* tilt and heading, from where the body's axes point */
        rotate(model, (double[]){0, 0, 1}, nwu);
        assert_float_equal(hb_tilt(x), acos(nwu[2]), 1e-6);
        rotate(model, (double[]){1, 0, 0}, nwu);
        assert_float_equal(hb_heading(x), atan2(nwu[1], nwu[0]), 1e-6);
    }
}

/* against the turn by an angle about an axis, exactly: q * (cos(a / 2), sin(a / 2) axis) */
static void an_attitude_is_turned_on_by_its_rates(void **state)
{
    (void)state;
    const hb_random_key key = {.seed = 5};

    for (uint64_t i = 0; i < 100; i++) {
        double q[4], w[3], size = 0, speed = 0, turn[4];
        for (uint64_t k = 0; k < 4; k++) {
            q[k] = hb_random_normal(key, 10 * i + k);
            size += q[k] * q[k];
        }
        for (uint64_t k = 0; k < 3; k++) {
            w[k] = 2 * hb_random_uniform(key, 10 * i + 4 + k) - 1;
            speed += w[k] * w[k];
        }
        const double seconds = (i % 2 ? 1 : -1) * 0.02, angle = sqrt(speed) * seconds;
        for (int k = 0; k < 4; k++)
            q[k] /= sqrt(size);
        turn[0] = cos(angle / 2);
        for (int k = 0; k < 3; k++)
            turn[1 + k] = sin(angle / 2) * w[k] / sqrt(speed);
        const double expected[4] = {q[0] * turn[0] - q[1] * turn[1] - q[2] * turn[2] - q[3] * turn[3],
                                    q[0] * turn[1] + q[1] * turn[0] + q[2] * turn[3] - q[3] * turn[2],
                                    q[0] * turn[2] - q[1] * turn[3] + q[2] * turn[0] + q[3] * turn[1],
                                    q[0] * turn[3] + q[1] * turn[2] - q[2] * turn[1] + q[3] * turn[0]};
        const float given[4] = {(float)q[0], (float)q[1], (float)q[2], (float)q[3]},
                    rates[3] = {(float)w[0], (float)w[1], (float)w[2]};
        float found[4];
        hb_attitude_turned(given, rates, (float)seconds, found);
        for (int k = 0; k < 4; k++) /* what is left out is of second order */
            assert_true(fabs((double)found[k] - expected[k]) <= angle * angle / 8 + 1e-6);
    }
}

static void a_quaternion_s_sign_goes_on(void **state)
{
    (void)state;
    /* a slow turn of two rounds, with a sign that flips for good in between, as PX4's does */
    double before[HB_NSTATE] = {0}, x[HB_NSTATE] = {0};
    int chosen = 0;
    for (int i = 0; i <= 1000; i++) {
        double yaw = i * 4 * M_PI / 1000, sign = i > 300 ? -1 : 1;
        x[HB_QW] = sign * cos(yaw / 2);
        x[HB_QZ] = sign * sin(yaw / 2);
        bool anew = hb_quaternion_follow(x, i ? before : NULL);
        double step = hypot(x[HB_QW] - before[HB_QW], x[HB_QZ] - before[HB_QZ]);
        assert_true(x[HB_QW] >= -0.2);
        if (i)
            assert_true(anew ? step > 1.9 : step < 0.01);
        chosen += anew;
        memcpy(before, x, sizeof x);
    }
    assert_int_equal(chosen, 2); /* once per round */
    x[HB_QW] = -0.9;
    hb_quaternion_follow(x, NULL);
    assert_true(x[HB_QW] > 0);
}

static void odometry_becomes_samples(void **state)
{
    (void)state;
    hb_autopilot a = meet(12);
    hb_mav_odometry o = {.time_usec = 1000000,
                         .x = 1,
                         .y = 2,
                         .z = -3,
                         .q = {1},
                         .vx = 4,
                         .vy = 5,
                         .vz = 6,
                         .rollspeed = 0.1f,
                         .pitchspeed = 0.2f,
                         .yawspeed = 0.3f,
                         .frame_id = 1,
                         .child_frame_id = 1};

    assert_int_equal(a.kind, HB_AUTOPILOT_PX4);
    assert_int_equal(a.address.system, 7);
    assert_true(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1));
    assert_int_equal(a.time_us, 1000000);
    const double expected[HB_NSTATE] = {1, 4, -2, -5, 3, -6, 0, 0, 0, 1, 0.1, -0.2, -0.3};
    for (int i = 0; i < HB_NSTATE; i++)
        assert_float_equal(a.x[i], expected[i], 1e-6);
    /* the same sample again, or an older one, is none */
    assert_false(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.01));
    assert_int_equal(a.repeated, 1);
    /* its reset counter is passed on; its first value is no reset */
    o.time_usec += 8000;
    assert_true(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.02));
    assert_int_equal(a.resets, 0);
    o.time_usec += 8000;
    o.reset_counter = 1;
    assert_true(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.03));
    assert_int_equal(a.resets, 1);
    assert_int_equal(a.estimator_resets, 1);
    /* velocity in the body's frame is turned: heading east (yaw 90 degrees), forward is east, which is minus west */
    o.time_usec += 8000;
    o.child_frame_id = 12;
    o.q[0] = o.q[3] = (float)M_SQRT1_2;
    o.vx = 2, o.vy = o.vz = 0;
    assert_true(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.04));
    assert_float_equal(a.x[HB_VX], 0, 1e-6);
    assert_float_equal(a.x[HB_VY], -2, 1e-6);
    /* what is no number, or in another frame, is no sample */
    o.time_usec += 8000;
    o.x = NAN;
    assert_false(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.05));
    o.x = 0;
    o.frame_id = 18;
    assert_false(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.06));
    /* nor is another system's */
    o.frame_id = 1;
    a.address.system = 9;
    assert_false(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.07));
}

/* a circle at 3 m/s, turning with it, sampled as PX4 does; what leaps is a reset, whatever the counter says */
static void leaps_are_resets(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        hb_autopilot a = meet(12);
        int leaps = 0;
        for (int i = 0; i < 400; i++) {
            double t = 0.008 * i, phase = 1.5 * t, yaw = phase + M_PI / 2;
            bool lost = i % 50 > 40, off = kind && i > 100 && i % 2; /* every other sample; some are lost */
            hb_mav_odometry o = {.time_usec = 1000000 + (uint64_t)(8000 * i),
                                 .x = (float)(2 * cos(phase)),
                                 .y = (float)(2 * sin(phase)),
                                 .z = -2,
                                 .q = {(float)cos(yaw / 2), 0, 0, (float)sin(yaw / 2)},
                                 .vx = (float)(-3 * sin(phase)),
                                 .vy = (float)(3 * cos(phase)),
                                 .yawspeed = 1.5f,
                                 .frame_id = 1,
                                 .child_frame_id = 1};
            if (off && kind == 1)
                o.x += 1;
            if (off && kind == 2)
                o.z -= 0.2f;
            if (off && kind == 3)
                o.vy += 1.5f;
            if (off && kind == 4)
                o.q[0] = (float)cos(yaw / 2 + 0.15), o.q[3] = (float)sin(yaw / 2 + 0.15);
            if (lost)
                continue;
            tell(&a, HB_MAV_ID_ODOMETRY, &o, t);
            leaps += i > 101; /* each sample differs from the one before it */
        }
        if (kind)
            assert_in_range(a.estimator_resets, leaps * 9 / 10, leaps + 2);
        else
            assert_int_equal(a.estimator_resets, 0);
    }
}

/* numbers that no clock has, from whoever sends them: under UBSan nothing overflows, and nothing is believed */
static void times_that_cannot_be_are_left_out(void **state)
{
    (void)state;
    static const uint64_t wrong[] = {UINT64_MAX, (uint64_t)INT64_MAX, (uint64_t)INT64_MAX + 1, (uint64_t)1 << 60};
    hb_autopilot a = meet(12);
    hb_mav_odometry o = {.time_usec = 1000000, .q = {1}, .frame_id = 1, .child_frame_id = 1};
    hb_mav_timesync s = {.tc1 = 2000000000, .ts1 = 900000000};

    tell(&a, HB_MAV_ID_TIMESYNC, &s, 1);
    assert_int_equal(a.sync.answers, 1);
    assert_true(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        o.time_usec = wrong[i];
        assert_false(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.1));
        s = (hb_mav_timesync){.tc1 = (int64_t)wrong[i], .ts1 = 1100000000};
        if (wrong[i] > (uint64_t)1 << 62)
            tell(&a, HB_MAV_ID_TIMESYNC, &s, 1.2);
        s = (hb_mav_timesync){.tc1 = 2100000000, .ts1 = (int64_t)wrong[i]};
        tell(&a, HB_MAV_ID_TIMESYNC, &s, 1.2);
        s.ts1 = INT64_MIN;
        tell(&a, HB_MAV_ID_TIMESYNC, &s, 1.2);
    }
    assert_int_equal(a.sync.answers, 1);
    assert_int_equal(a.sync.jumps, 0);
    assert_int_equal(a.samples, 1);
    /* and of what is believed, the farthest times apart */
    s = (hb_mav_timesync){.tc1 = INT64_C(1) << 62, .ts1 = 1150000000};
    tell(&a, HB_MAV_ID_TIMESYNC, &s, 1.2);
    s = (hb_mav_timesync){.tc1 = 1, .ts1 = 1150000000};
    tell(&a, HB_MAV_ID_TIMESYNC, &s, 1.2);
    assert_int_equal(a.sync.jumps, 2);
    o.time_usec = (uint64_t)1 << 53;
    assert_true(tell(&a, HB_MAV_ID_ODOMETRY, &o, 1.3));
    assert_true(hb_autopilot_sample_age(&a, 1300000000) < -1e9);
}

static void position_and_attitude_are_joined(void **state)
{
    (void)state;
    hb_autopilot a = meet(3);
    hb_mav_attitude_quaternion t = {.time_boot_ms = 1000, .q1 = 1, .yawspeed = 1};
    hb_mav_local_position_ned p = {.time_boot_ms = 1010, .x = 1, .y = 2, .z = -3};

    assert_int_equal(a.kind, HB_AUTOPILOT_ARDUPILOT);
    assert_false(tell(&a, HB_MAV_ID_LOCAL_POSITION_NED, &p, 1));
    assert_false(tell(&a, HB_MAV_ID_ATTITUDE_QUATERNION, &t, 1));
    assert_true(tell(&a, HB_MAV_ID_LOCAL_POSITION_NED, &p, 1));
    assert_int_equal(a.time_us, 1010000);
    assert_float_equal(hb_heading(a.x), -0.01, 1e-5); /* 10 ms at 1 rad/s, to the right */
    p.time_boot_ms = 1030;
    assert_false(tell(&a, HB_MAV_ID_LOCAL_POSITION_NED, &p, 1)); /* too far from its attitude */
    t.time_boot_ms = 1030;
    tell(&a, HB_MAV_ID_ATTITUDE_QUATERNION, &t, 1);
    assert_true(tell(&a, HB_MAV_ID_LOCAL_POSITION_NED, &p, 1));
    assert_int_equal(a.estimator_resets, 0);
    /* it has no reset counter: a jump is one */
    p.time_boot_ms = t.time_boot_ms = 1040;
    p.x += 1;
    tell(&a, HB_MAV_ID_ATTITUDE_QUATERNION, &t, 1);
    assert_true(tell(&a, HB_MAV_ID_LOCAL_POSITION_NED, &p, 1));
    assert_int_equal(a.estimator_resets, 1);
}

static void modes_are_told_apart(void **state)
{
    (void)state;
    hb_autopilot a;
    char name[32];

    hb_autopilot_start(&a, 0);
    assert_int_equal(hb_autopilot_intent(&a, 0), HB_INTENT_UNKNOWN); /* nobody is heard */
    a = meet(12);
    assert_int_equal(hb_autopilot_intent(&a, 0), HB_INTENT_UNKNOWN); /* it has not told */

    assert_false(hb_autopilot_offboard(&a));
    hb_autopilot_mode_name(&a, name);
    assert_string_equal(name, "hold");
    assert_true(a.armed);
    /* CURRENT_MODE is the quicker one; a heartbeat that is older does not take its place */
    hb_mav_current_mode m = {.custom_mode = 6u << 16};
    tell(&a, HB_MAV_ID_CURRENT_MODE, &m, 1);
    assert_true(hb_autopilot_offboard(&a));
    hb_mav_heartbeat h = {.type = 2, .autopilot = 12, .custom_mode = 4u << 16 | 3u << 24};
    tell(&a, HB_MAV_ID_HEARTBEAT, &h, 1.1);
    assert_true(hb_autopilot_offboard(&a));
    tell(&a, HB_MAV_ID_HEARTBEAT, &h, 2);
    assert_false(hb_autopilot_offboard(&a));
    /* after a failsafe the mode is another one than was asked for; old news are none */
    assert_int_equal(hb_autopilot_intent(&a, 0), HB_INTENT_OFFBOARD);
    m = (hb_mav_current_mode){.custom_mode = 4u << 16 | 3u << 24, .intended_custom_mode = 6u << 16};
    tell(&a, HB_MAV_ID_CURRENT_MODE, &m, 2.5);
    assert_false(hb_autopilot_offboard(&a));
    assert_int_equal(hb_autopilot_intent(&a, 2.6), HB_INTENT_OFFBOARD);
    m.intended_custom_mode = 3u << 16;
    tell(&a, HB_MAV_ID_CURRENT_MODE, &m, 2.7);
    assert_int_equal(hb_autopilot_intent(&a, 2.8), HB_INTENT_OTHER);
    assert_int_equal(hb_autopilot_intent(&a, 5), HB_INTENT_UNKNOWN);
    assert_true(hb_autopilot_heard(&a, 4.9));
    assert_false(hb_autopilot_heard(&a, 5.1));

    hb_mav_command_long c = hb_autopilot_command_mode(&a, true);
    assert_int_equal(c.command, 176);
    assert_true(c.param1 == 1 && c.param2 == 6);
    c = hb_autopilot_command_mode(&a, false);
    assert_true(c.param1 == 1 && c.param2 == 4 && c.param3 == 3);
    a = meet(3);
    a.mode = 4;
    assert_true(hb_autopilot_offboard(&a));
    a.mode = 5;
    assert_false(hb_autopilot_offboard(&a));
    assert_int_equal(hb_autopilot_intent(&a, 0), HB_INTENT_OTHER); /* ArduCopter has no such message */
}

static void streams_are_counted_however_slow(void **state)
{
    (void)state;
    static const double rates[] = {0.5, 2, 50, 125};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        hb_autopilot a = meet(12);
        hb_mav_current_mode m = {.custom_mode = 6u << 16};
        for (int k = 0; k <= 8 * rates[i]; k++)
            tell(&a, HB_MAV_ID_CURRENT_MODE, &m, k / rates[i]);
        assert_float_equal(hb_autopilot_rate(&a, HB_MAV_ID_CURRENT_MODE), rates[i], 0.05);
        assert_true(hb_autopilot_rate(&a, HB_MAV_ID_ODOMETRY) == 0);
    }
}

static void parameters_decide_over_flying(void **state)
{
    (void)state;
    hb_autopilot a = meet(12);
    const hb_parameter *problem = NULL;
    hb_mav_param_value v = {.param_value = 1, .param_type = 9};

    assert_false(hb_autopilot_parameters_good(&a, &problem));
    memcpy(v.param_id, "COM_OF_LOSS_T", 13);
    tell(&a, HB_MAV_ID_PARAM_VALUE, &v, 1); /* PX4's default */
    assert_false(hb_autopilot_parameters_good(&a, &problem));
    assert_string_equal(problem->name, "COM_OF_LOSS_T");
    v.param_value = 0.2f;
    tell(&a, HB_MAV_ID_PARAM_VALUE, &v, 1);
    assert_false(hb_autopilot_parameters_good(&a, &problem));
    assert_string_equal(problem->name, "COM_OBL_RC_ACT");
    assert_string_equal(hb_autopilot_next_parameter(&a)->name, "COM_OBL_RC_ACT");
    /* an int32, in PX4's way: its bytes in the float */
    int32_t whole = 5;
    v.param_type = 6;
    memset(v.param_id, 0, sizeof v.param_id);
    memcpy(v.param_id, "COM_OBL_RC_ACT", 14);
    memcpy(&v.param_value, &whole, 4);
    tell(&a, HB_MAV_ID_PARAM_VALUE, &v, 1);
    memset(v.param_id, 0, sizeof v.param_id);
    memcpy(v.param_id, "COM_FAIL_ACT_T", 14);
    v.param_type = 9;
    v.param_value = 0;
    tell(&a, HB_MAV_ID_PARAM_VALUE, &v, 1);
    assert_true(hb_autopilot_parameters_good(&a, &problem));
    assert_null(hb_autopilot_next_parameter(&a));

    /* ArduPilot: numbers as they are, and a bit that must be set */
    a = meet(3);
    memset(&v, 0, sizeof v);
    memcpy(v.param_id, "GUID_TIMEOUT", 12);
    v.param_value = 0.3f;
    tell(&a, HB_MAV_ID_PARAM_VALUE, &v, 1);
    memcpy(v.param_id, "GUID_OPTIONS", 12);
    v.param_value = 64;
    v.param_type = 6;
    tell(&a, HB_MAV_ID_PARAM_VALUE, &v, 1);
    assert_false(hb_autopilot_parameters_good(&a, &problem));
    v.param_value = 64 + 8;
    tell(&a, HB_MAV_ID_PARAM_VALUE, &v, 1);
    assert_true(hb_autopilot_parameters_good(&a, &problem));
}

static void clocks_are_compared(void **state)
{
    (void)state;
    hb_timesync t = {0};
    const int64_t ahead = 5000000000, ms = 1000000;
    unsigned draw = 7;

    for (int i = 0; i < 100; i++) {
        /* 1..20 ms on the way there, 1..20 ms back; one in eight is quick */
        int64_t asked = i * 100 * ms, there, back;
        draw = draw * 1664525u + 1013904223u;
        there = i % 8 ? ms * (int64_t)(1 + draw % 20) : ms / 10;
        draw = draw * 1664525u + 1013904223u;
        back = i % 8 ? ms * (int64_t)(1 + draw % 20) : ms / 10;
        hb_timesync_answer(&t, asked, asked + there + ahead, asked + there + back);
        int64_t error = hb_timesync_theirs_us(&t, 0) - ahead / 1000;
        if (i > 0)
            assert_in_range(error + 100, 0, 200); /* half the quick round trip, microseconds */
    }
    assert_int_equal(hb_timesync_trip_us(&t), 200);
    assert_int_equal(t.jumps, 0);
    /* the autopilot was restarted */
    hb_timesync_answer(&t, 20000 * ms, 3 * ms, 20000 * ms + 2 * ms);
    assert_int_equal(t.jumps, 1);
    assert_int_equal(hb_timesync_theirs_us(&t, 20001 * ms), 3000);
    /* an answer to nothing */
    hb_timesync_answer(&t, 30000 * ms, 1, 20000 * ms);
    assert_int_equal(t.answers, 101);
}

/* the autopilot's clock at another rate than ours: a simulation that is not quite real time, or not at all */
static void a_clock_at_another_rate_is_followed(void **state)
{
    (void)state;
    static const double rates[] = {1, 0.99, 1.01, 0.9, 0.5, 2, 1 + 1e-4};
    const double start = 100;
    unsigned draw = 7;

    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        hb_timesync t = {0};
        double worst = 0, asked = start;
        for (int i = 0; i < 200; i++) {
            double there, back;
            draw = draw * 1664525u + 1013904223u;
            there = 1e-4 + 0.004 * (double)(draw >> 8) / (1 << 24);
            draw = draw * 1664525u + 1013904223u;
            back = 1e-4 + 0.004 * (double)(draw >> 8) / (1 << 24);
            double theirs = 7 + rates[k] * (asked + there - start), now = asked + there + back;
            hb_timesync_answer(&t, (int64_t)(asked * 1e9), (int64_t)(theirs * 1e9), (int64_t)(now * 1e9));
            asked += i < HB_TIMESYNC_KEPT ? 0.05 : 0.5;
            /* until just before the next answer */
            double truth = 7 + rates[k] * (asked - start);
            if (i > HB_TIMESYNC_KEPT)
                worst = fmax(worst, fabs(1e-6 * (double)hb_timesync_theirs_us(&t, (int64_t)(asked * 1e9)) - truth));
        }
        if (worst > 0.003 * fmax(1, rates[k])) /* half of a long trip, and what half a second adds to it */
            fail_msg("rate %g: off by %g ms", rates[k], 1000 * worst);
        assert_int_equal(t.jumps, 0);
        /* it stood still for 0.3 s, as a simulation does on a busy machine: known again within one answer */
        double truth = 7 + rates[k] * (asked - start) - 0.3;
        hb_timesync_answer(&t, (int64_t)(asked * 1e9), (int64_t)((truth + rates[k] * 1e-4) * 1e9),
                           (int64_t)((asked + 2e-4) * 1e9));
        assert_int_equal(t.jumps, 1);
        assert_true(fabs(1e-6 * (double)hb_timesync_theirs_us(&t, (int64_t)(asked * 1e9)) - truth) < 1e-3);
    }
}

static void limits_hold_whatever_the_plan_says(void **state)
{
    (void)state;
    hb_limits l = {.rate = 3,
                   .yaw_rate = 1,
                   .thrust_min = 0.1,
                   .thrust_max = 0.9,
                   .tilt = 0.7,
                   .speed = 5,
                   .box_min = {-10, -10, 1},
                   .box_max = {10, 10, 8}};
    double u[HB_NCONTROL] = {2, -9, 9, -9}, x[HB_NSTATE] = {[HB_Z] = 2, [HB_QW] = 1};

    assert_true(hb_limits_clamp(&l, u));
    assert_true(u[0] == 0.9 && u[1] == -3 && u[2] == 3 && u[3] == -1);
    u[0] = -1;
    assert_true(hb_limits_clamp(&l, u));
    assert_true(u[0] == 0.1);
    u[2] = NAN;
    assert_false(hb_limits_clamp(&l, u));
    u[2] = INFINITY;
    assert_false(hb_limits_clamp(&l, u));

    assert_null(hb_limits_exceeded(&l, x));
    x[HB_VX] = 4, x[HB_VZ] = -4;
    assert_string_equal(hb_limits_exceeded(&l, x), "faster than the limit");
    x[HB_VX] = x[HB_VZ] = 0;
    x[HB_Z] = 0.9;
    assert_string_equal(hb_limits_exceeded(&l, x), "outside the box");
    x[HB_Z] = 2, x[HB_Y] = -10.1;
    assert_string_equal(hb_limits_exceeded(&l, x), "outside the box");
    x[HB_Y] = 0;
    x[HB_QX] = sin(0.36), x[HB_QW] = cos(0.36);
    assert_string_equal(hb_limits_exceeded(&l, x), "tilted beyond the limit");
    x[HB_QX] = sin(0.34), x[HB_QW] = cos(0.34);
    assert_null(hb_limits_exceeded(&l, x));
    x[HB_WZ] = NAN;
    assert_non_null(hb_limits_exceeded(&l, x));
    double point[3] = {20, 0, -3};
    hb_limits_nearest(&l, point);
    assert_true(point[0] == 10 && point[1] == 0 && point[2] == 1);
}

static const char *write_file(const char *text)
{
    static char path[64];
    strcpy(path, "/tmp/hilbert-mavlink-XXXXXX");
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void own_controls_are_those_in_force(void **state)
{
    (void)state;
    hb_autopilot a = meet(12);
    hb_mav_extended_sys_state air = {.landed_state = 2}, ground = {.landed_state = 1};
    hb_mav_attitude_target t = {
        .q = {1, 0, 0, 0}, .body_roll_rate = 0.1f, .body_pitch_rate = 0.2f, .body_yaw_rate = 0.3f};

    tell(&a, HB_MAV_ID_EXTENDED_SYS_STATE, &air, 0);
    assert_null(hb_autopilot_own_control(&a, 1000000));
    for (int i = 0; i < 40; i++) {
        t.time_boot_ms = (uint32_t)(1000 + 8 * i);
        t.thrust = 0.4f + 0.01f * (float)i;
        assert_false(tell(&a, HB_MAV_ID_ATTITUDE_TARGET, &t, 1));
    }
    /* the last one until the time asked for, in the model's frame */
    const double *u = hb_autopilot_own_control(&a, 1000000 + 8000 * 37 + 5000);
    assert_non_null(u);
    assert_float_equal(u[HB_THRUST], 0.77, 1e-6);
    assert_float_equal(u[HB_ROLL_RATE], 0.1, 1e-6);
    assert_float_equal(u[HB_PITCH_RATE], -0.2, 1e-6);
    assert_float_equal(u[HB_YAW_RATE], -0.3, 1e-6);
    /* neither older than what is kept, nor old news, nor on the ground */
    assert_null(hb_autopilot_own_control(&a, 1000000));
    assert_null(hb_autopilot_own_control(&a, 1000000 + 8000 * 39 + 100000));
    tell(&a, HB_MAV_ID_EXTENDED_SYS_STATE, &ground, 1);
    assert_null(hb_autopilot_own_control(&a, 1000000 + 8000 * 39));
}

static void waypoints_are_flown_one_after_the_other(void **state)
{
    (void)state;
    static hb_waypoints w;
    hb_error err = {0};
    double x[HB_NSTATE] = {[HB_Z] = 2, [HB_QW] = 1}, row[HB_WAYPOINT_ROWS][HB_NSTATE], *target = row[0];
    double time[HB_WAYPOINT_ROWS];
    const char *path = write_file("# a corner\n3 0 2\n\n  3 4 2 90 2  # and stay\n");

    assert_int_equal(hb_waypoints_read(&w, path, &err), 0);
    unlink(path);
    assert_int_equal(w.n, 2);
    w.speed = 1;
    w.radius = 0.5;
    double now = 100;
    hb_waypoints_reference(&w, now, x, row, time);
    assert_float_equal(target[HB_X], 0, 1e-9);
    /* a metre a second, never a jump */
    for (int i = 0; i < 100; i++) {
        double before = target[HB_X];
        hb_waypoints_reference(&w, now += 0.02, x, row, time);
        assert_true(target[HB_X] - before < 0.0201);
    }
    assert_float_equal(target[HB_X], 2, 1e-6);
    /* and what comes: along with its speed, and round the corner as if the vehicle kept up */
    for (int i = 0; i < HB_WAYPOINT_ROWS; i++) {
        assert_true(fabs(time[i] - 0.1 * i) < 1e-9);
        assert_float_equal(row[i][HB_X], fmin(3, 2 + time[i]), 1e-6);
        if (i != 10)
            assert_float_equal(row[i][HB_VX], i < 10, 1e-6);
        assert_float_equal(row[i][HB_Y], fmax(0, time[i] - 1), 0.021);
    }
    assert_float_equal(row[11][HB_VY], 1, 1e-6);
    /* it waits for the vehicle */
    for (int i = 0; i < 500; i++)
        hb_waypoints_reference(&w, now += 0.02, x, row, time);
    assert_float_equal(target[HB_X], 3, 1e-6);
    assert_float_equal(target[HB_Y], 0, 1e-6);
    x[HB_X] = 2.8;
    for (int i = 0; i < 500; i++)
        hb_waypoints_reference(&w, now += 0.02, x, row, time);
    assert_float_equal(target[HB_Y], 4, 1e-6);
    assert_float_equal(hb_heading(target), M_PI / 2, 1e-9);
    x[HB_Y] = 4;
    hb_waypoints_reference(&w, now += 0.02, x, row, time);
    hb_waypoints_reference(&w, now += 1.9, x, row, time);
    assert_int_equal(w.target.next, 1);
    hb_waypoints_reference(&w, now += 0.2, x, row, time);
    assert_int_equal(w.target.next, 2); /* all done: the last one stays the target */
    hb_waypoints_reference(&w, now += 5, x, row, time);
    assert_float_equal(target[HB_Y], 4, 1e-6);

    static const char *const wrong[] = {"", "1 2\n", "1 2 x\n", "1 2 3 4 5 6\n", "1 2 3 0 -1\n", "nan 0 0\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        path = write_file(wrong[i]);
        assert_int_not_equal(hb_waypoints_read(&w, path, &err), 0);
        unlink(path);
    }
    /* the rest of a line that is too long is no waypoint */
    char longer[300];
    memset(longer, ' ', sizeof longer);
    memcpy(longer, "1 2 3 #", 7);
    strcpy(longer + 255, "4 5 6\n");
    path = write_file(longer);
    assert_int_not_equal(hb_waypoints_read(&w, path, &err), 0);
    unlink(path);
    assert_non_null(strstr(err.text, ":1: longer than 254 characters"));
}

static void the_tightest_turn_of_a_way_is_told(void **state)
{
    (void)state;
    static hb_waypoints w;
    int at;

    /* straight on, back again, and a stay at a corner: nothing to tilt for */
    w = (hb_waypoints){.n = 5,
                       .speed = 3,
                       .at = {{.position = {0, 0, 2}},
                              {.position = {4, 0, 3}},
                              {.position = {9, 0, 2}},
                              {.position = {4, 0, 2}, .stay = 1},
                              {.position = {4, 5, 2}}}};
    assert_float_equal(hb_waypoints_tilt(&w, &at), 0, 1e-9);
    /* half a circle of 2 m, another of 5 m */
    w.n = 0;
    for (int i = 0; i <= 12; i++)
        w.at[w.n++] = (hb_waypoint){.position = {7 - 2 * cos(i * M_PI / 12), 2 * sin(i * M_PI / 12), 2}};
    for (int i = 1; i <= 12; i++)
        w.at[w.n++] = (hb_waypoint){.position = {4 + 5 * cos(i * M_PI / 12), -5 * sin(i * M_PI / 12), 2}};
    assert_float_equal(hb_waypoints_tilt(&w, &at), atan(9 / 2. / 9.81), 1e-6);
    assert_true(at >= 1 && at <= 11);
    w.speed = 1.5;
    assert_float_equal(hb_waypoints_tilt(&w, &at), atan(2.25 / 2 / 9.81), 1e-6);
}

/* A vehicle that goes to where the way will be in 0.6 s, so that it is past a waypoint before the target is there, and
 * inside of corners. Seconds until all waypoints are done; below 0: never. */
static double fly_along(hb_waypoints *w, double speed, double radius, double wind)
{
    double x[HB_NSTATE] = {[HB_X] = w->at[0].position[0], [HB_Y] = w->at[0].position[1], [HB_Z] = 2, [HB_QW] = 1};
    double row[HB_WAYPOINT_ROWS][HB_NSTATE], time[HB_WAYPOINT_ROWS], dt = 0.016;

    w->speed = speed;
    w->radius = radius;
    hb_waypoints_restart(w);
    for (double now = 0; now < 300; now += dt) {
        hb_waypoints_reference(w, now, x, row, time);
        if (w->target.next == w->n)
            return now;
        for (int i = HB_X; i <= HB_Z; i += 2)
            x[i] += dt * (row[6][i] - x[i]) / 0.3;
        x[HB_X] += dt * wind;
    }
    return -1;
}

static void waypoints_that_were_passed_are_reached(void **state)
{
    (void)state;
    static hb_waypoints circle, square, back;
    double length[3] = {0};

    for (int i = 0; i < 96; i++)
        circle.at[circle.n++] = (hb_waypoint){{2 * sin(2 * M_PI * i / 48), 2 - 2 * cos(2 * M_PI * i / 48), 2}, 0, 0};
    static const double corner[4][2] = {{0, 0}, {4, 0}, {4, 4}, {0, 4}};
    for (int i = 0; i < 9; i++)
        square.at[square.n++] = (hb_waypoint){{corner[i % 4][0], corner[i % 4][1], 2}, 0, 0};
    for (int i = 0; i < 6; i++) /* with a waypoint given twice */
        back.at[back.n++] = (hb_waypoint){{i % 3 ? 3 : 0, 0, 2}, 0, 0};
    hb_waypoints *const way[] = {&circle, &square, &back};
    for (int k = 0; k < 3; k++)
        for (int i = 1; i < way[k]->n; i++)
            length[k] += hypot(way[k]->at[i].position[0] - way[k]->at[i - 1].position[0],
                               way[k]->at[i].position[1] - way[k]->at[i - 1].position[1]);
    static const double speeds[] = {0.5, 1, 2, 3, 5}, radii[] = {0.1, 0.5, 1};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 3; j++) {
                double took = fly_along(way[k], speeds[i], radii[j], 0);
                if (took < 0 || took > 2 * length[k] / speeds[i] + 2 * way[k]->n)
                    fail_msg("way %d at %g m/s, radius %g m: %g s", k, speeds[i], radii[j], took);
            }
    /* blown off the way by 0.4 m */
    for (int i = 0; i < 5; i++)
        assert_true(fly_along(&circle, speeds[i], 0.5, 1.3) > 0);
    /* one that was not passed is waited for */
    double x[HB_NSTATE] = {[HB_Z] = 2, [HB_QW] = 1}, row[HB_WAYPOINT_ROWS][HB_NSTATE], time[HB_WAYPOINT_ROWS];
    hb_waypoints_restart(&square);
    for (int i = 0; i < 3000; i++)
        hb_waypoints_reference(&square, 0.01 * i, x, row, time);
    assert_int_equal(square.target.next, 1);
    /* and seen no further than that */
    for (int i = 0; i < HB_WAYPOINT_ROWS; i++)
        assert_true(row[i][HB_X] == 4 && row[i][HB_Y] == 0 && row[i][HB_VY] == 0);
    /* one that the vehicle is beyond by more than the radius is behind it: it does not turn back */
    square.radius = 0.5;
    x[HB_X] = 4 + 3 * square.radius;
    hb_waypoints_reference(&square, 30.01, x, row, time);
    assert_int_equal(square.target.next, 2);
}

static void settings_are_checked(void **state)
{
    (void)state;
    hb_mav_settings s, again;
    hb_error err = {0};
    char text[16384];

    hb_mav_settings_default(&s);
    assert_int_equal(hb_mav_settings_check(&s, &err), 0);
    const char *path = write_file("connect: serial:/dev/ttyACM0:921600\nbox_min: [-3, -4, 1]\nhold_for: 0.5\n");
    assert_int_equal(hb_mav_settings_read(&s, path, &err), 0);
    unlink(path);
    assert_string_equal(s.connect, "serial:/dev/ttyACM0:921600");
    assert_true(s.limits.box_min[1] == -4);
    /* what is printed reads back as the same */
    FILE *out = fmemopen(text, sizeof text, "w");
    hb_mav_settings_print(&s, out);
    fclose(out);
    path = write_file(text);
    hb_mav_settings_default(&again);
    assert_int_equal(hb_mav_settings_read(&again, path, &err), 0);
    unlink(path);
    assert_memory_equal(&s, &again, sizeof s);

    static const struct {
        const char *text, *complaint;
    } wrong[] = {
        {"max_tilt: a\n", ":1: max_tilt: 'a' is not a number"},
        {"hold_for: 1\nmax_tilt: 9\n", ":2: max_tilt: 9 is outside 0.05..3.15"},
        {"box_min: [1, 2]\n", ":1: box_min: '1,2' is not three numbers"},
        {"box_min: [1, 2, 30]\n", "box_min: 30 is not below box_max 20"},
        {"good_cycles: 1.5\n", "is not a whole number"},
        {"maximum_tilt: 1\n", "there is no key 'maximum_tilt'"},
        {"engage: me\n", "neither pilot nor operator"},
        {"hold_for: 1\nhold_for: 2\n", ":2: hold_for: given twice"},
        {"- 1\n", "expected lines of 'key: value'"},
        {"a: [\n", ":2:"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hb_mav_settings before = s;
        path = write_file(wrong[i].text);
        assert_int_not_equal(hb_mav_settings_read(&s, path, &err), 0);
        unlink(path);
        if (!strstr(err.text, wrong[i].complaint))
            fail_msg("'%s', expected '%s'", err.text, wrong[i].complaint);
        assert_memory_equal(&s, &before, sizeof s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_describe_the_same_vehicle),
        cmocka_unit_test(an_attitude_is_turned_on_by_its_rates),
        cmocka_unit_test(a_quaternion_s_sign_goes_on),
        cmocka_unit_test(odometry_becomes_samples),
        cmocka_unit_test(leaps_are_resets),
        cmocka_unit_test(times_that_cannot_be_are_left_out),
        cmocka_unit_test(position_and_attitude_are_joined),
        cmocka_unit_test(modes_are_told_apart),
        cmocka_unit_test(streams_are_counted_however_slow),
        cmocka_unit_test(parameters_decide_over_flying),
        cmocka_unit_test(clocks_are_compared),
        cmocka_unit_test(a_clock_at_another_rate_is_followed),
        cmocka_unit_test(limits_hold_whatever_the_plan_says),
        cmocka_unit_test(own_controls_are_those_in_force),
        cmocka_unit_test(waypoints_are_flown_one_after_the_other),
        cmocka_unit_test(the_tightest_turn_of_a_way_is_told),
        cmocka_unit_test(waypoints_that_were_passed_are_reached),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
