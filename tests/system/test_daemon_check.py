"""hilbertd --check says ok if and only if hilbertd starts: with files that are wrong in every known way, and with drawn
ones."""
import os
import random
import re
import subprocess

from harness import CART, HILBERTCTL, HILBERTD, PATIENCE, TestCase, main

# text that takes the place of a section of CART or is added to it, and what --check must say
WRONG = {
    "planner: {{clip: 0}}": r"planner\.clip: 0 is not above 0",
    "estimator: {{change_interval: 0}}": r"estimator\.change_interval: 0 is not above 0",
    "estimator: {{span_threshold: 0}}": r"estimator\.span_threshold: 0 is not above 0",
    "estimator: {{window: 1, warmup: 2}}": r"estimator\.warmup: 2 s is above estimator\.window \(1 s\)",
    "latency: {{delay: 9}}": r"latency\.delay: 9 is more than 100 of the model's periods",
    "latency: {{stale_after: 2, fallback_after: 1}}": r"latency\.fallback_after: 1 is below latency\.stale_after \(2\)",
    "planner: {{horizon: 1000, directions: [[0]]}}": r"planner\.directions: direction 0 has no finite element",
    "planner: {{horizon: 1000, samples: 100000, method: mppi}}": r"planner\.samples: 100000 samples of 1000 steps take",
    "planner: {{horizon: 10, directions: [[1], [2]]}}": r"planner\.directions: 2 directions for 1 controls",
    "state_file: nowhere/window": r"state_file: {folder}/nowhere: No such file or directory",
    "state_file: folder": r"state_file: {folder}/folder is a folder",
    "state_file: folder/": r"state_file: {folder}/folder/ is a folder",
    "state_file: foreign": r"state_file: {folder}/foreign is not one of hilbertd's",
    "state_file: cart.safetensors": r"state_file: {folder}/cart.safetensors is not one of hilbertd's",
    "state_file: foreign/window": r"state_file: {folder}/foreign/window: Not a directory",
    "state_file: fifo": r"state_file: {folder}/fifo is not a regular file",
    "model: folder": r"model: {folder}/folder is not a regular file",
    "model: fifo": r"model: {folder}/fifo is not a regular file",
    "model: foreign": r"model: {folder}/foreign: ",
    "security: {{server_key: open.key, client_keys: [client.pub]}}": r"security\.server_key: .*open\.key: .*chmod 600",
    "security: {{server_key: fifo, client_keys: [client.pub]}}": r"security\.server_key: .*fifo: not a regular file",
    "security: {{server_key: foreign, client_keys: [client.pub]}}": r"security\.server_key: .*foreign: not a key",
    "security: {{server_key: server.key, client_keys: [client.pub, none.pub]}}": r"security\.client_keys: .*none\.pub: No such",
    "security: {{server_key: server.key}}": r"security\.client_keys: no client could connect",
    "security: {{server_key: server.key, authorized_keys: none}}": r"security\.authorized_keys: .*none: No such",
    "security: {{server_key: server.key, authorized_keys: fifo}}": r"security\.authorized_keys: .*fifo: not a regular file",
    "security: {{server_key: server.key, authorized_keys: foreign}}":
        r"security\.authorized_keys: .*foreign:1: expected a name, a public key and rights",
    "security: {{authorized_keys: foreign}}": r"security\.authorized_keys: without security\.server_key nobody",
}
SOCKETS = {
    "actions: 'tcp://*:notaport'": r"sockets\.actions: tcp://\*:notaport: expected tcp://ADDRESS:PORT",
    "actions: 'tcp://*:65536'": r"sockets\.actions: tcp://\*:65536: expected tcp://ADDRESS:PORT",
    "actions: 'tcp://*'": r"sockets\.actions: tcp://\*: expected tcp://ADDRESS:PORT",
    "actions: 'tcp://:7000'": r"sockets\.actions: tcp://:7000: ",
    "actions: 'tcp://no.such.interface:7000'": r"sockets\.actions: tcp://no\.such\.interface:7000: ",
    "actions: 'tcp://192.0.2.1:7000'": r"sockets\.actions: tcp://192\.0\.2\.1:7000: ",
    "telemetry_connect: 'tcp://somewhere'": r"sockets\.telemetry_connect: tcp://somewhere: expected tcp://HOST:PORT",
    "telemetry_connect: 'tcp://*:7000'": r"sockets\.telemetry_connect: tcp://\*:7000: ",
    "actions: 'ipc://{folder}/none/actions'": r"sockets\.actions: ipc://{folder}/none/actions: {folder}/none: No such",
    "actions: 'ipc://{folder}/foreign/actions'": r"sockets\.actions: .*{folder}/foreign is not a folder",
    "actions: 'ipc://{folder}/foreign'": r"sockets\.actions: ipc://{folder}/foreign: there is something else",
    "actions: 'ipc://{folder}/'": r"sockets\.actions: ipc://{folder}/: expected ipc:// and the path",
    "actions: 'ipc://*'": r"sockets\.actions: ipc://\*: expected ipc:// and the path",
    "actions: 'ipc://{folder}/a'\n  status: 'ipc://{folder}/a'": r"sockets\.status: .*: sockets\.actions has ipc://{folder}/a",
    "actions: 'ipc://{folder}/a'\n  status: 'ipc://{folder}/./a'": r"sockets\.status: .*: sockets\.actions has",
    "actions: ['ipc://{folder}/a', 'ipc://{folder}/a']": r"sockets\.actions: .*: sockets\.actions has",
    "actions: 'tcp://127.0.0.1:7001'\n  status: 'tcp://*:7001'": r"sockets\.status: .*: sockets\.actions has tcp://127",
}


def replaced(text):
    """CART with the section that `text` is about exchanged for it."""
    name = text.split(":")[0]
    rest = re.sub(rf"(?m)^{name}:.*\n(?:[ -].*\n)*", "", CART)
    return rest + text + "\n"


class Check(TestCase):
    def prepared(self, config):
        daemon = self.daemon(config)
        folder = daemon.folder
        os.mkdir(f"{folder}/folder")
        os.mkfifo(f"{folder}/fifo", 0o600)
        with open(f"{folder}/foreign", "w") as file:
            file.write("a letter to my aunt\n" * 100)
        os.chmod(f"{folder}/foreign", 0o600)
        for name in ("server", "client", "open"):
            subprocess.run([HILBERTCTL, "keygen", f"{folder}/{name}"], check=True, capture_output=True)
        os.chmod(f"{folder}/open.key", 0o644)
        return daemon

    def check(self, daemon):
        return subprocess.run([HILBERTD, "--check", daemon.file], capture_output=True, text=True, timeout=3 * PATIENCE)

    def starts(self, daemon):
        """Whether the daemon gets ready."""
        daemon.start(ready=False)
        while daemon.process.poll() is None:
            daemon.manager.listen(0.01)
            if daemon.manager.seen("READY", "1"):
                self.assertEqual(daemon.stop(), 0)
                return True
        self.assertEqual(daemon.process.returncode, 1, daemon.text())
        return False

    def refused(self, config, expected):
        daemon = self.prepared(config)
        checked = self.check(daemon)
        expected = expected.replace("{folder}", re.escape(daemon.folder))
        self.assertEqual((checked.returncode, checked.stdout), (1, ""), config)
        self.assertRegex(checked.stderr, rf"(?m)^{re.escape(daemon.file)}(:\d+:\d+)?: {expected}")
        self.assertFalse(self.starts(daemon))
        daemon.says(re.compile(expected))
        with open(f"{daemon.folder}/foreign") as file:
            self.assertEqual(file.read(), "a letter to my aunt\n" * 100)

    def test_known_faults(self):
        for text, expected in WRONG.items():
            with self.subTest(text):
                self.refused(replaced(text), expected)

    def test_faults_of_sockets(self):
        for text, expected in SOCKETS.items():
            with self.subTest(text):
                sockets = f"sockets:\n  telemetry: []\n  control: []\n  {text}\n"
                if "status:" not in text:
                    sockets += "  status: []\n"
                if "actions:" not in text:
                    sockets += "  actions: ipc://{folder}/actions\n"
                start, end = CART.index("sockets:"), CART.index("planner:")
                self.refused(CART[:start] + sockets + CART[end:] + "security: {{insecure: true}}\n", expected)

    def test_a_folder_that_is_missing_by_default(self):
        start, end = CART.index("sockets:"), CART.index("planner:")
        daemon = self.daemon(CART[:start] + CART[end:], environment={"RUNTIME_DIRECTORY": "/nonexistent/folder"})
        checked = subprocess.run([HILBERTD, "--check", daemon.file], capture_output=True, text=True, timeout=60,
                                 env=daemon.environment)
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stderr, r"sockets\.telemetry \(default\): .*RUNTIME_DIRECTORY")
        self.assertFalse(self.starts(daemon))

    def test_files_that_are_ours_or_empty(self):
        for content in (None, b"", bytes(8), b"hbwindow and another size"):
            with self.subTest(content):
                daemon = self.daemon(CART + "state_file: window\n")
                if content is not None:
                    with open(f"{daemon.folder}/window", "wb") as file:
                        file.write(content)
                ok = self.check(daemon).returncode == 0
                self.assertEqual(ok, content != bytes(8))  # zeros of another size are nobody's
                self.assertEqual(self.starts(daemon), ok)

    def test_long_horizons_are_possible(self):
        for text in ("planner: {{horizon: 500}}", "planner: {{horizon: 500, method: mppi}}"):
            with self.subTest(text):
                daemon = self.daemon(replaced(text))
                self.assertEqual(self.check(daemon).stdout, f"{daemon.file}: ok\n")
                self.assertTrue(self.starts(daemon))

    def test_a_short_horizon_is_said(self):
        for horizon, short in ((2, True), (120, False)):
            with self.subTest(horizon):
                daemon = self.daemon(replaced(f"planner: {{{{horizon: {horizon}, samples: 16}}}}"))
                checked = self.check(daemon)
                self.assertEqual(checked.stdout, f"{daemon.file}: ok\n")
                said = rf"{re.escape(daemon.file)}:\d+:\d+: .*planner\.horizon: in 2 steps of 0\.02 s the controls move position by "
                (self.assertRegex if short else self.assertNotRegex)(checked.stderr, said)

    def test_a_running_daemon_does_not_disturb(self):
        daemon = self.started(CART + "state_file: window\n")
        for _ in range(2):
            self.assertEqual(self.check(daemon).stdout, f"{daemon.file}: ok\n")
        self.assertEqual(daemon.client().status().name, "cart")

    def test_reload_says_when_a_restart_would_fail(self):
        daemon = self.started()
        client = daemon.client()
        for text, expected in (("state_file: nowhere/window\n", "nowhere: No such file"),
                               ("model: none.safetensors\n", None)):
            with self.subTest(text):
                config = CART.replace("model: cart.safetensors\n", "") + text if "model" in text else CART + text
                daemon.write(config.replace("budget: 0.5", "budget: 0.25"))
                done = subprocess.run([HILBERTCTL, "reload"], capture_output=True, text=True, timeout=60,
                                      env=dict(os.environ, HILBERT_SOCKET=daemon.folder))
                if expected:  # what can change now changes
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stdout, rf"a restart would fail: .*{expected}")
                    daemon.says("reload: a restart would fail: ")
                    self.assertEqual(client.status().budget_us, 250000)
                else:
                    self.assertEqual(done.returncode, 1)
                    self.assertIn("none.safetensors: No such file", done.stderr)
                    daemon.says("nothing was changed, and a restart would fail")

    def test_drawn_configurations(self):
        """Numbers at, beyond and between the bounds that --print-config tells."""
        printed = subprocess.run([HILBERTD, "--print-config"], capture_output=True, text=True, check=True).stdout
        keys, section, comment = [], "", ""
        for line in printed.splitlines():
            if match := re.match(r"(\w+):$", line):
                section = match[1]
            elif match := re.match(r"\s*# ?(.*)", line):
                comment += " " + match[1]
                continue
            elif match := re.match(r"  (\w+): ", line):
                bounds = re.search(r"\((?:above )?(\S+?)(?:\.\.|, to )([-\d.e+]+)[;)]", comment)
                if bounds:
                    keys.append((section, match[1], float(bounds[1]), float(bounds[2])))
            comment = ""
        self.assertGreater(len(keys), 25)
        dice = random.Random(20261117)
        counts = [0, 0]
        for _ in range(40):
            drawn = {}
            for section, name, least, most in dice.sample(keys, dice.randint(1, 3)):
                if section in ("realtime", "status"):  # permissions differ from machine to machine
                    continue
                small = least + (most - least) * dice.random() ** 8
                value = dice.choice([least, most, least - 1, most + 1] + 12 * [small])
                drawn.setdefault(section, {})[name] = f"{value:.10g}" if most <= 10 or dice.random() < 0.1 else f"{round(value)}"
            sockets = "sockets:\n" + "".join(f"  {s}: ipc://{{folder}}/{s}\n" for s in ("telemetry", "actions", "control", "status"))
            for name, value in drawn.pop("sockets", {}).items():
                sockets += f"  {name}: {value}\n"
            config = "model: cart.safetensors\ncost: [{{kind: squared, states: [0], weight: 1}}]\ntarget: [1, 0]\n" + sockets
            for section, values in drawn.items():
                config += f"{section}:\n" + "".join(f"  {name}: {value}\n" for name, value in values.items())
            with self.subTest(config):
                daemon = self.daemon(config)
                checked = self.check(daemon)
                self.assertIn(checked.returncode, (0, 1), checked.stderr)
                self.assertEqual(self.starts(daemon), checked.returncode == 0, checked.stderr + daemon.text())
                counts[checked.returncode] += 1
        self.assertGreater(min(counts), 5, counts)


if __name__ == "__main__":
    main()
