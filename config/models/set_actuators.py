#!/usr/bin/env python3
"""Writes delay and lag of actuators into a basis file: set_actuators.py MODEL DELAY,... LAG,... [seconds, one per control]"""
import json
import struct
import sys

path, *lists = sys.argv[1:]
with open(path, "rb") as file:
    data = file.read()
size = struct.unpack("<Q", data[:8])[0]
header, tensors = json.loads(data[8:8 + size]), data[8 + size:]
like = header["control.trim"]
code = {"F32": "f", "F64": "d"}[like["dtype"]]
for name, text in zip(("actuator.delay", "actuator.lag"), lists):
    values = [float(word) for word in text.split(",")]
    if len(values) != like["shape"][0] or name in header:
        sys.exit(f"{path}: {name}: {len(values)} values for {like['shape'][0]} controls, or it is there already")
    packed = struct.pack(f"<{len(values)}{code}", *values)
    header[name] = {"dtype": like["dtype"], "shape": like["shape"], "data_offsets": [len(tensors), len(tensors) + len(packed)]}
    tensors += packed
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + tensors)
