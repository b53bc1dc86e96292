"""The configurations that are shipped, each with its model in a real daemon: telemetry in, predictions and actions out."""
import glob
import math
import os
import signal
import subprocess

from harness import BUILD, HILBERTCTL, TestCase, connect_telemetry, hilbert, main, shipped, wait_until

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
Status = hilbert.Status


def rk4(field, x, dt):
    k1 = field(x)
    k2 = field([a + dt / 2 * b for a, b in zip(x, k1)])
    k3 = field([a + dt / 2 * b for a, b in zip(x, k2)])
    k4 = field([a + dt * b for a, b in zip(x, k3)])
    return [a + dt / 6 * (b + 2 * c + 2 * d + e) for a, b, c, d, e in zip(x, k1, k2, k3, k4)]


class Plants(TestCase):
    def test_every_configuration_starts(self):
        for path in sorted(glob.glob(f"{SOURCE}/config/*.yaml")):
            name = os.path.basename(path).removesuffix(".yaml")
            with self.subTest(name):
                client = self.started(shipped(name), model=None).client()
                model = client.model()
                # a state that the model has seen, asked for before there is any telemetry
                state = [0.0] * len(model.state)
                for i, channel in enumerate(model.state):
                    state[i] = 1.0 if channel.name in ("qw", "z") else 0.0
                reply = client.request(0, state, budget=1)
                if model.control:
                    self.assertIn(reply.status, (Status.WARMING_UP, Status.FALLBACK), reply)
                else:
                    self.assertEqual((reply.status, reply.reason), (Status.REFUSED, "no-controls"))
                self.assertEqual(len(reply.action), len(model.control))

    def test_vanderpol(self):
        """An oscillator with unseen mu, seen at irregular times: identified, and predicted; there is nothing to steer."""
        mu = 1.7
        daemon = self.started(shipped("vanderpol"), model=None)
        client = daemon.client()
        connect_telemetry(client, daemon)

        def field(x):
            return [x[1], mu * (1 - x[0] * x[0]) * x[1] - x[0]]

        model = client.model()
        self.assertEqual((len(model.state), len(model.control)), (2, 0))
        x, time_us = [1.0, 0.0], 0
        for k in range(250):
            client.publish(time_us, x, [])
            dt = model.dt * (1 + 0.4 * math.sin(k))
            for _ in range(20):
                x = rk4(field, x, dt / 20)
            time_us += round(1e6 * dt)
            if k % 32 == 31 or k == 249:
                # steps shorter than a period are joined with the next
                wait_until(lambda: (s := client.status()).counters.transitions + s.set_aside.gathered >= k - 1, "intake")
        health = client.status().health
        self.assertEqual(health.status, 3, health)  # ok
        self.assertEqual(health.samples, 200)

        # one second ahead, against the true flow; the average model is told apart from the adapted one
        n = round(1 / model.dt)
        truth = x
        for _ in range(20 * n):
            truth = rk4(field, truth, model.dt / 20)
        predicted = client.predict([x], [[[]] * n])[0][-1]
        adapted = math.dist(predicted, truth)
        client.reset_window()
        average = math.dist(client.predict([x], [[[]] * n])[0][-1], truth)
        self.assertLess(adapted, 0.1 * math.hypot(*truth))
        self.assertLess(adapted, 0.5 * average)

        reply = client.request(time_us, x, want_plan=True)
        self.assertEqual((reply.action, reply.status, reply.reason), ([], Status.REFUSED, "no-controls"))
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: client.status().counters.reloads == 1, "a reload")
        self.assertEqual(client.status().counters.reload_errors, 0)
        done = subprocess.run([HILBERTCTL, "predict", "-s", daemon.folder, "-x", "1,0", "-N", "5"], capture_output=True,
                              text=True, timeout=30)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 7), done.stderr)

    def test_half_cheetah(self):
        """A second of a run over the daemon's sockets: samples come in, and plans come out."""
        daemon = self.started(shipped("half-cheetah").replace("latency:", "latency:\n  clock: vehicle"), model=None)
        client = daemon.client()
        done = subprocess.run([f"{BUILD}/clients/sim/hilbert-sim", "fly", "half-cheetah", "--lockstep", "--endpoint",
                               f"ipc://{daemon.folder}", "--seconds", "5", "--json"], capture_output=True, text=True, timeout=600)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        status = client.status()
        self.assertGreater(status.counters.transitions, 80)
        self.assertEqual(sum(getattr(status.refused, n) for n in ("dimension", "not_finite", "malformed")), 0)
        r = status.replies
        self.assertEqual(r.converged + r.truncated + r.warming_up + r.out_of_span + r.limited, status.counters.requests, status)


if __name__ == "__main__":
    main()
