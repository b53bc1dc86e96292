#!/usr/bin/python3
"""What hilbert-view costs: processor time and memory with a fleet, the browser's frames, recordings, and the daemon's replies.

usage: view.py BUILD_ROOT CASE... [--seconds T]

  fleet      50 generated daemons at 10 Hz: share of a processor with nobody, a page, ten clients; a frame in the browser
  memory     the same, an hour of their clock in six minutes: memory of hilbert-view and of a page's script each "10 minutes"
  recording  a flight of an hour: seconds until its page is drawn
  latency    a quadrotor's replies with ten clients that watch it, with nobody, and without hilbert-view, in turn

Prints a line of JSON for each figure. Nothing is judged: README.md says what was found.
"""
import argparse
import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", help="where meson builds")
parser.add_argument("case", nargs="+", choices=["fleet", "memory", "recording", "latency"])
parser.add_argument("--seconds", type=float, default=20, help="of each measurement (20)")
parser.add_argument("--vehicles", type=int, default=50)
o = parser.parse_args()
sys.argv = [sys.argv[0], o.build]
SYSTEM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system")
sys.path.insert(0, SYSTEM)

import browser  # noqa: E402
import status_fleet  # noqa: E402
from harness import BUILD, Daemon, shipped, wait_until  # noqa: E402
from test_view import Socket, View  # noqa: E402

HOVER = [0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0]
LOCKSTEP = shipped("quadrotor").replace("latency:", "latency:\n  clock: vehicle")
SIM = f"{BUILD}/clients/sim/hilbert-sim"


def tell(case, **figures):
    print(json.dumps({"case": case, **{k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}}), flush=True)


def processor_seconds(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(process):
    with open(f"/proc/{process.pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


class Reader(threading.Thread):
    """A page without a browser: watches a vehicle and reads all that comes."""

    def __init__(self, view, vehicle):
        super().__init__(daemon=True)
        self.socket, self.bytes, self.messages = Socket(view), 0, 0
        self.socket.send(json.dumps({"watch": vehicle}))
        self.start()

    def run(self):
        with contextlib.suppress(OSError, ValueError):
            while message := self.socket.receive():
                if message[0] == 9:  # a ping: who does not answer within ten seconds is taken for gone
                    self.socket.send(message[1], opcode=10)
                self.bytes += len(message[1])
                self.messages += 1


@contextlib.contextmanager
def fleet(faster=1):
    """Generated daemons after a real one's pattern, and hilbert-view on them."""
    folder = tempfile.mkdtemp(prefix="hilbert-fleet-", dir="/tmp")
    real = Daemon(LOCKSTEP, model=None).start()
    try:
        subprocess.run([SIM, "fly", "quadrotor", "--lockstep", "--endpoint", f"ipc://{real.folder}", "--seconds", "4", "--mass", "0.031"],
                       check=True, capture_output=True)
        with real.client() as client:
            status_fleet.keep(client, f"{folder}/template")
    finally:
        real.close()
    generator = subprocess.Popen([sys.executable, f"{SYSTEM}/status_fleet.py", f"{folder}/template", folder, "--vehicles", str(o.vehicles),
                                  "--faster", str(faster), "--python", f"{BUILD}/clients/python"], stdout=subprocess.PIPE, text=True)
    view = None
    try:
        generator.stdout.readline()
        view = View(*(a for i in range(o.vehicles) for a in ("--socket", f"{folder}/vehicle{i:02d}")))
        wait_until(lambda: view.get("/metrics")[1].count("\nhilbert_up{") == o.vehicles, "all vehicles", 60)
        yield view
    finally:
        if view:
            view.close()
        generator.kill()
        generator.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def published(view):
    """Seconds by the generated daemons' clock."""
    return view.metric('hilbert_uptime_seconds{name="vehicle05"}')


def share(view, seconds):
    """Of a processor, in percent."""
    before, begin = processor_seconds(view.process), time.monotonic()
    time.sleep(seconds)
    return 100 * (processor_seconds(view.process) - before) / (time.monotonic() - begin)


# times of frames, and of what the page does of its own for each
FRAMES = """const times = window.frames = [], busy = window.busy = [];
window.whole = window.whole || take;
take = m => { const t = performance.now(); whole(m); busy.push(performance.now() - t); };
let last = performance.now();
(function next(t) { times.push(t - last); last = t; if (window.frames === times) requestAnimationFrame(next); })(last);"""


def frames(b, seconds):
    b.run(FRAMES)
    time.sleep(seconds)
    all_frames, busy = b.run("return [frames.slice(5), busy]")
    all_frames.sort()
    at = lambda p: all_frames[int(p * (len(all_frames) - 1))]  # noqa: E731
    return {"frames": len(all_frames), "frame_median_ms": at(0.5), "frame_p99_ms": at(0.99), "frame_longest_ms": at(1),
            "message_longest_ms": max(busy), "message_mean_ms": sum(busy) / len(busy)}


def measure_fleet():
    with fleet() as view:
        time.sleep(5)
        tell("fleet", clients="none", processor_percent=share(view, o.seconds), resident_mb=resident_mb(view.process))
        if browser.CHROMIUM and browser.DRIVER:
            b = browser.Browser()
            try:
                b.open(view.address + "#fleet")
                b.wait(f"return document.querySelectorAll('.fleet tbody tr').length === {o.vehicles}", "all rows")
                tell("fleet", clients="a page of all", processor_percent=share(view, o.seconds))
                tell("browser", page="all", vehicles=o.vehicles, **frames(b, o.seconds))
                b.run("location.hash = '#vehicle=7'")
                b.wait("return page.vehicle && page.vehicle.table.t.length > 20", "a vehicle")
                tell("fleet", clients="a page of one", processor_percent=share(view, o.seconds))
                tell("browser", page="one", vehicles=o.vehicles, **frames(b, o.seconds))
            finally:
                b.close()
        else:
            print("NOT MEASURED in a browser: none is installed (packaging/deps.sh --browser)", flush=True)
        readers = [Reader(view, i) for i in range(10)]
        tell("fleet", clients="ten, each watching another", processor_percent=share(view, o.seconds),
             megabytes_per_second=sum(r.bytes for r in readers) / o.seconds / 1e6)


def measure_memory():
    faster = 10
    with fleet(faster) as view:
        reader = Reader(view, 3)
        b = browser.Browser() if browser.CHROMIUM and browser.DRIVER else None
        try:
            if b:
                b.open(view.address + "#vehicle=5")
                b.wait("return page.vehicle && page.vehicle.table.t.length > 20", "a vehicle")
            begin, started = published(view), time.monotonic()
            for minutes in range(0, 61, 10):
                while published(view) < begin + 60 * minutes: # a generator that is held up falls behind
                    time.sleep(0.5)
                figures = {"minutes_of_its_clock": minutes, "minutes": (time.monotonic() - started) / 60, "resident_mb": resident_mb(view.process)}
                if b:
                    b.call("/goog/cdp/execute", {"cmd": "HeapProfiler.collectGarbage", "params": {}})
                    figures["page_heap_mb"] = b.run("return performance.memory.usedJSHeapSize / 1e6")
                    figures["page_rows"] = b.run("return page.vehicle.table.t.length")
                tell("memory", **figures, messages=reader.messages, dropped=view.metric("hilbert_view_dropped_total"))
        finally:
            if b:
                b.close()


def measure_recording():
    daemon = Daemon(LOCKSTEP + "recorder: {{enabled: true, directory: {folder}}}\n", model=None)
    try:
        daemon.start()
        subprocess.run([SIM, "fly", "quadrotor", "--lockstep", "--endpoint", f"ipc://{daemon.folder}", "--seconds", "3600", "--mass", "0.03",
                        "--at", "1800s:mass=0.024"], check=True, capture_output=True)
        daemon.stop()
        path, = glob.glob(f"{daemon.folder}/*.mcap")
        for _ in range(3):
            begin = time.monotonic()
            view = View(path)
            served = time.monotonic() - begin
            used = processor_seconds(view.process)
            try:
                answer = time.monotonic()
                n = len(view.get("/flight/0.json")[1])
                figures = {"mcap_mb": os.path.getsize(path) / 1e6, "json_mb": n / 1e6, "served_after_s": served, "processor_s": used,
                           "json_after_s": time.monotonic() - answer, "resident_mb": resident_mb(view.process)}
                if browser.CHROMIUM and browser.DRIVER:
                    b = browser.Browser()
                    try:
                        begin = time.monotonic()
                        b.open(view.address)
                        b.wait("return page.flight && document.querySelectorAll('canvas').length > 5 && page.drawn", "the flight")
                        figures["drawn_after_s"] = time.monotonic() - begin
                    finally:
                        b.close()
                tell("recording", **figures)
            finally:
                view.close()
    finally:
        daemon.close()


def measure_latency():
    """Rounds in turn, so that what else the machine does falls on all alike."""
    daemon = Daemon(shipped("quadrotor") + "realtime: {{scheduling: fifo, lock_memory: true}}\nstatus: {{period: 0.1}}\n", model=None).start()
    kinds, times = ("without hilbert-view", "nobody watches", "ten watch"), {}
    try:
        with daemon.client() as client:
            for turn in range(3 * 5):
                kind = kinds[turn % 3]
                with contextlib.ExitStack() as stack:
                    if kind != kinds[0]:
                        view = View("--socket", daemon.folder)
                        stack.callback(view.close)
                    if kind == kinds[2]:
                        for _ in range(10):
                            stack.callback(Reader(view, 0).socket.close)
                        time.sleep(0.5)
                    until, due, k = time.monotonic() + o.seconds, time.monotonic(), 0
                    while time.monotonic() < until:
                        now = int(1e6 * time.monotonic())
                        state = [0.02 * ((k // 50) % 3)] + HOVER[1:]
                        client.publish(now, state, [0.066] * 4)
                        begin = time.monotonic()
                        reply = client.request(now, state)
                        times.setdefault(kind, []).append((time.monotonic() - begin, reply.total))
                        k += 1
                        due += 0.02
                        time.sleep(max(0, due - time.monotonic()))
    finally:
        daemon.close()
    for kind in kinds:
        seen, own = (sorted(1000 * t[i] for t in times[kind]) for i in range(2))
        at = lambda list_, p: list_[int(p * (len(list_) - 1))]  # noqa: E731
        tell("latency", watchers=kind, replies=len(seen), seen_median_ms=at(seen, 0.5), seen_p90_ms=at(seen, 0.9), seen_p99_ms=at(seen, 0.99),
             own_median_ms=at(own, 0.5), own_p90_ms=at(own, 0.9), own_p99_ms=at(own, 0.99))


for case in o.case:
    {"fleet": measure_fleet, "memory": measure_memory, "recording": measure_recording, "latency": measure_latency}[case]()
