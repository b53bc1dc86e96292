#!/usr/bin/python3
"""A long run: telemetry at 1 kHz, requests at 100 Hz, and restarts of clients and daemon at random.

usage: soak.py BUILD_ROOT [--minutes N] [--seed N]

Memory and descriptors of each life of the daemon must stay flat, its counters must add up, every request must be answered
or fall into a restart, and the window must outlive each restart. Prints a line for each life and a sum; exit status 1 when
something did not hold. A minute is enough for a look; an hour is what it is for.
"""
import argparse
import contextlib
import os
import random
import re
import signal
import sys
import threading
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", help="where meson builds")
parser.add_argument("--minutes", type=float, default=1, help="how long (1)")
parser.add_argument("--seed", type=int, default=1, help="of the restarts (1)")
options = parser.parse_args()
sys.argv = [sys.argv[0], options.build]

from harness import CART, PATIENCE, Cart, Daemon, hilbert, sum_of  # noqa: E402

SETTLED = 4       # seconds of a life after which memory and descriptors are compared with
MOST_GROWTH = 3   # MB
MOST_CLIENTS = 5  # at once, each with a few descriptors of the daemon
RING = 1024       # samples that the daemon may have taken in and not yet used


class Client(threading.Thread):
    """Does something at a rate, with a connection that is made anew now and then."""

    def __init__(self, daemon, period, name):
        super().__init__(daemon=True)
        self.where, self.period, self.name = daemon.folder, period, name
        self.again, self.stop = threading.Event(), threading.Event()
        self.done = self.missed = 0
        self.connections = 0

    def run(self):
        while not self.stop.is_set():
            self.again.clear()
            self.connections += 1
            with hilbert.Client(self.where, timeout=1, connect_timeout=0, name=self.name) as client:
                due = time.monotonic()
                while not self.stop.is_set() and not self.again.is_set():
                    try:
                        self.act(client)
                        self.done += 1
                    except hilbert.Error:
                        self.missed += 1
                    due = max(due + self.period, time.monotonic() - 0.1)
                    time.sleep(max(0, due - time.monotonic()))


class Vehicle(Client):
    lock, cart, force = threading.Lock(), Cart(dt=0.001), 0.0

    def act(self, client):
        with Vehicle.lock:
            cart = Vehicle.cart
            force = Vehicle.force  # what it says is what it does, whatever the pilot asks for meanwhile
            client.publish(cart.time_us, cart.state, [force])
            cart.step(force)


class Pilot(Client):
    wrong = None

    def act(self, client):
        with Vehicle.lock:
            time_us, state = Vehicle.cart.time_us, list(Vehicle.cart.state)
        reply = client.request(time_us, state)
        for action in reply.action:
            if not -10 <= action <= 10:
                Pilot.wrong = f"an action of {action}"
        if reply.action and reply.status.planned:
            Vehicle.force = reply.action[0] + (0.5 if int(time.monotonic() * 2) % 2 else -0.5)


class Guest(Client):
    def act(self, client):
        client.request(0, [1, 0])


class Operator(Client):
    def act(self, client):
        client.status()
        client.model()


def resources(pid):
    with open(f"/proc/{pid}/status") as file:
        rss = next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
    return rss, len(os.listdir(f"/proc/{pid}/fd"))


def check_counters(status, complain):
    c = status.counters
    replies, aside = sum_of(status.replies), sum_of(status.set_aside)
    if not 0 <= c.requests - replies <= 64:
        complain(f"{c.requests} requests, {replies} replies")
    used = c.transitions + aside + c.telemetry_overrun
    if not c.telemetry - RING <= used <= c.telemetry + c.requests:
        complain(f"{c.telemetry} samples, {used} accounted for")
    if c.replies_undelivered > replies:
        complain(f"{c.replies_undelivered} replies undelivered of {replies}")


def live(daemon, clients, rng, seconds, number, complain):
    """One life of the daemon; returns its status at the end."""
    pid, began, settled, before, most = daemon.process.pid, time.monotonic(), None, None, (0.0, 0)
    status, misses = None, 0
    next_restart = began + rng.uniform(1, 4)
    with hilbert.Client(daemon.folder, timeout=PATIENCE) as watcher:
        while time.monotonic() - began < seconds:
            time.sleep(0.25)
            if daemon.process.poll() is not None:
                complain(f"the daemon ended with {daemon.process.returncode}:\n{daemon.text()[-2000:]}")
                return status
            now = resources(pid)
            if settled is None and time.monotonic() - began > SETTLED:
                settled = now
            most = max(most[0], now[0]), max(most[1], now[1])
            if time.monotonic() > next_restart:
                rng.choice(clients).again.set()
                next_restart += rng.uniform(1, 4)
            try:
                status = watcher.status()
                check_counters(status, complain)
            except hilbert.Error:
                misses += 1
        now = resources(pid)
    if settled and now[0] > settled[0] + MOST_GROWTH:
        complain(f"memory grew from {settled[0]:.1f} to {now[0]:.1f} MB")
    if settled and now[1] > settled[1] + 4 * MOST_CLIENTS:
        complain(f"descriptors grew from {settled[1]} to {now[1]}")
    c = status.counters if status else None
    print(f"life {number}: {time.monotonic() - began:.0f} s, {c.telemetry if c else 0} samples, {c.requests if c else 0} requests, "
          f"{now[0]:.1f} MB (settled {settled[0] if settled else now[0]:.1f}, most {most[0]:.1f}), {now[1]} descriptors "
          f"(most {most[1]}), window {status.health.samples if status else 0}", flush=True)
    return status


def main():
    rng = random.Random(options.seed)
    faults = []
    daemon = Daemon(CART + "state_file: window\n")
    number, until = 0, time.monotonic() + 60 * options.minutes

    def complain(text):
        faults.append(f"life {number}: {text}")
        print(f"WRONG {faults[-1]}", flush=True)

    try:
        daemon.start()
        clients = [Vehicle(daemon, 0.001, "vehicle"), Pilot(daemon, 0.01, "pilot"), Guest(daemon, 0.1, "guest"),
                   Operator(daemon, 0.5, "operator")]
        for client in clients:
            client.start()
        while time.monotonic() < until:
            number += 1
            seconds = min(rng.uniform(8, 40), max(until - time.monotonic(), SETTLED + 2))
            status = live(daemon, clients, rng, seconds, number, complain)
            if daemon.process.poll() is not None and status is None:
                break
            how = rng.choice((signal.SIGTERM, signal.SIGKILL))
            ended = daemon.stop(how)
            # a change that was detected in the last moment cuts the window: what counts is the daemon's last word
            last = re.findall(r"stopped with a window of (\d+) samples", daemon.text()) if how == signal.SIGTERM else []
            window = int(last[-1]) if last else status.health.samples if status else 0
            if ended not in (0, -signal.SIGKILL):
                complain(f"the daemon ended with {ended}")
            if time.monotonic() >= until:
                break
            daemon.start()
            with hilbert.Client(daemon.folder, timeout=PATIENCE) as watcher:
                kept = watcher.status()
            if status and window > 20 and kept.health.samples < window / 2:
                complain(f"a window of {window} samples, and {kept.health.samples} after the restart, of which "
                         f"{kept.counters.transitions} are new; {status.health.changes} and {kept.health.changes} changes "
                         f"detected; {how.name}; the daemon said:\n{daemon.text()[-2000:]}")
        for client in clients:
            client.stop.set()
        for client in clients:
            client.join(PATIENCE)
            print(f"{client.name}: {client.done} done, {client.missed} missed in restarts, {client.connections} connections")
        pilot = clients[1]
        if Pilot.wrong:
            complain(Pilot.wrong)
        # what is missed falls into a restart of either side
        if pilot.missed > 10 * (number + pilot.connections):
            complain(f"{pilot.missed} requests were not answered")
        print(f"{number} lives, {len(faults)} faults")
    finally:
        with contextlib.suppress(Exception):
            daemon.close()
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
