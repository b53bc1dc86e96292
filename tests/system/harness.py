"""A real hilbertd in a folder of its own, and a stand-in for its service manager.

usage of the tests: test_X.py BUILD_ROOT, with the programs where meson builds them.
"""
import array
import contextlib
import ctypes
import functools
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import zmq

for name in ("NOTIFY_SOCKET", "RUNTIME_DIRECTORY", "LOGS_DIRECTORY", "LISTEN_FDS", "JOURNAL_STREAM"):
    os.environ.pop(name, None)  # of a service that the tests may run in

zmq.Context.instance().linger = 0  # no end of a test waits for messages that nobody will read

BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.getcwd()
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HILBERTD = f"{BUILD}/daemon/hilbertd"
HILBERTCTL = f"{BUILD}/clients/ctl/hilbertctl"
MAKE_MODEL = f"{BUILD}/tests/models/make_model"
REPLAY = f"{BUILD}/tests/system/replay"
TRAP = f"{BUILD}/tests/system/libtrap_malloc.so"
sys.path.insert(0, f"{BUILD}/clients/python")

import hilbert  # noqa: E402
from hilbert import hilbert_pb2 as pb  # noqa: E402
from waiting import PATIENCE, wait_until  # noqa: E402

CART = """
name: cart
model: cart.safetensors
sockets:
  telemetry: ipc://{folder}/telemetry
  actions: ipc://{folder}/actions
  control: ipc://{folder}/control
  status: ipc://{folder}/status
planner: {{horizon: 10, samples: 16, iterations: 20}}
estimator: {{window: 4, warmup: 0.4}}
actuators: {{identify: false}}
cost:
  - {{kind: squared, states: [position], weight: 5, terminal: 5}}
  - {{kind: squared, states: [velocity], weight: 1, terminal: 5}}
  - {{kind: effort, controls: [force], weight: 0.05}}
target: {{position: 1}}
safe_action: {{force: -0.125}}
latency: {{budget: 0.5, stale_after: 60, fallback_after: 120}}
"""


def shipped(name):
    """config/NAME.yaml, with sockets in the daemon's folder and the model where it is."""
    with open(f"{SOURCE}/config/{name}.yaml") as file:
        text = file.read()
    model = f"{SOURCE}/config/models/" + re.search(r'(?m)^model: *"?([^"\s]+)', text)[1]
    text = re.sub(r"(?m)^model: .*", f"model: {model}", text)
    text = re.sub(r"(?ms)^sockets:\n.*?^(?=\S)", "", text).replace("{", "{{").replace("}", "}}")
    return text + "\nsockets:\n" + "".join(f"  {s}: ipc://{{folder}}/{s}\n" for s in ("telemetry", "actions", "control", "status"))


class Manager:
    """What systemd is to a service: NOTIFY_SOCKET, and a store of file descriptors."""

    def __init__(self, folder):
        self.path = f"{folder}/notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.messages = []  # (time, {key: value})
        self.store = {}  # name -> fd

    def close(self):
        self.socket.close()
        for fd in self.store.values():
            os.close(fd)

    def listen(self, seconds=0.0):
        """Takes in what has been sent, waiting at most `seconds` for the first of it."""
        while select.select([self.socket], [], [], seconds)[0]:
            seconds = 0.0
            data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_LEN(64))
            fds = array.array("i")
            for level, kind, content in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
            message = dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)
            self.messages.append((time.monotonic(), message))
            name = message.get("FDNAME", "stored")
            if message.get("FDSTORE") == "1":
                for fd in fds:
                    self.drop(name)
                    self.store[name] = fd
            if message.get("FDSTOREREMOVE") == "1":
                self.drop(name)

    def drop(self, name):
        if name in self.store:
            os.close(self.store.pop(name))

    def seen(self, key, value=None, since=0.0):
        self.listen()
        return [t for t, m in self.messages if t >= since and key in m and (value is None or m[key] == value)]


class Daemon:
    """hilbertd with a configuration; CART unless told otherwise."""

    def __init__(self, config=CART, *, model="cart", folder=None, manager=True, environment=None, listen=(), limits=None, **keys):
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.file = f"{self.folder}/config.yaml"
        self.write(config)
        if model and not os.path.exists(f"{self.folder}/{model}.safetensors"):
            subprocess.run([MAKE_MODEL, model, f"{self.folder}/{model}.safetensors"], check=True)
        self.manager = Manager(self.folder) if manager is True else manager or None
        self.environment = dict(os.environ, **(environment or {}))
        self.listen_fds = list(listen)  # (name, fd)
        self.limits = limits or {}  # of resources, e.g. {resource.RLIMIT_NOFILE: 256}
        self.process = None
        self.log = open(f"{self.folder}/log", "a+b")
        self.clients = []

    def write(self, config):
        with open(self.file, "w") as file:
            file.write(config.format(folder=self.folder))

    def limit(self):
        for what, most in self.limits.items():
            resource.setrlimit(what, (most, most))

    def start(self, ready=True):
        fds = self.listen_fds + list((self.manager.store if self.manager else {}).items())
        environment = dict(self.environment)
        if self.manager:
            environment["NOTIFY_SOCKET"] = self.manager.path
        began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _EXEC, ",".join(f"{name}:{fd}" for name, fd in fds), HILBERTD, self.file],
            env=environment, pass_fds=[fd for _, fd in fds], stdout=subprocess.DEVNULL, stderr=self.log, cwd=self.folder,
            preexec_fn=self.limit if self.limits else None)
        if ready and self.manager:
            wait_until(lambda: self.manager.seen("READY", "1", began) or self.process.poll() is not None, "READY")
        elif ready:
            wait_until(lambda: self.answers() or self.process.poll() is not None, "an answer")
        if ready and self.process.poll() is not None:
            raise AssertionError(f"hilbertd ended with {self.process.returncode}:\n{self.text()}")
        return self

    def answers(self):
        with contextlib.suppress(hilbert.Error):
            with hilbert.Client(self.folder, timeout=0.2, connect_timeout=0) as client:
                return client.status() is not None
        return False

    def client(self, timeout=PATIENCE, **options):
        client = hilbert.Client(self.folder, timeout=timeout, **options)
        self.clients.append(client)
        return client

    def text(self):
        self.log.flush()
        with open(f"{self.folder}/log") as file:
            return file.read()

    def says(self, what):
        """Waits for a text, or a compiled pattern, in the log: it may be written after the reply that it belongs to."""
        try:
            wait_until(lambda: what in self.text() if isinstance(what, str) else what.search(self.text()), f"'{what}' in the log")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.text()}") from None

    def stop(self, how=signal.SIGTERM):
        """Ends the process; returns its exit status."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(PATIENCE) if self.process else None

    def close(self):
        if self.log.closed:
            return
        for client in self.clients:
            client.close()
        ended = self.process.poll() if self.process else 0
        if ended not in (None, 0, 1, -signal.SIGKILL):
            print(f"hilbertd ended with {ended}:\n{self.text()}", file=sys.stderr)
        if self.process and self.process.poll() is None:
            self.process.terminate()  # what measures coverage or leaks writes at the end
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(3)
            self.process.kill()
            self.process.wait()
        self.log.close()
        if self.manager:
            self.manager.close()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def thread(self, name):
        """The id of the thread of that name."""
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/comm") as file:
                if file.read().strip() == name:
                    return int(task)
        raise AssertionError(f"no thread is called {name}")


# moves descriptors to where LISTEN_FDS promises them, as the service manager does before it executes a service
_EXEC = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # a test that is killed takes its daemon with it
pairs = [p.split(":") for p in sys.argv[1].split(",") if p]
high = [os.dup2(int(fd), 200 + i) for i, (_, fd) in enumerate(pairs)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i)
    os.set_inheritable(3 + i, True)
os.closerange(3 + len(pairs), 300)
if pairs:
    os.environ.update(LISTEN_FDS=str(len(pairs)), LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES=":".join(n for n, _ in pairs))
preload = os.environ.pop("HILBERT_PRELOAD", None)
if preload:
    os.environ["LD_PRELOAD"] = preload
os.execv(sys.argv[2], sys.argv[2:])
"""


class Cart:
    """The vehicle: drag, and whatever else a test wants of it."""

    def __init__(self, drag=0.3, gain=1.0, slope=0.0, spring=0.0, dt=0.02):
        self.drag, self.gain, self.slope, self.spring, self.dt = drag, gain, slope, spring, dt
        self.state = [0.0, 0.0]
        self.time_us = 0

    def step(self, force):
        """Advances by dt with the force held (RK4)."""

        def field(x):
            return (x[1], self.gain * force - self.drag * x[1] + self.slope - self.spring * x[0] ** 3)

        x, h = self.state, self.dt
        k1 = field(x)
        k2 = field([x[i] + h / 2 * k1[i] for i in range(2)])
        k3 = field([x[i] + h / 2 * k2[i] for i in range(2)])
        k4 = field([x[i] + h * k3[i] for i in range(2)])
        self.state = [x[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) for i in range(2)]
        self.time_us += round(1e6 * h)


def connect_telemetry(client, daemon):
    """Returns once samples arrive: the first ones are lost until the subscription has come through."""
    before = client.status().counters.telemetry

    def arrives():
        client.publish(0, [], [])  # of no dimension: counted, and set aside
        return client.status().counters.telemetry > before

    wait_until(arrives, "arrival of telemetry")
    # what is still on its way must not be counted later
    last = -1
    while last != (now := client.status().counters.telemetry):
        last = now
        time.sleep(0.02)


def fly(client, cart, steps, force=lambda k: 1.0 if k // 10 % 2 else -1.0):
    """Publishes so many samples, never more at a time than the daemon's ring holds, and waits until all were taken in."""
    def taken():
        status = client.status()
        return status.counters.transitions + sum_of(status.set_aside)

    before = taken()
    for k in range(steps):
        u = force(k)
        client.publish(cart.time_us, cart.state, [u])
        cart.step(u)
        if k % 32 == 31 or k == steps - 1:
            wait_until(lambda: taken() >= before + k + 1, f"intake of {k + 1} samples")


def sum_of(counts):
    return sum(vars(counts).values())


@contextlib.contextmanager
def stopped_thread(tid):
    """Stops one thread of a process, as a debugger does."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
    wall = 0x40000000
    if libc.ptrace(SEIZE, tid, None, None) or libc.ptrace(INTERRUPT, tid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace: may this test trace its own child?")
    os.waitpid(tid, wall)
    try:
        yield
    finally:
        libc.ptrace(DETACH, tid, None, None)


class TestCase(unittest.TestCase):
    def daemon(self, config=CART, **options):
        daemon = Daemon(config, **options)
        self.addCleanup(daemon.close)
        return daemon

    def started(self, config=CART, **options):
        return self.daemon(config, **options).start()


with open(HILBERTD, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()


def unsanitized(test):
    """Of a test that preloads, or measures or limits memory: the address sanitizer has these to itself."""
    @functools.wraps(test)
    def run(self):
        if SANITIZED:
            print(f"SKIPPED: {self.id()}: not with the address sanitizer", flush=True)
        else:
            test(self)
    return run


def main():
    del sys.argv[1]
    unittest.main(verbosity=2)
