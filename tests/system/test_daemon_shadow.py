"""A second model that looks on, and takes the first one's place in flight."""
import re
import subprocess
import threading

from harness import (CART, HILBERTCTL, HILBERTD, MAKE_MODEL, TRAP, Cart, TestCase, connect_telemetry, fly, hilbert, main,
                     stopped_thread, unsanitized, wait_until)

Status = hilbert.Status
# the wrong model flies, the right one looks on
WRONG = CART.replace("model: cart.safetensors", "model: wrong-cart.safetensors\nshadow: {{model: cart.safetensors}}")
PLANNED = (Status.CONVERGED, Status.TRUNCATED, Status.WARMING_UP, Status.OUT_OF_SPAN)


class Flight(threading.Thread):
    """A cart in closed loop, to and fro, until told to stop."""

    def __init__(self, daemon):
        super().__init__()
        self.client = daemon.client()
        connect_telemetry(self.client, daemon)
        self.cart = Cart()
        self.replies, self.failure, self.stop = [], None, False
        self.start()

    def end(self):
        self.stop = True
        self.join()

    def run(self):
        try:
            while not self.stop:
                target = 1.0 if len(self.replies) // 40 % 2 else -1.0
                reply = self.client.request(self.cart.time_us, self.cart.state, target=[target, 0])
                self.replies.append(reply)
                self.client.publish(self.cart.time_us, self.cart.state, reply.action)
                self.cart.step(reply.action[0])
        except Exception as failure:  # for the thread that waits for us
            self.failure = failure

    def steps(self, n):
        end = len(self.replies) + n
        wait_until(lambda: len(self.replies) >= end or self.failure, f"{n} steps of the flight")
        if self.failure:
            raise self.failure


class Shadow(TestCase):
    def shadowed(self, config=WRONG, **options):
        daemon = self.daemon(config, model="cart", **options)
        subprocess.run([MAKE_MODEL, "wrong-cart", f"{daemon.folder}/wrong-cart.safetensors"], check=True)
        return daemon

    def flight(self, daemon):
        flight = Flight(daemon)
        self.addCleanup(flight.end)  # before its client is closed, also where the test fails
        return flight

    def ctl(self, daemon, *arguments):
        return subprocess.run([HILBERTCTL, *arguments, "-s", daemon.folder], capture_output=True, text=True, timeout=60)

    def test_promotion_in_flight(self):
        daemon = self.shadowed().start()
        client = daemon.client()
        wrong = client.status()
        self.assertTrue(wrong.shadow.path.endswith("/cart.safetensors"), wrong.shadow)
        self.assertNotEqual(wrong.model_hash, wrong.shadow.model_hash)
        flight = self.flight(daemon)
        flight.steps(200)
        wait_until(lambda: client.status().shadow.health.samples > 100, "samples of the shadow")
        before = client.status()
        self.assertGreater(before.shadow.error_in_use, 5 * before.shadow.error)
        self.assertEqual((len(before.coefficient), len(before.shadow.coefficient)), (1, 3))
        self.assertAlmostEqual(before.shadow.coefficient[0], -0.3, 2)
        self.assertEqual(before.shadow.lost, 0)
        self.assertIn("one-step error", self.ctl(daemon, "status").stdout.split("shadow  ")[1])
        metrics = self.ctl(daemon, "metrics").stdout
        error = float(re.search(r'hilbert_shadow_error\{name="cart"\} (\S+)', metrics)[1])
        self.assertLess(error, 0.2 * float(re.search(r'hilbert_shadow_error_in_use\{name="cart"\} (\S+)', metrics)[1]))

        done = self.ctl(daemon, "promote")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"/cart.safetensors is in use now: its one-step error was \S+ as the shadow")
        flight.steps(200)
        wait_until(lambda: client.status().health.samples == 200, "a full window")
        after = client.status()
        self.assertEqual((after.model_hash, after.shadow.model_hash), (wrong.shadow.model_hash, wrong.model_hash))
        self.assertTrue(client.model().path.endswith("/cart.safetensors"))
        self.assertEqual((len(after.coefficient), len(after.shadow.coefficient)), (3, 1))
        self.assertAlmostEqual(after.coefficient[0], -0.3, 2)
        self.assertLess(5 * after.shadow.error_in_use, after.shadow.error)
        self.assertLess(after.health.one_step_error, before.health.one_step_error)
        self.assertEqual(after.counters.promotions, 1)
        # counters belong to the vehicle, not to the model
        self.assertGreater(after.counters.transitions, before.counters.transitions)
        self.assertGreater(after.replies.converged + after.replies.truncated,
                           before.replies.converged + before.replies.truncated)

        flight.end()
        self.assertIsNone(flight.failure)
        bad = [r for r in flight.replies if r.status not in PLANNED]
        self.assertEqual(bad, [])
        daemon.says("to keep it so, exchange model and shadow.model in")

        # what a reload says of it, and the way back
        self.assertEqual(sorted(client.reload()), ["model", "shadow.model"])
        client.promote()
        self.assertEqual(client.status().model_hash, wrong.model_hash)

    def test_both_follow_the_settings(self):
        daemon = self.shadowed().start()
        client = daemon.client()
        client.set_target([0.5, 0])
        daemon.write(WRONG.replace("latency: {{budget: 0.5", "latency: {{budget: 0.25"))
        client.reload()
        client.promote()
        status = client.status()
        self.assertEqual(status.budget_us, 250000)
        self.assertEqual(list(status.target), [0.5, 0])  # the file's is what it was: nothing moves the vehicle
        client.set_target([0.25, 0])
        client.promote()
        self.assertEqual(list(client.status().target), [0.25, 0])
        self.assertEqual(client.status().counters.promotions, 2)
        reply = client.request(0, [0.5, 0])
        self.assertIn(reply.status, PLANNED)

    def test_refusals(self):
        daemon = self.started()
        client = daemon.client()
        with self.assertRaisesRegex(hilbert.Error, "there is no shadow: shadow.model names one"):
            client.promote()
        self.assertIsNone(client.status().shadow)
        done = self.ctl(daemon, "promote")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there is no shadow", done.stderr)

    def test_a_shadow_that_hangs_disturbs_nobody(self):
        daemon = self.shadowed().start()
        client = daemon.client()
        connect_telemetry(client, daemon)
        cart = Cart()
        with stopped_thread(daemon.thread("shadow")):
            fly(client, cart, 100)
            with self.assertRaisesRegex(hilbert.Error, r"the shadow is warming up \(0 samples so far\)"):
                client.promote()
            fly(client, cart, 200)
            self.assertEqual(client.status().shadow.lost, 300 - 256)
            self.assertIn(client.request(cart.time_us, cart.state).status, PLANNED)
        wait_until(lambda: client.status().shadow.health.samples == 200, "that the shadow catches up")
        client.promote()
        client.reset_window()
        wait_until(lambda: client.status().shadow.health.samples == 0, "a reset of the shadow")
        self.assertEqual(client.status().health.samples, 0)

    def test_check_tells_what_does_not_fit(self):
        def check(config, *models):
            daemon = self.shadowed(config)
            for name in models:
                subprocess.run([MAKE_MODEL, name, f"{daemon.folder}/{name}.safetensors"], check=True)
            done = subprocess.run([HILBERTD, "--check", daemon.file], capture_output=True, text=True, timeout=60)
            return done.returncode, done.stderr

        # of the tests' own 10 steps it says that they are few
        self.assertEqual(check(WRONG.replace("horizon: 10", "horizon: 60")), (0, ""))
        code, text = check(WRONG.replace("shadow: {{model: cart", "shadow: {{model: quadrotor"), "quadrotor")
        self.assertEqual(code, 1)
        self.assertRegex(text, r"config.yaml:4:17: shadow.model: it has 13 states, the model in use has 2")
        code, text = check(WRONG.replace("shadow: {{model: cart", "shadow: {{model: none"))
        self.assertEqual(code, 1)
        self.assertRegex(text, r"config.yaml:4:17: shadow.model: .*none.safetensors: No such file")

    @unsanitized
    def test_nothing_is_allocated_after_ready(self):
        daemon = self.shadowed(environment={"HILBERT_PRELOAD": TRAP}).start()
        client = daemon.client()
        flight = self.flight(daemon)
        flight.steps(100)
        wait_until(lambda: client.status().shadow.health.samples > 50, "samples of the shadow")
        client.promote()
        flight.steps(100)
        client.reset_window()
        client.set_target([1, 0])
        client.reload()
        flight.steps(20)
        flight.end()
        self.assertIsNone(flight.failure)
        self.assertIsNone(daemon.process.poll(), daemon.text())
        self.assertEqual(daemon.stop(), 0)
        self.assertNotIn("trap_malloc", daemon.text())


if __name__ == "__main__":
    main()
