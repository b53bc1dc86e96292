"""Every call that can fail fails once: each allocation and each system call of hilbertd's own code up to READY, one by one,
and those of its recorder after READY. Whatever fails, hilbertd ends with status 1 and says why, without a leak, or does
without it; it never crashes and never hangs.

usage: test_daemon_faults.py BUILD             what CI checks
       test_daemon_faults.py BUILD --libraries     every allocation of the libraries too: prints which end the process
"""
import collections
import contextlib
import errno
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARIES = "--libraries" in sys.argv
sys.argv = [a for a in sys.argv if a != "--libraries"]

from harness import (BUILD, CART, HILBERTD, MAKE_MODEL, PATIENCE, Cart, TestCase, connect_telemetry, fly, hilbert,  # noqa: E402
                     main)

PRELOAD = f"{BUILD}/tests/system/libfail_call.so"

EVERYTHING = CART + """
shadow: {{model: shadow.safetensors}}
state_file: window
recorder: {{enabled: true, directory: .}}
"""

# how each function is made to fail. What fopen's files deliver is read through stdio, out of reach here; that a message
# to the service manager (socket) is not sent is for its own time-outs.
FAULTS = {
    "memory": ["ENOMEM"],
    "read": ["EIO", "EINTR", "short"],
    "write": ["ENOSPC", "EINTR", "short"],
    "open64": ["EMFILE", "EINTR"],
    "openat64": ["EMFILE"],
    "fopen64": ["EMFILE"],
    "open_memstream": ["ENOMEM"],
    "memfd_create": ["EMFILE"],
    "eventfd": ["EMFILE"],
    "signalfd": ["EMFILE"],
    "mmap64": ["ENOMEM"],
    "ftruncate64": ["ENOSPC"],
    "posix_fallocate64": ["ENOSPC", "EINTR"],
    "fstat64": ["EIO"],
    "stat64": ["EIO"],
    "fstatat64": ["EIO"],
    "access": ["EIO"],
    "lseek64": ["EIO"],
    "flock": ["EINTR"],
    "fsync": ["EIO"],
    "fdatasync": ["EIO"],
    "unlink": ["EACCES"],
    "unlinkat": ["EACCES"],
    "pthread_create": ["EAGAIN"],
    "sem_init": ["ENOSPC"],
}

MOST = 150  # allocations in flight that are tried

Outcome = collections.namedtuple("Outcome", "ready status text counts culprit leaked")


def report(path):
    """What fail_call wrote: calls, who made the one that failed, own allocations never freed. After an abort: who alone."""
    counts, culprit, leaked = {}, "", 0
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        for line in file:
            key, value = line.split(" ", 1)
            if key == "failed":
                culprit = value.strip()
            elif key == "leaked":
                leaked = int(value)
            else:
                counts[key] = int(value)
    return counts, culprit, leaked


def library_of(culprit):
    return os.path.basename(culprit.rpartition("+0x")[0]) or "none"


class Start:
    """hilbertd from its start to READY and a stop, with one fault."""

    def __init__(self, config=EVERYTHING):
        self.folder = tempfile.mkdtemp(prefix="hilbert-faults-", dir="/tmp")
        with open(f"{self.folder}/config.yaml", "w") as file:
            file.write(config.format(folder=self.folder))
        for model, name in (("cart", "cart"), ("cart", "shadow")):
            subprocess.run([MAKE_MODEL, model, f"{self.folder}/{name}.safetensors"], check=True)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(f"{self.folder}/notify")

    def close(self):
        self.notify.close()
        shutil.rmtree(self.folder)

    def is_ready(self, process):
        """Waits for READY or the end."""
        end = time.monotonic() + PATIENCE
        while process.poll() is None:
            if select.select([self.notify], [], [], 0.02)[0] and b"READY=1" in self.notify.recv(4096):
                return True
            if time.monotonic() > end:
                process.kill()
                raise AssertionError("neither READY nor an end")
        return False

    def run(self, fault=None, by="own"):
        environment = dict(os.environ, LD_PRELOAD=PRELOAD, NOTIFY_SOCKET=f"{self.folder}/notify", HILBERT_FAULT_BY=by,
                           HILBERT_FAULT_REPORT=f"{self.folder}/report", OPENBLAS_NUM_THREADS="1")
        if fault:
            environment["HILBERT_FAULT"] = fault
        for name in os.listdir(self.folder):
            if name.endswith(".mcap") or name in ("report", "window"):
                os.unlink(f"{self.folder}/{name}")
        while select.select([self.notify], [], [], 0)[0]:
            self.notify.recv(4096)
        with open(f"{self.folder}/log", "w+b") as log:
            process = subprocess.Popen([HILBERTD, f"{self.folder}/config.yaml"], env=environment, stdout=log, stderr=log,
                                       cwd=self.folder)
            try:
                ready = self.is_ready(process)
                if ready:
                    process.send_signal(signal.SIGTERM)
                status = process.wait(PATIENCE)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            log.seek(0)
            text = log.read().decode(errors="replace")
        return Outcome(ready, status, text, *report(f"{self.folder}/report"))


def number(how):
    return how if how == "short" else getattr(errno, how)


@unittest.skipIf(LIBRARIES, "--libraries looks at the libraries alone")
class Faults(unittest.TestCase):
    def setUp(self):
        self.start = Start()
        self.addCleanup(self.start.close)

    def test_each_call_up_to_ready(self):
        plain = self.start.run()
        self.assertEqual((plain.ready, plain.status, plain.leaked), (True, 0, 0), plain)
        tried = survived = 0
        wrong = []
        for function, ways in FAULTS.items():
            for how in ways:
                for n in range(1, plain.counts.get(function, 0) + 1):
                    o = self.start.run(f"{function} {n} {number(how)}")
                    tried += 1
                    survived += o.ready
                    # the last of several calls of a loop may be one that did not come this time
                    good = o.status == 0 if o.ready else o.status == 1 and o.text.strip()
                    if not good or o.leaked:
                        wrong.append(f"{function} {n} {how} at {o.culprit}: ready {o.ready}, status {o.status}, "
                                     f"{o.leaked} leaked, said: {o.text.strip()[-200:]!r}")
        self.assertGreater(tried, 50)
        print(f"{tried} faults of {sum(plain.counts.get(f, 0) for f in FAULTS)} calls: {survived} without harm, "
              f"{tried - survived} ended the start with its reason", file=sys.stderr)
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))


RECORDING = CART + """
state_file: window
recorder: {{enabled: true, directory: .}}
"""


class Flight(TestCase):
    """A flight with a fault in the midst of it."""

    def fly_on(self, client, cart, daemon):
        """Whether the client has all its answers."""
        try:
            connect_telemetry(client, daemon)
            for _ in range(4):
                fly(client, cart, 10)
                reply = client.request(cart.time_us, cart.state)
                self.assertTrue(reply.action)
        except (AssertionError, hilbert.Error):
            return False
        return True

    def goes_on(self, daemon, cart):
        """Who is answered after an answer stayed away: the same client, or one that connects anew, within three tries."""
        if any(self.fly_on(daemon.clients[0], cart, daemon) for _ in range(3)):
            return "an answer missing, then the same client flew on"
        if any(self.fly_on(daemon.client(timeout=2), cart, daemon) for _ in range(3)):
            return "no more answers for one client, a new one flew on"
        return None

    def flown(self, fault=None, by="own"):
        """The daemon after a flight, its exit status (None: it lives), the cart, and whether all was answered."""
        environment = {"HILBERT_PRELOAD": PRELOAD, "HILBERT_FAULT_WHEN": "ready", "HILBERT_FAULT_BY": by,
                       "OPENBLAS_NUM_THREADS": "1"}
        daemon = self.daemon(RECORDING, environment=environment)
        daemon.environment["HILBERT_FAULT_REPORT"] = f"{daemon.folder}/report"
        if fault:
            daemon.environment["HILBERT_FAULT"] = fault
        cart = Cart()
        daemon.start()
        answered = self.fly_on(daemon.client(timeout=2), cart, daemon)
        if not answered:
            with contextlib.suppress(subprocess.TimeoutExpired):  # an abort takes its time
                daemon.process.wait(2)
        return daemon, daemon.process.poll(), cart, answered


@unittest.skipIf(LIBRARIES, "--libraries looks at the libraries alone")
class Recorder(Flight):
    def test_each_call_of_the_recorder_in_flight(self):
        daemon, status, _, answered = self.flown()
        self.assertEqual((status, answered, daemon.stop()), (None, True, 0))
        counts = report(f"{daemon.folder}/report")[0]
        daemon.close()
        tried = 0
        for function in ("write", "openat64", "lseek64", "ftruncate64", "fsync", "fdatasync", "unlinkat", "fstatat64"):
            for how in FAULTS[function]:
                for n in range(1, min(counts.get(function, 0), 4) + 1):
                    with self.subTest(function=function, how=how, n=n):
                        daemon, status, _, answered = self.flown(f"{function} {n} {number(how)}")
                        self.assertEqual((status, answered, daemon.stop()), (None, True, 0), daemon.text())
                        daemon.close()
                        tried += 1
        self.assertGreater(tried, 3)
        print(f"{tried} faults of the recorder in flight: all requests answered", file=sys.stderr)


@unittest.skipUnless(LIBRARIES, "minutes: with --libraries")
class Libraries(Flight):
    def test_each_allocation_up_to_ready(self):
        start = Start()
        self.addCleanup(start.close)
        table = collections.Counter()
        for n in range(1, start.run(by="any").counts["memory"] + 1):
            o = start.run(f"memory {n} {errno.ENOMEM}", by="any")
            library = library_of(o.culprit)
            what = "did without it" if o.ready else "ended with status 1" if o.status == 1 else f"signal {-o.status}"
            table[library or "?", what] += 1
        print("up to READY, each allocation failed once:", file=sys.stderr)
        for (library, what), count in sorted(table.items()):
            print(f"  {library:34} {what:22} {count}", file=sys.stderr)

    def test_each_allocation_in_flight(self):
        """The daemon flies on, at the worst for a client that connects anew; or it ends, and the next start has the window."""
        daemon, status, _, answered = self.flown(by="any")
        self.assertEqual((status, answered, daemon.stop()), (None, True, 0))
        n = report(f"{daemon.folder}/report")[0]["memory"]
        daemon.close()
        table, wrong, began = collections.Counter(), [], time.monotonic()
        every = max(1, n // MOST)
        for k in range(1, n + 1, every):
            daemon, status, cart, answered = self.flown(f"memory {k} {errno.ENOMEM}", by="any")
            outcome = "flew on"
            if status is None and not answered:
                outcome = self.goes_on(daemon, cart)
                if not outcome:
                    wrong.append(f"{k}: nobody is answered, and no end\n{daemon.text()[-300:]}")
            elif status is not None:
                outcome = f"ended by signal {-status}"
            if status is None and (end := daemon.stop()) != 0:
                outcome += f", and by signal {-end} when stopped"
            library = library_of(report(f"{daemon.folder}/report")[1])
            if daemon.process.returncode != 0:
                daemon.environment.pop("HILBERT_FAULT")
                daemon.start()
                kept = daemon.client().status()
                outcome += "; window kept" if kept.resumed else "; no window yet"
                sent = round(1e-6 * cart.time_us / cart.dt)
                if sent > 10 and not (kept.resumed and kept.health.samples > 0):  # the first ten were taken in, then
                    wrong.append(f"{k}, {library}: {sent} samples were sent, and {kept.health.samples} are there")
                if (end := daemon.stop()) != 0:
                    wrong.append(f"{k}: the next life ended with {end}")
            table[library, outcome] += 1
            daemon.close()
            if time.monotonic() - began > 2:
                print(f"\r{k} of {n}", end="", file=sys.stderr, flush=True)
        print(f"\nin flight, {n} allocations, every {every}. failed once:", file=sys.stderr)
        for (library, outcome), count in sorted(table.items()):
            print(f"  {library:18} {outcome:60} {count}", file=sys.stderr)
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
