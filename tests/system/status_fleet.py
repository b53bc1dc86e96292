#!/usr/bin/python3
"""Many daemons as hilbert-view sees them: each publishes statuses and tells its model, none of them flies.

usage: status_fleet.py TEMPLATE FOLDER [--vehicles N] [--rate HZ] [--faster K]

TEMPLATE holds what one real daemon said (`keep`). Sockets are in FOLDER/vehicle00 and so on. With --faster the clock of
what is published runs K times as fast: an hour of it takes 60/K minutes. Prints "ready", then runs until it is ended.
"""
import argparse
import math
import os
import random
import struct
import sys
import time

import zmq

PHASES = 100  # of the motion that is published, over and over


def keep(client, path):
    """What generated daemons say, from a real one."""
    with open(path, "wb") as file:
        for part in (client.status(), client.model()):
            data = part.to_bytes()
            file.write(len(data).to_bytes(4, "little") + data)


def read(path):
    with open(path, "rb") as file:
        parts = [file.read(int.from_bytes(file.read(4), "little")) for _ in range(2)]
    if not all(parts):
        raise SystemExit(f"{path}: no template")
    return parts


class Vehicle:
    def __init__(self, pb, context, folder, number, template):
        status, model = (kind.FromString(data) for kind, data in zip((pb.Status, pb.ModelInfo), template))
        self.model, self.number = model, number
        status.name = f"vehicle{number:02d}"
        status.telemetry_rate = status.request_rate = 25
        status.telemetry_age = 0.02
        # one in ten is in trouble, and not all for the same reason
        if number % 10 == 3:
            status.last_status = [pb.ACTION_STATUS_FALLBACK, pb.ACTION_STATUS_OUT_OF_SPAN, pb.ACTION_STATUS_STALE][number // 10 % 3]
        place = f"{folder}/{status.name}"
        os.makedirs(place, exist_ok=True)
        self.publisher, self.control = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
        self.publisher.bind(f"ipc://{place}/status")
        self.control.bind(f"ipc://{place}/control")
        # packed beforehand: what is measured is who listens
        draw = random.Random(number)
        base, shift = list(status.state), draw.random()
        self.packed = []
        for k in range(PHASES):
            turn = 2 * math.pi * (k / PHASES + shift)
            for i, x in enumerate(base):
                status.state[i] = x + 0.1 * math.sin(turn + i)
            status.health.one_step_error = max(status.health.expected_error, 1e-4) * math.exp(draw.gauss(0, 0.3))
            for i in range(len(status.coefficient)):
                status.coefficient[i] += 0.001 * draw.gauss(0, 1)
            self.packed.append(status.SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("template")
    parser.add_argument("folder")
    parser.add_argument("--vehicles", type=int, default=50)
    parser.add_argument("--rate", type=float, default=10, help="statuses a second of each, by its own clock (10)")
    parser.add_argument("--faster", type=float, default=1, help="how fast that clock runs (1)")
    parser.add_argument("--python", required=True, help="the folder with the client's modules")
    o = parser.parse_args()
    sys.path.insert(0, o.python)
    from hilbert import hilbert_pb2 as pb

    context, template = zmq.Context(), read(o.template)
    vehicles = [Vehicle(pb, context, o.folder, i, template) for i in range(o.vehicles)]
    poller = zmq.Poller()
    for v in vehicles:
        poller.register(v.control, zmq.POLLIN)
    of_socket = {v.control: v for v in vehicles}
    print("ready", flush=True)
    begin, day, n = time.monotonic(), time.time(), 0
    while True:
        # vehicles in turn over a period, as daemons that know nothing of each other
        due = begin + n / (o.rate * o.faster * len(vehicles))
        for control, _ in poller.poll(max(0, 1000 * (due - time.monotonic()))):
            who, data = control.recv_multipart()
            request = pb.ControlRequest.FromString(data)
            reply = pb.ControlReply(id=request.id, ok=True)
            if request.WhichOneof("command") == "get_model":
                reply.model.CopyFrom(of_socket[control].model)
            elif request.WhichOneof("command") == "get_status":
                reply.status.ParseFromString(of_socket[control].packed[0])
            control.send_multipart([who, reply.SerializeToString()])
        if time.monotonic() < due:
            continue
        v, turn = vehicles[n % len(vehicles)], n // len(vehicles)
        # a field that comes again replaces the one before: uptime, number 5, a double
        newer = b"\x29" + struct.pack("<d", 1000 + turn / o.rate)
        v.publisher.send_multipart([b"hilbert.v1.Status", v.packed[turn % PHASES] + newer, b"%.6f" % (day + n / len(vehicles) / o.rate)])
        n += 1


if __name__ == "__main__":
    main()
