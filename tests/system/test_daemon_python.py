"""The Python client against a real daemon: numpy arrays wherever vectors go, and nothing but hilbert.Error when it fails.

usage: test_daemon_python.py BUILD_ROOT
"""
import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from unittest import mock

import numpy
import zmq

from harness import BUILD, CART, PATIENCE, SOURCE, Cart, TestCase, connect_telemetry, fly, main, shipped, wait_until
import hilbert
from hilbert import messages
from hilbert import hilbert_pb2 as pb


def turn(thread):
    """Nanoseconds of a thread's turns on a processor; None: the kernel does not tell."""
    with open(f"/proc/self/task/{thread}/sched") as lines:
        return next((int(line.split(":")[1]) for line in lines if line.startswith("se.slice")), None)


def name_of(thread):
    with open(f"/proc/self/task/{thread}/comm") as file:
        return file.read().strip()


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
        # and as a list of lists
        self.assertTrue(self.client.request(6, x, target=[[0.5, 0.0]] * steps).status.planned)

    def test_applied_as_an_array_is_learned_from(self):
        cart, force = Cart(drag=0.4), numpy.array([0.0])
        for k in range(60):
            self.client.request(cart.time_us, numpy.array(cart.state), applied=force)
            force = numpy.array([1.0 if k // 10 % 2 else -1.0])
            cart.step(float(force[0]))
        self.assertGreater(self.client.status().counters.transitions, 50)

    def test_its_thread_has_short_turns_and_the_caller_keeps_its_own(self):
        own = turn(threading.get_native_id())
        if own is None:
            self.skipTest("this kernel does not tell how long turns are (/proc/self/sched: se.slice)")
        before = os.listdir("/proc/self/task")
        with self.d.client() as client:
            client.status()
            started = [thread for thread in os.listdir("/proc/self/task") if thread not in before]
            self.assertEqual([turn(thread) for thread in started if name_of(thread).startswith("ZMQbg/IO")], [100_000])
            self.assertEqual(turn(threading.get_native_id()), own)

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

    def test_what_cannot_be_opened_is_closed(self):
        """In a process of its own: a socket that stays open has close() wait for ever."""
        for options, error in (({"name": "x" * 300}, "name: 'xxx.* is no name: at most 255 bytes"),
                               ({"actions": "tcp://nowhere:1:2"}, "tcp://nowhere:1:2"),
                               ({"actions": "nonsense"}, "nonsense")):
            script = ("import sys; sys.path.insert(0, sys.argv[1]); import hilbert\n"
                      f"client = hilbert.Client('/tmp/nobody', timeout=0.01, connect_timeout=0, **{options!r})\n"
                      "for _ in range(2):\n"
                      "    try:\n        client.request(0, [0, 0])\n"
                      "    except hilbert.Error as error:\n        print(error)\n"
                      "client.close()\n")
            done = subprocess.run([sys.executable, "-c", script, f"{BUILD}/clients/python"], capture_output=True, text=True,
                                  timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, error)

    def test_another_threads_client_is_let_alone(self):
        client = hilbert.Client("/tmp/nobody", timeout=PATIENCE, connect_timeout=0)
        waiting, failure = threading.Event(), []
        wait = hilbert.client.zmq.Socket.poll

        def poll(socket, seconds, events=1):
            waiting.set()
            return wait(socket, min(seconds, 1), events)

        def ask():
            try:
                client.status()
            except hilbert.Error as error:
                failure.append(str(error))
        with mock.patch.object(hilbert.client.zmq.Socket, "poll", poll):
            thread = threading.Thread(target=ask)
            thread.start()
            self.assertTrue(waiting.wait(PATIENCE))
            for use in (client.close, client.status, lambda: client.publish(0, [0, 0], [0])):
                with self.assertRaisesRegex(hilbert.Error, "another thread is using this client"):
                    use()
            thread.join()
        self.assertRegex(failure[0], "no daemon at")
        client.close()

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


def fill(kind, draw, depth=0):
    """A message of protoc's with numbers in every field, and the same of ours."""
    theirs, ours = getattr(pb, kind)(), getattr(messages, kind)()
    for field in theirs.DESCRIPTOR.fields:
        if field.containing_oneof and field != field.containing_oneof.fields[depth % len(field.containing_oneof.fields)]:
            continue
        values = []
        for _ in range(3 if field.label == field.LABEL_REPEATED else 1):
            if field.message_type:
                if depth > 3:
                    continue
                values.append(fill(field.message_type.name, draw, depth + 1))
            elif field.enum_type:
                values.append(draw.choice([v.number for v in field.enum_type.values]))
            else:
                values.append({field.TYPE_DOUBLE: lambda: draw.gauss(0, 1e6), field.TYPE_FLOAT: lambda: draw.randrange(-512, 512) / 8,
                               field.TYPE_INT64: lambda: draw.randrange(-2**63, 2**63), field.TYPE_UINT64: lambda: draw.randrange(2**64),
                               field.TYPE_FIXED64: lambda: draw.randrange(2**64), field.TYPE_UINT32: lambda: draw.randrange(2**32),
                               field.TYPE_BOOL: lambda: draw.random() < 0.5, field.TYPE_STRING: lambda: draw.choice(["", "Zür ich"]),
                               field.TYPE_BYTES: lambda: bytes([0, 255, 3])}[field.type]())
        for one in values:
            if field.message_type and field.label == field.LABEL_REPEATED:
                getattr(theirs, field.name).append(one[0])
                getattr(ours, field.name).append(one[1])
            elif field.message_type:
                getattr(theirs, field.name).CopyFrom(one[0])
                getattr(theirs, field.name).SetInParent()
                setattr(ours, field.name, one[1])
            elif field.label == field.LABEL_REPEATED:
                getattr(theirs, field.name).append(one)
                getattr(ours, field.name).append(one)
            else:
                setattr(theirs, field.name, one)
                setattr(ours, field.name, one)
    return theirs, ours


class Codec(TestCase):
    """Our messages against protoc's, for the whole contract."""

    def test_bytes_are_protocs(self):
        kinds = list(pb.DESCRIPTOR.message_types_by_name)
        self.assertGreater(len(kinds), 25)
        for seed, kind in enumerate(kinds * 5):
            with self.subTest(kind):
                theirs, ours = fill(kind, random.Random(seed), seed % 3)
                body = theirs.SerializeToString(deterministic=True)
                again = getattr(messages, kind).from_bytes(body)
                self.assertEqual(again, getattr(messages, kind).from_bytes(ours.to_bytes()))
                back = getattr(pb, kind)()
                back.ParseFromString(ours.to_bytes())
                if kind in ("Telemetry", "ActionRequest", "ControlRequest", "Target", "Predict", "Coefficients"):
                    self.assertEqual(back, theirs)

    def test_broken_bytes(self):
        body = messages.ActionRequest(id=7, time_us=5, state=[1.0, 2.0], telemetry=[messages.Telemetry(time_us=3)]).to_bytes()
        self.assertEqual(messages.ActionRequest.from_bytes(body + b"\xf8\x01\x01"), messages.ActionRequest.from_bytes(body))  # field 31
        draw = random.Random(1)
        for k in range(3000):
            broken = bytearray(body[:draw.randrange(len(body))] if k % 2 else body)
            if broken:
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            try:
                messages.ActionRequest.from_bytes(bytes(broken))
            except ValueError:
                pass

    def test_words(self):
        self.assertEqual((str(hilbert.Status.WARMING_UP), f"{hilbert.Status.OUT_OF_SPAN:>12}"), ("warming-up", " out-of-span"))
        self.assertEqual(str(messages.Reason.NOT_FINITE), "not-finite")
        self.assertRegex(hilbert.__version__, r"^\d+\.\d+")


class Asyncio(TestCase):
    def test_the_same_verbs(self):
        daemon = self.started(CART)
        with daemon.client() as plain:
            expected = (plain.predict([[0.0, 1.0]], [[[0.5]] * 3]), [c.name for c in plain.model().state])

        async def fly():
            async with hilbert.AsyncClient(daemon.folder, timeout=20, connect_timeout=20) as h:
                got = (await h.predict([[0.0, 1.0]], [[[0.5]] * 3]), [c.name for c in (await h.model()).state])
                self.assertEqual(got, expected)
                replies = [await h.request(50000 * k, [0.1 * k, 0.0], want_plan=True) for k in range(5)]
                self.assertTrue(all(r.status.planned and len(r.action) == 1 for r in replies))
                await h.set_target([0.25, 0.0])
                async for status in h.watch(20):
                    if status.target == [0.25, 0.0] or status.target_of_request:
                        break
                with self.assertRaisesRegex(hilbert.Refused, "2 expected, 3 given"):
                    await h.set_target([1, 2, 3])
            # others go on while an answer is awaited that does not come
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)
            beside = asyncio.ensure_future(tick())
            async with hilbert.AsyncClient("/tmp/hilbert-nobody-is-here", timeout=0.02, connect_timeout=0.02) as h:
                with self.assertRaises(hilbert.NotConnected):
                    await h.request(0, [0])
            beside.cancel()
            self.assertGreater(ticks, 1)
        asyncio.run(fly())


class Loop(TestCase):
    def test_a_gymnasium_loop(self):
        daemon = self.started(shipped("cart").replace("budget: 0.01", "budget: 0.01\n  clock: vehicle"), model=None)
        done = subprocess.run([sys.executable, f"{SOURCE}/clients/python/examples/gymnasium_loop.py", daemon.folder], capture_output=True,
                              text=True, env=dict(os.environ, PYTHONPATH=f"{BUILD}/clients/python"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("the cart is at"), 3)
        with hilbert.Controller(daemon.folder) as controller:
            action = controller.act(numpy.zeros(2), 0.0)
            self.assertIsInstance(action, numpy.ndarray)
            self.assertEqual(action.shape, (1,))
            with self.assertRaisesRegex(hilbert.Error, "refused: states: 2 expected, 3 given"):
                controller.act([0, 0, 0], 0.1)
        with hilbert.Controller(daemon.folder, default=[0.5]) as controller:
            self.assertEqual(controller.act([0, 0, 0], 0.0), [0.5])


class Notebook(TestCase):
    """libhilbert against the daemon, whose arithmetic it is."""

    def test_predictions_are_the_daemons(self):
        daemon = self.started(shipped("cart").replace("budget: 0.01", "budget: 0.04"), model=None)
        client = daemon.client()
        model = hilbert.Model.load(f"{SOURCE}/config/models/cart.safetensors")
        info = client.model()
        self.assertEqual((model.states, [c.name for c in model.controls], model.hash, model.dt),
                         ([c.name for c in info.state], [c.name for c in info.control], info.hash, info.dt))
        draw = random.Random(4)
        starts = [[draw.gauss(0, 1), draw.gauss(0, 1)] for _ in range(5)]
        controls = [[[draw.uniform(-1, 1)] for _ in range(40)] for _ in range(5)]
        for coefficients in None, [0.3, -0.2, 0.1]:
            if coefficients:
                client.set_coefficients(messages.Coefficients(model_hash=info.hash, value=coefficients))
            theirs = numpy.array(client.predict(starts, controls))
            ours = model.predict(starts, controls, coefficients if coefficients else client.coefficients().value)
            self.assertEqual(theirs.tobytes(), ours.tobytes())
            self.assertEqual(model.predict(starts[0], controls[0], coefficients or client.coefficients().value).tobytes(), ours[0].tobytes())

    def test_fits_find_the_vehicle(self):
        model = hilbert.Model.load(f"{SOURCE}/config/models/cart.safetensors")
        draw = random.Random(5)
        truth = [0.05, -0.3, 0.1]
        u = [[draw.uniform(-1, 1)] for _ in range(200)]
        x = model.predict([0.1, -0.2], u, truth)
        found = model.fit(x, u, prior=False)
        # the model is linear in its coefficients, up to where its steps are taken; float arithmetic
        self.assertTrue(numpy.allclose(found, truth, atol=2e-3), found)
        best = model.log_likelihood(x, u, found)
        self.assertGreater(best, model.log_likelihood(x, u, [0.05, -0.25, 0.1]))
        self.assertGreater(best, model.log_likelihood(x, u))
        # one by one, in any order, is the same
        order = list(range(200))
        draw.shuffle(order)
        again = model.fit(x[:-1][order], numpy.array(u)[order], next=x[1:][order], dt=[model.dt] * 200, prior=False)
        self.assertTrue(numpy.allclose(found, again, atol=1e-5))
        # the density by hand: independent normal numbers
        step = model.predict(x[0], u[:1], found)[1]
        one, two = model.log_likelihood(x[:1], u[:1], found, next=[step]), model.log_likelihood(x[:1], u[:1], found, next=[step + [0.01, 0]])
        three = model.log_likelihood(x[:1], u[:1], found, next=[step + [0.02, 0]])
        self.assertAlmostEqual((one - three) / (one - two), 4, places=6)

    def test_errors(self):
        with self.assertRaisesRegex(hilbert.Error, "none.safetensors: cannot be opened"):
            hilbert.Model.load("/tmp/none.safetensors")
        model = hilbert.Model.load(f"{SOURCE}/config/models/cart.safetensors")
        for call, expected in (
            (lambda: model.predict([0, 0, 0], [[1]]), "state: expected 2 numbers, not 3"),
            (lambda: model.predict([0, 0], [[1, 2]]), "controls: expected n x 1 numbers, not 1 x 2"),
            (lambda: model.predict([0, float("nan")], [[1]]), "states: number 1 is not finite"),
            (lambda: model.predict([0, 0], [[1]], [1, 2]), "coefficients: expected 3 numbers, not 2"),
            (lambda: model.fit([[0, 0]], [[1]]), "states: expected 2 x 2 numbers"),
            (lambda: model.fit([[0, 0], [0, 1]], [[1]], dt=-1), "dt: number 0 is -1"),
            (lambda: model.fit([[0, 0], [0, "x"]], [[1]]), "states: expected numbers"),
        ):
            with self.assertRaisesRegex(hilbert.Invalid, expected):
                call()


class Recordings(TestCase):
    def test_in_one_call(self):
        daemon = self.started(CART + "recorder: {{enabled: true, directory: {folder}}}\n")
        client = daemon.client()
        connect_telemetry(client, daemon)
        cart, seen = Cart(drag=0.4), []
        for k in range(40):
            reply = client.request(cart.time_us, cart.state)
            client.publish(cart.time_us, cart.state, reply.action)
            seen.append((cart.time_us, list(cart.state), reply.action, reply.status))
            cart.step(reply.action[0])
        wait_until(lambda: client.status().counters.telemetry >= 40, "intake")
        client.close()
        daemon.stop()
        folder = daemon.folder
        flight = hilbert.Recording.load(*sorted(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".mcap")))
        self.assertEqual((flight.name, flight.states, flight.controls), ("cart", ["position", "velocity"], ["force"]))
        self.assertEqual(flight.action.tolist(), [action for _, _, action, _ in seen])
        self.assertEqual(flight.status, [status for *_, status in seen])
        self.assertEqual(flight.state[-40:].tolist(), [state for _, state, _, _ in seen])
        self.assertEqual(flight.control[-40:].tolist(), [action for _, _, action, _ in seen])
        self.assertTrue(numpy.allclose(numpy.diff(flight.reply_time), 1e-6 * numpy.diff([t for t, *_ in seen])))
        with self.assertRaisesRegex(hilbert.Error, "not a recording: expected an MCAP file"):
            hilbert.Recording.load("/etc/passwd")
        # no page of numbers in a notebook, and no recording without anything in it for a path
        self.assertRegex(repr(flight), r"^<hilbert\.Recording: \w+, [\d.]+ s, \d+ samples, 40 replies>$")
        with self.assertRaisesRegex(TypeError, r"Recording\.load\(path"):
            hilbert.Recording("flight.mcap")


class Installing(TestCase):
    def test_pip_fetches_nothing(self):
        """Into a plain environment, without an index: and what is installed runs there."""
        folder = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        made = subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], capture_output=True, text=True)
        if made.returncode:
            self.skipTest(f"no virtual environments here (python3-venv): {made.stdout}{made.stderr}")
        tree = f"{folder}/tree"
        os.makedirs(f"{tree}/clients")
        shutil.copytree(f"{SOURCE}/clients/python", f"{tree}/clients/python")
        shutil.copytree(f"{SOURCE}/proto", f"{tree}/proto")
        shutil.copy(f"{SOURCE}/meson.build", tree)
        plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run([f"{folder}/venv/bin/pip", "install", "--no-index", "--disable-pip-version-check", f"{tree}/clients/python"],
                              capture_output=True, text=True, env=plain)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        daemon = self.started(CART)
        program = ("import hilbert, sys; assert 'numpy' not in sys.modules\n"
                   f"m = hilbert.Model.load({SOURCE + '/config/models/cart.safetensors'!r})\n"
                   f"with hilbert.Client({daemon.folder!r}, timeout=20) as h: print(h.status().name, h.request(0, [0, 0]).status, "
                   "m.predict([0, 0], [[1.0]])[1] == h.predict([[0, 0]], [[[1.0]]])[0][1] or len(m.predict([0, 0], [[1.0]])))\n")
        done = subprocess.run([f"{folder}/venv/bin/python", "-c", program], capture_output=True, text=True, cwd="/",
                              env=dict(plain, HILBERT_LIBRARY=f"{BUILD}/clients/model/libhilbert.so.0"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^cart \S+ (True|2)")
        self.assertTrue(os.path.exists(f"{folder}/venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages/hilbert/py.typed"))


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
