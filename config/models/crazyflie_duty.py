#!/usr/bin/python3
"""Describes NanoBench's flights as a vehicle has them that does not measure its battery: forces are what the duty would give
at 3.41 V, the mean over all flights, and what they really give follows the battery. The voltage of each flight is kept as
hidden, so that words can be fitted to it.

usage: crazyflie_duty.py FLIGHTS MAP OUTPUT
"""
import csv
import glob
import gzip
import os
import re
import sys

flights, source, output = sys.argv[1:]
vehicles = ["vehicles:"]
for path in sorted(glob.glob(f"{flights}/*.csv.gz")):
    with gzip.open(path, "rt") as file:
        volts = [float(row["pwr_pm_vbat"]) for row in csv.DictReader(file) if row["pwr_pm_vbat"] and float(row["pz"]) > 0.25]
    if volts:  # it flew
        vehicles.append(f"  '{os.path.basename(path)[:-7]}': {{mass: 0.034, battery: {sum(volts) / len(volts):.4f}}}")
with open(source) as file:
    text = re.sub(r"(?m)^vehicles:.*$", lambda _: "\n".join(vehicles), file.read())
with open(output, "w") as file:
    file.write(text.replace("* pwr_pm_vbat", "* 3.41"))
