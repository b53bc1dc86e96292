"""What is wrong with telemetry is seen where people look: in replies, in the status, in hilbertctl and in the metrics; and
it is over a moment after good samples come in again.
"""
import os
import re
import subprocess
import time

from harness import CART, HILBERTCTL, Cart, TestCase, connect_telemetry, fly, main, pb, wait_until

NAN = float("nan")


def ctl(daemon, command):
    done = subprocess.run([HILBERTCTL, command], capture_output=True, text=True, check=True, env=dict(os.environ, HILBERT_SOCKET=daemon.folder))
    return done.stdout


class Faults(TestCase):
    def setUp(self):
        # times of the vehicle run faster than ours here: only its clock decides what is frozen or behind
        config = CART.replace("stale_after: 60, fallback_after: 120", "stale_after: 0.4, fallback_after: 100")
        self.running = self.started(config)
        self.client = self.running.client()
        connect_telemetry(self.client, self.running)
        self.cart = Cart()
        fly(self.client, self.cart, 150)
        self.assertEqual(self.client.status().health.fault, pb.REASON_NONE)

    def sample(self, state=None, control=None, time_us=None):
        self.client.publish(self.cart.time_us if time_us is None else time_us, state or self.cart.state, control or [0.5])
        self.cart.step(0.5)

    def check(self, reason, bend):
        """bend() publishes a bad sample, until it is said."""
        kind = getattr(pb, "REASON_" + reason.upper().replace("-", "_"))

        def said():
            bend()
            return self.client.status().health.fault == kind

        wait_until(said, f"fault {reason}")
        bend()
        reply = self.client.request(self.cart.time_us, self.cart.state)
        self.assertEqual(reply.fault, reason)
        if reason != "behind":
            self.assertNotEqual(reply.health.status, pb.ESTIMATE_STATUS_OK)
        self.assertRegex(ctl(self.running, "status"), f"at fault: {reason}")
        self.assertIn(f'reason="{reason}"}} 1', "\n".join(re.findall("hilbert_telemetry_fault.*", ctl(self.running, "metrics"))))

        def over():
            fly(self.client, self.cart, 8, lambda k: 0.5 if k % 4 < 2 else -0.5)
            self.client.request(self.cart.time_us, self.cart.state)
            return self.client.status().health.fault == pb.REASON_NONE

        began = time.monotonic()
        wait_until(over, "recovery")
        print(f"{reason}: over {time.monotonic() - began:.2f} s after the last of it")
        self.assertNotIn("at fault", ctl(self.running, "status"))
        self.assertNotIn("} 1", "\n".join(re.findall("hilbert_telemetry_fault.*", ctl(self.running, "metrics"))))

    def test_frozen(self):
        state = list(self.cart.state)
        self.check("frozen", lambda: self.sample(state=state))

    def test_not_finite(self):
        self.check("not-finite", lambda: self.sample(state=[self.cart.state[0], NAN]))
        self.assertTrue(all(v == v for v in self.client.status().state))

    def test_bad_control(self):
        self.check("bad-control", lambda: self.sample(control=[1000.0]))

    def test_sign_of_a_channel(self):
        # a cart that runs at speed, and whose velocity has the wrong sign from one sample to the next
        fly(self.client, self.cart, 40, lambda k: 1.0)
        signs = iter(range(10**6))
        self.check("implausible", lambda: self.sample(state=[self.cart.state[0], (1 if next(signs) % 2 else -1) * self.cart.state[1]]))

    def test_behind(self):
        ask = lambda: self.client.request(self.cart.time_us, self.cart.state)
        ask()  # samples and requests are of one clock

        def late():
            self.sample(time_us=self.cart.time_us - 700000)
            ask()

        self.check("behind", late)


if __name__ == "__main__":
    main()
