"""What a daemon must survive: malformed, oversized, empty, odd and hostile messages, each answered or counted.

Each row of a table is sent to a running daemon; after each, the daemon must still answer a good request.
"""
import struct

import zmq

from harness import Daemon, TestCase, hilbert, main, pb, sum_of, unsanitized, wait_until

NAN, INF = float("nan"), float("inf")


def request(**fields):
    return pb.ActionRequest(**{"id": 7, "state": [0, 0], **fields}).SerializeToString()


def telemetry(**fields):
    return pb.Telemetry(**{"time_us": 10**9, "state": [0, 0], "control": [0], **fields}).SerializeToString()


def control(**fields):
    return pb.ControlRequest(id=7, **fields).SerializeToString()


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


GOOD = request()

# message, reason with which it is refused (None: answered with a plan), id in the reply
ACTIONS = {
    "empty": (b"", "DIMENSION", 0),
    "one zero byte": (b"\0", "MALFORMED", 0),
    "text": (b"GET / HTTP/1.1\r\n\r\n", "MALFORMED", 0),
    "all ones": (b"\xff" * 64, "MALFORMED", 0),
    "random bytes": (bytes((i * 7919 + 13) % 251 for i in range(500)), "MALFORMED", 0),
    "cut short": (GOOD[:-3], "MALFORMED", 0),
    "cut after the first byte": (GOOD[:1], "MALFORMED", 0),
    "a length beyond the end": (b"\x1a\x7f" + b"\0" * 8, "MALFORMED", 0),
    "a length of 2^63": (b"\x1a" + varint(2**63) + b"\0" * 8, "MALFORMED", 0),
    "a varint without end": (b"\x08" + b"\x80" * 20, "MALFORMED", 0),
    "doubles that are not a multiple of 8": (b"\x1a\x07" + b"\0" * 7, "MALFORMED", 0),
    "a group, long out of use": (b"\x0b\x0c", "MALFORMED", 0),
    "field number 0": (b"\x02\x00" + GOOD, "MALFORMED", 0),
    "another message: telemetry": (telemetry(), "MALFORMED", 0),
    "unknown fields": (GOOD + b"\xfa\x3f\x05hello" + b"\xf8\x3f\x01", None, 7),
    "twice the same, which adds up": (GOOD + GOOD, "DIMENSION", 7),
    "unpacked doubles": (b"\x08\x07\x19" + struct.pack("<d", 0) + b"\x19" + struct.pack("<d", 0), None, 7),
    "no state": (request(state=[]), "DIMENSION", 7),
    "one state too few": (request(state=[0]), "DIMENSION", 7),
    "one state too many": (request(state=[0, 0, 0]), "DIMENSION", 7),
    "very many states": (request(state=[0] * 30000), "DIMENSION", 7),
    "a target of one": (request(target=[1]), "DIMENSION", 7),
    "a target of three": (request(target=[1, 2, 3]), "DIMENSION", 7),
    "a reference one step short": (request(target=[0] * 20), "HORIZON", 7),
    "a reference one step long": (request(target=[0] * 24), "HORIZON", 7),
    "a reference that fits": (request(target=[0] * 22), None, 7),
    "two controls applied": (request(applied=[0, 0]), "DIMENSION", 7),
    "NaN in the state": (request(state=[0, NAN]), "NOT_FINITE", 7),
    "infinity in the state": (request(state=[INF, 0]), "NOT_FINITE", 7),
    "minus infinity in the target": (request(target=[-INF, 0]), "NOT_FINITE", 7),
    "NaN applied": (request(applied=[NAN]), "NOT_FINITE", 7),
    "a negative time": (request(time_us=-1), "BAD_TIME", 7),
    "the largest time": (request(time_us=2**63 - 1), "BAD_TIME", 7),
    "the smallest time": (request(time_us=-(2**63)), "BAD_TIME", 7),
    "a state of 1e300": (request(state=[1e300, 0]), "any", 7),
    "a target of 1e300": (request(target=[1e300, 0]), "any", 7),
    "denormal numbers": (request(state=[5e-324, -5e-324]), None, 7),
    "the largest id": (request(id=2**64 - 1), None, 2**64 - 1),
    "no id": (request(id=0), None, 0),
    "a budget of one microsecond": (request(budget_us=1), "LATE", 7),
    "the largest budget": (request(budget_us=2**32 - 1), None, 7),
    "a plan wanted": (request(want_plan=True), None, 7),
    "a reset": (request(reset_counter=5), None, 7),
    "time running backwards": (request(time_us=5), None, 7),
}

# message, counter of set_aside that grows by one (None: it is taken in)
TELEMETRY = {
    "empty": (b"", "dimension"),
    "text": (b"hello, world", "malformed"),
    "all ones": (b"\xff" * 40, "malformed"),
    "cut short": (telemetry()[:-2], "malformed"),
    "a length beyond the end": (b"\x12\x7f", "malformed"),
    "no control": (telemetry(control=[]), "dimension"),
    "two controls": (telemetry(control=[0, 0]), "dimension"),
    "three states": (telemetry(state=[0, 0, 0]), "dimension"),
    "NaN in the state": (telemetry(state=[NAN, 0]), "not_finite"),
    "infinite control": (telemetry(control=[INF]), "not_finite"),
    "a negative time": (telemetry(time_us=-5), "bad_time"),
    "the largest time": (telemetry(time_us=2**63 - 1), "bad_time"),
    "the first good one": (telemetry(time_us=10**9), "first"),
    "the same again": (telemetry(time_us=10**9), "out_of_order"),
    "the next": (telemetry(time_us=10**9 + 20000), None),
    "time jumping backwards": (telemetry(time_us=5 * 10**8), "out_of_order"),
    "and on from there": (telemetry(time_us=5 * 10**8 + 20000), None),
    "a gap of a second": (telemetry(time_us=5 * 10**8 + 1020000), "gap"),
    "too soon": (telemetry(time_us=5 * 10**8 + 1020100), "gathered"),
    "a reset": (telemetry(time_us=5 * 10**8 + 1060000, reset_counter=1), "reset"),
    "time jumping a century ahead": (telemetry(time_us=3 * 10**15, reset_counter=1), "gap"),
}

# message, part of the error (None: ok)
CONTROL = {
    "empty": (b"", "names no command"),
    "text": (b"hello, world", "not a ControlRequest"),
    "an id alone": (control(), "names no command"),
    "a command from the future": (b"\x08\x07\xf2\x07\x00", "names no command"),
    "a target of the wrong size": (control(set_target=pb.Target(state=[1])), "states of the target: 2 expected, 1 given"),
    "a target that is not finite": (control(set_target=pb.Target(state=[NAN, 0])), "not finite"),
    "a target beyond all numbers of a plan": (control(set_target=pb.Target(state=[1e308, 0])), "expected at most 1e+09"),
    "coefficients of another model": (
        control(set_coefficients=pb.Coefficients(model_hash=1, value=[0, 0, 0])), "belong to model 0000000000000001"),
    "too few coefficients": (control(set_coefficients=pb.Coefficients(value=[0])), "coefficients: 3 expected, 1 given"),
    "coefficients that are not finite": (
        control(set_coefficients=pb.Coefficients(value=[0, 0, INF])), "not finite"),
    "no trajectories": (control(predict=pb.Predict()), "at least 1"),
    "a prediction without end": (control(predict=pb.Predict(count=2**32 - 1, steps=2**32 - 1)), "would not fit"),
    "a prediction without controls": (control(predict=pb.Predict(count=1, steps=5, state=[0, 0])), "expected"),
    "a prediction of NaN": (control(predict=pb.Predict(count=1, steps=1, state=[NAN, 0], control=[0])), "not finite"),
    "a prediction backwards": (control(predict=pb.Predict(count=1, steps=1, dt=-1, state=[0, 0], control=[0])), "negative"),
    "a prediction that diverges": (
        control(predict=pb.Predict(count=1, steps=20, dt=1e300, state=[0, 1e300], control=[1e300] * 20)), "finite"),
    "a prediction with steps of ages": (
        control(predict=pb.Predict(count=1, steps=2, dt=1e300, state=[0, 1], control=[1, 1])), "shorter steps"),
    "a good prediction": (control(predict=pb.Predict(count=1, steps=5, state=[0, 0], control=[0] * 5)), None),
    "two commands, of which the last counts": (
        control(predict=pb.Predict()) + pb.ControlRequest(get_model=pb.Nothing()).SerializeToString(), None),
}


class OneDaemon(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon().start()
        cls.client = cls.d.client()
        cls.context = zmq.Context.instance()

    @classmethod
    def tearDownClass(cls):
        cls.d.close()

    def socket(self, name, kind=zmq.DEALER):
        socket = self.context.socket(kind)
        socket.rcvtimeo = 20000
        socket.connect(f"ipc://{self.d.folder}/{name}")
        self.addCleanup(socket.close, 0)
        return socket

    def publisher(self):
        """Of telemetry, which the daemon has subscribed to: nothing is lost."""
        socket = self.socket("telemetry", zmq.XPUB)
        self.assertEqual(socket.recv(), b"\x01")
        return socket

    def assert_alive(self):
        reply = self.client.request(0, [0, 0])
        self.assertLess(reply.status, hilbert.Status.FALLBACK)
        self.assertEqual(len(reply.action), 1)


class Messages(OneDaemon):
    def test_the_tables_are_long_enough(self):
        self.assertGreaterEqual(len(ACTIONS) + len(TELEMETRY) + len(CONTROL), 50)

    def test_actions(self):
        socket = self.socket("actions")
        for name, (message, reason, number) in ACTIONS.items():
            with self.subTest(name):
                before = self.client.status()
                socket.send(message)
                reply = pb.ActionReply.FromString(socket.recv())
                after = self.client.status()
                self.assertEqual(reply.id, number)
                self.assertEqual(after.counters.requests, before.counters.requests + 1)
                self.assertEqual(sum_of(after.replies), sum_of(before.replies) + 1)
                if reason is None:
                    self.assertEqual(reply.reason, pb.REASON_NONE)
                    self.assertEqual(len(reply.action), 1)
                elif reason == "LATE":
                    # on a busy machine the planner is not even back after two of its budgets
                    self.assertEqual(reply.status, pb.ACTION_STATUS_FALLBACK)
                    self.assertIn(reply.reason, (pb.REASON_LATE, pb.REASON_STALLED))
                elif reason != "any":
                    self.assertEqual((reply.status, pb.Reason.Name(reply.reason)),
                                     (pb.ACTION_STATUS_REFUSED, "REASON_" + reason))
                    self.assertNotEqual(reply.detail, "")
                    counter = reason.lower()
                    self.assertEqual(getattr(after.refused, counter), getattr(before.refused, counter) + 1)
                for u in reply.action:
                    self.assertTrue(-2 <= u <= 2)
                self.assert_alive()

    def test_control(self):
        socket = self.socket("control")
        for name, (message, error) in CONTROL.items():
            with self.subTest(name):
                before = self.client.status().counters
                socket.send(message)
                reply = pb.ControlReply.FromString(socket.recv())
                after = self.client.status().counters
                self.assertEqual(reply.ok, error is None, reply.error)
                self.assertIn(error or "", reply.error)
                self.assertEqual(after.control_errors, before.control_errors + (error is not None))
                self.assertEqual(after.control_requests, before.control_requests + 2)
                self.assert_alive()

    def test_lost_samples_are_counted(self):
        socket = self.socket("telemetry", zmq.PUB)
        start = self.client.status().counters

        def arrives():
            socket.send(telemetry(time_us=10**16, sequence=1))
            return self.client.status().counters.telemetry > start.telemetry
        wait_until(arrives, "arrival of telemetry")
        before = self.client.status().counters
        for sequence in (*range(2, 14), 17, 18):
            socket.send(telemetry(time_us=10**16 + 20000 * sequence, sequence=sequence))
        wait_until(lambda: self.client.status().counters.telemetry_lost == before.telemetry_lost + 3, "counting")
        # numbers of two publishers, mixed, say nothing about losses
        middle = self.client.status().counters
        for k in range(50):
            for sequence in (19 + k, 10**8 + k):
                socket.send(telemetry(time_us=10**16 + 10**6 + 20000 * k, sequence=sequence))
        wait_until(lambda: self.client.status().counters.telemetry == middle.telemetry + 100, "arrival")
        self.assertEqual(self.client.status().counters.telemetry_lost, middle.telemetry_lost)

    def test_nobody_can_silence_the_status(self):
        reader = self.socket("status", zmq.SUB)
        reader.setsockopt(zmq.SUBSCRIBE, b"hilbert.status")
        reader.recv_multipart()
        hostile = self.socket("status", zmq.XSUB)
        hostile.send(b"\x01hilbert.status")
        for _ in range(200):
            hostile.send(b"\x00hilbert.status")
            hostile.send(b"\x00hilbert.v1.Status")
        for _ in range(3):  # more than were under way before
            self.assertTrue(reader.poll(20000))
            reader.recv_multipart()

    def test_an_oversized_message_is_refused_and_counted(self):
        before = self.client.status()
        actions = self.socket("actions")
        actions.send(b"\0" * 300_000)
        reply = pb.ActionReply.FromString(actions.recv())
        self.assertEqual((reply.status, reply.reason), (pb.ACTION_STATUS_REFUSED, pb.REASON_TOO_LARGE))
        actions.send(GOOD)
        self.assertEqual(pb.ActionReply.FromString(actions.recv()).id, 7)
        ask = self.socket("control")
        ask.send(b"\0" * 1_000_000)
        self.assertIn("larger than sockets.max_message, 262144", pb.ControlReply.FromString(ask.recv()).error)
        publisher = self.publisher()
        publisher.send(b"\0" * 262_145)
        wait_until(lambda: self.client.status().set_aside.too_large == before.set_aside.too_large + 1, "counting")
        after = self.client.status()
        self.assertEqual(after.refused.too_large, before.refused.too_large + 1)
        self.assertEqual(after.counters.control_errors, before.counters.control_errors + 1)
        self.assert_alive()

    def test_a_far_too_large_message_ends_its_connection_only(self):
        for name in ("actions", "control"):
            socket = self.socket(name)
            socket.send(b"\0" * 1_100_000)
            socket.rcvtimeo = 500
            self.assertRaises(zmq.Again, socket.recv)
            # the socket has connected again by itself
            socket.rcvtimeo = 20000
            socket.send(GOOD if name == "actions" else control(get_model=pb.Nothing()))
            self.assertGreater(len(socket.recv()), 0)
        self.publisher().send(b"\0" * 1_100_000)
        self.assert_alive()

    def test_envelopes_that_cannot_be_answered_are_dropped_and_counted(self):
        socket = self.socket("actions")
        before = self.client.status()
        socket.send_multipart([b"x"] * 10 + [GOOD])
        socket.send_multipart([b"x" * 600, b"", GOOD])
        wait_until(lambda: self.client.status().refused.malformed == before.refused.malformed + 2, "counting")
        self.assert_alive()

    def test_random_messages_do_no_harm(self):
        seed = 12345
        sockets = [self.socket("actions"), self.socket("control"), self.publisher()]
        sent = [0, 0]
        for k in range(3000):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            base = bytearray((request(), control(get_model=pb.Nothing()), telemetry())[k % 3])
            for _ in range(1 + seed % 3):
                seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
                base[(seed >> 20) % len(base)] = (seed >> 40) % 256
            # a reload would be somebody else's business
            if k % 3 == 1 and pb_is_reload(bytes(base)):
                continue
            sockets[k % 3].send(bytes(base))
            if k % 3 < 2:
                sent[k % 3] += 1
                sockets[k % 3].recv()
        self.assert_alive()


class Telemetry(OneDaemon):
    """On a daemon of its own: what a sample is worth depends on those before it."""

    def test_telemetry(self):
        socket = self.publisher()

        def received():
            return self.client.status().counters.telemetry

        for name, (message, reason) in TELEMETRY.items():
            with self.subTest(name):
                before = self.client.status()
                socket.send(message)
                wait_until(lambda: received() > before.counters.telemetry, "arrival")
                wait_until(lambda: sum_of((s := self.client.status()).set_aside) + s.counters.transitions >
                           sum_of(before.set_aside) + before.counters.transitions, "intake")
                after = self.client.status()
                self.assertEqual(after.counters.transitions, before.counters.transitions + (reason is None))
                if reason:
                    self.assertEqual(getattr(after.set_aside, reason), getattr(before.set_aside, reason) + 1)
                self.assert_alive()
        # several frames are no telemetry
        before = self.client.status().set_aside.malformed
        socket.send_multipart([b"topic", telemetry(time_us=4 * 10**15)])
        wait_until(lambda: self.client.status().set_aside.malformed == before + 1, "counting")


def pb_is_reload(data):
    try:
        return pb.ControlRequest.FromString(data).WhichOneof("command") == "reload"
    except Exception:
        return False


class Memory(TestCase):
    @unsanitized
    def test_large_control_messages_leave_nothing_behind(self):
        daemon = self.started()
        client = daemon.client()
        client.status()

        def resident():
            with open(f"/proc/{daemon.process.pid}/status") as file:
                return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) / 1024
        before, most = resident(), 0
        sockets = [zmq.Context.instance().socket(zmq.DEALER) for _ in range(8)]
        for socket in sockets:
            socket.connect(f"ipc://{daemon.folder}/control")
        for _ in range(40):
            for socket in sockets:
                socket.send(bytes(1000000))
            most = max(most, resident())
        for socket in sockets:
            for _ in range(40):
                self.assertTrue(socket.poll(20000))
                socket.recv()
            socket.close()
        wait_until(lambda: resident() < before + 20, "giving memory back")
        self.assertLess(most, before + 300)


if __name__ == "__main__":
    main()
