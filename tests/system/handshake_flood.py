#!/usr/bin/python3
"""What a flood of hostile handshakes costs a client that flies: reply times with and without it, over ipc and over tcp.

usage: handshake_flood.py BUILD_ROOT [--seconds S] [--daemon HILBERTD] [--attackers N] [--nice N]

The flood comes from one address: processes that connect to the actions socket over and over and play a recorded greeting
and HELLO of a client whose key is not known, which costs them nothing and the daemon its part of a handshake. It
makes room for all others (SCHED_IDLE), as it would come from other machines. Prints a table; the test of the bound itself is
tests/unit/daemon/test_throttle.c. Exit status 1 when a request was not answered or refused, there was no flood, or the daemon did
not turn it away or did not outlive it.
"""
import argparse
import multiprocessing
import os
import socket
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", help="where meson builds")
parser.add_argument("--seconds", type=float, default=5, help="of each row (5)")
parser.add_argument("--daemon", help="another hilbertd, to compare with")
parser.add_argument("--attackers", type=int, default=2, help="processes (2)")
parser.add_argument("--nice", type=int, help="priority of the flood in place of SCHED_IDLE, for a machine that is never idle")
options = parser.parse_args()
sys.argv = [sys.argv[0], options.build]

import harness  # noqa: E402
import zmq  # noqa: E402
from harness import Daemon, hilbert  # noqa: E402
from test_daemon_security import endpoints, keygen, with_tcp  # noqa: E402

if options.daemon:
    harness.HILBERTD = os.path.abspath(options.daemon)


def record_hello(port, server):
    """What a CURVE client says first, as it goes over the wire."""
    context = zmq.Context()
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    client = context.socket(zmq.DEALER)
    client.linger = 0
    client.curve_publickey, client.curve_secretkey = zmq.curve_keypair()
    with open(server, "rb") as file:
        client.curve_serverkey = file.read().strip()
    client.connect(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
    ours, _ = listening.accept()
    theirs = socket.create_connection(("127.0.0.1", port))
    said = b""
    theirs.settimeout(2)
    while len(said) < 64 + 202:  # greeting, and HELLO in its frame
        ours.settimeout(0.2)
        try:
            said += ours.recv(4096)
        except TimeoutError:
            pass
        theirs.setblocking(False)
        try:
            heard = theirs.recv(4096)
            ours.sendall(heard)
        except BlockingIOError:
            theirs.setblocking(True)
            if len(said) <= 64:
                theirs.sendall(said if not getattr(record_hello, "sent", False) else b"")
                record_hello.sent = True
                time.sleep(0.05)
    for s in (ours, theirs, listening):
        s.close()
    client.close()
    context.term()
    return said[:64 + 202]


def attack(port, said, count, stop):
    if options.nice is None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(options.nice)
    open_ones = []
    while not stop.is_set():
        s = socket.socket()
        try:
            s.connect(("127.0.0.1", port))
            s.sendall(said)
            count.value += 1
        except OSError:
            pass
        open_ones.append(s)
        if len(open_ones) > 50:
            open_ones.pop(0).close()


def percentile(values, part):
    return 1e3 * sorted(values)[min(int(part * len(values)), len(values) - 1)]


def fly(client, seconds):
    """Reply times at 100 Hz."""
    times, until, k = [], time.monotonic() + seconds, 0
    while time.monotonic() < until:
        began = time.monotonic()
        if client.request(k, [0, 0]).status == hilbert.Status.REFUSED:
            raise SystemExit("a request of the pilot was refused")
        times.append(time.monotonic() - began)
        time.sleep(max(0, 0.01 - (time.monotonic() - began)))
        k += 10000
    return times


def row(name, times, handshakes=0, seconds=1.0):
    print(f"{name:24s} {len(times):6d} {percentile(times, 0.5):8.2f} {percentile(times, 0.99):8.2f} {1e3 * max(times):8.2f}"
          f" {handshakes / seconds:12.0f}", flush=True)


def main():
    config, ports = with_tcp("security: {{server_key: server.key, client_keys: [alice.pub]}}\n")
    daemon = Daemon(config)
    try:
        for name in ("server", "alice"):
            keygen(f"{daemon.folder}/{name}")
        daemon.start()
        keys = {"server_key": f"{daemon.folder}/server.pub", "client_key": f"{daemon.folder}/alice.key"}
        clients = {"ipc": hilbert.Client(daemon.folder, timeout=5), "tcp": hilbert.Client(**endpoints(ports), **keys, timeout=5)}
        for client in clients.values():
            client.request(0, [0, 0])
        said = record_hello(ports[1], keys["server_key"])
        print(f"{'pilot':24s} {'asked':>6s} {'p50 ms':>8s} {'p99 ms':>8s} {'most ms':>8s} {'floods/s':>12s}")
        for name, client in clients.items():
            row(f"{name}, quiet", fly(client, options.seconds))
        stop = multiprocessing.Event()
        counts = [multiprocessing.Value("l", 0) for _ in range(options.attackers)]
        crowd = [multiprocessing.Process(target=attack, args=(ports[1], said, c, stop), daemon=True) for c in counts]
        for one in crowd:
            one.start()
        time.sleep(0.5)
        for name, client in clients.items():
            before, began = sum(c.value for c in counts), time.monotonic()
            times = fly(client, options.seconds)
            flood = sum(c.value for c in counts) - before
            row(f"{name}, flooded", times, flood, time.monotonic() - began)
            # more than the daemon lets in (test_throttle.c), else this shows nothing
            if flood < 32 + 10 * options.seconds:
                raise SystemExit(f"{flood} connections are no flood: give --nice 0 or more --attackers")
        stop.set()
        for one in crowd:
            one.join()
        for client in clients.values():
            client.close()
        for line in daemon.text().splitlines():
            if "security" in line:
                print(line)
        if daemon.process.poll() is not None:
            raise SystemExit(f"hilbertd ended with {daemon.process.returncode}")
        if "new connections are turned away" not in daemon.text():
            raise SystemExit("hilbertd turned nobody away")
    finally:
        daemon.close()


if __name__ == "__main__":
    main()
