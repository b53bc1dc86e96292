#!/usr/bin/python3
"""Writes small valid inputs for every fuzz target: CORPUS/TARGET/seed-N.

usage: seeds.py BUILD CORPUS     BUILD: configured with -Dfuzz=true, with fuzz_seeds, mcap_tool and the Python package built
"""
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile

build, corpus = sys.argv[1:]
source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{build}/clients/python")
from hilbert import hilbert_pb2 as pb  # noqa: E402

made = {}


def seed(target, data):
    folder = f"{corpus}/{target}"
    os.makedirs(folder, exist_ok=True)
    made[target] = made.get(target, 0) + 1
    with open(f"{folder}/seed-{made[target]}", "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)


def messages():
    """Of the wire (3 states, 2 controls) and of a recording (2 states, 1 control)."""
    for nx, nu, nc in ((3, 2, 5), (2, 1, 3)):
        x, u = [0.5] * nx, [0.25] * nu
        telemetry = pb.Telemetry(time_us=20000, state=x, control=u, sequence=7, reset_counter=1)
        request = pb.ActionRequest(id=9, time_us=40000, state=x, applied=u, target=x, budget_us=5000, want_plan=True)
        path = pb.ActionRequest(id=9, time_us=40000, state=x, target=2 * x, target_time=[0, 0.5])
        controls = [
            pb.ControlRequest(id=1, set_target=pb.Target(state=x)),
            pb.ControlRequest(id=2, set_coefficients=pb.Coefficients(model_hash=1, value=[0.1] * nc)),
            pb.ControlRequest(id=3, predict=pb.Predict(count=2, steps=2, dt=0.02, state=2 * x, control=4 * u)),
            pb.ControlRequest(id=4, record=pb.Record(on=True)),
        ] + [pb.ControlRequest(id=5, **{name: pb.Nothing()}) for name in
             ("get_status", "get_model", "reset_window", "reload", "get_coefficients", "promote")]
        reply = pb.ActionReply(id=9, status=1, action=u, cost=1.5, iterations=3, plan=4 * u, predicted=5 * x,
                               health=pb.Health(one_step_error=0.1, samples=9), detail="so \"it\" is\n", limit="fence")
        prepared = pb.Prepared(calls=3, refused=[1, 2])
        status = pb.Status(name="cart", counters=pb.Counters(), replies=pb.ReplyCounts(), shadow=pb.Shadow(), recorder=pb.Recorder())
        topics = [
            pb.Recording(version="1", name="cart", model="cart.safetensors", model_hash=5, configuration="name: cart\n", run=8,
                         whole=True, window=b"window", state=[pb.Channel(name=f"x{i}", unit="m") for i in range(nx)],
                         control=[pb.Channel(name=f"u{i}", min=-1, max=1) for i in range(nu)], dt=0.02),
            pb.RecordedSample(telemetry=telemetry, arrived=1.5, heard=2),
            pb.RecordedRequest(request=request, received=1.6, heard=2),
            pb.RecordedReply(reply=reply, received=1.6, decision=pb.Decision(tick=4, budget=0.01, snapshot=2, prepared=prepared,
                                                                          refused=[7])),
            pb.RecordedCoefficients(version=2, time_us=20000, value=[0.1] * nc, deviation=[0.01] * nc),
            pb.RecordedControl(request=controls[1], received=1.7),
            pb.RecordedChange(target=pb.Target(state=x), prepared=prepared),
            status,
            pb.RecordingGap(lost=12),
        ]
        if nx == 3:
            seed("wire", b"\0" + telemetry.SerializeToString())
            for m in (request, path):
                seed("wire", b"\1" + m.SerializeToString())
            for m in controls:
                seed("wire", b"\2" + m.SerializeToString())
        else:
            flight = b""
            for i, m in enumerate(topics):
                data = m.SerializeToString()
                seed("replay", bytes([i]) + data)
                flight += bytes([i, 10]) + struct.pack("<H", len(data)) + data
            seed("recorded_flight", flight)
            for m in (pb.RecordedChange(configuration="name: other\n"), pb.RecordedChange(prediction=pb.Nothing(), snapshot=3),
                      pb.RecordedChange(promotion=pb.Nothing())):
                seed("replay", b"\6" + m.SerializeToString())
            seed("replay", b"\5" + pb.RecordedControl(request=controls[6], received=1).SerializeToString())
        for i, m in enumerate(topics + [reply, pb.ControlReply(id=1, ok=True, status=status, needs_restart=["name"])]):
            seed("json", bytes([i, 20]) + m.SerializeToString())


def configurations():
    """A section of the commented defaults at a time, and the shipped ones."""
    def plain(text):
        return re.sub(r"(?m)^\s*#.*\n|\s+#.*$", "", text)

    with open(f"{source}/config/hilbertd.yaml") as file:
        for section in re.split(r"(?m)^(?=\w)", plain(file.read())):
            seed("config", section)
    for path in glob.glob(f"{source}/config/*.yaml"):
        if os.path.basename(path) != "hilbertd.yaml":
            with open(path) as file:
                seed("config", plain(file.read()))
    with open(f"{source}/clients/mavlink/mavlink.yaml") as file:
        for section in re.split(r"\n\n+", plain(file.read())):
            seed("settings", "\1" + section)
    seed("settings", "\2# a square\n0 0 1\n1 0 1.5 90\n1 1 1.5 180 2.5\n")
    seed("settings", "\0data: a.h5\nhidden: [64, 64]\nkind: fe-node\nsteps: 100\nlearning_rate: 1e-3\ndecay: cosine\n")
    seed("settings", "\0{nb: 8, inputs: '-x,-y', average: 'nominal:quadrotor', method: inner_product, seed: 18446744073709551615}\n")


def tables():
    seed("csv", "\2t,a,v,u\n0,1,2,3\n0.1,1.5,2.5,3.5\n0.2,1.6,2.6,3.6\n5,1,1,1\n5.1,1,1,1\n")
    seed("csv", "\7x;u\r\n1;2\r\n3;4\r\n")
    seed("csv", "\x18\"t\"\ta\tv\n1000\t1\t2\n2000\t1e3\t-2\n")
    seed("log", "{time: t, dt: 0.04, min_length: 0.1, states: {x: a, v: derivative(x)}}\0t,a\n0,1\n0.04,2\n0.08,3\n0.12,9\n0.16,5\n")
    seed("log", "time: 'time[ms] * 1e-3'\nstates: {x: '\"pos x\"'}\ncontrols: {u: k * duty^2}\nconstants: {k: 2}\ncausal: yes\n"
                "functions: one\nlimits: {x: [0, 9]}\nvehicles: {'': {mass: 1}}\n\0# time[ms];pos x;duty\r\n0;1;true\r\n400;\"3\";1\r\n")
    # see fuzz_dataset.c: an episode, observations, actions, function, hidden_mass, dt; then another with times
    one = bytes([192, 1, 0, 0, 129, 0, 0x89, 10, 131, 0, 0x85, 20, 21, 2, 0, 110, 23, 0, 0, 5, 8, 0, 0, 1])
    seed("dataset", b"\0" + one)
    two = bytes([192, 1, 0, 1, 129, 1, 0x89, 13, 131, 3, 0x85, 9, 133, 0, 0x43, 11, 21, 3, 0, 2, 23, 0, 0, 5])
    seed("dataset", b"\0" + one + two)
    seed("dataset", b"\3" + one[:12])
    names = bytes([0, 4, 0x42, 0, 2, 5, 0x42, 1, 4, 4, 0x42, 0, 10, 4, 0, 0, 12, 3, 0, 7, 14, 0, 0x42, 3, 16, 0, 0x42, 9])
    seed("dataset", b"\x20" + one + names)


def logs():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, f"{source}/tests/data/logs/make_logs.py", folder], check=True)
        for size in (600, 2000, 6000):
            for name, target in (("flight.ulg", "ulog"), ("flight.bin", "ardupilot")):
                with open(f"{folder}/{name}", "rb") as file:
                    seed(target, file.read(size))
        subprocess.run([f"{build}/tests/system/mcap_tool", "write", f"{folder}/small.mcap"], check=True)
        with open(f"{folder}/small.mcap", "rb") as file:
            data = file.read()
        seed("mcap", data)
        seed("mcap", data[:1500])
    with open(f"{source}/tests/data/mavlink/golden.txt") as file:
        for line in file:
            seed("mavlink", b"\x40" + bytes.fromhex(line.split()[4]))  # after a byte that says how it is cut


messages()
configurations()
tables()
logs()
seed("window", b"\0\0\1")
seed("window", b"\0\1\xff\0\2\x7f")
seed("keys", r"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7" + "\n")
seed("access", r"""# name      public key                                 rights
autopilot   $wJ^3Xv6keLYvM<d[v1rQznNk9h$$Ugg00qrllBE   telemetry,act,observe
ground p<qnpNC2KRlix8GC@{0}H8DJDZEnZYm7w2JP2>RK operate
""")
seed("access", "observer\trq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7\tobserve\r\n\n  # nobody\n")
for target in ("model", "checkpoint"):
    os.makedirs(f"{corpus}/{target}", exist_ok=True)
subprocess.run([f"{build}/tests/fuzz/fuzz_seeds", f"{corpus}/model", f"{corpus}/checkpoint/seed-1"], check=True)
