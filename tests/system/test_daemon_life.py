"""The life of a daemon: readiness, reloads, ends of all kinds, and what survives them."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

import zmq

from harness import (CART, HILBERTD, PATIENCE, TRAP, Cart, Daemon, TestCase, connect_telemetry, fly, hilbert, main, pb,
                     stopped_thread, unsanitized, wait_until)

Status = hilbert.Status
ENDLESS = CART.replace("horizon: 10, samples: 16, iterations: 20",
                       "method: mppi, horizon: 10, samples: 64, iterations: 1000000")


class Starting(TestCase):
    def test_readiness_and_a_clean_end(self):
        daemon = self.started()
        client = daemon.client()
        client.request(0, [0, 0])
        wait_until(lambda: [m for _, m in daemon.manager.messages if "requests/s" in m.get("STATUS", "")]
                   or daemon.manager.listen(0.1), "a STATUS line")
        self.assertEqual(daemon.stop(), 0)
        self.assertTrue(daemon.manager.seen("STOPPING", "1"))
        for name in ("telemetry", "actions", "control", "status"):
            self.assertFalse(os.path.exists(f"{daemon.folder}/{name}"), name)
        daemon.says("ready: cart, model")

    def test_permissions_of_sockets(self):
        daemon = self.started()
        self.assertEqual(os.stat(f"{daemon.folder}/actions").st_mode & 0o777, 0o660)
        other = self.started(CART.replace("sockets:", "sockets:\n  mode: 0600"))
        self.assertEqual(os.stat(f"{other.folder}/actions").st_mode & 0o777, 0o600)

    def test_what_cannot_start_says_why(self):
        cases = {
            CART.replace("{folder}/actions", "{folder}/no/such/folder"): "no/such: No such file or directory",
            CART.replace("horizon: 10", "horizon: 0"): "config.yaml:9:20: planner.horizon: 0 is below 1",
            CART.replace("[velocity]", "[speed]"): "the model has no state 'speed'",
            CART.replace("cart.safetensors", "none.safetensors"): "No such file",
            CART.replace("model: cart.safetensors", "model: config.yaml"): "config.yaml",
        }
        for config, expected in cases.items():
            with self.subTest(expected):
                daemon = self.daemon(config)
                daemon.start(ready=False)
                self.assertEqual(daemon.process.wait(PATIENCE), 1)
                daemon.says(expected)
                self.assertFalse(daemon.manager.seen("READY"))

    def test_sockets_in_use_are_left_alone(self):
        daemon = self.started()
        second = Daemon(folder=daemon.folder, manager=False)
        self.addCleanup(second.close)
        second.start(ready=False)
        self.assertEqual(second.process.wait(PATIENCE), 1)
        second.says("another process listens there")
        self.assertEqual(daemon.client().request(0, [0, 0]).status, Status.WARMING_UP)

    def test_sockets_handed_over(self):
        daemon = self.daemon()
        listening = []
        for name in ("actions", "control"):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            s.bind(f"{daemon.folder}/given-{name}")
            s.listen(16)
            self.addCleanup(s.close)
            listening.append((name, s.fileno()))
        daemon.listen_fds = listening
        daemon.start()
        client = daemon.client(actions=f"ipc://{daemon.folder}/given-actions",
                               control=f"ipc://{daemon.folder}/given-control")
        self.assertEqual(client.request(0, [0, 0]).status, Status.WARMING_UP)
        self.assertEqual(client.model().state[0].name, "position")
        self.assertFalse(os.path.exists(f"{daemon.folder}/actions"))
        self.assertEqual(daemon.stop(), 0)
        self.assertTrue(os.path.exists(f"{daemon.folder}/given-actions"))

    def test_real_time_that_is_not_to_be_had(self):
        wish = CART + "realtime: {{scheduling: fifo, server_cpus: [1000], required: %s}}\n"
        daemon = self.started(wish % "false")
        daemon.says("going on without")
        self.assertEqual(daemon.client().request(0, [0, 0]).status, Status.WARMING_UP)
        daemon = self.daemon(wish % "true")
        daemon.start(ready=False)
        self.assertEqual(daemon.process.wait(PATIENCE), 1)
        daemon.says("realtime.")

    def test_processors_are_kept_awake(self):
        device = "/dev/cpu_dma_latency"
        daemon = self.started(CART + "realtime: {{keep_awake: true}}\n")
        files = [os.path.realpath(entry.path) for entry in os.scandir(f"/proc/{daemon.process.pid}/fd")]
        if os.access(device, os.W_OK):
            self.assertIn(device, files)
        else:
            daemon.says(f"realtime.keep_awake: {device}: ")
            daemon.says("going on without")
        self.assertEqual(daemon.client().request(0, [0, 0]).status, Status.WARMING_UP)

    def test_command_line(self):
        daemon = self.daemon()

        def run(*args):
            return subprocess.run([HILBERTD, *args], capture_output=True, text=True, timeout=60)
        self.assertEqual(run("--check", daemon.file).stdout, f"{daemon.file}: ok\n")
        self.assertEqual(run("--check", daemon.file).returncode, 0)
        self.assertEqual([run(*a).returncode for a in ([], ["--nonsense"], ["a", "b"])], [2, 2, 2])
        self.assertRegex(run("--version").stdout, r"^hilbertd \d+\.\d+")
        self.assertIn("usage: hilbertd", run("--help").stdout)
        printed = run("--print-config", daemon.file)
        self.assertEqual(printed.returncode, 0)
        self.assertIn("horizon: 10", printed.stdout)
        with open(f"{daemon.folder}/again.yaml", "w") as file:
            file.write(printed.stdout)
        self.assertEqual(run("--print-config", f"{daemon.folder}/again.yaml").stdout, printed.stdout)
        missing = run("--check", "/nonexistent.yaml")
        self.assertEqual((missing.returncode, missing.stderr), (1, "/nonexistent.yaml: No such file or directory\n"))

    def test_levels_for_the_journal(self):
        daemon = self.started(environment={"JOURNAL_STREAM": "1:2"})
        daemon.client().request(0, [0, 0])
        for line in daemon.text().splitlines():
            self.assertRegex(line, r"^<[3-7]>")


class Reloading(TestCase):
    def reload(self, daemon, how):
        client = daemon.client()
        before = client.status().counters.reloads
        if how == "signal":
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: client.status().counters.reloads == before + 1, "reload")
            return []
        return client.reload()

    def test_what_can_change_changes(self):
        for how in ("signal", "control"):
            with self.subTest(how):
                daemon = self.started()
                client = daemon.client()
                first = client.request(0, [0, 0])
                self.assertGreater(first.action[0], 0)
                daemon.write(CART.replace("budget: 0.5", "budget: 0.25").replace("position: 1}}", "position: -1}}")
                             .replace("horizon: 10", "horizon: 12").replace("name: cart", "name: waggon"))
                needs = self.reload(daemon, how)
                status = client.status()
                self.assertEqual((status.budget_us, list(status.target)), (250000, [-1, 0]))
                self.assertLess(client.request(0, [0, 0]).action[0], 0)
                self.assertEqual(status.counters.reload_errors, 0)
                wait_until(lambda: "planner.horizon changed, which holds only after a restart" in daemon.text(), "log")
                if how == "control":
                    self.assertEqual(needs, ["name", "planner.horizon"])
                wait_until(lambda: len(daemon.manager.seen("READY", "1")) == 2, "READY again")
                self.assertEqual(len(daemon.manager.seen("RELOADING", "1")), 1)

    def test_a_bad_file_changes_nothing(self):
        daemon = self.started()
        client = daemon.client()
        bad = {
            CART.replace("budget: 0.5", "budget: -1"): "latency.budget: -1 is below",
            CART.replace("position: 1}}", "altitude: 1}}"): "the model has no state 'altitude'",
            "a: [": "not YAML",
            CART.replace("force: -0.125", "force: 9"): "outside -2..2",
        }
        for k, (config, expected) in enumerate(bad.items()):
            with self.subTest(expected):
                daemon.write(config.replace("{", "{{").replace("}", "}}") if config.startswith("a:") else config)
                with self.assertRaises(hilbert.Refused) as refused:
                    client.reload()
                self.assertIn(expected, str(refused.exception))
                self.assertIn("config.yaml:", str(refused.exception))
                daemon.says(expected)
                status = client.status()
                self.assertEqual((status.budget_us, list(status.target)), (500000, [1, 0]))
                self.assertEqual(status.counters.reload_errors, k + 1)
                self.assertEqual(client.request(0, [0, 0]).status, Status.WARMING_UP)
        os.unlink(daemon.file)
        self.reload(daemon, "signal")
        self.assertEqual(client.request(0, [0, 0]).status, Status.WARMING_UP)

    def test_a_reload_waits_for_the_plan_in_hand(self):
        daemon = self.started(ENDLESS)
        client, other = daemon.client(), daemon.client()
        for k in range(5):
            daemon.write(ENDLESS.replace("position: 1}}", f"position: {k}}}}}"))
            question = zmq.Context.instance().socket(zmq.DEALER)
            question.connect(f"ipc://{daemon.folder}/actions")
            question.send(pb.ActionRequest(id=1, state=[0, 0], budget_us=300000).SerializeToString())
            other.reload()
            self.assertEqual(client.status().target[0], k)
            self.assertEqual(question.poll(20000), zmq.POLLIN)
            question.close(0)

    def test_target(self):
        daemon = self.started(ENDLESS.replace("budget: 0.5", "budget: 0.05"))
        client = daemon.client()
        for k in range(20):  # between and during plans
            question = zmq.Context.instance().socket(zmq.DEALER)
            question.connect(f"ipc://{daemon.folder}/actions")
            question.send(pb.ActionRequest(id=1, state=[0, 0]).SerializeToString())
            client.set_target([float(k), 0.0])
            self.assertEqual(client.status().target[0], k)
            self.assertEqual(question.poll(20000), zmq.POLLIN)
            question.close(0)


    def test_thresholds_and_adaptation(self):
        """What the window says is judged anew at once."""
        spring = CART.replace("window: 4", "window: 4, span_threshold: 0.5")
        daemon = self.started(spring)
        client = daemon.client()
        connect_telemetry(client, daemon)
        cart = Cart(spring=40.0)
        cart.state = [1.0, 0.0]
        for k in range(150):  # one by one: what several at once come to depends on how many they were
            fly(client, cart, 1, lambda _, k=k: 1.0 if k // 10 % 2 else -1.0)
        self.assertEqual(client.request(cart.time_us, cart.state).status, Status.OUT_OF_SPAN)
        adapted = client.status()
        self.assertTrue(adapted.adapting)
        daemon.write(spring.replace("span_threshold: 0.5", "span_threshold: 1"))
        self.assertEqual(self.reload(daemon, "control"), [])
        self.assertEqual(client.request(cart.time_us, cart.state).status, Status.CONVERGED)

        # without adaptation the error is that of the average model, which is larger for a vehicle that can be learned
        cart.drag, cart.spring = 0.7, 0.0
        fly(client, cart, 600)
        adapted = client.status()
        daemon.write(spring + "adapt: false\n")
        self.assertEqual(self.reload(daemon, "control"), [])
        fly(client, cart, 200)
        average = client.status()
        self.assertFalse(average.adapting)
        self.assertGreater(average.health.one_step_error, 1.05 * adapted.health.one_step_error)
        self.assertEqual(client.request(cart.time_us, cart.state).health.one_step_error, average.health.one_step_error)


class Ending(TestCase):
    def test_the_request_in_hand_is_answered(self):
        daemon = self.started(ENDLESS)
        context = zmq.Context.instance()
        first, second = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
        for s in (first, second):
            self.addCleanup(s.close)
            s.connect(f"ipc://{daemon.folder}/actions")
        client = daemon.client()
        first.send(pb.ActionRequest(id=1, state=[0, 0]).SerializeToString())
        wait_until(lambda: client.status().counters.requests == 1, "arrival")
        second.send(pb.ActionRequest(id=2, state=[0, 0]).SerializeToString())
        wait_until(lambda: client.status().counters.requests == 2, "arrival")
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(first.poll(20000), zmq.POLLIN)
        reply = pb.ActionReply.FromString(first.recv())
        self.assertEqual((reply.id, reply.status, len(reply.action)), (1, pb.ACTION_STATUS_WARMING_UP, 1))
        self.assertEqual(second.poll(20000), zmq.POLLIN)
        reply = pb.ActionReply.FromString(second.recv())
        self.assertEqual((reply.id, reply.status, reply.reason), (2, pb.ACTION_STATUS_REFUSED, pb.REASON_STOPPING))
        self.assertEqual(daemon.process.wait(PATIENCE), 0)

    def test_an_end_under_load(self):
        daemon = self.started()
        context = zmq.Context.instance()
        flood = context.socket(zmq.DEALER)
        self.addCleanup(flood.close)
        flood.connect(f"ipc://{daemon.folder}/actions")
        flood.sndhwm = 10000
        message = pb.ActionRequest(id=1, state=[0, 0]).SerializeToString()
        for k in range(1500):
            flood.send(message)
            if k == 1000:
                daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.wait(PATIENCE), 0)


class Restarting(TestCase):
    def learned(self, daemon):
        client = daemon.client()
        connect_telemetry(client, daemon)
        cart = Cart(drag=0.7)
        fly(client, cart, 100)
        # the model's ridge draws coefficients towards zero by some 5e-4
        self.assertAlmostEqual(client.coefficients().value[0], -0.7, delta=1e-3)
        return cart, list(client.coefficients().value), client.status().health.samples

    def check_kept(self, daemon, cart, coefficients, samples):
        client = daemon.client()
        status = client.status()
        self.assertTrue(status.resumed)
        self.assertEqual(status.health.samples, samples)
        for a, b in zip(client.coefficients().value, coefficients):
            self.assertAlmostEqual(a, b, places=5)
        # no telemetry yet: the first action is made with what was learned, and says that it is old
        self.assertEqual(client.request(cart.time_us, cart.state).status, Status.STALE)
        connect_telemetry(client, daemon)
        fly(client, cart, 5)
        self.assertEqual(client.request(cart.time_us, cart.state).status, Status.CONVERGED)

    def test_killed_and_restarted_by_the_service_manager(self):
        daemon = self.started()
        cart, coefficients, samples = self.learned(daemon)
        self.assertIn("window", daemon.manager.store)
        for _ in range(2):
            daemon.stop(signal.SIGKILL)
            daemon.start()
            daemon.says("window taken over from service manager")
        self.check_kept(daemon, cart, coefficients, samples)

    def test_a_state_file_that_is_cut_short(self):
        daemon = self.started(CART + "state_file: window\n", manager=False)
        cart, *_ = self.learned(daemon)
        client = daemon.client()
        connect_telemetry(client, daemon)
        os.truncate(f"{daemon.folder}/window", 0)
        fly(client, cart, 60)
        self.assertEqual(client.request(cart.time_us, cart.state).reason, "none")
        self.assertGreater(client.status().health.samples, 20)
        daemon.says("state_file was cut short")

    def test_a_state_file_on_a_full_disk(self):
        disk = tempfile.mkdtemp()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", disk], capture_output=True).returncode:
            print("SKIPPED: a state file on a full disk: mounting a tmpfs is not permitted")
            return
        try:
            with open(f"{disk}/full", "wb") as file:
                file.write(b"x" * 4096)
            daemon = self.daemon(CART + f"state_file: {disk}/window\n")
            daemon.start(ready=False)
            self.assertEqual(daemon.process.wait(PATIENCE), 1)
            daemon.says(re.compile("no room for [0-9]+ bytes"))
        finally:
            subprocess.run(["umount", disk], check=True)
            os.rmdir(disk)

    def test_killed_and_restarted_with_a_state_file(self):
        daemon = self.started(CART + "state_file: window\n", manager=False)
        cart, coefficients, samples = self.learned(daemon)
        daemon.stop(signal.SIGKILL)
        daemon.start()
        self.check_kept(daemon, cart, coefficients, samples)

    def test_the_target_that_was_set_outlives_all_but_a_change_of_the_file(self):
        for how, config, manager in (("state file", CART + "state_file: window\n", False), ("service manager", CART, True)):
            with self.subTest(how):
                daemon = self.started(config, manager=manager)
                self.assertEqual(list(daemon.client().status().target), [1, 0])
                self.assertEqual(daemon.client().status().target_since, 0)
                began = time.time()
                daemon.client().set_target([7.5, 0.25])
                for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
                    daemon.stop(end)
                    daemon.start()
                    status = daemon.client().status()
                    self.assertEqual(list(status.target), [7.5, 0.25])
                    self.assertTrue(began - 1 <= status.target_since <= time.time())
                    self.assertEqual(status.target_by, "a client without a key")
                    daemon.says("target taken over from before the restart: position 7.5, velocity 0.25")
                    # the first plan goes there: away from where the file would have it
                    self.assertGreater(daemon.client().request(0, [4.0, 0.0]).action[0], 0.1)
                # a reload for something else does not move the vehicle
                daemon.write(config.replace("iterations: 20", "iterations: 21"))
                daemon.client().reload()
                self.assertEqual(list(daemon.client().status().target), [7.5, 0.25])
                # another target in the file does, and is not forgotten for the one before it
                daemon.write(config.replace("target: {{position: 1}}", "target: {{position: -2}}"))
                daemon.client().reload()
                self.assertEqual(list(daemon.client().status().target), [-2, 0])
                self.assertEqual(daemon.client().status().target_since, 0)
                daemon.stop(signal.SIGKILL)
                daemon.start()
                self.assertEqual(list(daemon.client().status().target), [-2, 0])
                # nor is one that the file got while nobody ran
                daemon.client().set_target([3, 0])
                daemon.stop(signal.SIGKILL)
                daemon.write(config.replace("target: {{position: 1}}", "target: {{position: -4}}"))
                daemon.start()
                self.assertEqual(list(daemon.client().status().target), [-4, 0])

    def test_killed_while_samples_pour_in(self):
        daemon = self.started(CART + "state_file: window\n", manager=False)
        kept = 0
        for k in range(8):
            client = daemon.client()
            connect_telemetry(client, daemon)
            cart = Cart()
            for _ in range(300 + 37 * k):
                client.publish(cart.time_us, cart.state, [1.0])
                cart.step(1.0)
            daemon.stop(signal.SIGKILL)
            client.close()
            daemon.clients.remove(client)
            daemon.start()
            kept += daemon.client().status().resumed
        # a window is taken over whole or not at all; it may be lost now and then, never more than that
        self.assertGreaterEqual(kept, 4, daemon.text())

    def test_a_window_of_another_size_is_refused(self):
        daemon = self.started()
        self.learned(daemon)
        daemon.stop(signal.SIGKILL)
        daemon.write(CART.replace("window: 4", "window: 2"))
        daemon.start()
        daemon.says("has another size: it is given up")
        status = daemon.client().status()
        self.assertFalse(status.resumed)
        self.assertEqual(status.health.samples, 0)
        self.assertTrue(daemon.manager.seen("FDSTOREREMOVE", "1"))
        self.assertIn("window", daemon.manager.store)  # the new one

    def damage(self, daemon, places):
        with open(f"{daemon.folder}/window", "r+b") as file:
            for at in places:
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 0x55]))

    def test_a_window_with_a_damaged_header_is_refused(self):
        daemon = self.started(CART + "state_file: window\n", manager=False)
        self.learned(daemon)
        daemon.stop(signal.SIGKILL)
        self.damage(daemon, range(8, 64))  # all but the mark by which it is known as ours
        daemon.start()
        daemon.says("not taken over")
        self.assertFalse(daemon.client().status().resumed)
        self.assertEqual(daemon.client().request(0, [0, 0]).status, Status.WARMING_UP)

    def test_damaged_samples_are_left_out(self):
        daemon = self.started(CART + "state_file: window\n", manager=False)
        cart, _, samples = self.learned(daemon)
        daemon.stop(signal.SIGKILL)
        size = os.path.getsize(f"{daemon.folder}/window")
        self.damage(daemon, range(size // 3, size, 97))
        daemon.start()
        self.assertLess(daemon.client().status().health.samples, samples)
        connect_telemetry(client := daemon.client(), daemon)
        cart = Cart(drag=0.2)
        fly(client, cart, 1000)  # five windows: what was learned of the former vehicle has faded
        self.assertAlmostEqual(client.coefficients().value[0], -0.2, places=2)


class Liveness(TestCase):
    def test_the_watchdog_is_fed_by_work_alone(self):
        daemon = self.started(environment={"WATCHDOG_USEC": "400000"})
        wait_until(lambda: len(daemon.manager.seen("WATCHDOG")) >= 3, "feeding")
        for name in ("planner", "server"):
            with stopped_thread(daemon.thread(name)):
                # three times as long as the manager would wait; what was on its way may still come
                since = time.monotonic()
                wait_until(lambda: time.monotonic() - max(daemon.manager.seen("WATCHDOG") + [since]) > 1.2,
                           f"silence while {name} stands still")
            since = time.monotonic()
            wait_until(lambda: daemon.manager.seen("WATCHDOG", since=since), f"feeding after {name}")

    def test_a_service_manager_that_does_not_listen(self):
        daemon = self.started(environment={"WATCHDOG_USEC": "40000"})
        client = daemon.client()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as another:
            another.setblocking(False)
            began = client.status().uptime
            while client.status().uptime < began + 0.4:  # ten feedings that nobody takes
                with contextlib.suppress(BlockingIOError):
                    while True:
                        another.sendto(b"X=1", daemon.manager.path)
        self.assertEqual(client.request(0, [0, 0]).status, Status.WARMING_UP)
        client.reload()
        self.assertEqual(daemon.stop(), 0)

    def test_a_log_that_nobody_reads(self):
        daemon = self.daemon()
        read_end, write_end = os.pipe()
        daemon.log.close()
        daemon.log = os.fdopen(write_end, "wb", 0)
        os.set_blocking(write_end, False)
        try:
            while True:
                os.write(write_end, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(write_end, True)
        daemon.start()
        client = daemon.client()
        for k in range(20):
            client.request(0, [0, 0])
            client.reset_window()  # each is worth a line
        self.assertEqual(client.request(0, [0, 0]).status, Status.WARMING_UP)
        self.assertEqual(daemon.stop(), 0)
        os.close(read_end)

    @unsanitized
    def test_nothing_is_allocated_after_ready(self):
        daemon = self.started(environment={"HILBERT_PRELOAD": TRAP})
        client = daemon.client()
        connect_telemetry(client, daemon)
        reader = zmq.Context.instance().socket(zmq.SUB)
        reader.connect(f"ipc://{daemon.folder}/status")
        reader.setsockopt(zmq.SUBSCRIBE, b"hilbert")
        cart = Cart()
        for k in range(300):
            reply = client.request(cart.time_us, cart.state, want_plan=k % 2 == 0, target=[0.5, 0], applied=[0.0])
            client.publish(cart.time_us, cart.state, reply.action)
            cart.step(reply.action[0])
        client.request(0, [0, 0], budget=1e-6)
        client.model()
        client.set_target([2, 0])
        with self.assertRaisesRegex(hilbert.Error, "nothing was taken"):
            client.set_coefficients(client.coefficients())
        client.predict([[0, 0]] * 3, [[[1.0]] * 50] * 3)
        client.reset_window()
        client.request(0, [float("nan"), 0])
        client.reload()
        client.request(0, [0, 0])
        self.assertEqual(reader.poll(20000), zmq.POLLIN)
        reader.close(0)
        began = client.status().uptime
        wait_until(lambda: client.status().uptime > began + 1.2, "what happens once a second")
        self.assertIsNone(daemon.process.poll(), daemon.text())
        self.assertEqual(daemon.stop(), 0)
        self.assertNotIn("trap_malloc", daemon.text())

    @unsanitized
    def test_the_trap_for_allocations_catches(self):
        daemon = self.daemon(environment={"HILBERT_PRELOAD": TRAP, "HILBERT_TRAP_ALWAYS": "1"})
        daemon.start(ready=False)
        self.assertEqual(daemon.process.wait(PATIENCE), -signal.SIGABRT)
        daemon.says("hilbertd's own code called")
        daemon.process = None


class Publishing(TestCase):
    def test_frames_are_what_plotjuggler_reads(self):
        daemon = self.started()
        client = daemon.client()
        client.request(0, [0, 0])
        reader = zmq.Context.instance().socket(zmq.SUB)
        self.addCleanup(reader.close, 0)
        reader.rcvtimeo = 20000
        reader.connect(f"ipc://{daemon.folder}/status")
        reader.setsockopt(zmq.SUBSCRIBE, b"hilbert.status")
        topic, text, seconds = reader.recv_multipart()
        self.assertEqual(topic, b"hilbert.status")
        state = json.loads(text)
        self.assertEqual((state["name"], state["last_status"], state["target"]), ("cart", "warming-up", [1, 0]))
        self.assertEqual(state["replies"]["warming_up"], 1)
        self.assertTrue(re.fullmatch(rb"\d+\.\d{6}", seconds))
        self.assertLess(abs(float(seconds) - time.time()), 60)
        reader.setsockopt(zmq.UNSUBSCRIBE, b"hilbert.status")
        reader.setsockopt(zmq.SUBSCRIBE, b"hilbert.v1.Status")
        while (frames := reader.recv_multipart())[0] != b"hilbert.v1.Status":
            pass
        self.assertEqual(pb.Status.FromString(frames[1]).name, "cart")
        self.assertEqual(next(client.watch()).name, "cart")

    @unsanitized
    def test_a_slow_reader_costs_nothing(self):
        daemon = self.started(CART + "status: {{period: 0.001}}\n")
        client = daemon.client()
        reader = zmq.Context.instance().socket(zmq.SUB)
        reader.rcvhwm = 1
        reader.connect(f"ipc://{daemon.folder}/status")
        reader.setsockopt(zmq.SUBSCRIBE, b"")
        self.assertEqual(reader.poll(20000), zmq.POLLIN)

        def memory():
            with open(f"/proc/{daemon.process.pid}/statm") as file:
                return int(file.read().split()[1]) * 4096
        before = memory()
        end = time.monotonic() + 3
        while time.monotonic() < end:
            self.assertEqual(client.request(0, [0, 0]).status, Status.WARMING_UP)
        self.assertLess(memory() - before, 5_000_000)
        reader.close(0)


if __name__ == "__main__":
    main()
