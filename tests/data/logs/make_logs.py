#!/usr/bin/env python3
"""Writes flight logs whose every number is known, from the formats' descriptions alone: make_logs.py FOLDER

    flight.ulg  nested formats, unaligned data, missing padding, a dropout, a reset, signs of q that change, other topics
    flight.bin  the same flight as ArduPilot logs it
    slow.ulg    position at PX4's default of 10 Hz
    changed.ulg like flight.ulg; at 122 s THR_MDL_FAC becomes 0.5, and UNUSED 2

The flight: t = 100..130 s, on the ground before 102 s and after 128 s; x jumps by 1 m at 110 s with its reset counter;
no position from 118 to 119 s. The rest is in truth(), and again in tests/unit/clients/test_import.c.
"""
import math
import struct
import sys

START, END = 100.0, 130.0


def truth(t):
    """position, velocity (NED), quaternion w x y z (FRD to NED), rates and setpoint (FRD)"""
    position = [3 * math.sin(0.5 * t) + (1 if t >= 110 else 0), 2 * math.cos(0.4 * t), -5 - math.sin(0.3 * t)]
    velocity = [1.5 * math.cos(0.5 * t), -0.8 * math.sin(0.4 * t), -0.3 * math.cos(0.3 * t)]
    yaw, roll = 0.3 * t, 0.2
    q = [math.cos(yaw / 2) * math.cos(roll / 2), math.cos(yaw / 2) * math.sin(roll / 2),
         math.sin(yaw / 2) * math.sin(roll / 2), math.sin(yaw / 2) * math.cos(roll / 2)]
    if t > 112:
        q = [-v for v in q]
    rates = [0.1 * math.sin(t), 0.2 * math.cos(t), 0.3]
    setpoint = [0.5 + 0.1 * math.sin(t), 0.4 * math.sin(t), 0.3 * math.cos(t), 0.2]
    return position, velocity, q, rates, setpoint


def times(rate):
    return [START + i / rate for i in range(int((END - START) * rate) + 1)]


# --- ULog ---

FORMATS = [
    "vehicle_local_position:uint64_t timestamp;uint64_t timestamp_sample;uint8_t odd;extra_s[2] extra;float x;float y;float z;"
    "float vx;float vy;float vz;uint8_t xy_reset_counter;uint8_t z_reset_counter;uint8_t vxy_reset_counter;"
    "uint8_t vz_reset_counter;uint8_t[3] _padding0",
    "extra_s:uint8_t a;inner_s b;",  # used above, before it is defined
    "inner_s:float c;uint16_t d;",
    "vehicle_attitude:uint64_t timestamp;uint64_t timestamp_sample;float[4] q;float[4] delta_q_reset;uint8_t quat_reset_counter;uint8_t[7] _padding0;",
    "vehicle_angular_velocity:uint64_t timestamp;uint64_t timestamp_sample;float[3] xyz;float[3] xyz_derivative;",
    "vehicle_rates_setpoint:uint64_t timestamp;float roll;float pitch;float yaw;float[3] thrust_body;bool reset_integral;uint8_t[7] _padding0;",
    "vehicle_land_detected:uint64_t timestamp;bool freefall;bool ground_contact;bool maybe_landed;bool landed;",
    "sensor_combined:uint64_t timestamp;float[3] gyro_rad;",
]
TOPICS = ["vehicle_local_position", "vehicle_attitude", "vehicle_angular_velocity", "vehicle_rates_setpoint",
          "vehicle_land_detected", "sensor_combined"]


def message(kind, payload):
    return struct.pack("<HB", len(payload), ord(kind)) + payload


def parameter(kind, name, value):
    key = f"{kind} {name}".encode()
    return message("P", bytes([len(key)]) + key + struct.pack("<i" if kind == "int32_t" else "<f", value))


def ulog(position_rate, changed=False):
    out = b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 99_000_000)
    out += message("B", bytes(40))
    out += b"".join(message("F", f.encode()) for f in FORMATS)
    key = b"char[5] sys_name"
    out += message("I", bytes([len(key)]) + key + b"PX4!!")
    out += parameter("float", "THR_MDL_FAC", 0.25) + parameter("int32_t", "BAT1_N_CELLS", 4) + parameter("float", "UNUSED", 1)
    for i, name in enumerate(TOPICS):
        out += message("A", struct.pack("<BH", 0, i) + name.encode())
    out += message("A", struct.pack("<BH", 1, 77) + b"vehicle_attitude")  # another instance: not ours

    events = []
    for t in times(position_rate):
        p, v, *_ = truth(t)
        if 118 < t < 119:
            continue
        extra = struct.pack("<BfH", 1, 2.5, 3) * 2
        events.append((t, 0, struct.pack("<QQB", us(t) + 2500, us(t), 7) + extra + struct.pack("<6f", *p, *v) +
                       bytes([1 if t >= 110 else 0, 2, 3, 4])))
    for t in times(100):
        *_, q, w, u = truth(t)
        events.append((t, 1, struct.pack("<QQ4f4fB", us(t) + 1500, us(t), *q, 0, 0, 0, 0, 5)))
        events.append((t, 2, struct.pack("<QQ3f3f", us(t) + 500, us(t), *w, 0, 0, 0)))
        events.append((t, 77, struct.pack("<QQ4f4fB", us(t), us(t), 1, 0, 0, 0, 0, 0, 0, 0, 9)))
        events.append((t, 5, struct.pack("<Q3f", us(t), 0, 0, 0)))
    for t in times(200):
        u = truth(t)[4]
        events.append((t, 3, struct.pack("<Q3f3fB", us(t), u[1], u[2], u[3], 0, 0, -u[0], 0)))
    for t in times(1):
        events.append((t, 4, struct.pack("<Q4B", us(t), 0, 0, 0, 1 if t < 102 or t >= 128 else 0)))
    events.sort(key=lambda e: (e[0], e[1]))
    dropped = False
    for t, topic, payload in events:
        if t > 118.5 and not dropped:
            out += message("O", struct.pack("<H", 1000))
            out += message("S", b"\x2f\x73\x13\x20\x25\x0c\xbb\x12")
            dropped = True
        if changed and t > 122:
            out += parameter("float", "THR_MDL_FAC", 0.5) + parameter("float", "UNUSED", 2)
            changed = False
        out += message("D", struct.pack("<H", topic) + payload)
    return out


def us(t):
    return round(t * 1e6)


# --- ArduPilot ---

KINDS = {
    "FMT": (128, "BBnNZ", "Type,Length,Name,Format,Columns"),
    "PARM": (10, "QNff", "TimeUS,Name,Value,Default"),
    "XKF1": (11, "QBccCfffffffccce", "TimeUS,C,Roll,Pitch,Yaw,VN,VE,VD,dPD,PN,PE,PD,GX,GY,GZ,OH"),
    "XKQ": (12, "QBffff", "TimeUS,C,Q1,Q2,Q3,Q4"),
    "RATE": (13, "Qffffffffffff", "TimeUS,RDes,R,ROut,PDes,P,POut,YDes,Y,YOut,ADes,A,AOut"),
    "EV": (14, "QB", "TimeUS,Id"),
    "MSG": (15, "QZ", "TimeUS,Message"),
}
PACK = {"B": "B", "Q": "Q", "f": "f", "c": "h", "C": "H", "e": "i", "N": "16s", "Z": "64s", "n": "4s"}


def bin_message(name, *values):
    number, letters, _ = KINDS[name]
    return b"\xa3\x95" + bytes([number]) + struct.pack("<" + "".join(PACK[c] for c in letters), *values)


def ardupilot():
    out = b""
    for name, (number, letters, labels) in KINDS.items():
        length = 3 + struct.calcsize("<" + "".join(PACK[c] for c in letters))
        out += bin_message("FMT", number, length, name.encode(), letters.encode(), labels.encode())
    out += bin_message("PARM", us(START), b"MOT_THST_EXPO", 0.65, 0.65)
    out += bin_message("MSG", us(START), b"ArduCopter")
    degree = 180 / math.pi
    events = [(102.0, 0, bin_message("EV", us(102), 28)), (128.0, 0, bin_message("EV", us(128), 18))]
    for t in times(50):
        p, v, q, *_ = truth(t)
        p[0] -= 1 if t >= 110 else 0
        if not 118 < t < 119:
            for core in (0, 1):
                at = [c + 100 * core for c in p]
                events.append((t, 1, bin_message("XKF1", us(t), core, 0, 0, 0, *v, 0, *at, 0, 0, 0, 0)))
        events.append((t, 2, bin_message("XKQ", us(t), 0, *q)))
    for t in times(200):
        *_, w, u = truth(t)
        w, r = [degree * x for x in w], [degree * x for x in u[1:]]
        events.append((t, 3, bin_message("RATE", us(t), r[0], w[0], 0, r[1], w[1], 0, r[2], w[2], 0, 0, 0, u[0])))
    events.sort(key=lambda e: (e[0], e[1]))
    return out + b"".join(e[2] for e in events)


def main():
    folder = sys.argv[1]
    for name, data in (("flight.ulg", ulog(100)), ("slow.ulg", ulog(10)),
                       ("changed.ulg", ulog(100, changed=True)), ("flight.bin", ardupilot())):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data)


main()
