"""Requests and actions: the ladder, fairness, and equality with lib's own controller."""
import contextlib
import math
import signal
import struct
import subprocess
import threading
import time

import zmq

from harness import (CART, PATIENCE, REPLAY, Cart, TestCase, connect_telemetry, fly, hilbert, main, pb, stopped_thread, sum_of,
                     wait_until)

Status = hilbert.Status


class Ladder(TestCase):
    """Every status, provoked and observed."""

    def test_warming_up_then_converged(self):
        daemon = self.started()
        client = daemon.client()
        reply = client.request(0, [0, 0])
        self.assertEqual((reply.status, reply.reason), (Status.WARMING_UP, "none"))
        self.assertTrue(math.isinf(reply.coefficient_age))
        connect_telemetry(client, daemon)
        cart = Cart(drag=0.3, gain=0.8, slope=0.1)
        fly(client, cart, 60)
        reply = client.request(cart.time_us, cart.state, want_plan=True)
        self.assertEqual((reply.status, reply.reason), (Status.CONVERGED, "none"))
        self.assertEqual([len(reply.action), len(reply.plan), len(reply.predicted)], [1, 10, 11])
        self.assertEqual(reply.plan[0], reply.action)
        # the cart's true drag, weakness and slope have been learned
        for got, true in zip(client.coefficients().value, [-0.3, -0.2, 0.1]):
            self.assertAlmostEqual(got, true, places=3)
        self.assertLess(reply.health.one_step_error, 1e-4)

    def test_truncated(self):
        big = CART.replace("horizon: 10, samples: 16, iterations: 20", "method: mppi, horizon: 10, samples: 64, iterations: 1000000")
        daemon = self.started(big)
        client = daemon.client()
        connect_telemetry(client, daemon)
        cart = Cart()
        fly(client, cart, 60)
        reply = client.request(cart.time_us, cart.state, budget=0.2)
        self.assertEqual(reply.status, Status.TRUNCATED)

    def test_out_of_span(self):
        daemon = self.started()
        client = daemon.client()
        connect_telemetry(client, daemon)
        cart = Cart(spring=40.0)  # a force that no basis function knows
        cart.state = [1.0, 0.0]
        said = []
        for _ in range(15):
            fly(client, cart, 10)
            said.append(client.request(cart.time_us, cart.state).status)
        # near the middle the spring pulls at nothing, and all is as expected for a while
        self.assertIn(Status.OUT_OF_SPAN, said[:7], said)
        self.assertGreaterEqual(said.count(Status.OUT_OF_SPAN), 5, said)

    def test_stale_then_fallback_then_safe_action(self):
        daemon = self.started(CART.replace("stale_after: 60, fallback_after: 120",
                                           "stale_after: 0.2, fallback_after: 1.5, safe_after: 0.1"))
        client = daemon.client()
        connect_telemetry(client, daemon)
        cart = Cart()
        fly(client, cart, 60)
        # a status is what the age in its own reply says, however busy the machine is; to fall back, it must be so old
        # since the first request too
        seen, first = [], None
        while not seen or seen[-1] != Status.FALLBACK:
            reply = client.request(cart.time_us, cart.state)
            age = reply.coefficient_age
            first = age if first is None else first
            allowed = [Status.CONVERGED if age <= 0.2 else Status.STALE] if age <= 1.5 else \
                [Status.STALE, Status.FALLBACK] if age <= first + 1.5 else [Status.FALLBACK]
            self.assertIn(reply.status, allowed, age)
            seen.append(reply.status)
        self.assertIn(Status.STALE, seen)
        # two steps on in the vehicle's time: the last plan, shifted
        reply = client.request(cart.time_us + 40000, cart.state)
        self.assertEqual((reply.status, reply.reason), (Status.FALLBACK, "stale"))
        reply = client.request(cart.time_us + 400000, cart.state)
        self.assertEqual((reply.status, reply.action), (Status.FALLBACK, [-0.125]))
        counts = client.status().replies
        self.assertEqual([counts.stale, counts.fallback], [seen.count(Status.STALE), 3])

    def test_late_falls_back_at_once(self):
        daemon = self.started()
        reply = daemon.client().request(0, [0, 0], budget=1e-6)
        self.assertEqual((reply.status, reply.reason, reply.action), (Status.FALLBACK, "late", [-0.125]))

    def test_refused_without_a_target(self):
        daemon = self.started(CART.replace("target: {{position: 1}}", "target: []"))
        client = daemon.client()
        self.assertEqual(client.request(0, [0, 0]).reason, "no-target")
        self.assertEqual(client.request(0, [0, 0], target=[1, 0]).status, Status.WARMING_UP)
        self.assertEqual(client.request(0, [0, 0], target=[1, 0] * 11).status, Status.WARMING_UP)
        self.assertEqual(client.request(0, [0, 0], target=[1, 0] * 10).reason, "horizon")

    def test_stalled_planner_is_answered_for(self):
        daemon = self.started(CART.replace("budget: 0.5", "budget: 0.05"))
        client = daemon.client()
        flown = client.request(1000000, [0, 0], want_plan=True)
        self.assertEqual(flown.status, Status.WARMING_UP)
        steps = [action[0] for action in flown.plan]
        self.assertGreater(steps[0], 0.1, "the safe action is something else")
        dt = 0.02
        with stopped_thread(daemon.thread("planner")):
            # the last plan goes on, as long as it is young
            for elapsed in (0, 0.01, 0.02, 0.05, 0.12):
                reply = client.request(1000000 + round(1e6 * elapsed), [0, 0])
                self.assertEqual((reply.status, reply.reason), (Status.FALLBACK, "stalled"))
                at, part = int(elapsed / dt + 1e-9), elapsed / dt % 1
                expected = steps[at] if part < 1e-9 else (1 - part) * steps[at] + part * steps[at + 1]
                self.assertAlmostEqual(reply.action[0], expected, places=9)
            # then, for another vehicle and for guests the safe action
            for other in ({"time_us": 1500000}, {"time_us": 900000}, {"time_us": 1010000, "reset_counter": 7}):
                reply = client.request(other.pop("time_us"), [0, 0], **other)
                self.assertEqual((reply.status, reply.reason, reply.action), (Status.FALLBACK, "stalled", [-0.125]))
        wait_until(lambda: client.request(2000000, [0, 0]).status == Status.WARMING_UP, "recovery")
        status = client.status()
        self.assertEqual(status.refused.stalled, 8)
        self.assertEqual(sum_of(status.replies), status.counters.requests)


class Many(TestCase):
    def test_ten_thousand_requests(self):
        daemon = self.started()
        client = daemon.client()
        connect_telemetry(client, daemon)
        cart, total, stalled = Cart(), 10000, 0
        for k in range(total):
            target = [math.copysign(1.0, math.sin(0.05 * k)), 0.0]  # to and fro
            reply = client.request(cart.time_us, cart.state, target=target)
            # a busy machine keeps the planner from a processor now and then, which the reply is to say
            stalled += (reply.status, reply.reason) == (Status.FALLBACK, "stalled")
            if reply.reason != "stalled":
                self.assertIn(reply.status, (Status.WARMING_UP, Status.CONVERGED, Status.TRUNCATED))
            self.assertTrue(-2 <= reply.action[0] <= 2)
            client.publish(cart.time_us, cart.state, reply.action)
            cart.step(reply.action[0])
        self.assertLess(stalled, 0.01 * total)
        status = client.status()
        self.assertEqual(status.counters.requests, total)
        self.assertEqual(sum_of(status.replies), total)
        self.assertEqual(status.total.count, total)
        self.assertEqual(status.counters.replies_undelivered, 0)

    def test_learning_from_requests_alone(self):
        daemon = self.started()
        client = daemon.client()
        cart, applied = Cart(drag=0.5), None
        for k in range(80):
            client.request(cart.time_us, cart.state, applied=applied)
            force = 1.0 if k // 10 % 2 else -1.0
            applied = [force]
            cart.step(force)
        self.assertAlmostEqual(client.coefficients().value[0], -0.5, places=3)
        self.assertEqual(client.status().counters.telemetry, 0)


def raw(daemon, name="actions", kind=zmq.DEALER):
    socket = zmq.Context.instance().socket(kind)
    socket.rcvtimeo = 20000
    socket.connect(f"ipc://{daemon.folder}/{name}")
    return socket


class Clients(TestCase):
    def test_a_newer_request_supersedes_one_that_waits(self):
        daemon = self.started()
        socket = raw(daemon)
        self.addCleanup(socket.close)
        client = daemon.client()
        client.request(0, [0, 0])
        tid = daemon.thread("planner")
        with stopped_thread(tid):
            for number in (1, 2, 3, 4):
                socket.send(pb.ActionRequest(id=number, state=[0, 0]).SerializeToString())
                if number == 1:
                    wait_until(lambda: client.status().counters.requests == 2, "arrival of the first")
            replies = [pb.ActionReply.FromString(socket.recv()) for _ in range(2)]
        replies += [pb.ActionReply.FromString(socket.recv()) for _ in range(2)]
        # the first is in hand; the second and the third are replaced while they wait
        self.assertEqual([(r.id, r.reason) for r in replies[:2]],
                         [(2, pb.REASON_SUPERSEDED), (3, pb.REASON_SUPERSEDED)])
        self.assertEqual(sorted(r.id for r in replies[2:]), [1, 4])
        self.assertEqual(client.status().refused.superseded, 2)

    def test_a_flood_does_not_starve_another_client(self):
        slow = CART.replace("horizon: 10, samples: 16, iterations: 20", "method: mppi, horizon: 10, samples: 64, iterations: 1000000")
        daemon = self.started(slow.replace("budget: 0.5", "budget: 0.3"))
        client = daemon.client()
        client.request(0, [0, 0])
        flood = raw(daemon)
        stop = threading.Event()
        sent = [0]

        def pour():
            message = pb.ActionRequest(id=1, state=[0, 0]).SerializeToString()
            while not stop.is_set():
                with_room = flood.poll(0, zmq.POLLOUT)
                if with_room:
                    flood.send(message)
                    sent[0] += 1
                while flood.poll(0):
                    flood.recv()
        thread = threading.Thread(target=pour)
        thread.start()
        try:
            wait_until(lambda: sent[0] > 1000, "a flood")
            replies = [client.request(0, [0, 0]) for _ in range(20)]
        finally:
            stop.set()
            thread.join()
            flood.close()
        self.assertGreater(sent[0], 1000)
        planned = [r for r in replies if r.status in (Status.WARMING_UP, Status.TRUNCATED, Status.CONVERGED)]
        # a late answer now and then is the machine's; being starved would be all of them
        self.assertGreater(len(planned), 15, [(r.status.name, r.reason) for r in replies])

    def test_every_kind_of_client_is_answered(self):
        daemon = self.started()
        request = pb.ActionRequest(id=9, state=[0, 0]).SerializeToString()
        plain, named, correlated, nested = raw(daemon, kind=zmq.REQ), raw(daemon), raw(daemon, kind=zmq.REQ), raw(daemon)
        correlated.setsockopt(zmq.REQ_CORRELATE, 1)
        for socket in (plain, named, correlated, nested):
            self.addCleanup(socket.close)
        plain.send(request)
        self.assertEqual(pb.ActionReply.FromString(plain.recv()).id, 9)
        correlated.send(request)
        self.assertEqual(pb.ActionReply.FromString(correlated.recv()).id, 9)
        nested.send_multipart([b"hop", b"", request])
        self.assertEqual(nested.recv_multipart()[:2], [b"hop", b""])

    def test_more_clients_than_places_come_and_go(self):
        daemon = self.started(CART.replace("budget: 0.5", "budget: 30"))  # of which those of the last second have a share
        for _ in range(100):
            with hilbert.Client(daemon.folder, timeout=20) as client:
                self.assertEqual(client.request(0, [0, 0]).status, Status.WARMING_UP)


class Pilot(TestCase):
    """One client flies; others are answered, and change nothing for it."""

    def others(self, daemon, n):
        """n clients of their own, who ask without pause from a thread."""
        sockets = [raw(daemon) for _ in range(n)]
        message = pb.ActionRequest(id=1, time_us=2**60, state=[5, 5], applied=[0.5]).SerializeToString()
        stop = threading.Event()

        def pour():
            while not stop.is_set():
                for socket in sockets:
                    if socket.poll(0, zmq.POLLOUT):
                        socket.send(message)
                    while socket.poll(0):
                        socket.recv()
                time.sleep(0.001)
        thread = threading.Thread(target=pour)

        def end():
            stop.set()
            thread.join()
            for socket in sockets:
                socket.close()
        self.addCleanup(end)
        thread.start()

    def test_many_others_do_not_starve_the_pilot(self):
        busy = CART.replace("horizon: 10, samples: 16, iterations: 20", "method: mppi, horizon: 10, samples: 64, iterations: 1000000")
        daemon = self.started(busy.replace("budget: 0.5", "budget: 0.1"))
        pilot = daemon.client()
        pilot.request(0, [0, 0])
        for more in (8, 192):
            self.others(daemon, more)
            replies = []
            for k in range(30):
                replies.append(pilot.request(k, [0, 0]))
                time.sleep(0.02)
            planned = [r for r in replies if r.status in (Status.WARMING_UP, Status.TRUNCATED, Status.CONVERGED)]
            # late answers are the machine's, however many it makes; among equals one of 9, or of 193, would be planned
            self.assertGreater(len(planned), 10, [(r.status.name, r.reason) for r in replies])
            self.assertFalse(any(r.guest for r in replies))
        status = pilot.status()
        self.assertGreater(status.counters.guest_requests, 200)
        daemon.says("answered as a guest")

    def test_a_guest_moves_neither_the_window_nor_the_age_of_telemetry(self):
        # the pilot has a name: an unnamed one that the machine holds up for 20 ms loses its seat to the guest
        config = CART.replace("stale_after: 60, fallback_after: 120", "stale_after: 0.2, fallback_after: 1.0")
        daemon = self.started(config + "security: {{pilot: bridge}}\n")
        pilot, guest = daemon.client(name="bridge"), daemon.client()
        cart = Cart()
        for k in range(20):
            pilot.request(cart.time_us, cart.state, applied=[0.1])
            cart.step(0.1)
            reply = guest.request(2**60 + k * 50000, [3, 4], applied=[-0.5])
            self.assertTrue(reply.guest)
        before = pilot.status()
        self.assertGreater(before.counters.transitions, 10)
        for k in range(20):
            guest.request(2**60 + (20 + k) * 50000, [k, -k], applied=[0.5])
            pilot.request(cart.time_us, cart.state)  # it is still there, and has nothing to teach
        status = pilot.status()
        self.assertEqual(status.counters.transitions, before.counters.transitions)
        self.assertEqual(status.counters.guest_requests, 40)
        # what the vehicle does not report gets old for the pilot, whatever a guest says
        def old():
            guest.request(2**60, [0, 0], applied=[0.5])
            reply = pilot.request(cart.time_us, cart.state)
            cart.time_us += 10000
            return (reply.status, reply.reason) == (Status.FALLBACK, "stale")

        wait_until(old, "old telemetry")

    def test_by_name(self):
        daemon = self.started(CART + "security: {{pilot: bridge}}\n")
        other = daemon.client()
        self.assertTrue(other.request(0, [0, 0]).guest)
        bridge = hilbert.Client(daemon.folder, timeout=20, name="bridge")
        self.addCleanup(bridge.close)
        self.assertFalse(bridge.request(0, [0, 0]).guest)
        # nobody takes the name from it while it is there; and when it comes back, it is its own again
        thief = hilbert.Client(daemon.folder, timeout=1, name="bridge")
        for k in range(5):
            try:
                self.assertTrue(thief.request(k, [0, 0]).guest)
            except hilbert.TimedOut:
                pass
            self.assertFalse(bridge.request(k, [0, 0]).guest)
        thief.close()
        bridge.close()
        again = hilbert.Client(daemon.folder, timeout=20, name="bridge")
        self.addCleanup(again.close)
        self.assertFalse(again.request(0, [0, 0]).guest)


    def test_a_pilot_that_pauses_finds_its_seat(self):
        daemon = self.started()
        pilot = daemon.client()
        for k in range(20):
            self.assertFalse(pilot.request(k, [0, 0]).guest)
        time.sleep(0.5)
        crowd = [daemon.client() for _ in range(70)]  # more than there are places
        answered = 0
        for k, other in enumerate(crowd):
            reply = other.request(k, [0, 0])
            answered += reply.status != Status.REFUSED
            if k == 0:
                self.assertFalse(reply.guest)
        self.assertGreater(answered, 60)
        for k in range(20):
            self.assertFalse(pilot.request(20 + k, [0, 0]).guest)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


class Stopped(TestCase):
    """A process that was stopped for longer than its clients wait for it answers them as soon as it goes on."""

    def test_named_client_is_answered_at_once(self):
        daemon = self.started()
        pilot = zmq.Context.instance().socket(zmq.DEALER)
        self.addCleanup(pilot.close)
        pilot.routing_id = b"bridge"
        pilot.immediate, pilot.heartbeat_ivl, pilot.heartbeat_timeout, pilot.reconnect_ivl = 1, 1000, 3000, 10
        pilot.connect(f"ipc://{daemon.folder}/actions")
        asked = 0

        def ask(until):
            """At 50 Hz, whether it is answered or not; whether the newest one was."""
            nonlocal asked
            while time.monotonic() < until:
                asked += 1
                with contextlib.suppress(zmq.Again):
                    pilot.send(pb.ActionRequest(id=asked, time_us=asked, state=[0, 0]).SerializeToString(), zmq.DONTWAIT)
                next_one = time.monotonic() + 0.02
                while pilot.poll(max(0, 1e3 * (next_one - time.monotonic()))):
                    if pb.ActionReply.FromString(pilot.recv()).id == asked:
                        return True
            return False

        for _ in range(2):
            for _ in range(100):
                self.assertTrue(ask(time.monotonic() + PATIENCE))
                time.sleep(0.02)
            daemon.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: state_of(daemon.process.pid) == "T", "the stop")
            self.assertFalse(ask(time.monotonic() + 6))  # its connection is given up after three
            daemon.process.send_signal(signal.SIGCONT)
            # at once; it took 24 s, until the client gave up the next connection too
            self.assertTrue(ask(time.monotonic() + PATIENCE), daemon.text())


class Equality(TestCase):
    """Actions over the wire are those of lib's controller on the same inputs and seed, to the byte."""

    def compare(self, config, model, script, replies_wanted):
        daemon = self.started(config, model=model)
        client = daemon.client()
        connect_telemetry(client, daemon)
        got, samples, told, corrected = [], 0, [], 0
        base = client.status()
        for line in script:
            if line[0] == "T":
                client.publish(line[1], line[2], line[3])
                samples += 1
                told.append(line)
            else:
                # telemetry goes another way: it must have arrived before this request is sent
                def taken():
                    s = client.status()
                    return s.counters.telemetry - base.counters.telemetry == samples and \
                        s.counters.transitions + sum_of(s.set_aside) - base.counters.transitions - sum_of(base.set_aside) == samples
                wait_until(taken, "intake")
                reply = client.request(line[1], line[2], want_plan=True)
                self.assertLess(reply.status, Status.STALE, reply.reason)
                corrected += reply.corrected
                flat = reply.action + sum(reply.plan, []) + sum(reply.predicted, [])
                got.append(struct.pack(f"<{len(flat)}d", *flat).hex())
                told += [("P", reply.prepare_stages, [], []), line]
        text = "".join(" ".join([kind, str(t)] + [v.hex() for v in list(x) + list(u)]) + "\n" for kind, t, x, u in told)
        done = subprocess.run([REPLAY, daemon.file], input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(got), replies_wanted)
        self.assertEqual(got, done.stdout.split())
        # how many depends on how busy the machine is
        self.assertGreater(corrected, 0)

    def script(self, state, control, dt_us, n, every):
        """Telemetry along a made-up flight (velocities swing, and positions with them), a request every so many samples."""
        lines = []
        pace = 0.37 / (dt_us * 1e-6)
        for k in range(n):
            x = [float(s) for s in state]
            for i in range(1, min(len(state), 6), 2):
                x[i] += 0.1 * math.sin(0.37 * k + i)
                x[i - 1] -= 0.1 / pace * math.cos(0.37 * k + i)
            u = [c * (1 + 0.05 * math.cos(0.91 * k + i)) for i, c in enumerate(control)]
            lines.append(("T", k * dt_us, x, u))
            if k % every == every - 1:
                lines.append(("R", k * dt_us, x, []))
        return lines

    def test_cart(self):
        config = CART.replace("budget: 0.5", "budget: 30").replace("fallback_after: 120", "fallback_after: 3600")
        self.compare(config, "cart", self.script([0.2, 0.1], [0.5], 20000, 100, 5), 20)

    def test_quadrotor_on_two_threads(self):
        config = CART[:CART.index("planner:")].replace("cart.safetensors", "quadrotor.safetensors") + """
planner: {{horizon: 8, samples: 40, iterations: 6, threads: 2, seed: 77}}
estimator: {{window: 4, warmup: 0.8}}
target: {{z: 1}}
latency: {{budget: 30, stale_after: 3000, fallback_after: 3600}}
"""
        state = [0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0]
        self.compare(config, "quadrotor", self.script(state, [0.0662] * 4, 40000, 40, 1), 40)


class InForce(TestCase):
    def test_status_has_the_target_in_force_and_the_plan(self):
        client = self.started().client()
        self.assertEqual(list(client.status().target), [1, 0])
        self.assertEqual(list(client.status().predicted), [])
        reply = client.request(1000, [0.5, 0.25], target=[2, 0], want_plan=True)
        status = client.status()
        self.assertEqual(list(status.target), [2, 0])
        self.assertEqual(list(status.predicted), [v for row in reply.predicted for v in row])
        self.assertEqual(list(status.predicted)[:2], [0.5, 0.25])
        client.request(21000, [0.5, 0.25])
        self.assertEqual(list(client.status().target), [1, 0])


if __name__ == "__main__":
    main()
