#!/usr/bin/env python3
"""What the shipped px4 configuration does at its limits, on hilbert-sim's multirotor in the vehicle's time: a wind that
needs 31 degrees of tilt where 26 are allowed, and a step of 5 m. Height and heading must not be given for what cannot be
had: it climbs at most 0.3 m, drifts no faster than the wind drives a vehicle that leans as far as it may, and says that
it is limited.

usage: multirotor_limits.py HILBERT_SIM CONFIG
"""
import csv
import math
import os
import re
import subprocess
import sys
import tempfile

FOLDER = tempfile.TemporaryDirectory()
CLIMB, HEADING = 0.3, 25  # metres, degrees
WIND, DRAG, MASS, GRAVITY, TILT = 6, 1, 1, 9.81, 0.45


def quick(path):
    """The configuration with as many steps of a plan as a request has time for on a slow machine."""
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("planner:\n", "planner:\n  iterations: 3\n")
    models = os.path.join(os.path.dirname(os.path.abspath(path)), "models")
    copy = os.path.join(FOLDER.name, "config.yaml")
    with open(copy, "w", encoding="utf-8") as file:
        file.write(re.sub(r"(?m)^model: (.*)$", rf"model: {models}/\1", text))
    return copy


def fly(sim, config, seconds, *more):
    table = os.path.join(FOLDER.name, "flight.csv")
    subprocess.run([sim, "fly", "multirotor", "--in-process", "--config", config, "--start", "x=0,y=0,z=2",
                    "--seconds", str(seconds), "--csv", table, *more], check=True, stdout=subprocess.DEVNULL)
    with open(table, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{k: v if k in ("status", "reason") else float(v) for k, v in r.items()} for r in rows]


def heading(r):
    x, y, z, w = (r[k] for k in ("qx", "qy", "qz", "qw"))
    return abs(math.degrees(math.atan2(2 * (w * z + x * y), w * w + x * x - y * y - z * z)))


def tilt(r):
    return math.acos(1 - 2 * (r["qx"] ** 2 + r["qy"] ** 2))


def check(name, value, most):
    print(f"{name}: {value:.3g}, at most {most:.3g}", flush=True)
    return value <= most


def main():
    sim, config = sys.argv[1], quick(sys.argv[2])
    good = []

    rows = fly(sim, config, 6, "--set", f"drag={DRAG}", "--set", f"wind_x={WIND}", "--target", "x=0,y=0,z=2")
    late = [r for r in rows if r["time"] >= 1]
    # the speed at which drag is what thrust has aside at this tilt, with the weight carried
    driven = WIND - MASS * GRAVITY * math.tan(TILT) / DRAG
    good.append(check("wind: climb [m]", max(r["z"] for r in rows) - 2, CLIMB))
    good.append(check("wind: sinks [m]", 2 - min(r["z"] for r in rows), CLIMB))
    good.append(check("wind: drift [m/s]", (late[-1]["x"] - late[0]["x"]) / (late[-1]["time"] - late[0]["time"]),
                      1.15 * driven))
    good.append(check("wind: tilt [rad]", max(tilt(r) for r in rows), TILT + 0.02))
    good.append(check("wind: heading [degrees]", max(heading(r) for r in rows), HEADING))
    good.append(check("wind: replies without `limited`", sum(r["status"] != "limited" for r in late) / len(late), 0.05))

    rows = fly(sim, config, 5, "--target", "x=5,y=0,z=2")
    good.append(check("step: climb [m]", max(r["z"] for r in rows) - 2, CLIMB))
    good.append(check("step: heading [degrees]", max(heading(r) for r in rows), HEADING))
    good.append(check("step: distance after 4 s [m]",
                      max(math.dist((r["x"], r["y"], r["z"]), (5, 0, 2)) for r in rows if r["time"] >= 4), 0.1))
    sys.exit(0 if all(good) else 1)


main()
