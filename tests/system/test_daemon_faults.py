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

    def flown(self, fault=None, by="own"):
        """The daemon after a flight, its exit status (None: it lives) and the report of its end."""
        environment = {"HILBERT_PRELOAD": PRELOAD, "HILBERT_FAULT_WHEN": "ready", "HILBERT_FAULT_BY": by,
                       "OPENBLAS_NUM_THREADS": "1"}
        daemon = self.daemon(RECORDING, environment=environment)
        daemon.environment["HILBERT_FAULT_REPORT"] = f"{daemon.folder}/report"
        if fault:
            daemon.environment["HILBERT_FAULT"] = fault
        cart = Cart()
        try:
            daemon.start()
            client = daemon.client(timeout=2)
            connect_telemetry(client, daemon)
            for _ in range(4):
                fly(client, cart, 10)
                reply = client.request(cart.time_us, cart.state)
                self.assertTrue(reply.action)
        except (AssertionError, hilbert.Error):
            if daemon.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):  # an abort takes its time
                    daemon.process.wait(2)
            if daemon.process.poll() is None:
                raise AssertionError(f"{fault}: no answer, and no end\n{daemon.text()}")
        return daemon, daemon.process.poll()


@unittest.skipIf(LIBRARIES, "--libraries looks at the libraries alone")
class Recorder(Flight):
    def test_each_call_of_the_recorder_in_flight(self):
        daemon, status = self.flown()
        self.assertEqual((status, daemon.stop()), (None, 0))
        counts = report(f"{daemon.folder}/report")[0]
        daemon.close()
        tried = 0
        for function in ("write", "openat64", "lseek64", "ftruncate64", "fsync", "fdatasync", "unlinkat", "fstatat64"):
            for how in FAULTS[function]:
                for n in range(1, min(counts.get(function, 0), 4) + 1):
                    with self.subTest(function=function, how=how, n=n):
                        daemon, status = self.flown(f"{function} {n} {number(how)}")
                        self.assertEqual((status, daemon.stop()), (None, 0), daemon.text())
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
            library = os.path.basename(o.culprit.split("+")[0])
            what = "did without it" if o.ready else "ended with status 1" if o.status == 1 else f"signal {-o.status}"
            table[library or "?", what] += 1
        print("up to READY, each allocation failed once:", file=sys.stderr)
        for (library, what), count in sorted(table.items()):
            print(f"  {library:34} {what:22} {count}", file=sys.stderr)

    def test_each_allocation_in_flight(self):
        daemon, status = self.flown(by="any")
        self.assertEqual((status, daemon.stop()), (None, 0))
        n = report(f"{daemon.folder}/report")[0]["memory"]
        daemon.close()
        table = collections.Counter()
        for k in range(1, n + 1, max(1, n // 150)):
            daemon, status = self.flown(f"memory {k} {errno.ENOMEM}", by="any")
            if status is None:
                self.assertEqual(daemon.stop(), 0)
                table["flew on"] += 1
            else:
                library = os.path.basename(report(f"{daemon.folder}/report")[1].split("+")[0])
                table[f"ended by signal {-status}, in {library}"] += 1
                daemon.environment.pop("HILBERT_FAULT")
                daemon.start()
                kept = daemon.client().status()
                table["restarted, window kept" if kept.resumed else "restarted, no window yet"] += 1
            daemon.close()
        print(f"in flight, {n} allocations, every {max(1, n // 150)}-th failed once:", file=sys.stderr)
        for what, count in sorted(table.items()):
            print(f"  {what:60} {count}", file=sys.stderr)


if __name__ == "__main__":
    main()
