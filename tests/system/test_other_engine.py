"""Flies the shipped quadrotor over the daemon's sockets in an engine that shares no line with ours.

usage: test_other_engine.py BUILD_ROOT [--flights N] [--seed N] [--rows NAME,...] [--seconds S] [--pid] [--real-time] [--trace FILE]
                            [--record FOLDER]

A rigid body in plain Python: Newton and Euler about the centre of mass, Runge-Kutta at 1 kHz, rotors that spin down
more slowly than up, quadratic drag, gusts, telemetry of the body's origin (not of its centre of mass) as a flight
stack gives it. It flies in lock-step (latency.clock: vehicle), unless --real-time is given. --pid flies a cascade of
PID controllers as well, with the gains of hilbert-sim's.
"""
import argparse
import collections
import math
import os
import random
import re
import sys
import time

from harness import PATIENCE, Daemon, shipped  # noqa: E402

import hilbert  # noqa: E402

ARM, RATIO, GRAVITY = 0.0397 / math.sqrt(2), 7.94e-12 / 3.16e-10, 9.81
PLACE = ((ARM, ARM), (-ARM, ARM), (-ARM, -ARM), (ARM, -ARM))  # rotors 0..3: x ahead, y to the left
SPIN = (-1, 1, -1, 1)
LOW, HIGH = 0.03, 0.15

# what each row draws, uniformly: (low, high); anything left out is 0, or 1 for scales
ROWS = {
    "ideal": {},
    "mass": {"mass": (0.021, 0.032)},
    "late": {"late": (0.02, 0.2)},  # nothing subscribes to its first samples yet
    "lag": {"lag": (0.02, 0.06)},
    "delay": {"delay": (0.005, 0.03)},
    "com": {"com": (0, 5)},
    "com10": {"com": (8, 10)},
    "noise": {"noise": (1, 1)},
    "fast": {"noise": (0.5, 1), "rate": (250, 500), "lag": (0.02, 0.05)},
    "slow": {"request": (12, 25), "lag": (0, 0.04)},
    "wind": {"drag": (0.002, 0.01), "wind": (0, 3), "gust": (0, 1)},
    "mild": {"lag": (0.02, 0.04), "delay": (0, 0.015), "noise": (0.3, 0.6), "drag": (0, 0.006), "wind": (0, 1.5), "rotor": (0.93, 1),
             "com": (0, 2), "inertia": (0.95, 1.15), "loss": (0, 0.03), "mass": (0.025, 0.030)},
    "real": {"lag": (0.03, 0.05), "delay": (0.01, 0.025), "noise": (0.7, 1.1), "rotor": (0.92, 1), "com": (1, 4), "inertia": (1, 1.3),
             "sag": (0, 0.12), "loss": (0, 0.06), "jitter": (0, 0.006), "mass": (0.024, 0.031)},
    # the PID crashes in all of these at 25 requests a second
    "harsh": {"lag": (0.03, 0.05), "delay": (0.01, 0.025), "noise": (0.7, 1.1), "rotor": (0.88, 1), "com": (2, 5), "inertia": (1, 1.3),
              "sag": (0, 0.12), "loss": (0, 0.06), "jitter": (0, 0.006), "mass": (0.024, 0.031)},
    "any": {"lag": (0, 0.06), "delay": (0, 0.03), "noise": (0, 1), "rotor": (0.85, 1), "com": (0, 5), "inertia": (0.9, 1.3), "sag": (0, 0.1),
            "loss": (0, 0.05), "jitter": (0, 0.005), "mass": (0.022, 0.032), "drag": (0, 0.008), "wind": (0, 2), "gust": (0, 0.5),
            "rate": (25, 250), "request": (25, 60)},
    # what else happens to vehicles and their clients
    "payload": {"mass": (0.022, 0.025), "load": (0.004, 0.007), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},  # carried for half of the flight
    "rates": {"rate": (100, 400), "request": (20, 100), "noise": (0.3, 1), "lag": (0.01, 0.05), "delay": (0, 0.02)},
    "sluggish": {"lag": (0, 0.08), "delay": (0, 0.06), "noise": (0.3, 0.6)},
    "control_old": {"control_old": (1, 1), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},  # telemetry is sent before the answer is there
    "state_old": {"state_old": (0.005, 0.015), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},  # the state is older than its time says
    "heading": {"heading": (-3.1, 3.1), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},
    "jump": {"jump": (2, 2), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},  # of the target, after half of the flight
    "thrown": {"speed": (2, 2), "lean": (0.8, 1.05), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},  # at the start
    "draggy": {"drag": (0.02, 0.03), "wind": (0, 2), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},
    "nimble": {"inertia": (0.6, 0.7), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},
    "motors": {"rotor": (0.8, 1), "noise": (0.3, 0.6), "lag": (0.02, 0.04)},
}


def cross(a, b):
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def rotate(q, v):
    """Body to world."""
    u = q[:3]
    t = [2 * c for c in cross(u, v)]
    w = cross(u, t)
    return [v[i] + q[3] * t[i] + w[i] for i in range(3)]


class Vehicle:
    def __init__(self, draw):
        self.mass, self.lag, self.delay = draw("mass", 0.027), draw("lag", 0), draw("delay", 0)
        angle = draw.random.uniform(0, 2 * math.pi)
        size = 1e-3 * draw("com", 0)
        self.com = (size * math.cos(angle), size * math.sin(angle), 0.3 * size)
        scale = draw("inertia", 1)
        self.inertia = [1.4e-5 * scale, 1.4e-5 * scale, 2.17e-5 * scale]
        self.rotor = [draw("rotor", 1) for _ in range(4)]
        self.drag, self.sag, self.gust_size = draw("drag", 0), draw("sag", 0), draw("gust", 0)
        angle = draw.random.uniform(0, 2 * math.pi)
        wind = draw("wind", 0)
        self.wind = (wind * math.cos(angle), wind * math.sin(angle), 0)
        self.gust = [0.0, 0.0, 0.0]
        self.random = draw.random
        self.made = [self.mass * GRAVITY / 4] * 4
        self.queue = collections.deque([(-1.0, list(self.made))])
        self.time = 0.0
        # position and velocity of the centre of mass, attitude, body rates
        self.x = [draw.random.uniform(-0.5, 0.5), draw.random.uniform(-0.5, 0.5), 1 + draw.random.uniform(-0.4, 0.4), 0, 0, 0,
                  0, 0, 0, 1, 0, 0, 0]
        self.load = draw.of("load", 0)
        self.mass += self.load
        if "speed" in draw.row:
            angle, speed = draw.random.uniform(0, 2 * math.pi), draw.of("speed", 0)
            self.x[3:5] = [speed * math.cos(angle), speed * math.sin(angle)]
        if "lean" in draw.row:
            angle, lean = draw.random.uniform(0, 2 * math.pi), draw.of("lean", 0) / 2
            self.x[6:10] = [math.sin(lean) * math.cos(angle), math.sin(lean) * math.sin(angle), 0, math.cos(lean)]
        if "heading" in draw.row:
            heading = draw.of("heading", 0) / 2
            self.x[6:10] = [0, 0, math.sin(heading), math.cos(heading)]

    def drop(self):
        self.mass -= self.load
        self.load = 0

    def command(self, u):
        self.queue.append((self.time + self.delay, list(u)))

    def field(self, x, force):
        v, q, w = x[3:6], x[6:10], x[10:13]
        total = sum(force)
        push = rotate(q, (0, 0, total))
        air = [v[i] - self.wind[i] - self.gust[i] for i in range(3)]
        speed = math.sqrt(sum(a * a for a in air))
        accel = [(push[i] - self.drag * (0.5 + 0.25 * speed) * air[i]) / self.mass for i in range(3)]
        accel[2] -= GRAVITY
        torque = [0.0, 0.0, 0.0]
        for i in range(4):
            torque[0] += (PLACE[i][1] - self.com[1]) * force[i]
            torque[1] -= (PLACE[i][0] - self.com[0]) * force[i]
            torque[2] += SPIN[i] * RATIO * force[i]
        spin = [self.inertia[i] * w[i] for i in range(3)]
        gyro = cross(w, spin)
        turn = [(torque[i] - gyro[i]) / self.inertia[i] for i in range(3)]
        dq = [0.5 * (q[3] * w[0] + q[1] * w[2] - q[2] * w[1]), 0.5 * (q[3] * w[1] + q[2] * w[0] - q[0] * w[2]),
              0.5 * (q[3] * w[2] + q[0] * w[1] - q[1] * w[0]), -0.5 * (q[0] * w[0] + q[1] * w[1] + q[2] * w[2])]
        return list(v) + accel + dq + turn

    def step(self, h=0.001):
        while len(self.queue) > 1 and self.queue[1][0] <= self.time + 1e-9:
            self.queue.popleft()
        wanted = self.queue[0][1]
        for i in range(4):
            lag = self.lag * (1.0 if wanted[i] > self.made[i] else 1.3)
            share = 1 - math.exp(-h / lag) if lag > 1e-6 else 1
            self.made[i] += share * (wanted[i] - self.made[i])
        for i in range(3):
            self.gust[i] += -self.gust[i] * h / 0.5 + self.gust_size * math.sqrt(2 * h / 0.5) * self.random.gauss(0, 1)
        left = 1 - self.sag * min(1, self.time / 10)
        force = [left * self.rotor[i] * self.made[i] for i in range(4)]
        x = self.x
        k1 = self.field(x, force)
        k2 = self.field([a + 0.5 * h * b for a, b in zip(x, k1)], force)
        k3 = self.field([a + 0.5 * h * b for a, b in zip(x, k2)], force)
        k4 = self.field([a + h * b for a, b in zip(x, k3)], force)
        x = [x[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) for i in range(13)]
        size = math.sqrt(sum(c * c for c in x[6:10]))
        x[6:10] = [c / size for c in x[6:10]]
        self.x = x
        self.time += h

    def measured(self, noise):
        """The body's origin, as the daemon's states are ordered."""
        x, r = self.x, self.random
        q, w = x[6:10], x[10:13]
        arm = rotate(q, self.com)
        swing = rotate(q, cross(w, self.com))
        p = [x[i] - arm[i] + noise * r.gauss(0, 0.005) for i in range(3)]
        v = [x[3 + i] - swing[i] + noise * r.gauss(0, 0.03) for i in range(3)]
        tilt = [noise * r.gauss(0, math.radians(0.5)) / 2 for _ in range(3)]
        q = [q[0] + q[3] * tilt[0] + q[1] * tilt[2] - q[2] * tilt[1], q[1] + q[3] * tilt[1] + q[2] * tilt[0] - q[0] * tilt[2],
             q[2] + q[3] * tilt[2] + q[0] * tilt[1] - q[1] * tilt[0], q[3] - q[0] * tilt[0] - q[1] * tilt[1] - q[2] * tilt[2]]
        size = math.sqrt(sum(c * c for c in q))
        w = [w[i] + noise * r.gauss(0, 0.05) for i in range(3)]
        return [p[0], v[0], p[1], v[1], p[2], v[2]] + [c / size for c in q] + w


class Draw:
    def __init__(self, row, seed):
        self.row, self.random = row, random.Random(seed)

    def __call__(self, name, default):
        low, high = self.row.get(name, (default, default))
        return self.random.uniform(low, high)

    def of(self, name, default):
        """The same for what few rows have: it takes no number from the others' sequence."""
        return self(name, default) if name in self.row else default


class Pid:
    """Position, velocity, attitude and rates; knows the nominal mass and inertia, the integrals find the rest."""

    def __init__(self):
        self.push, self.turn, self.time = [0.0] * 3, [0.0] * 3, None

    def __call__(self, now, x):
        dt = now - self.time if self.time is not None else 0
        self.time = now
        p, v, q, w = x[0:6:2], x[1:6:2], x[6:10], x[10:13]
        want = [3.8 * (t - c) for t, c in zip((0, 0, 1), p)]
        speed = math.hypot(*want)
        drift = [want[i] * min(1, 1.5 / max(speed, 1e-9)) - v[i] for i in range(3)]
        force = [7.9 * drift[i] + self.push[i] for i in range(3)]
        force[2] = max(force[2] + GRAVITY, 0.3 * GRAVITY)
        slope = math.hypot(force[0], force[1]) / force[2]
        if slope > 0.7:
            force[0], force[1] = 0.7 / slope * force[0], 0.7 / slope * force[1]
        axis = [rotate(q, e) for e in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]
        up = [f / math.hypot(*force) for f in force]
        left = cross(up, (1, 0, 0))
        left = [c / math.hypot(*left) for c in left]
        desired = [cross(left, up), left, up]
        dot = lambda a, b: sum(i * j for i, j in zip(a, b))
        torque, slip = [0.0] * 3, [0.0] * 3
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            error = 0.5 * (dot(desired[k], axis[j]) - dot(desired[j], axis[k]))
            most = 3 if i == 2 else 6
            slip[i] = min(max(-(2 if i == 2 else 6.9) * error, -most), most) - w[i]
            torque[i] = (1.4e-5, 1.4e-5, 2.17e-5)[i] * ((14.4 if i == 2 else 28.8) * slip[i] + self.turn[i])
        u, bounded = self.mix(max(0.027 * dot(force, axis[2]), 0), torque)
        for i in range(3):
            self.push[i] = min(max(self.push[i] + 2 * drift[i] * dt, -6), 6)
            change, most = (22 if i == 2 else 88) * slip[i] * dt, 25 if i == 2 else 250
            if not bounded or change * self.turn[i] < 0:
                self.turn[i] = min(max(self.turn[i] + change, -most), most)
        return u

    @staticmethod
    def mix(thrust, torque):
        """Yaw is given up first, then thrust moves to make room."""
        bounded = False
        for yaw in (torque[2], 0):
            u = [thrust / 4 + (torque[0] * PLACE[i][1] - torque[1] * PLACE[i][0]) / (4 * ARM * ARM) + SPIN[i] * yaw / (4 * RATIO)
                 for i in range(4)]
            if min(u) >= LOW and max(u) <= HIGH:
                return u, bounded
            bounded = True
        shift = max(HIGH - max(u), min(LOW - min(u), 0)) if max(u) > HIGH else min(LOW - min(u), max(HIGH - max(u), 0))
        return [min(max(c + shift, LOW), HIGH) for c in u], True


def fly(client, row, seed, seconds, real_time, counter, trace):
    """By the daemon, or by a PID if there is no client. Returns the time of a crash, settled RMS in metres, statuses."""
    pid = None if client else Pid()
    draw = Draw(row, seed)
    vehicle = Vehicle(draw)
    noise, loss, jitter = draw("noise", 0), draw("loss", 0), draw("jitter", 0)
    period = 1 / draw("request", 25)
    silent = draw("late", 0)
    sample = 1 / draw("rate", 0) if "rate" in row else period
    aged, control_old, jump = draw.of("state_old", 0), draw.of("control_old", 0), draw.of("jump", 0)
    past = collections.deque(maxlen=1 + round(1000 * aged))  # what was measured in the last steps
    target = [0, 0, 1]
    statuses = collections.Counter()
    errors = []
    u = [0.0662175] * 4
    ask, publish, begin = 0.0, 0.0, time.monotonic()
    if client:
        client.reset_window()
    origin = counter * 1000000000
    while vehicle.time < seconds:
        now_us = origin + round(1e6 * vehicle.time)
        samples, asks = vehicle.time >= publish - 1e-9, vehicle.time >= ask - 1e-9
        if aged:
            past.append(vehicle.measured(noise))
        x = past[0] if aged else vehicle.measured(noise) if samples or asks else None
        if vehicle.time >= seconds / 2:
            vehicle.drop()
            target[0] = jump
        goal = [target[0], 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0] if jump else None
        before = list(u)
        if asks:
            if draw.random.random() >= 0.5 * loss:
                if client:
                    reply = client.request(now_us, x, target=goal, reset_counter=counter)
                    status = reply.status.name.lower() + (":" + reply.reason if reply.reason != "none" else "")
                    statuses[status] += 1
                    u = reply.action or u
                else:
                    u = pid(vehicle.time, x)
                vehicle.command([min(max(c, LOW), HIGH) for c in u])
            ask = max(ask + period + draw.random.uniform(-jitter, jitter), vehicle.time + 0.001)
            if trace and client:
                print(seed, f"{vehicle.time:.3f}", *(f"{c:.4f}" for c in vehicle.x), *(f"{c:.4f}" for c in u), status, sep=",", file=trace)
        if samples:
            if draw.random.random() >= loss and vehicle.time >= silent and client:
                client.publish(now_us, x, before if control_old else u, counter)  # u is in force from now on
            publish += sample
        vehicle.step()
        if real_time:
            while time.monotonic() < begin + vehicle.time:
                time.sleep(0.0002)
        away = math.dist(vehicle.x[:3], target)
        if away > 3 or vehicle.x[2] < 0.02 or rotate(vehicle.x[6:10], (0, 0, 1))[2] < -0.5:
            return vehicle.time, math.inf, statuses
        if vehicle.time > seconds * (0.8 if jump or "load" in row else 0.5):
            errors.append(away)
    return None, math.sqrt(sum(e * e for e in errors) / len(errors)), statuses


def report(name, errors, lost, statuses):
    errors.sort()
    settled = f"{1e3 * errors[len(errors) // 2]:7.1f} mm, most {1e3 * errors[-1]:7.1f} mm" if errors else "      -"
    total = sum(statuses.values())
    shares = ", ".join(f"{k} {100 * v / total:.0f} %" for k, v in statuses.most_common())
    after = f"  after {', '.join(f'{t:.2f} s' for t in lost)}" if lost else ""
    print(f"{name:11s} {len(lost)}/{len(lost) + len(errors)} crashed  settled {settled}  {shares}{after}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--flights", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--pid", action="store_true")
    parser.add_argument("--real-time", action="store_true")
    parser.add_argument("--trace")
    parser.add_argument("--record", help="the daemon records to this folder, which is there")
    options = parser.parse_args()
    trace = open(options.trace, "w") if options.trace else None
    config = shipped("quadrotor")
    if not options.real_time:
        config = re.sub(r"(?m)^latency:", "latency:\n  clock: vehicle", config)
    if options.record:
        config += f"\nrecorder:\n  enabled: true\n  directory: {os.path.abspath(options.record)}\n"
    daemon = Daemon(config, model=None).start()
    crashed = 0

    def connect():
        return hilbert.Client(daemon.folder, timeout=5 if options.real_time else PATIENCE, lockstep=not options.real_time)

    try:
        counter = 1  # of resets: one for each flight
        for name in options.rows.split(","):
            for pid in (False, True) if options.pid else (False,):
                controller = None if pid else connect()
                errors, lost, statuses = [], [], collections.Counter()
                for flight in range(options.flights):
                    counter += 1
                    if controller:  # a new one for each flight, as many a simulator does
                        controller.close()
                        controller = connect()
                    ended, error, seen = fly(controller, ROWS[name], 1000 * options.seed + flight, options.seconds,
                                             options.real_time and controller, counter, trace)
                    statuses += seen
                    (lost if ended else errors).append(ended or error)
                crashed += len(lost) if controller else 0
                report(name if controller else "  PID", errors, lost, statuses)
                if controller:
                    controller.close()
    finally:
        daemon.close()
    return crashed > 0


if __name__ == "__main__":
    sys.exit(main())
