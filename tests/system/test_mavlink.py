"""hilbert-mavlink between a real hilbertd and mavlink_peer, a vehicle with PX4's rules: every rung of the failsafe ladder.
test_mavlink_flights.py flies config/px4.yaml as it is.

Flights are in virtual time, which stands still while hilbertd plans, so that a busy machine decides over nothing: the
bridge is part of the peer's process. What is about processes (signals, a daemon or a bridge that dies) is in real time,
slowed down for all of them alike. Without TEST, a few tests run side by side.

usage: test_mavlink.py BUILD_ROOT SOURCE_ROOT [TEST...]
"""
import concurrent.futures
import ctypes
import math
import os
import queue
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import BUILD, HILBERTCTL, HILBERTD, PATIENCE, shipped, wait_until

SOURCE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else f"{BUILD}/.."
BRIDGE = f"{BUILD}/clients/mavlink/hilbert-mavlink"
PEER = f"{BUILD}/tests/system/mavlink_peer"
CLOCK = f"{BUILD}/tests/system/libslow_clock.so"

SLOW = 4
AT_ONCE = 3  # tests that run at a time

# patient, since the machine may be busy: what is tested is who does what when, not how fast it is
DAEMON = """
name: px4
model: {source}/config/models/px4.safetensors
sockets:
  telemetry: ipc://{folder}/telemetry
  actions: ipc://{folder}/actions
  control: ipc://{folder}/control
  status: ipc://{folder}/status
planner: {{horizon: 12, samples: 8, iterations: 2}}
cost:
  - {{kind: squared, states: [x, y, z], weight: 4, terminal: 10}}
  - {{kind: tilt, states: [qx, qy, qz, qw], weight: 2, terminal: 5}}
  - {{kind: velocity, states: [vx, vy, vz], weight: 3, terminal: 5}}
  - {{kind: slew, controls: [thrust], weight: 10}}
  - {{kind: slew, controls: [roll_rate, pitch_rate, yaw_rate], weight: 0.3}}
target: {{z: 2, qw: 1}}
latency: {{budget: 0.05, delay: 0.016, stale_after: 5, fallback_after: 10}}
"""

SETTINGS = """
telemetry: ipc://{folder}/telemetry
actions: ipc://{folder}/actions
control: ipc://{folder}/control
reply_timeout: 0.1
stale_after: 0.15
max_age: 0.3
max_tilt: 1.2
max_speed: 20
box_min: [-200, -200, -100]
box_max: [200, 200, 200]
status_every: 1
"""


AS_SHIPPED = """
telemetry: ipc://{folder}/telemetry
actions: ipc://{folder}/actions
control: ipc://{folder}/control
status_every: 1
"""


def start(command, **options):
    """A process that does not outlive a test that is killed."""
    return subprocess.Popen(command, preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL), **options)


class Truth:
    """A line of the peer's."""

    def __init__(self, line):
        words = line.split()
        self.time, *numbers = (float(word) for word in words[:8])
        self.position, self.velocity, self.tilt = numbers[0:3], numbers[3:6], numbers[6]
        self.mode, self.setpoint, self.age = words[8], words[9], float(words[10])


class Flight:
    """Daemon, bridge and vehicle in a folder of their own. slow: in real time, which passes so many times slower for all of
    them; 0: in virtual time. as_shipped: the daemon with config/px4.yaml, and the bridge with its defaults. more: lines for
    the daemon's configuration."""

    def __init__(self, peer=(), settings="", options=(), daemon=True, slow=0, as_shipped=False, more=""):
        self.folder = tempfile.TemporaryDirectory()
        path = self.folder.name
        self.virtual = slow == 0
        self.patience = PATIENCE * max(slow, 1)
        env = dict(os.environ, LD_PRELOAD=CLOCK, SLOW_CLOCK=str(slow)) if slow > 1 else None
        config = (shipped("px4") if as_shipped else DAEMON).format(folder=path, source=SOURCE) + more
        if self.virtual:
            config = re.sub(r"(?m)^latency:( \{|\n  )", r"latency:\1clock: vehicle" + (r"\n  " if as_shipped else ", "), config)
            # no deadline ends a plan then: at a limit it gets about as many iterations as 8 ms have time for, not 100
            config = re.sub(r"(?m)^planner:\n  ", r"planner:\n  iterations: 4\n  ", config)
        with open(f"{path}/hilbertd.yaml", "w", encoding="ascii") as file:
            file.write(config)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings += f"connect: udp:{self.port}\n"
        with open(f"{path}/mavlink.yaml", "w", encoding="ascii") as file:
            given = {line.split(":")[0] for line in settings.splitlines()}
            file.write("".join(line + "\n" for line in (AS_SHIPPED if as_shipped else SETTINGS).format(folder=path).splitlines()
                               if line.split(":")[0] not in given) + settings)
        self.log = open(f"{path}/bridge.log", "w+", encoding="ascii")
        self.daemon = start([HILBERTD, f"{path}/hilbertd.yaml"], env=env, stderr=subprocess.DEVNULL) if daemon else None
        self.command = [BRIDGE, "--config", f"{path}/mavlink.yaml", *options]
        self.env = env
        self.bridge = None if self.virtual else self.start_bridge()
        if self.virtual:
            peer = [*peer, f"bridge={path}/mavlink.yaml"]
        self.peer = start([PEER, f"udpout:127.0.0.1:{self.port}", *peer], text=True, bufsize=1, env=env,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        self.truth = []
        self.passed = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def start_bridge(self):
        return start(self.command, env=self.env, stderr=self.log, stdout=subprocess.PIPE, text=True)

    def start_another_bridge(self):
        self.bridge.kill()
        self.bridge.wait()
        self.bridge.stdout.close()
        self.log.seek(0)
        self.log.truncate()
        self.bridge = self.start_bridge()

    def read(self):
        for line in self.peer.stdout:
            if line == "passed\n":
                self.passed.put(True)
            else:
                self.truth.append(Truth(line))
        self.passed.put(False)

    def tell(self, line):
        self.peer.stdin.write(line + "\n")
        self.peer.stdin.flush()

    def virtual_time(self, seconds):
        self.tell(f"pass {seconds}")
        if not self.passed.get():
            raise AssertionError(f"the vehicle ended\n{self.said()}")

    def now(self):
        return self.truth[-1]

    def said(self):
        with open(self.log.name, encoding="ascii") as file:
            return file.read()

    def wait(self, condition, what):
        if self.virtual:
            for _ in range(600):
                if self.truth and condition():
                    return
                self.virtual_time(0.1)
            raise AssertionError(f"{what} did not happen within a minute\n{self.said()}")
        try:
            wait_until(lambda: self.truth and condition(), what, self.patience)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None

    def pass_time(self, seconds):
        """Seconds of the vehicle's time; returns what it did in them."""
        begin = self.now().time
        if self.virtual:
            self.virtual_time(seconds)
        self.wait(lambda: self.now().time >= begin + seconds - 0.02, f"{seconds} s of flight")
        return [t for t in list(self.truth) if t.time >= begin]

    def target(self, **states):
        words = [f"{name}={value}" for name, value in states.items()]
        subprocess.run([HILBERTCTL, "target", "--socket", self.folder.name, *words], check=True,
                       capture_output=True)

    def ready(self):
        self.wait(lambda: "(ready)" in self.said(), "the bridge is ready")

    def engage(self):
        self.ready()
        self.wait(lambda: self.now().setpoint == "position" and self.now().age < 0.2, "the stream that offboard needs")
        self.tell("mode offboard")
        self.flying()

    def flying(self):
        self.wait(lambda: self.now().mode == "offboard" and self.now().setpoint == "rates", "rates are flown")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.bridge, self.daemon, self.peer):
            if process and process.poll() is None:
                process.kill()
            if process:
                process.wait()
        self.reader.join()
        for pipe in (self.peer.stdin, self.peer.stdout, self.bridge and self.bridge.stdout, self.log):
            if pipe:
                pipe.close()
        self.folder.cleanup()


def distance(a, b):
    return math.dist(a.position, b.position)


class Check(unittest.TestCase):
    def test_a_tight_autopilot_is_allowed(self):
        with Flight(options=["--check", "--seconds", "5"], slow=SLOW) as flight:
            text = flight.bridge.communicate(timeout=flight.patience)[0]
            self.assertEqual(flight.bridge.returncode, 0, text)
            self.assertRegex(text, r"PX4, system 1, hold, armed")
            self.assertRegex(text, r"ODOMETRY +1[12]\d\.\d Hz")
            self.assertRegex(text, r"CURRENT_MODE +[2-5]\d\.\d Hz")
            self.assertRegex(text, r"age median +\d+\.\d ms")
            self.assertRegex(text, r"COM_OBL_RC_ACT +5\n")
            self.assertIn("would be allowed now", text)
            self.assertTrue(all(t.setpoint == "none" for t in flight.truth))

    def test_a_slow_stream_is_listed_too(self):
        with Flight(peer=["mode_rate=2"], options=["--check", "--seconds", "5"], slow=SLOW) as flight:
            text = flight.bridge.communicate(timeout=flight.patience)[0]
            self.assertRegex(text, r"CURRENT_MODE +[12]\.\d Hz")

    def test_loose_parameters_are_refused_with_the_lines_to_set(self):
        with Flight(peer=["COM_OF_LOSS_T=1", "COM_OBL_RC_ACT=0"], options=["--check", "--seconds", "5"], slow=SLOW) as flight:
            text = flight.bridge.communicate(timeout=flight.patience)[0]
            self.assertEqual(flight.bridge.returncode, 1, text)
            self.assertIn("    param set COM_OF_LOSS_T 0.2\n    param set COM_OBL_RC_ACT 5\n", text)
            self.assertNotIn("param set COM_FAIL_ACT_T", text)

    def test_a_missing_daemon_is_said(self):
        with Flight(options=["--check", "--seconds", "6"], daemon=False, slow=SLOW) as flight:
            text = flight.bridge.communicate(timeout=flight.patience)[0]
            self.assertEqual(flight.bridge.returncode, 1, text)
            self.assertIn("hilbertd did not answer in time", text)

    def test_usage(self):
        run = subprocess.run([BRIDGE, "--print-config"], capture_output=True, text=True, check=True)
        with open(f"{SOURCE}/clients/mavlink/mavlink.yaml", encoding="ascii") as file:
            self.assertEqual(run.stdout, file.read(), "clients/mavlink/mavlink.yaml is not what --print-config says")
        self.assertEqual(subprocess.run([BRIDGE, "--help"], stdout=subprocess.DEVNULL).returncode, 0)
        self.assertEqual(subprocess.run([BRIDGE, "--nonsense"], stderr=subprocess.DEVNULL).returncode, 2)
        self.assertEqual(subprocess.run([BRIDGE, "--connect", "ftp:1"], stderr=subprocess.DEVNULL).returncode, 1)


class Ladder(unittest.TestCase):
    def test_a_flight_with_losses_ends_with_the_operator_s_word(self):
        with Flight(peer=["loss=0.03"], slow=SLOW) as flight:
            flight.engage()
            begin = flight.now()
            flight.wait(lambda: flight.now().time > begin.time + 2, "two seconds of flight")
            flight.bridge.send_signal(signal.SIGTERM)
            self.assertEqual(flight.bridge.wait(flight.patience), 0, flight.said())
            flight.wait(lambda: flight.now().mode == "hold", "the autopilot holds")

    def test_a_dead_daemon_means_position_then_hold(self):
        with Flight(slow=SLOW) as flight:
            flight.engage()
            flight.daemon.kill()
            killed = flight.now()
            flight.wait(lambda: flight.now().setpoint == "position", "position setpoints, still offboard")
            self.assertEqual(flight.now().mode, "offboard")
            flight.wait(lambda: flight.now().mode == "hold", "Hold is commanded")
            handed = flight.now()
            self.assertGreater(handed.time - killed.time, 0.9)
            self.assertIn("handing-over: hilbertd did not answer in time", flight.said())
            # it never comes back unasked
            flight.wait(lambda: flight.now().time > handed.time + 4, "some seconds")
            self.assertTrue(all(t.mode == "hold" for t in flight.truth if t.time > handed.time))

    def test_a_dead_bridge_is_the_autopilot_s_case(self):
        with Flight(slow=SLOW) as flight:
            flight.engage()
            flight.bridge.kill()
            killed = flight.now()
            flight.wait(lambda: flight.now().mode == "hold", "the autopilot's own time-out")
            self.assertLess(flight.now().time - killed.time, 1)

    def test_who_takes_over_is_not_disturbed(self):
        with Flight() as flight:
            flight.engage()
            flight.tell("mode position")
            flight.wait(lambda: "yielded: the autopilot left offboard" in flight.said(), "the bridge yields")
            taken = flight.now()
            flight.wait(lambda: flight.now().age > 0.5, "nothing is sent")
            flight.wait(lambda: flight.now().time > taken.time + 4, "some seconds")
            self.assertTrue(all(t.mode == "position" for t in flight.truth if t.time > taken.time))
            # asked again by the pilot, it flies again
            flight.tell("mode offboard")
            flight.flying()

    def assert_left_alone(self, flight):
        """PX4 after a failsafe, which would go back to offboard by itself: nothing is sent, until the pilot asks anew."""
        flight.wait(lambda: "choose another mode first" in flight.said(), "the bridge says what to do")
        begin = flight.now().time
        flight.wait(lambda: flight.now().time > begin + 3, "some seconds")
        self.assertEqual({t.mode for t in flight.truth if t.time > begin}, {"hold"}, flight.said())
        self.assertGreater(flight.now().age, 2)
        flight.tell("mode position")
        flight.wait(lambda: flight.now().age < 0.2, "the stream that offboard needs")
        flight.tell("mode offboard")
        flight.flying()

    def test_a_bridge_that_was_stopped_does_not_come_back_by_itself(self):
        with Flight(slow=SLOW) as flight:
            flight.engage()
            flight.bridge.send_signal(signal.SIGSTOP)
            flight.wait(lambda: flight.now().mode == "hold" and flight.now().age > 1.5, "the autopilot's own time-out")
            flight.bridge.send_signal(signal.SIGCONT)
            self.assert_left_alone(flight)

    def test_nor_does_another_bridge(self):
        with Flight(slow=SLOW) as flight:
            flight.engage()
            flight.start_another_bridge()
            flight.wait(lambda: flight.now().mode == "hold", "the autopilot's own time-out")
            self.assert_left_alone(flight)

    def test_samples_that_come_late_are_not_flown_on(self):
        with Flight() as flight:
            flight.engage()
            flight.tell("age=0.6")
            flight.wait(lambda: "the autopilot's samples are old when they come" in flight.said(), "position is held")
            flight.wait(lambda: flight.now().mode == "hold", "Hold")

    def test_samples_that_leap_unsaid_are_not_flown_on(self):
        with Flight() as flight:
            flight.engage()
            flight.tell("off_x=1")
            flight.wait(lambda: "holding: the autopilot's estimator was reset" in flight.said(), "position is held")
            flight.wait(lambda: flight.now().mode == "hold", "Hold")

    def test_telemetry_that_hilbertd_finds_fault_with_is_not_flown_on(self):
        with Flight() as flight:
            flight.engage()
            flight.tell("frozen=1")
            flight.wait(lambda: flight.now().mode == "hold", "Hold")
            self.assertIn("handing-over: hilbertd finds fault with telemetry (frozen)", flight.said())

    def test_a_stranger_does_not_block_the_link(self):
        with Flight(slow=SLOW) as flight:
            flight.ready()
            flight.peer.send_signal(signal.SIGSTOP)
            flight.start_another_bridge()
            stop = threading.Event()

            def junk():
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                    while not stop.wait(0.1):
                        stranger.sendto(b"\xfd", ("127.0.0.1", flight.port))
            thread = threading.Thread(target=junk)
            thread.start()
            try:
                wait_until(lambda: "no autopilot on" in flight.said(), "the bridge listens", flight.patience)
                flight.peer.send_signal(signal.SIGCONT)
                flight.ready()
                flight.engage()
            finally:
                stop.set()
                thread.join()

    def test_a_loose_autopilot_is_not_flown(self):
        with Flight(peer=["COM_OF_LOSS_T=1"]) as flight:
            flight.wait(lambda: "COM_OF_LOSS_T is 1: set it with 'param set COM_OF_LOSS_T 0.2'" in flight.said(),
                        "the bridge says what to set")
            flight.wait(lambda: flight.now().setpoint == "position", "the stream")
            flight.tell("mode offboard")
            flight.wait(lambda: "handing-over" in flight.said(), "it is handed back")
            flight.wait(lambda: flight.now().mode == "hold", "Hold")
            self.assertNotIn("rates", {t.setpoint for t in flight.truth})

    def test_a_guest_does_not_fly(self):
        with Flight(more="security: {pilot: somebody-else}\n") as flight:
            flight.wait(lambda: "standby (hilbertd flies for another client" in flight.said(), "the bridge knows")
            flight.wait(lambda: flight.now().setpoint == "position", "the stream")
            flight.tell("mode offboard")
            flight.wait(lambda: "handing-over: hilbertd flies for another client" in flight.said(), "it is handed back")
            flight.wait(lambda: flight.now().mode == "hold", "Hold")
            self.assertNotIn("rates", {t.setpoint for t in flight.truth})

    def test_an_estimator_reset_is_held_through(self):
        with Flight() as flight:
            flight.engage()
            flight.tell("jump 1.5")
            flight.wait(lambda: "holding: the autopilot's estimator was reset" in flight.said(), "position is held")
            flight.flying()
            self.assertEqual(flight.now().mode, "offboard")

    def test_stale_samples_mean_position_then_hold(self):
        with Flight() as flight:
            flight.engage()
            flight.tell("odometry=0")
            flight.wait(lambda: "holding: the autopilot's samples are stale" in flight.said(), "position is held")
            flight.wait(lambda: flight.now().mode == "hold", "Hold")

    def test_a_low_battery_hands_over(self):
        with Flight() as flight:
            flight.engage()
            flight.tell("battery=12")
            flight.wait(lambda: flight.now().mode == "hold", "Hold")
            self.assertIn("handing-over: the battery is low", flight.said())

    def test_limits_of_the_bridge_hold(self):
        # a target below the box: the bridge stops at its floor what the plan does not
        with Flight(settings="box_min: [-50, -50, 1.4]\nbox_max: [50, 50, 9]\n") as flight:
            flight.engage()
            flight.target(z=0)
            flight.wait(lambda: "outside the box" in flight.said(), "the floor of the box")
            flight.wait(lambda: flight.now().setpoint == "position", "position is held")
            self.assertGreater(min(t.position[2] for t in flight.truth), 0.4, flight.said())

    def test_where_it_was_engaged_is_held(self):
        # the file's target is 0 0 2, another was given before: neither is flown to, until one is given in flight
        with Flight(peer=["yaw=1"]) as flight:
            flight.ready()
            flight.tell("mode position")
            flight.tell("jump 3")
            flight.target(x=-4, y=0, z=2)
            flight.pass_time(1)
            flight.engage()
            begin = flight.now()
            rows = flight.pass_time(4)
            self.assertLess(max(distance(begin, t) for t in rows), 0.6, flight.said())
            self.assertEqual({t.mode for t in rows}, {"offboard"}, flight.said())
            flight.target(x=4.5, y=0, z=2)
            flight.wait(lambda: abs(flight.now().position[0] - 1.5) < 0.4, "it goes to where the operator says")

    def test_dry_run_sends_nothing(self):
        with Flight(options=["--dry-run", "--log", "/dev/null"], slow=SLOW) as flight:
            flight.ready()
            begin = flight.now()
            flight.wait(lambda: flight.now().time > begin.time + 3, "three seconds")
            self.assertEqual({t.setpoint for t in flight.truth}, {"none"})
            self.assertRegex(flight.said(), r"[1-9]\d* requests")

    def test_the_operator_engages(self):
        with Flight(settings="engage: operator\n", slow=SLOW) as flight:
            flight.ready()
            begin = flight.now()
            flight.wait(lambda: flight.now().time > begin.time + 1, "a second")
            self.assertEqual({t.setpoint for t in flight.truth}, {"none"})
            flight.bridge.send_signal(signal.SIGUSR1)
            flight.flying()
            flight.bridge.send_signal(signal.SIGUSR2)
            flight.wait(lambda: flight.now().mode == "hold", "Hold")
            self.assertIn("released by the operator", flight.said())

    def test_waypoints_are_flown_along(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("0 0 2\n2 0 2 0 60\n")
            file.flush()
            with Flight(settings=f"waypoints: {file.name}\n") as flight:
                flight.engage()
                flight.wait(lambda: abs(flight.now().position[0] - 2) < 0.8, "it is on its way north")

    def test_signed_frames(self):
        key = secrets.token_hex(32)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(key + "\n")
            file.flush()
            with Flight(peer=[f"key={key}"], settings=f"signing_key: {file.name}\n", slow=SLOW) as flight:
                flight.engage()
            # nor is a key of which others know, or which they may have written
            for mode, what in ((0o666, "others may write to it (mode 0666)"), (0o644, "others may read it (mode 0644)")):
                os.chmod(file.name, mode)
                with Flight(settings=f"signing_key: {file.name}\n", daemon=False, slow=SLOW) as flight:
                    self.assertEqual(flight.bridge.wait(flight.patience), 1)
                    self.assertIn(f"{what}: chmod 600 {file.name}", flight.said())
            os.chmod(file.name, 0o600)
            # another key is not listened to
            with Flight(peer=["key=" + secrets.token_hex(32)], settings=f"signing_key: {file.name}\n", slow=SLOW) as flight:
                flight.wait(lambda: "no autopilot on" in flight.said() and
                            not flight.said().rstrip().endswith(" 0 refused)"), "frames are refused")
                self.assertNotIn("ready", flight.said())


def names(tests):
    """test_mavlink.Class.test of a suite, as Class.test."""
    return [name for test in tests for name in
            (names(test) if isinstance(test, unittest.TestSuite) else [test.id().split(".", 1)[1]])]


def run(name):
    """A test in a process of its own: what it said if it failed, else None."""
    done = subprocess.run([sys.executable, __file__, BUILD, SOURCE, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    print(f"{name}: {'FAILED' if done.returncode else 'ok'}", flush=True)
    return done.stdout if done.returncode else None


def run_side_by_side(at_once):
    """All tests: most of the time they wait for a clock that is slowed down, or for time-outs."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as threads:
        failures = [said for said in threads.map(run, names(unittest.defaultTestLoader.loadTestsFromModule(
            sys.modules[__name__]))) if said]
    print("".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) > 3:
        unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
    sys.exit(run_side_by_side(AT_ONCE))
