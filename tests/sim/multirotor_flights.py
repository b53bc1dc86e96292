#!/usr/bin/env python3
"""Flights of the shipped px4 model on hilbert-sim's multirotor, with PX4's lags, delays and errors of estimation, of
vehicles that differ, whose mass steps by +40 or -40 % in hover. In process: time stands still while a plan is made, and
plans are given the time that they need, so that the result does not depend on how busy the machine is.

usage: multirotor_flights.py HILBERT_SIM CONFIG [FLIGHTS [FIRST SEED]]

A flight is good when the vehicle (the truth, not the estimate) stays within 0.3 m of its target from the third second to
the step and from two seconds after the step on. All must be, and out-of-span at most 5 % of all replies.
"""
import csv
import math
import os
import random
import re
import subprocess
import sys
import tempfile

FOLDER = tempfile.TemporaryDirectory()
LIMIT, STEP, SECONDS = 0.3, 6.0, 14.0


def patient(path):
    """The configuration with time to plan, in a folder that lasts as long as this process."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"budget: [\d.]+", "budget: 1", file.read())
    models = os.path.join(os.path.dirname(os.path.abspath(path)), "models")
    copy = os.path.join(FOLDER.name, "config.yaml")
    with open(copy, "w", encoding="utf-8") as file:
        file.write(re.sub(r"(?m)^model: (.*)$", rf"model: {models}/\1", text))
    return copy


def fly(sim, config, seed):
    draw = random.Random(seed)
    load, step = draw.uniform(0.95, 1.05), 1.4 if seed % 2 else 0.6
    vehicle = {
        "noise": 1,
        "delay": 0.022,  # 16 ms from the sample to the setpoint, 6 ms in the autopilot
        "load": load,
        "drag": draw.uniform(0.5, 1.2),
        "wind_x": draw.uniform(-1.5, 1.5),
        "wind_y": draw.uniform(-1.5, 1.5),
        "mass": draw.uniform(0.3, 3),
        "thrust_lag": draw.uniform(0.045, 0.06),
        "frequency": draw.uniform(16, 20),
        "damping": 0.7,
    }
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as table:
        command = [sim, "fly", "multirotor", "--in-process", "--config", config, "--dt", "0.016", "--seed", str(seed),
                   "--at", f"{STEP}s:load={load * step}", "--seconds", str(SECONDS), "--radius", "0.3",
                   "--csv", table.name]
        for name, value in vehicle.items():
            command += ["--set", f"{name}={value}"]
        done = subprocess.run(command, capture_output=True, text=True)
        rows = list(csv.DictReader(table))
    if done.returncode or not rows:
        print(f"flight {seed}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return None
    error = [(float(r["time"]), math.dist((float(r["x"]), float(r["y"]), float(r["z"])), (0, 0, 2))) for r in rows]
    before = max(e for t, e in error if 3 <= t < STEP)
    peak = max(e for t, e in error if t >= STEP)
    after = max(e for t, e in error if t >= STEP + 2)
    outside = sum(r["status"] == "out-of-span" for r in rows) / len(rows)
    print(f"flight {seed}: load x {step}: {before:.2f} m before, {peak:.2f} m at most after, {after:.2f} m from 2 s on; "
          f"out-of-span {outside:.1%}", flush=True)
    return before < LIMIT and after < LIMIT, peak, outside


def main():
    sim, config = sys.argv[1], patient(sys.argv[2])
    count, first = (int(v) for v in (sys.argv[3:] + ["4", "0"][len(sys.argv) - 3:]))
    flights = [fly(sim, config, first + i) for i in range(count)]
    flown = [f for f in flights if f]
    good = sum(f[0] for f in flown)
    print(f"{good} of {count} hold within {LIMIT} m; worst after the step {max(f[1] for f in flown):.2f} m; "
          f"out-of-span in {sum(f[2] for f in flown) / len(flown):.1%} of replies")
    sys.exit(0 if good == count and sum(f[2] for f in flown) < 0.05 * len(flown) else 1)


main()
