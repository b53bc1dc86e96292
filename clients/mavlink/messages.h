/* The MAVLink messages of the bridge: one table, from which structures, layouts and checks are made.
 *
 * Fields stand in the order of the wire (by size, then as in MAVLink's definition; extensions last), with MAVLink's own
 * names and types, so that CRC_EXTRA can be computed from this table and held against the number beside it.
 *
 *     F(type, name)         a field             X(type, name)      an extension field
 *     A(type, name, n)      an array            Y(type, name, n)   an extension array */
#ifndef HB_MAVLINK_MESSAGES_H
#define HB_MAVLINK_MESSAGES_H

#include <stdint.h>

/* M(name, structure, id, CRC_EXTRA) */
#define HB_MAV_MESSAGES(M)                                                                                             \
    M(HEARTBEAT, heartbeat, 0, 50)                                                                                     \
    M(SYS_STATUS, sys_status, 1, 124)                                                                                  \
    M(PARAM_REQUEST_READ, param_request_read, 20, 214)                                                                 \
    M(PARAM_VALUE, param_value, 22, 220)                                                                               \
    M(PARAM_SET, param_set, 23, 168)                                                                                   \
    M(ATTITUDE_QUATERNION, attitude_quaternion, 31, 246)                                                               \
    M(LOCAL_POSITION_NED, local_position_ned, 32, 185)                                                                 \
    M(SERVO_OUTPUT_RAW, servo_output_raw, 36, 222)                                                                     \
    M(COMMAND_LONG, command_long, 76, 152)                                                                             \
    M(COMMAND_ACK, command_ack, 77, 143)                                                                               \
    M(SET_ATTITUDE_TARGET, set_attitude_target, 82, 49)                                                                \
    M(ATTITUDE_TARGET, attitude_target, 83, 22)                                                                        \
    M(SET_POSITION_TARGET_LOCAL_NED, set_position_target_local_ned, 84, 143)                                           \
    M(HIL_ACTUATOR_CONTROLS, hil_actuator_controls, 93, 47)                                                            \
    M(HIGHRES_IMU, highres_imu, 105, 93)                                                                               \
    M(TIMESYNC, timesync, 111, 34)                                                                                     \
    M(HIL_STATE_QUATERNION, hil_state_quaternion, 115, 4)                                                              \
    M(EXTENDED_SYS_STATE, extended_sys_state, 245, 130)                                                                \
    M(STATUSTEXT, statustext, 253, 83)                                                                                 \
    M(ESC_STATUS, esc_status, 291, 10)                                                                                 \
    M(ODOMETRY, odometry, 331, 91)                                                                                     \
    M(ACTUATOR_OUTPUT_STATUS, actuator_output_status, 375, 251)                                                        \
    M(CURRENT_MODE, current_mode, 436, 193)

#define HB_MAV_HEARTBEAT(F, A, X, Y)                                                                                   \
    F(uint32_t, custom_mode)                                                                                           \
    F(uint8_t, type)                                                                                                   \
    F(uint8_t, autopilot)                                                                                              \
    F(uint8_t, base_mode)                                                                                              \
    F(uint8_t, system_status)                                                                                          \
    F(uint8_t, mavlink_version)

#define HB_MAV_SYS_STATUS(F, A, X, Y)                                                                                  \
    F(uint32_t, onboard_control_sensors_present)                                                                       \
    F(uint32_t, onboard_control_sensors_enabled)                                                                       \
    F(uint32_t, onboard_control_sensors_health)                                                                        \
    F(uint16_t, load)                                                                                                  \
    F(uint16_t, voltage_battery) /* mV */                                                                              \
    F(int16_t, current_battery)                                                                                        \
    F(uint16_t, drop_rate_comm)                                                                                        \
    F(uint16_t, errors_comm)                                                                                           \
    F(uint16_t, errors_count1)                                                                                         \
    F(uint16_t, errors_count2)                                                                                         \
    F(uint16_t, errors_count3)                                                                                         \
    F(uint16_t, errors_count4)                                                                                         \
    F(int8_t, battery_remaining) /* percent; -1: unknown */                                                            \
    X(uint32_t, onboard_control_sensors_present_extended)                                                              \
    X(uint32_t, onboard_control_sensors_enabled_extended)                                                              \
    X(uint32_t, onboard_control_sensors_health_extended)

#define HB_MAV_PARAM_REQUEST_READ(F, A, X, Y)                                                                          \
    F(int16_t, param_index) /* -1: by name */                                                                          \
    F(uint8_t, target_system)                                                                                          \
    F(uint8_t, target_component)                                                                                       \
    A(char, param_id, 16)

#define HB_MAV_PARAM_VALUE(F, A, X, Y)                                                                                 \
    F(float, param_value)                                                                                              \
    F(uint16_t, param_count)                                                                                           \
    F(uint16_t, param_index)                                                                                           \
    A(char, param_id, 16)                                                                                              \
    F(uint8_t, param_type)

#define HB_MAV_PARAM_SET(F, A, X, Y)                                                                                   \
    F(float, param_value)                                                                                              \
    F(uint8_t, target_system)                                                                                          \
    F(uint8_t, target_component)                                                                                       \
    A(char, param_id, 16)                                                                                              \
    F(uint8_t, param_type)

#define HB_MAV_ATTITUDE_QUATERNION(F, A, X, Y)                                                                         \
    F(uint32_t, time_boot_ms)                                                                                          \
    F(float, q1) /* w */                                                                                               \
    F(float, q2)                                                                                                       \
    F(float, q3)                                                                                                       \
    F(float, q4)                                                                                                       \
    F(float, rollspeed)                                                                                                \
    F(float, pitchspeed)                                                                                               \
    F(float, yawspeed)                                                                                                 \
    Y(float, repr_offset_q, 4)

#define HB_MAV_LOCAL_POSITION_NED(F, A, X, Y)                                                                          \
    F(uint32_t, time_boot_ms)                                                                                          \
    F(float, x)                                                                                                        \
    F(float, y)                                                                                                        \
    F(float, z)                                                                                                        \
    F(float, vx)                                                                                                       \
    F(float, vy)                                                                                                       \
    F(float, vz)

#define HB_MAV_SERVO_OUTPUT_RAW(F, A, X, Y)                                                                            \
    F(uint32_t, time_usec)                                                                                             \
    F(uint16_t, servo1_raw)                                                                                            \
    F(uint16_t, servo2_raw)                                                                                            \
    F(uint16_t, servo3_raw)                                                                                            \
    F(uint16_t, servo4_raw)                                                                                            \
    F(uint16_t, servo5_raw)                                                                                            \
    F(uint16_t, servo6_raw)                                                                                            \
    F(uint16_t, servo7_raw)                                                                                            \
    F(uint16_t, servo8_raw)                                                                                            \
    F(uint8_t, port)                                                                                                   \
    X(uint16_t, servo9_raw)                                                                                            \
    X(uint16_t, servo10_raw)                                                                                           \
    X(uint16_t, servo11_raw)                                                                                           \
    X(uint16_t, servo12_raw)                                                                                           \
    X(uint16_t, servo13_raw)                                                                                           \
    X(uint16_t, servo14_raw)                                                                                           \
    X(uint16_t, servo15_raw)                                                                                           \
    X(uint16_t, servo16_raw)

#define HB_MAV_COMMAND_LONG(F, A, X, Y)                                                                                \
    F(float, param1)                                                                                                   \
    F(float, param2)                                                                                                   \
    F(float, param3)                                                                                                   \
    F(float, param4)                                                                                                   \
    F(float, param5)                                                                                                   \
    F(float, param6)                                                                                                   \
    F(float, param7)                                                                                                   \
    F(uint16_t, command)                                                                                               \
    F(uint8_t, target_system)                                                                                          \
    F(uint8_t, target_component)                                                                                       \
    F(uint8_t, confirmation)

#define HB_MAV_COMMAND_ACK(F, A, X, Y)                                                                                 \
    F(uint16_t, command)                                                                                               \
    F(uint8_t, result)                                                                                                 \
    X(uint8_t, progress)                                                                                               \
    X(int32_t, result_param2)                                                                                          \
    X(uint8_t, target_system)                                                                                          \
    X(uint8_t, target_component)

#define HB_MAV_SET_ATTITUDE_TARGET(F, A, X, Y)                                                                         \
    F(uint32_t, time_boot_ms)                                                                                          \
    A(float, q, 4)                                                                                                     \
    F(float, body_roll_rate)                                                                                           \
    F(float, body_pitch_rate)                                                                                          \
    F(float, body_yaw_rate)                                                                                            \
    F(float, thrust)                                                                                                   \
    F(uint8_t, target_system)                                                                                          \
    F(uint8_t, target_component)                                                                                       \
    F(uint8_t, type_mask)                                                                                              \
    Y(float, thrust_body, 3)

#define HB_MAV_ATTITUDE_TARGET(F, A, X, Y)                                                                             \
    F(uint32_t, time_boot_ms)                                                                                          \
    A(float, q, 4) /* w first */                                                                                       \
    F(float, body_roll_rate)                                                                                           \
    F(float, body_pitch_rate)                                                                                          \
    F(float, body_yaw_rate)                                                                                            \
    F(float, thrust)                                                                                                   \
    F(uint8_t, type_mask)

#define HB_MAV_SET_POSITION_TARGET_LOCAL_NED(F, A, X, Y)                                                               \
    F(uint32_t, time_boot_ms)                                                                                          \
    F(float, x)                                                                                                        \
    F(float, y)                                                                                                        \
    F(float, z)                                                                                                        \
    F(float, vx)                                                                                                       \
    F(float, vy)                                                                                                       \
    F(float, vz)                                                                                                       \
    F(float, afx)                                                                                                      \
    F(float, afy)                                                                                                      \
    F(float, afz)                                                                                                      \
    F(float, yaw)                                                                                                      \
    F(float, yaw_rate)                                                                                                 \
    F(uint16_t, type_mask)                                                                                             \
    F(uint8_t, target_system)                                                                                          \
    F(uint8_t, target_component)                                                                                       \
    F(uint8_t, coordinate_frame)

#define HB_MAV_HIL_ACTUATOR_CONTROLS(F, A, X, Y)                                                                       \
    F(uint64_t, time_usec)                                                                                             \
    F(uint64_t, flags)                                                                                                 \
    A(float, controls, 16)                                                                                             \
    F(uint8_t, mode)

#define HB_MAV_HIGHRES_IMU(F, A, X, Y)                                                                                 \
    F(uint64_t, time_usec)                                                                                             \
    F(float, xacc)                                                                                                     \
    F(float, yacc)                                                                                                     \
    F(float, zacc)                                                                                                     \
    F(float, xgyro)                                                                                                    \
    F(float, ygyro)                                                                                                    \
    F(float, zgyro)                                                                                                    \
    F(float, xmag)                                                                                                     \
    F(float, ymag)                                                                                                     \
    F(float, zmag)                                                                                                     \
    F(float, abs_pressure)                                                                                             \
    F(float, diff_pressure)                                                                                            \
    F(float, pressure_alt)                                                                                             \
    F(float, temperature)                                                                                              \
    F(uint16_t, fields_updated)                                                                                        \
    X(uint8_t, id)

#define HB_MAV_TIMESYNC(F, A, X, Y)                                                                                    \
    F(int64_t, tc1) /* 0: a question; else the answerer's clock, ns */                                                 \
    F(int64_t, ts1) /* the asker's clock, ns */                                                                        \
    X(uint8_t, target_system)                                                                                          \
    X(uint8_t, target_component)

#define HB_MAV_HIL_STATE_QUATERNION(F, A, X, Y)                                                                        \
    F(uint64_t, time_usec)                                                                                             \
    A(float, attitude_quaternion, 4)                                                                                   \
    F(float, rollspeed)                                                                                                \
    F(float, pitchspeed)                                                                                               \
    F(float, yawspeed)                                                                                                 \
    F(int32_t, lat)                                                                                                    \
    F(int32_t, lon)                                                                                                    \
    F(int32_t, alt)                                                                                                    \
    F(int16_t, vx)                                                                                                     \
    F(int16_t, vy)                                                                                                     \
    F(int16_t, vz)                                                                                                     \
    F(uint16_t, ind_airspeed)                                                                                          \
    F(uint16_t, true_airspeed)                                                                                         \
    F(int16_t, xacc)                                                                                                   \
    F(int16_t, yacc)                                                                                                   \
    F(int16_t, zacc)

#define HB_MAV_EXTENDED_SYS_STATE(F, A, X, Y)                                                                          \
    F(uint8_t, vtol_state)                                                                                             \
    F(uint8_t, landed_state) /* 0 unknown, 1 on ground, 2 in air, 3 take-off, 4 landing */

#define HB_MAV_STATUSTEXT(F, A, X, Y)                                                                                  \
    F(uint8_t, severity)                                                                                               \
    A(char, text, 50)                                                                                                  \
    X(uint16_t, id)                                                                                                    \
    X(uint8_t, chunk_seq)

#define HB_MAV_ESC_STATUS(F, A, X, Y)                                                                                  \
    F(uint64_t, time_usec)                                                                                             \
    A(int32_t, rpm, 4)                                                                                                 \
    A(float, voltage, 4)                                                                                               \
    A(float, current, 4)                                                                                               \
    F(uint8_t, index)

#define HB_MAV_ODOMETRY(F, A, X, Y)                                                                                    \
    F(uint64_t, time_usec)                                                                                             \
    F(float, x)                                                                                                        \
    F(float, y)                                                                                                        \
    F(float, z)                                                                                                        \
    A(float, q, 4) /* w first */                                                                                       \
    F(float, vx)                                                                                                       \
    F(float, vy)                                                                                                       \
    F(float, vz)                                                                                                       \
    F(float, rollspeed)                                                                                                \
    F(float, pitchspeed)                                                                                               \
    F(float, yawspeed)                                                                                                 \
    A(float, pose_covariance, 21)                                                                                      \
    A(float, velocity_covariance, 21)                                                                                  \
    F(uint8_t, frame_id)                                                                                               \
    F(uint8_t, child_frame_id)                                                                                         \
    X(uint8_t, reset_counter)                                                                                          \
    X(uint8_t, estimator_type)                                                                                         \
    X(int8_t, quality)

#define HB_MAV_ACTUATOR_OUTPUT_STATUS(F, A, X, Y)                                                                      \
    F(uint64_t, time_usec)                                                                                             \
    F(uint32_t, active)                                                                                                \
    A(float, actuator, 32)

#define HB_MAV_CURRENT_MODE(F, A, X, Y)                                                                                \
    F(uint32_t, custom_mode)                                                                                           \
    F(uint32_t, intended_custom_mode)                                                                                  \
    F(uint8_t, standard_mode)

/* HB_MAV_ID_HEARTBEAT, ... */
enum {
#define M(name, structure, id, crc_extra) HB_MAV_ID_##name = id,
    HB_MAV_MESSAGES(M)
#undef M
};

/* hb_mav_heartbeat, ...: every field is aligned to its size, on any machine, so that its place follows from the sizes
 * before it */
#define HB_MAV_SCALAR(type, name)   _Alignas(sizeof(type)) type name;
#define HB_MAV_ARRAY(type, name, n) _Alignas(sizeof(type)) type name[n];
#define M(message, structure, id, crc_extra)                                                                           \
    typedef struct hb_mav_##structure {                                                                                \
        HB_MAV_##message(HB_MAV_SCALAR, HB_MAV_ARRAY, HB_MAV_SCALAR, HB_MAV_ARRAY)                                     \
    } hb_mav_##structure;
HB_MAV_MESSAGES(M)
#undef M
#undef HB_MAV_SCALAR
#undef HB_MAV_ARRAY

#endif
