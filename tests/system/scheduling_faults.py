#!/usr/bin/python3
"""What becomes of a flight when the machine fails it: stopped and starved processes, bursts, clocks that step.

usage: scheduling_faults.py BUILD_ROOT

A vehicle publishes telemetry at 100 Hz and asks at 50 Hz (budget 10 ms, stale after 100 ms, fallback after 200 ms). Each
row does something to the daemon and tells what the replies said until the end of it and half a second beyond, how many
did not come, the slowest of them, and how long after its end the replies were again as before: five in a row in time
and with the status that a quiet machine gives. Exit status 1 when one of them was never so again, the daemon ended, or a
request was answered twice.
"""
import collections
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import zmq

from harness import CART, BUILD, Cart, Daemon, hilbert, pb, stopped_thread, sum_of, wait_until

CONFIG = CART.replace("latency: {{budget: 0.5, stale_after: 60, fallback_after: 120}}",
                      "latency: {{budget: 0.01, stale_after: 0.1, fallback_after: 0.2}}") \
             .replace("horizon: 10, samples: 16", "horizon: 5, samples: 8") + \
    "recorder: {{enabled: true, directory: '{folder}'}}\nsecurity: {{pilot: pilot}}\n"
PATIENCE = 15.0  # seconds in which it must be well again
GOOD = 5         # replies in a row
BOUND = 2.0      # of the cart's force


class Flight(threading.Thread):
    """Publishes, asks without waiting, and notes what comes back and when."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        context = zmq.Context.instance()
        self.actions = context.socket(zmq.DEALER)
        self.actions.routing_id = b"pilot"
        self.actions.connect(f"ipc://{folder}/actions")
        self.telemetry = context.socket(zmq.PUB)
        self.telemetry.connect(f"ipc://{folder}/telemetry")
        self.cart, self.clock, self.force = Cart(dt=0.01), 0, 0.0
        self.asked, self.replies, self.twice = {}, [], 0
        self.ended = threading.Event()

    def run(self):
        due, k, sequence = time.monotonic(), 0, 0
        while not self.ended.is_set():
            sequence += 1
            stamp = self.cart.time_us + self.clock
            self.telemetry.send(pb.Telemetry(time_us=stamp, state=self.cart.state, control=[self.force],
                                             sequence=sequence).SerializeToString())
            if sequence % 2 == 0:
                k += 1
                self.asked[k] = time.monotonic()
                with contextlib.suppress(zmq.Again):
                    self.actions.send(pb.ActionRequest(id=k, time_us=stamp, state=self.cart.state).SerializeToString(), zmq.NOBLOCK)
            self.cart.step(self.force)
            due = max(due + 0.01, time.monotonic() - 0.05)
            while (left := due - time.monotonic()) > 0:
                if self.actions.poll(max(1, int(1e3 * left))):
                    self.take(self.actions.recv())
        self.actions.close(0)
        self.telemetry.close(0)

    def take(self, message):
        reply = pb.ActionReply()
        reply.ParseFromString(message)
        now = time.monotonic()
        asked = self.asked.pop(reply.id, None)
        self.twice += asked is None
        name = pb.ActionStatus.Name(reply.status).replace("ACTION_STATUS_", "").lower()
        why = pb.Reason.Name(reply.reason).replace("REASON_", "").lower()
        self.replies.append((now, asked or now, name, now - (asked or now), name if why == "none" else f"{name} ({why})"))
        if reply.action and name not in ("fallback", "refused"):
            # it moves, and within bounds: what is beyond them is no telemetry
            self.force = min(max(reply.action[0] + (0.5 if int(now * 2) % 2 else -0.5), -BOUND), BOUND)


def well(flight, since):
    """When replies were as on a quiet machine for the first time since; None: not yet."""
    run = []
    for arrived, _, name, seconds, _ in list(flight.replies):
        if arrived < since:
            continue
        run = run + [arrived] if name in ("converged", "truncated", "limited") and seconds < 0.1 else []
        if len(run) == GOOD:
            return run[0]
    return None


def row(flight, daemon, name, fault, problems):
    began, first = time.monotonic(), len(flight.replies)
    asked_before = set(flight.asked)
    fault()
    ended = time.monotonic()
    deadline = ended + PATIENCE
    while (again := well(flight, ended)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(max(0, ended + 0.5 - time.monotonic()))
    mine = [r for r in flight.replies[first:] if r[1] >= began - 0.02]
    missing = [k for k, when in list(flight.asked.items())
               if k not in asked_before and when < time.monotonic() - 1 and when <= ended]
    counts = collections.Counter(r[4] for r in mine)
    slowest = max((1e3 * r[3] for r in mine), default=float("nan"))
    recovered = f"{1e3 * (again - ended):8.0f}" if again else "   never"
    print(f"{name:34s} {ended - began:6.2f} {len(missing):7d} {slowest:10.1f} {recovered}  "
          + ", ".join(f"{status} {n}" for status, n in counts.most_common()), flush=True)
    if again is None:
        problems.append(f"{name}: not well after {PATIENCE:.0f} s")
    if daemon.process.poll() is not None:
        problems.append(f"{name}: the daemon ended with {daemon.process.returncode}")


def stop_for(daemon, seconds):
    daemon.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    daemon.process.send_signal(signal.SIGCONT)


def stop_thread_for(daemon, name, seconds):
    with stopped_thread(daemon.thread(name)):
        time.sleep(seconds)


def starve(seconds):
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * os.cpu_count())]
    time.sleep(seconds)
    for one in spinning:
        one.kill()
        one.wait()


def burst(folder, clients, requests):
    context = zmq.Context()
    sockets = [context.socket(zmq.DEALER) for _ in range(clients)]
    for s in sockets:
        s.connect(f"ipc://{folder}/actions")
    for k in range(requests):
        for s in sockets:
            s.send(pb.ActionRequest(id=k + 1, time_us=0, state=[0, 0]).SerializeToString())
    answers, until = 0, time.monotonic() + 10
    poller = zmq.Poller()
    for s in sockets:
        poller.register(s, zmq.POLLIN)
    while answers < clients * requests and time.monotonic() < until:
        for s, _ in poller.poll(100):
            s.recv()
            answers += 1
    context.destroy(0)
    if answers != clients * requests:
        raise AssertionError(f"a burst of {clients * requests} requests got {answers} answers")


def telemetry_burst(flight, samples):
    """Of another publisher, which repeats what is old."""
    socket = zmq.Context.instance().socket(zmq.PUB)
    socket.sndhwm = 0
    socket.connect(flight.telemetry.getsockopt_string(zmq.LAST_ENDPOINT))
    time.sleep(0.2)
    message = pb.Telemetry(time_us=1, state=[0, 0], control=[0]).SerializeToString()
    for _ in range(samples):
        socket.send(message)
    time.sleep(0.3)
    socket.close(0)


def step_vehicle(flight, seconds):
    flight.clock += int(1e6 * seconds)


def step_wall(path, seconds):
    with open(path, "w") as file:
        file.write(str(seconds))
    time.sleep(0.5)


def main():
    problems = []
    daemon = Daemon(CONFIG, environment={"HILBERT_PRELOAD": f"{BUILD}/tests/system/libstep_clock.so"})
    step_file = f"{daemon.folder}/step"
    daemon.environment["HILBERT_STEP_CLOCK"] = step_file
    try:
        daemon.start()
        flight = Flight(daemon.folder)
        flight.start()
        wait_until(lambda: well(flight, 0) is not None, "good replies")
        time.sleep(1)
        print(f"{'fault':34s} {'for s':>6s} {'missing':>7s} {'slowest ms':>10s} {'well ms':>8s}  replies meanwhile")
        rows = [
            ("none", lambda: time.sleep(1)),
            ("SIGSTOP, 50 ms", lambda: stop_for(daemon, 0.05)),
            ("SIGSTOP, 300 ms", lambda: stop_for(daemon, 0.3)),
            ("SIGSTOP, 2 s", lambda: stop_for(daemon, 2)),
            ("planner's thread stopped, 300 ms", lambda: stop_thread_for(daemon, "planner", 0.3)),
            ("server's thread stopped, 300 ms", lambda: stop_thread_for(daemon, "server", 0.3)),
            (f"{4 * os.cpu_count()} spinning processes", lambda: starve(2)),
            ("1,000 requests of one guest", lambda: burst(daemon.folder, 1, 1000)),
            ("1,000 requests of 100 guests", lambda: burst(daemon.folder, 100, 10)),
            ("10,000 old samples", lambda: telemetry_burst(flight, 10000)),
            ("vehicle's clock + 1 h", lambda: step_vehicle(flight, 3600)),
            ("vehicle's clock - 1 h", lambda: step_vehicle(flight, -3600)),
            ("time of day + 1 day", lambda: step_wall(step_file, 86400)),
            ("time of day - 1 day", lambda: step_wall(step_file, -86400)),
        ]
        for name, fault in rows:
            row(flight, daemon, name, fault, problems)
        flight.ended.set()
        flight.join()
        if flight.twice:
            problems.append(f"{flight.twice} replies to requests that were answered already, or never asked")
        with hilbert.Client(daemon.folder, timeout=5) as client:
            status = client.status()
        replies = sum_of(status.replies)
        if status.counters.requests != replies:
            problems.append(f"{status.counters.requests} requests, {replies} replies")
        if daemon.stop() != 0:
            problems.append("the daemon did not end as asked")
    finally:
        daemon.close()
    for problem in problems:
        print(f"WRONG {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
