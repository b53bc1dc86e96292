"""In lock-step (latency.clock: vehicle) the same flight gives the same bytes, from C, Python and hilbert-sim, with two
busy loops per processor beside it; a simulator may take its time; what is configured otherwise is refused in words.

usage: test_lockstep.py BUILD_ROOT [--repeats N]
"""
import os
import signal
import subprocess
import sys
import time
import unittest

from harness import BUILD, CART, HILBERTD, PATIENCE, SOURCE, Cart, TestCase, main, shipped, wait_until

REPEATS = 1  # under load, beside one without
if "--repeats" in sys.argv:
    at = sys.argv.index("--repeats")
    REPEATS = int(sys.argv[at + 1])
    del sys.argv[at : at + 2]

VEHICLE = CART.replace("latency: {{budget: 0.5, stale_after: 60, fallback_after: 120}}",
                       "latency: {{clock: vehicle, budget: 0.005}}")
SIM = f"{BUILD}/clients/sim/hilbert-sim"
QUADROTOR = shipped("quadrotor").replace("latency:", "latency:\n  clock: vehicle")


class Load:
    """Two busy loops per processor."""

    def __enter__(self):
        loop = "import ctypes; ctypes.CDLL(None).prctl(1, 9)\nwhile True: pass"
        self.loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(2 * os.cpu_count())]

    def __exit__(self, *_):
        for process in self.loops:
            process.kill()
            process.wait()


def fly(client, steps, cart=None, pause=0.0, published=True, counter=0):
    """A flight of the cart; the replies."""
    cart = cart or Cart()
    replies = []
    for _ in range(steps):
        reply = client.request(cart.time_us, cart.state, want_plan=True, reset_counter=counter)
        if published:
            client.publish(cart.time_us, cart.state, reply.action, reset_counter=counter)
        cart.step(reply.action[0])
        time.sleep(pause)
        replies.append(reply)
    return replies


def bits(replies):
    """All that replies say, to the last bit."""
    return [(r.status, r.reason, [a.hex() for a in r.action], r.cost.hex(), r.iterations, r.queue, r.planning, r.total,
             r.preparing, r.prepare_stages, r.corrected, r.coefficient_version, r.coefficient_age.hex(),
             r.health.to_bytes(), r.plan, r.predicted) for r in replies]


class SameBytes(TestCase):
    def repeat(self, config, flight):
        """The flight with a daemon of its own each time, under load. Returns what it was without."""
        def once():
            daemon = self.started(config)
            result = flight(daemon)
            daemon.close()
            return result

        first = once()
        with Load():
            same = sum(once() == first for _ in range(REPEATS))
        print(f"{same} of {REPEATS} repeats are identical", flush=True)
        self.assertEqual(same, REPEATS)
        return first

    def test_c_client(self):
        def flight(daemon):
            return subprocess.run([f"{BUILD}/tests/system/lockstep_flight", f"ipc://{daemon.folder}/actions", "200"],
                                  capture_output=True, text=True, check=True, timeout=10 * PATIENCE).stdout

        lines = self.repeat(VEHICLE, flight).splitlines()
        self.assertEqual(len(lines), 201)
        self.assertLess(abs(float.fromhex(lines[-1].split()[0]) - 1), 0.1)  # it is where it was to go
        self.assertNotIn(" stale ", "".join(lines))
        self.assertGreater(int(lines[-2].split()[11]), 100)  # and it was learned from

    def test_python_client(self):
        def flight(daemon):
            with daemon.client(lockstep=True) as client:
                return bits(fly(client, 100, Cart(drag=0.6)))

        replies = self.repeat(VEHICLE, flight)
        self.assertTrue(any(r[10] for r in replies), "nothing was prepared")

    @unittest.skipUnless(os.path.exists(SIM), "built without hilbert-sim")
    def test_hilbert_sim(self):
        def flight(daemon):
            csv = f"{daemon.folder}/flight.csv"
            out = subprocess.run(
                [SIM, "fly", "quadrotor", "--lockstep", "--endpoint", f"ipc://{daemon.folder}", "--seconds", "4", "--weather",
                 "real", "--at", "2s:mass=0.03", "--json", "--csv", csv], capture_output=True, text=True, timeout=600)
            self.assertEqual(out.returncode, 0, out.stderr)
            with open(csv) as file:
                return out.stdout, file.read()

        _, table = self.repeat(QUADROTOR, flight)
        self.assertIn("converged", table)
        self.assertNotIn("stale", table)

    @unittest.skipUnless(os.path.exists(SIM), "built without hilbert-sim")
    def test_in_process(self):
        def once():
            out = subprocess.run([SIM, "fly", "quadrotor", "--in-process", "--config", f"{SOURCE}/config/quadrotor.yaml",
                                  "--seconds", "4", "--weather", "real", "--at", "2s:mass=0.03", "--json", "--csv",
                                  "/dev/stdout"], capture_output=True, timeout=600)
            self.assertEqual(out.returncode, 0, out.stderr)
            return out.stdout

        first = once()
        with Load():
            same = sum(once() == first for _ in range(REPEATS))
        print(f"{same} of {REPEATS} repeats are identical", flush=True)
        self.assertEqual(same, REPEATS)


class Time(TestCase):
    def test_slow_simulator(self):
        """Four times stale_after of this machine's time a step: nothing is old by the vehicle's."""
        quick = self.started(VEHICLE)
        slow = self.started(VEHICLE)
        with quick.client(lockstep=True) as a, slow.client(lockstep=True) as b:
            self.assertEqual(bits(fly(a, 12)), bits(fly(b, 12, pause=0.4)))

    def test_telemetry_ages_by_the_vehicle(self):
        daemon = self.started(VEHICLE)
        cart = Cart()
        with daemon.client(lockstep=True) as client:
            fly(client, 60, cart)
            self.assertEqual(fly(client, 1, cart, published=False)[0].coefficient_age, cart.dt)
            replies = fly(client, 20, cart, published=False)
            names = [r.status.name for r in replies]
            self.assertEqual(names[-1], "FALLBACK")
            self.assertIn("STALE", names)
            self.assertAlmostEqual(replies[names.index("STALE")].coefficient_age, 0.1, delta=cart.dt)
            fly(client, 2, cart)
            self.assertTrue(fly(client, 1, cart)[0].status.planned)

    def test_all_that_was_published_is_learned_first(self):
        daemon = self.started(VEHICLE)
        cart = Cart()
        with daemon.client(lockstep=True) as client:
            for _ in range(500):
                client.publish(cart.time_us, cart.state, [0.5])
                cart.step(0.5)
            reply = client.request(cart.time_us, cart.state)
            status = client.status()
            self.assertEqual(status.counters.telemetry, 500)
            self.assertEqual(reply.health.version, status.health.version)
            self.assertAlmostEqual(reply.coefficient_age, cart.dt)

    def test_another_flight(self):
        """A clock that begins anew, and another client right behind the first: it flies at once."""
        daemon = self.started(VEHICLE)
        with daemon.client(lockstep=True) as client:
            fly(client, 60)
            again = fly(client, 30, counter=1)
            self.assertTrue(all(r.status.planned for r in again))
        with daemon.client(lockstep=True) as client:
            replies = fly(client, 30, counter=2)
            self.assertFalse(any(r.guest for r in replies))
            self.assertEqual(replies[0].status.name, "STALE")  # what is known of telemetry was another's
            self.assertNotIn(replies[-1].status.name, ("STALE", "FALLBACK"))
            self.assertFalse(any(vars(client.status().refused).values()))

    def test_recording_replays(self):
        """What is recorded in lock-step leads to the same bytes again."""
        daemon = self.started(VEHICLE + "recorder: {{enabled: true, directory: {folder}}}\n")
        with daemon.client(lockstep=True) as client:
            fly(client, 80)
        self.assertEqual(daemon.stop(), 0)
        recordings = [f"{daemon.folder}/{name}" for name in os.listdir(daemon.folder) if name.endswith(".mcap")]
        out = subprocess.run([HILBERTD, "--replay", *recordings], capture_output=True, text=True, timeout=120)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertRegex(out.stdout, "80 .*")


class Restart(TestCase):
    @unittest.skipUnless(os.path.exists(SIM), "built without hilbert-sim")
    def test_coefficients_are_those_of_before_a_kill(self):
        """Also those that plans were made with while what is known already went on, as it does in rough weather."""
        for seconds in (2.4, 3.5, 3.9):
            daemon = self.started(QUADROTOR + "state_file: window\n", model=None, manager=False)
            subprocess.run([SIM, "fly", "quadrotor", "--lockstep", "--endpoint", f"ipc://{daemon.folder}", "--seconds",
                            str(seconds), "--seed", "4", "--weather", "real"], capture_output=True, timeout=600)
            before = list(daemon.client().coefficients().value)
            daemon.stop(signal.SIGKILL)
            daemon.start()
            after = list(daemon.client().coefficients().value)
            print(f"after {seconds} s: {max(abs(a - b) for a, b in zip(before, after)):.1e}", flush=True)
            for a, b in zip(before, after):
                self.assertAlmostEqual(a, b, delta=1e-5)
            daemon.close()


class Refusals(TestCase):
    def test_client_without_lockstep(self):
        daemon = self.started(VEHICLE)
        with daemon.client() as client:
            client.publish(0, [0, 0], [0])
            reply = client.request(0, [0, 0])
            self.assertEqual((reply.status.name, reply.reason), ("REFUSED", "clock"))
            self.assertIn("lockstep", reply.detail)
            self.assertEqual(client.status().refused.clock, 1)

            def set_aside():
                client.publish(0, [0, 0], [0])
                return client.status().set_aside.clock > 0

            wait_until(set_aside, "a sample by itself set aside")
            self.assertEqual(client.status().health.samples, 0)
        wait_until(lambda: "they come with the requests" in daemon.text(), "a word in the log")

    def test_daemon_without(self):
        daemon = self.started()
        with daemon.client(lockstep=True) as client:
            reply = client.request(0, [0, 0])
            self.assertEqual((reply.status.name, reply.reason), ("REFUSED", "clock"))
            self.assertIn("latency.clock: vehicle", reply.detail)
            self.assertEqual(client.status().refused.clock, 1)

    def test_sample_of_another_vehicle(self):
        daemon = self.started(VEHICLE)
        with daemon.client(lockstep=True) as client:
            client.publish(0, [0, 0], [0])
            client.publish(10, [0, 0, 0], [0])
            reply = client.request(20, [0, 0])
            self.assertEqual((reply.status.name, reply.reason), ("REFUSED", "dimension"))
            self.assertIn("telemetry 2: 3 states and 1 controls at 10 us, expected 2 and 1", reply.detail)
            self.assertEqual(client.status().counters.telemetry, 0)
            self.assertTrue(client.request(30, [0, 0]).status.planned)

    @unittest.skipUnless(os.path.exists(SIM), "built without hilbert-sim")
    def test_hilbert_sim(self):
        for lockstep, config, word in ((["--lockstep"], "machine", "latency.clock: vehicle"), ([], "vehicle", "--lockstep")):
            daemon = self.started(QUADROTOR.replace("clock: vehicle", f"clock: {config}"))
            out = subprocess.run([SIM, "fly", "quadrotor", *lockstep, "--endpoint", f"ipc://{daemon.folder}"],
                                 capture_output=True, text=True, timeout=600)
            self.assertEqual(out.returncode, 1)
            self.assertIn(word, out.stderr)


if __name__ == "__main__":
    main()
