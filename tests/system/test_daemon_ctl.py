"""hilbertctl and the examples against a running daemon."""
import fcntl
import itertools
import json
import math
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading

import zmq

from harness import BUILD, CART, HILBERTCTL, HILBERTD, PATIENCE, Cart, TestCase, connect_telemetry, fly, hilbert, main, shipped, wait_until
from hilbert import hilbert_pb2 as pb

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Documents(TestCase):
    """The manuals and completions say what the programs do."""

    def commands(self):
        text = subprocess.run([HILBERTCTL, "--help"], capture_output=True, text=True, timeout=30).stdout
        return re.findall(r"^  ([a-z]+) ", text[text.index("commands"):text.index("-h, --help")], re.M)

    def test_the_manual_has_every_key(self):
        keys = subprocess.run([HILBERTD, "--print-keys"], capture_output=True, text=True, timeout=30,
                              env={**os.environ, "RUNTIME_DIRECTORY": "/run/other", "LOGS_DIRECTORY": "/var/other"}).stdout
        with open(f"{SOURCE}/packaging/man/hilbertd.yaml.5.scd") as file:
            manual = file.read()
        self.assertGreater(len(keys), 1000)
        self.assertTrue(keys in manual, "hilbertd.yaml(5) is not what the table says: sh packaging/refresh.sh BUILD_FOLDER")

    def test_the_manual_has_every_command_and_option(self):
        with open(f"{SOURCE}/packaging/man/hilbertctl.1.scd") as file:
            manual = file.read()
        self.assertGreater(len(self.commands()), 10)
        for command in self.commands():
            self.assertRegex(manual, rf"(?m)^\*{command}\*")
            text = subprocess.run([HILBERTCTL, command, "--help"], capture_output=True, text=True, timeout=30).stdout
            for option in re.findall(r"^  -(\w), --", text, re.M):
                self.assertRegex(manual, rf"\*-{option}\*|\*--json\*" if option == "j" else rf"\*-{option}\*")


class Ctl(TestCase):
    def setUp(self):
        self.d = self.started()
        self.client = self.d.client()

    def run_ctl(self, *args, code=0, environment=None):
        done = subprocess.run([HILBERTCTL, *args], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "HILBERT_SOCKET": self.d.folder, **(environment or {})})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else done.stdout

    def learn(self):
        connect_telemetry(self.client, self.d)
        cart = Cart(drag=0.4)
        fly(self.client, cart, 150)
        return cart

    def test_status(self):
        cart = self.learn()
        self.client.request(cart.time_us, cart.state)
        text = self.run_ctl("status")
        for expected in ("cart ", "hilbertd 0.", "cart.safetensors (2 states, 1 controls, 3 functions)", "converged",
                         "replies      converged 1", "ok: ", "position ", "force "):
            self.assertIn(expected, text)
        self.assertLessEqual(len(text.splitlines()), 24)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        state = json.loads(self.run_ctl("status", "--json"))
        self.assertEqual(state["health"]["status"], "ok")
        self.assertAlmostEqual(state["coefficient"][0], -0.4, places=3)

    def test_top_without_a_terminal(self):
        lines = self.run_ctl("top", "-c", "3", "-i", "0.05").splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn("warming-up", lines[0])

    def top(self, folder, columns, rows, enough):
        """The screens that top draws on a terminal of that size, as lines, until `enough` says so."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        process = subprocess.Popen([HILBERTCTL, "top", "-i", "0.1", "-s", folder], stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        seen = b""

        def screens():
            plain = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", s) for s in seen.decode(errors="ignore").split("\x1b[H")[1:-1]]
            return [[line.rstrip("\r") for line in s.split("\n")] for s in plain]

        def drawn():
            nonlocal seen
            if select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 65536)
            return enough(screens())
        wait_until(drawn, "drawing", 3 * PATIENCE)
        os.write(master, b"q")

        # its last words must be read, or it waits for room to say them
        def ended():
            if select.select([master], [], [], 0.05)[0]:
                try:
                    os.read(master, 65536)
                except OSError:
                    pass
            return process.poll() is not None
        wait_until(ended, "the end")
        self.assertEqual(process.returncode, 0)
        os.close(master)
        return screens()

    def test_top_on_a_terminal(self):
        self.learn()
        self.client.request(0, [0, 0])
        for columns, rows in ((80, 24), (40, 24), (20, 24), (120, 50), (80, 6)):
            with self.subTest(columns=columns, rows=rows):
                lines = self.top(self.d.folder, columns, rows, lambda screens: len(screens) >= 3)[-1]
                self.assertLessEqual(max(map(len, lines)), columns)
                self.assertLessEqual(len(lines), rows)
                if rows < 10:
                    self.assertIn("(more: make the window higher)", lines[-1])
                elif columns >= 40:
                    text = "\n".join(lines)
                    for field in pb.ReplyCounts.DESCRIPTOR.fields:
                        self.assertIn(field.name.replace("_", "-") + " ", text)
                    self.assertIn("latency p99", text)

    def test_top_has_the_vehicle_in_80x24(self):
        daemon = self.started(shipped("quadrotor"), model=None)
        client = daemon.client()
        hover = [0.125, 0, 0.25, 0, 0.75, 0, 0, 0, 0, 1, 0, 0, 0]
        reply = client.request(1000, hover, applied=[0.066] * 4)
        lines = self.top(daemon.folder, 80, 24, lambda screens: len(screens) >= 3)[-1]
        text = "\n".join(lines)
        self.assertNotIn("make the window higher", text)
        self.assertIn(f"f0 {reply.action[0]:.3g}", text)
        self.assertRegex(text, r"z 1\b" if not client.status().state else r"z 0\.75>1\b")
        self.assertIn("more coefficients", text)
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_top_says_what_it_leaves_out(self):
        daemon = self.started(shipped("quadrotor"), model=None)
        client, hover, times = daemon.client(), [0] * 9 + [1] + [0] * 3, itertools.count(1000, 40000)
        wait_until(lambda: client.publish(next(times), hover, [0.066] * 4) or list(client.status().state) == hover, "intake")
        lines = self.top(daemon.folder, 100, 40, lambda screens: len(screens) >= 2)[-1]
        self.assertIn(f"  {len(daemon.client().coefficients().value) - 8} more coefficients: hilbertctl status", lines)
        text = " ".join(lines)
        self.assertIn(" z 0>1 ", text)
        self.assertIn(" qw 1 ", text)  # no attitude is asked for

    def test_top_survives_a_restart(self):
        daemon = self.started(CART)
        state = {"step": 0}

        def enough(screens):
            text = ["\n".join(s) for s in screens]
            if state["step"] == 0 and len(text) >= 2:
                daemon.stop()
                state["step"] = 1
            elif state["step"] == 1 and "waiting for the daemon to come back" in text[-1]:
                daemon.start()
                state["step"], state["drawn"] = 2, len(text)
            elif state["step"] == 2 and len(text) > state["drawn"] and "waiting" not in text[-1]:
                state["step"] = 3
            return state["step"] == 3
        self.top(daemon.folder, 80, 24, enough)

    def test_watch(self):
        lines = self.run_ctl("watch", "-c", "3").splitlines()
        self.assertEqual([json.loads(line)["name"] for line in lines], ["cart"] * 3)

    def test_metrics(self):
        daemon = self.started(CART.replace("name: cart", """name: 'back\\slash "quoted" cart'"""))
        client = daemon.client()
        connect_telemetry(client, daemon)
        fly(client, Cart(drag=0.4), 60)
        for k in range(20):
            client.request(k, [0, 0])
        client.request(0, [0, float("nan")])
        done = subprocess.run([HILBERTCTL, "metrics", "-s", daemon.folder], capture_output=True, text=True, timeout=60)
        label = r'[a-z]+="(?:[^"\\]|\\[\\"n])*"'
        values, kinds = {}, {}
        for line in done.stdout.splitlines():
            if line.startswith("# "):
                self.assertRegex(line, r"^# (HELP hilbert_\w+ .+|TYPE hilbert_\w+ (gauge|counter|histogram))$")
                kinds.update([line.split()[2:]] if " TYPE " in line else [])
            else:
                name, labels, value = re.fullmatch(rf"(hilbert_\w+)\{{((?:{label},?)+)\}} (\S+)", line).groups()
                self.assertTrue(labels.startswith(r'name="back\\slash \"quoted\" cart"'), line)  # on every series
                self.assertIn(re.sub("_(bucket|sum|count)$", "", name), kinds)
                key = name, labels.partition('cart"')[2].strip(",")
                self.assertNotIn(key, values)
                values[key] = float(value)
        self.assertEqual(values["hilbert_replies_total", 'status="refused"'], 1)
        self.assertEqual(values["hilbert_unplanned_total", 'reason="not_finite"'], 1)
        self.assertGreater(values["hilbert_events_total", 'event="telemetry"'], 59)
        self.assertAlmostEqual(values["hilbert_coefficient", 'index="0"'], -0.4, places=3)
        # histograms: bounds and counts rise, and the last is all
        self.assertEqual(sorted(k for k, v in kinds.items() if v == "histogram"),
                         ["hilbert_action_seconds", "hilbert_planning_seconds", "hilbert_preparing_seconds", "hilbert_queue_seconds"])
        buckets = [(float(key[1][4:-1]), v) for key, v in values.items() if key[0] == "hilbert_action_seconds_bucket"]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual([n for _, n in buckets], sorted(n for _, n in buckets))
        self.assertEqual((len(buckets), buckets[-1]), (17, (float("inf"), 20)))
        self.assertEqual(values["hilbert_action_seconds_count", ""], 20)
        self.assertGreater(values["hilbert_action_seconds_sum", ""], 0)

    def test_reset(self):
        self.learn()
        self.run_ctl("reset")
        self.assertEqual(self.client.status().health.samples, 0)
        self.assertEqual(list(self.client.coefficients().value), [0, 0, 0])

    def test_a_flood_of_changes_does_not_fill_the_log(self):
        for k in range(100):
            self.client.reset_window()
            self.client.set_target([1, 0.001 * k])
        for text in ("the window was reset on request", "the target was set on request"):
            lines = [line for line in self.d.text().splitlines() if text in line]
            self.assertTrue(0 < len(lines) < 50, f"{len(lines)} lines of 100 requests")

    def test_target(self):
        self.assertEqual(self.run_ctl("target", "velocity=0.5"), "target position 1, velocity 0.5\n")
        self.assertEqual(list(self.client.status().target), [1, 0.5])
        self.assertEqual(self.run_ctl("target", "3,-1"), "target position 3, velocity -1\n")
        self.assertEqual(list(self.client.status().target), [3, -1])
        wait_until(lambda: re.search(r"the target was set on request by \S.*: position 1, velocity 0\.5", self.d.text()), "a log line")
        self.assertIn("there is no 'height' among position velocity", self.run_ctl("target", "height=1", code=2))
        self.assertIn("expected 2", self.run_ctl("target", "1", code=2))
        self.assertIn("'x' is not a number", self.run_ctl("target", "position=x", code=2))
        self.assertIn("no target given", self.run_ctl("target", code=2))

    def test_predict(self):
        self.learn()
        lines = self.run_ctl("predict", "-x", "0,1", "-u", "0", "-N", "50").splitlines()
        self.assertEqual(lines[0], "time,position,velocity")
        self.assertEqual(len(lines), 52)
        time_s, position, velocity = map(float, lines[-1].split(","))
        # exponential decay with the learned drag
        self.assertAlmostEqual(time_s, 1.0, places=6)
        self.assertAlmostEqual(velocity, 2.718281828 ** -0.4, places=3)
        self.assertIn("'0' is not a number from 1", self.run_ctl("predict", "-N", "0", code=2))
        self.assertIn("would not fit", self.run_ctl("predict", "-N", "17000", code=1))
        self.assertIn("sockets.max_message", self.run_ctl("predict", "-N", "1000000", "-t", "0.5", code=1))

    def test_predictions_give_way_to_actions(self):
        """Several trajectories with their own controls, against the closed form, while requests are answered."""
        self.client.set_coefficients(type(self.client.coefficients())(
            model_hash=self.client.coefficients().model_hash, value=[-0.5, 0, 0]))
        other = self.d.client()
        trajectories = self.client.predict([[0, 1], [2, 0]], [[[0.0]] * 200, [[1.0]] * 200], dt=0.01)
        self.assertEqual([len(t) for t in trajectories], [201, 201])
        self.assertAlmostEqual(trajectories[0][-1][1], 2.718281828 ** -1.0, places=4)
        self.assertAlmostEqual(trajectories[1][-1][1], 2 * (1 - 2.718281828 ** -1.0), places=4)
        self.assertEqual(other.request(0, [0, 0]).status, hilbert.Status.WARMING_UP)

    def test_request(self):
        text = self.run_ctl("request", "-x", "position=0.5", "--plan")
        self.assertIn("warming-up", text)
        self.assertRegex(text, r"force -?[\d.e-]+ N")
        self.assertIn("predicted", text)
        self.assertIn("not a number", self.run_ctl("request", "-b", "soon", code=2))
        text = self.run_ctl("request", "-b", "0.000001")
        self.assertIn("fallback: the request had waited longer than its budget", text)

    def test_reload(self):
        self.assertIn("in force", self.run_ctl("reload"))
        self.d.write(CART.replace("samples: 16", "samples: 17"))
        self.assertIn("planner.samples changed, which holds only after a restart", self.run_ctl("reload"))
        self.d.write(CART.replace("samples: 16", "samples: many"))
        self.assertIn("planner.samples: 'many' is not a whole number", self.run_ctl("reload", code=1))

    def test_coefficients(self):
        self.learn()
        path = f"{self.d.folder}/c.json"
        self.run_ctl("coefficients", "save", path)
        believed = self.client.coefficients()
        learned, n = list(believed.value), len(believed.value)
        self.assertEqual(len(believed.covariance), n * (n + 1) // 2)
        for i in range(n):
            self.assertEqual(believed.covariance[i * (i + 3) // 2], believed.variance[i])
        shown = self.run_ctl("coefficients", "show").splitlines()
        self.assertEqual(len(shown), n)
        self.assertEqual(shown[0].split(), ["c0", f"{learned[0]:.6g}", "+-", f"{math.sqrt(believed.variance[0]):.3g}"])
        self.assertEqual(json.loads(self.run_ctl("coefficients", "show", "--json"))["covariance"],
                         list(believed.covariance))
        self.assertIn("is expected", self.run_ctl("coefficients", "show", "me", code=2))
        self.run_ctl("reset")
        self.run_ctl("coefficients", "load", path)
        self.assertEqual(list(self.client.coefficients().value), learned)
        wait_until(lambda: "coefficients were loaded on request" in self.d.text(), "a log line")
        self.learn()
        self.assertIn("nothing was taken: ", self.run_ctl("coefficients", "load", path, code=1))
        with open(path) as file:
            kept = json.load(file)
        kept["model_hash"] = "0" * 16
        with open(path, "w") as file:
            json.dump(kept, file)
        self.assertIn("belong to model", self.run_ctl("coefficients", "load", path, code=1))
        with open(path, "w") as file:
            file.write("{")
        self.assertIn("c.json:1:", self.run_ctl("coefficients", "load", path, code=1))
        self.assertIn("No such file", self.run_ctl("coefficients", "load", "/nonexistent", code=1))

    def test_usage(self):
        for command in ("status", "top", "watch", "metrics", "reset", "target", "reload", "request", "predict",
                        "coefficients", "keygen", "model"):
            with self.subTest(command):
                self.assertIn(f"usage: hilbertctl {command}", self.run_ctl(command, "--help"))
                self.assertIn(command, self.run_ctl("--help"))
                self.assertIn("--help", self.run_ctl(command, "--nonsense", code=2))
        self.assertEqual(self.run_ctl("nonsense", code=2)[:12], "hilbertctl: ")
        gone = self.run_ctl("status", "-t", "0.2", code=1, environment={"HILBERT_SOCKET": "/nonexistent"})
        self.assertIn("is hilbertd running?", gone)

    def test_examples_close_the_loop(self):
        cart = self.started(shipped("cart").replace("budget: 0.01", "budget: 0.04"), model=None)
        for program in ([f"{BUILD}/clients/c/hilbert-example", f"ipc://{cart.folder}/telemetry",
                         f"ipc://{cart.folder}/actions"],
                        [sys.executable, f"{SOURCE}/clients/python/examples/cart.py", cart.folder]):
            done = subprocess.run(program, capture_output=True, text=True, timeout=60,
                                  env=dict(os.environ, PYTHONPATH=f"{BUILD}/clients/python"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("the cart is at", done.stdout)
        self.assertGreater(cart.client().status().health.samples, 50)
        # with another vehicle's daemon they say what is wrong
        other = self.started(shipped("quadrotor"), model=None)
        reply = other.client().request(0, [0, 0])
        self.assertEqual((reply.status, reply.detail), (hilbert.Status.REFUSED, "states: 13 expected, 2 given"))

    def test_the_python_client_comes_back_with_the_daemon(self):
        client = self.d.client(timeout=0.3)
        client.request(0, [0, 0])
        self.d.stop()
        self.assertRaises(hilbert.Error, client.request, 0, [0, 0])
        self.d.start()
        wait_until(lambda: self.succeeds(client), "reconnection")

    def succeeds(self, client):
        try:
            return client.request(0, [0, 0]).status == hilbert.Status.WARMING_UP
        except hilbert.Error:
            return False


class Strange(TestCase):
    """A daemon of another version, or one that means harm: it is shown, and commands no terminal."""

    def answers(self, *replies):
        """What stands in for hilbertd answers so, each question the next."""
        folder = tempfile.mkdtemp(prefix="hilbert-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        socket = zmq.Context.instance().socket(zmq.ROUTER)
        socket.bind(f"ipc://{folder}/control")

        def serve():
            for reply in replies:
                if not socket.poll(20000):
                    break
                *envelope, question = socket.recv_multipart()
                reply.id = pb.ControlRequest.FromString(question).id
                socket.send_multipart([*envelope, reply.SerializeToString()])
            socket.close(500)
        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        return folder

    def run_ctl(self, folder, *args):
        return subprocess.run([HILBERTCTL, *args, "-s", folder], capture_output=True, text=True, timeout=30)

    def test_a_status_without_its_messages(self):
        bare = pb.ControlReply(ok=True, status=pb.Status(name="bare", target=[1], target_since=1e9, target_by="x\x1b[2Jy"))
        model = pb.ControlReply(ok=True, model=pb.ModelInfo())
        shadowed = pb.ControlReply(ok=True, status=pb.Status(name="bare", shadow=pb.Shadow(), recorder=pb.Recorder()))
        for status in (bare, shadowed):
            for command in ("status", "metrics"):
                done = self.run_ctl(self.answers(*([status, model] if command == "status" else [status])), command)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("\x1b", done.stdout)
        done = self.run_ctl(self.answers(bare, model), "status", "--json")
        self.assertIn("bare", done.stdout)

    def test_no_text_of_a_daemon_commands_a_terminal(self):
        done = self.run_ctl(self.answers(pb.ControlReply(ok=False, error="no\x1b]0;owned\x07 \x9b31m\x7f more")), "reset")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no?]0;owned?", done.stderr)
        for bad in ("\x1b", "\x07", "\x9b", "\x7f"):
            self.assertNotIn(bad, done.stderr)

    def test_options_before_the_command(self):
        status = pb.ControlReply(ok=True, status=pb.Status(name="bare"))
        folder = self.answers(status)
        done = subprocess.run([HILBERTCTL, "-t", "5", "--socket", folder, "metrics"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = self.answers(status)
        done = subprocess.run([HILBERTCTL, f"--socket={folder}", "status", "--json"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)  # it asks for the model, too
        self.assertIn("no answer", done.stderr)
        done = subprocess.run([HILBERTCTL, "-n", "nobody"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    main()
