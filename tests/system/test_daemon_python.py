"""The Python client against a real daemon: numpy arrays wherever vectors go, and nothing but hilbert.Error when it fails.

usage: test_daemon_python.py BUILD_ROOT
"""
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy
import zmq

from harness import BUILD, CART, Cart, TestCase, connect_telemetry, fly, main
import hilbert
from hilbert import hilbert_pb2 as pb


class Arrays(TestCase):
    def setUp(self):
        self.d = self.started(CART)
        self.client = self.d.client()

    def test_arrays_and_lists_are_the_same(self):
        connect_telemetry(self.client, self.d)
        fly(self.client, Cart(drag=0.4), 60)
        x, target, applied = [0.2, -0.1], [0.7, 0.0], [0.3]
        one = self.client.request(0, x, target=target, applied=applied, want_plan=True)
        self.client.request(1, x, reset_counter=1)  # and from the same beginning again
        for kind in (numpy.float64, numpy.float32):
            reply = self.client.request(numpy.int64(2), numpy.array(x, kind), target=numpy.array(target, kind),
                                        applied=numpy.array(applied, kind), want_plan=numpy.bool_(True))
            self.assertTrue(reply.status.planned, reply)
            self.assertEqual((len(reply.action), len(reply.plan)), (1, len(one.plan)))
        # a target that is not the configured one is really used: away from 1, the force goes the other way
        left = self.client.request(3, numpy.zeros(2), target=numpy.array([-2.0, 0.0])).action[0]
        right = self.client.request(4, numpy.zeros(2), target=numpy.array([2.0, 0.0])).action[0]
        self.assertLess(left, 0)
        self.assertGreater(right, 0)
        # a trajectory as a table
        steps = len(one.plan) + 1
        self.assertTrue(self.client.request(5, x, target=numpy.tile([0.5, 0.0], (steps, 1))).status.planned)

    def test_applied_as_an_array_is_learned_from(self):
        cart, force = Cart(drag=0.4), numpy.array([0.0])
        for k in range(60):
            self.client.request(cart.time_us, numpy.array(cart.state), applied=force)
            force = numpy.array([1.0 if k // 10 % 2 else -1.0])
            cart.step(float(force[0]))
        self.assertGreater(self.client.status().counters.transitions, 50)

    def test_target_and_telemetry(self):
        self.client.set_target(numpy.array([0.25, 0.0]))
        self.assertEqual(list(self.client.status().target), [0.25, 0.0])
        self.client.publish(numpy.int64(7), numpy.zeros(2), numpy.zeros(1))

    def test_predict(self):
        states, controls = [[0.0, 1.0], [2.0, 0.0]], [[[0.5]] * 3, [[-0.5]] * 3]
        self.assertEqual(self.client.predict(numpy.array(states), numpy.array(controls)),
                         self.client.predict(states, controls))

    def test_refusals_say_how_many(self):
        reply = self.client.request(0, numpy.zeros(13))
        self.assertEqual((reply.status, reply.reason), (hilbert.Status.REFUSED, "dimension"))
        self.assertIn("2 expected, 13 given", reply.detail)
        reply = self.client.request(0, [0, 0], target=[1, 2, 3])
        self.assertIn("3 given", reply.detail)
        with self.assertRaisesRegex(hilbert.Refused, "2 expected, 3 given"):
            self.client.set_target([1, 2, 3])


class Errors(TestCase):
    def nobody(self, **options):
        client = hilbert.Client("/tmp/hilbert-nobody-is-here", timeout=0.02, **{"connect_timeout": 0.02, **options})
        self.addCleanup(client.close)
        return client

    def test_arguments(self):
        client = self.nobody()
        for wrong in ("text", ["a"], [[1, 2]], 3, [None], [1j], numpy.zeros((2, 2)), object()):
            for call in (lambda w: client.request(0, w), lambda w: client.request(0, [0], applied=w),
                         lambda w: client.set_target(w), lambda w: client.publish(0, w, [0]),
                         lambda w: client.predict([w], [[[0]]])):
                with self.subTest(repr(wrong)), self.assertRaises(hilbert.Invalid):
                    call(wrong)
        for wrong in ("now", None, 2**70, 1.5j):
            with self.subTest(time=wrong), self.assertRaises(hilbert.Invalid):
                client.request(wrong, [0])
        for wrong in (float("nan"), float("inf"), -1.0, "long", 1e30):
            with self.subTest(budget=wrong), self.assertRaises(hilbert.Invalid):
                client.request(0, [0], budget=wrong)
        for states, controls in (([], []), ([[1], [1, 2]], [[[0]], [[0]]]), ([[1]], []), (5, [[[0]]]), ([[1]], 5),
                                 ([[1], [2]], [[[0]], [[0], [0]]])):
            with self.subTest(states=states), self.assertRaises(hilbert.Invalid):
                client.predict(states, controls)
        with self.assertRaises(ValueError):  # it is one of those, too
            client.request(0, "text")

    def test_nobody_there(self):
        client = self.nobody()
        for call in (lambda: client.request(0, [0]), client.status, client.model, client.reload, client.reset_window,
                     lambda: client.set_target([0])):
            with self.assertRaises(hilbert.NotConnected):
                call()
        with self.assertRaises(hilbert.TimedOut):
            next(client.watch())

    def test_endpoints_and_keys(self):
        for endpoint in ("nonsense", "tcp://", "carrier-pigeon://x"):
            with self.subTest(endpoint), self.assertRaises(hilbert.Error):
                self.nobody(actions=endpoint).request(0, [0])
            with self.subTest(endpoint), self.assertRaises(hilbert.Error):
                next(self.nobody(status=endpoint).watch())
        with self.assertRaises(hilbert.Error):
            self.nobody(server_key="/nowhere", client_key="/nowhere")
        with self.assertRaises(hilbert.Error):
            self.nobody(server_key="/etc/passwd")

    def test_after_the_end(self):
        client = self.nobody()
        client.close()
        for call in (lambda: client.request(0, [0]), client.status, lambda: client.publish(0, [0], [0])):
            with self.assertRaises(hilbert.Error):
                call()

    def answered_with(self, frame):
        """A client whose first request gets this answer."""
        folder = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.addCleanup(subprocess.run, ["rm", "-r", folder])
        router = zmq.Context.instance().socket(zmq.ROUTER)
        self.addCleanup(router.close)
        router.bind(f"ipc://{folder}/actions")

        def answer():
            who, _ = router.recv_multipart()
            router.send_multipart([who, frame])
        thread = threading.Thread(target=answer)
        thread.start()
        self.addCleanup(thread.join)
        client = hilbert.Client(folder, timeout=20)
        self.addCleanup(client.close)
        return client.request(0, [0])

    def test_answers_that_make_no_sense(self):
        with self.assertRaisesRegex(hilbert.Error, "cannot be understood"):
            self.answered_with(b"\xff\xff\xff")

    def test_a_status_of_a_newer_daemon(self):
        reply = self.answered_with(pb.ActionReply(status=99, reason=99).SerializeToString())
        self.assertEqual((reply.status, reply.status.planned, reply.reason), (hilbert.Status.UNKNOWN, False, "99"))

    def test_the_first_request_waits_for_the_connection(self):
        folder = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.addCleanup(subprocess.run, ["rm", "-r", folder])
        context = zmq.Context.instance()
        router = context.socket(zmq.ROUTER)
        self.addCleanup(router.close)

        def begin_late():
            time.sleep(0.2)
            router.bind(f"ipc://{folder}/actions")
            who, frame = router.recv_multipart()
            asked = pb.ActionRequest.FromString(frame)
            router.send_multipart([who, pb.ActionReply(id=asked.id, status=1, action=[2.5]).SerializeToString()])
        thread = threading.Thread(target=begin_late)
        thread.start()
        self.addCleanup(thread.join)
        with hilbert.Client(folder, timeout=0.1, connect_timeout=20) as client:
            # the time-out counts from the connection on; on a busy machine the answer itself may take longer
            try:
                self.assertEqual(client.request(0, [0]).action, [2.5])
            except hilbert.TimedOut:
                pass


class Watching(TestCase):
    def test_a_message_of_one_frame_is_told(self):
        folder = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        status = zmq.Context.instance().socket(zmq.XPUB)
        self.addCleanup(status.close, 0)
        status.bind(f"ipc://{folder}/status")
        client = hilbert.Client(folder, timeout=20, connect_timeout=0)
        self.addCleanup(client.close)

        def publish():
            status.recv()  # the subscription
            status.send(b"hilbert.v1.Status")
        thread = threading.Thread(target=publish)
        thread.start()
        self.addCleanup(thread.join)
        self.assertRaisesRegex(hilbert.Error, "one frame is no state", next, client.watch(20))


if __name__ == "__main__":
    assert os.path.isdir(BUILD), sys.argv
    main()
