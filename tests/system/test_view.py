"""hilbert-view: its page in a real browser, its web server against wrong and slow clients, its metrics."""
import base64
import contextlib
import glob
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from harness import BUILD, CART, HILBERTCTL, SOURCE, Cart, TestCase, main, pb, shipped, wait_until

import browser
import status_fleet

VIEW = f"{BUILD}/clients/view/hilbert-view"
PATIENCE = 40.0
# no deadline that a busy machine would miss
QUADROTOR = shipped("quadrotor").replace("  budget: 0.01 ", "  stale_after: 60\n  fallback_after: 120\n  budget: 5 ")


class View:
    """The program on a port of its own."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([VIEW, "--port", "0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise AssertionError(f"hilbert-view ended: {self.process.communicate()[1]}")
        self.port = int(re.search(r":(\d+)/$", self.address)[1])

    def get(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def metric(self, name):
        found = re.search(rf"(?m)^{re.escape(name)} (\S+)$", self.get("/metrics")[1])
        return float(found[1]) if found else None

    def close(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.communicate(timeout=10)
        self.process.kill()
        self.process.communicate()


class Socket:
    """As much of a WebSocket as is needed, without looking after itself as a browser does."""

    def __init__(self, view, protocol="hilbert.view.v1", origin=None, host=None, receive=None):
        self.socket = socket.socket()
        if receive:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", view.port))
        lines = ["GET / HTTP/1.1", f"Host: {host or f'127.0.0.1:{view.port}'}", "Upgrade: websocket", "Connection: Upgrade",
                 f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}", "Sec-WebSocket-Version: 13",
                 f"Sec-WebSocket-Protocol: {protocol}"] + ([f"Origin: {origin}"] if origin else [])
        self.socket.sendall("\r\n".join(lines + ["", ""]).encode())
        self.file = self.socket.makefile("rb")
        self.status = self.file.readline().decode(errors="replace")
        self.accepted = " 101 " in self.status
        while self.accepted and (line := self.file.readline().strip()):
            if line.lower().startswith(b"sec-websocket-protocol:"):
                self.protocol = line.split(b":")[1].strip().decode()

    def send(self, text, opcode=1):
        data = text if isinstance(text, bytes) else text.encode()
        n = len(data)
        head = bytes([0x80 | opcode]) + (bytes([0x80 | n]) if n < 126 else bytes([0x80 | 126]) + struct.pack(">H", n))
        self.socket.sendall(head + bytes(4) + data)

    def receive(self):
        """(opcode, payload) of a whole message; None at the end."""
        data = b""
        while True:
            head = self.file.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return None
            first = head[0] & 15 or first
            n = head[1] & 127
            n = struct.unpack(">H", self.file.read(2))[0] if n == 126 else struct.unpack(">Q", self.file.read(8))[0] if n == 127 else n
            data += self.file.read(n)
            if head[0] & 128:
                return first, data

    def close(self):
        self.file.close()
        self.socket.close()


@contextlib.contextmanager
def generated(daemon, vehicles):
    """Folders of daemons that are made up, all after what a real one says."""
    folder = tempfile.mkdtemp(prefix="hilbert-fleet-", dir="/tmp")
    with daemon.client() as client:
        status_fleet.keep(client, f"{folder}/template")
    process = subprocess.Popen(["/usr/bin/python3", status_fleet.__file__, f"{folder}/template", folder, "--vehicles", str(vehicles),
                                "--python", f"{BUILD}/clients/python"], stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        yield [f"{folder}/vehicle{i:02d}" for i in range(vehicles)]
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


class Flight:
    """A cart that flies in real time until it is told to end."""

    def __init__(self, daemon):
        self.client = daemon.client(timeout=2)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.fly, daemon=True)
        self.thread.start()

    def fly(self):
        cart = Cart()
        while not self.ended.wait(0.02):
            try:
                reply = self.client.request(cart.time_us, cart.state)
                self.client.publish(cart.time_us, cart.state, reply.action)
                cart.step(reply.action[0])
            except Exception:  # noqa: BLE001: the daemon is killed on purpose
                self.ended.wait(0.1)

    def end(self):
        self.ended.set()
        self.thread.join()


class WithView(TestCase):
    def view(self, *arguments):
        view = View(*arguments)
        self.addCleanup(view.close)
        return view

    def socket(self, *arguments, **options):
        s = Socket(*arguments, **options)
        self.addCleanup(s.close)
        return s

    def flight(self, daemon):
        flight = Flight(daemon)
        self.addCleanup(flight.end)
        return flight


class Server(WithView):
    def test_files_and_who_may_ask(self):
        daemon = self.started()
        view = self.view("--socket", daemon.folder)
        status, text, headers = view.get("/")
        self.assertEqual(status, 200)
        self.assertIn("<title>hilbert-view</title>", text)
        self.assertIn("default-src 'none'", headers["content-security-policy"])
        # nothing from elsewhere: it works offline
        for path in ["/", "/page.css", *re.findall(r'src="([^"]+)"', text)]:
            status, text, _ = view.get(path)
            self.assertEqual(status, 200, path)
            self.assertNotRegex(text, r"https?://", path)
        self.assertEqual(view.get("/nothing")[0], 404)
        self.assertEqual(view.get("/../etc/passwd")[0], 404)
        self.assertEqual(view.get("/", Host="evil.example")[0], 403)
        self.assertIn(view.get("/", method="POST")[0], (404, 405))

        self.assertTrue(self.socket(view).accepted)
        self.assertTrue(self.socket(view, origin=f"http://127.0.0.1:{view.port}").accepted)
        self.assertFalse(self.socket(view, origin="http://evil.example").accepted)
        self.assertFalse(self.socket(view, origin="null").accepted)
        self.assertFalse(self.socket(view, host="evil.example").accepted)
        other = self.view("--socket", daemon.folder, "--origin", "https://app.foxglove.dev")
        self.assertTrue(self.socket(other, origin="https://app.foxglove.dev").accepted)

    def test_wrong_messages_end_a_connection_and_nothing_else(self):
        daemon = self.started()
        view = self.view("--socket", daemon.folder)
        for wrong in ["", "{", "[]", '{"watch":', "x" * 20000, '{"other": 1}', "[" * 3000]:
            s = self.socket(view)
            s.send(wrong)
            while s.receive():
                pass
        s = self.socket(view)
        for right in ['{"watch": 99}', '{"watch": -1}', '{"watch": null}', '{"watch": "x"}', '{"watch": 0}']:
            s.send(right)
        wait_until(lambda: b'"status"' in s.receive()[1], "a status", PATIENCE)
        self.assertEqual(view.get("/")[0], 200)

    def test_a_slow_client_is_dropped_and_counted(self):
        daemon = self.started(CART + "status: {{period: 0.001}}\n")
        view = self.view("--socket", daemon.folder)
        quick = self.socket(view)
        slow = self.socket(view, receive=2048)
        slow.send('{"watch": 0}')  # and reads nothing
        quick.send('{"watch": 0}')

        def dropped():
            quick.receive()
            return view.metric("hilbert_view_dropped_total") == 1

        wait_until(dropped, "the drop of a client that does not read", PATIENCE)
        wait_until(lambda: view.metric("hilbert_view_clients") == 1, "its end", PATIENCE)
        self.assertIsNotNone(quick.receive())

    def test_metrics_are_those_of_hilbertctl(self):
        daemons = [self.started(CART.replace("name: cart", f"name: cart{k}")) for k in range(2)]
        view = self.view(*(a for d in daemons for a in ("--socket", d.folder)))
        wait_until(lambda: view.metric('hilbert_up{name="cart1"}') == 1 and view.metric('hilbert_up{name="cart0"}') == 1, "both")
        text = view.get("/metrics")[1]
        families = re.findall(r"(?m)^# TYPE (\S+)", text)
        self.assertEqual(len(families), len(set(families)))  # each once, with all vehicles below it
        for daemon in daemons:
            own = subprocess.run([HILBERTCTL, "metrics", "-s", daemon.folder], capture_output=True, text=True, check=True).stdout
            series = [line.rsplit(" ", 1)[0] for line in own.splitlines() if not line.startswith("#")]
            for one in series:
                self.assertIn(one + " ", text)
        daemons[1].stop(signal.SIGKILL)
        wait_until(lambda: view.metric('hilbert_up{name="cart1"}') == 0, "its end")
        self.assertIsNone(view.metric('hilbert_uptime_seconds{name="cart1"}'))
        self.assertIsNotNone(view.metric('hilbert_uptime_seconds{name="cart0"}'))

    def test_alerts_and_dashboard_name_what_there_is(self):
        rules, board = (f"{SOURCE}/packaging/prometheus/{name}" for name in ("hilbert.rules.yml", "hilbert.grafana.json"))
        daemon = self.started(QUADROTOR + "recorder: {{enabled: true, directory: {folder}}}\n", model=None)
        with daemon.client() as client:
            client.request(0, [0] * 9 + [1] + [0] * 3)
        view = self.view("--socket", daemon.folder)
        wait_until(lambda: view.metric('hilbert_up{name="hilbertd"}') == 1 or "hilbert_cost" in view.get("/metrics")[1], "a status", PATIENCE)
        there = set(re.findall(r"(?m)^(hilbert_\w+)", view.get("/metrics")[1]))
        self.assertIn("hilbert_learned", there)
        for path in (rules, board):
            with open(path) as file:
                named = set(re.findall(r"\b(hilbert_\w+)", file.read()))
            self.assertGreater(len(named), 5)
            self.assertEqual(named - there, set(), path)
        with open(board) as file:
            self.assertEqual(json.load(file)["uid"], "hilbert")
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            # and each fires when it should, and only then
            folder = tempfile.mkdtemp(prefix="hilbert-alerts-")
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            for path in (rules, f"{SOURCE}/tests/data/prometheus/alerts.yml"):
                shutil.copy(path, folder)
            done = subprocess.run(["promtool", "test", "rules", "alerts.yml"], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        else:
            print("SKIPPED: alert rules by promtool, which is not installed (packaging/deps.sh --browser installs it)", flush=True)

    def test_wrong_usage(self):
        def wrong(*arguments, code=2):
            done = subprocess.run([VIEW, *arguments], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, code, done.stderr)
            return done.stderr + done.stdout

        self.assertIn("others could read along", wrong("--address", "0.0.0.0"))
        self.assertIn("belong together", wrong("--certificate", "x"))
        self.assertIn("belong together", wrong("--server-key", "x"))
        self.assertIn("--server-key", wrong("--control"))
        self.assertIn("only with --certificate", wrong("--control", "--server-key", "x", "--client-key", "x", "--address", "0.0.0.0", "--insecure"))
        self.assertIn("a comma", wrong("--socket", "tcp://127.0.0.1:1", code=1))
        self.assertIn("usage: hilbert-view", wrong("--help", code=0))
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        self.assertIn("cannot listen", wrong("--port", str(taken.getsockname()[1]), code=1))


class Foxglove(WithView):
    def peer(self):
        """A folder with the peer and Foxglove's package; None where that cannot be had."""
        folder = tempfile.mkdtemp(prefix="hilbert-foxglove-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        shutil.copy(f"{SOURCE}/tests/data/foxglove/peer.js", folder)
        ready = shutil.which("node") and subprocess.run(["node", "-e", "require('@foxglove/ws-protocol'); require('ws')"], cwd=folder,
                                                        capture_output=True).returncode == 0
        if not ready and shutil.which("npm"):
            ready = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "@foxglove/ws-protocol", "ws"],
                                   cwd=folder, capture_output=True).returncode == 0
        return folder if ready else None

    def test_with_its_own_client(self):
        folder = self.peer()
        if not folder:
            print("SKIPPED: Foxglove: node or its package @foxglove/ws-protocol cannot be had", flush=True)
            return
        daemon = self.started(QUADROTOR, model=None)
        view = self.view("--socket", daemon.folder)
        client = daemon.client()
        hover = [0.1, 0, 0.2, 0, 0.3, 0, 0, 0, 0, 1, 0, 0, 0]
        reply = client.request(1000, hover, want_plan=True)
        times = itertools.count(1000, 10000)  # the first samples are lost until the subscription has come through
        wait_until(lambda: client.publish(next(times), hover, reply.action) or list(client.status().state) == hover, "intake")
        for protocol in ("foxglove.websocket.v1", "foxglove.sdk.v1"):
            done = subprocess.run(["node", "peer.js", f"ws://127.0.0.1:{view.port}/", protocol, "9"], cwd=folder, capture_output=True,
                                  text=True, timeout=100)
            self.assertEqual(done.returncode, 0, done.stderr)
            seen = json.loads(done.stdout)
            self.assertIn("hilbert-view", seen["server"])
            self.assertEqual(seen["/quadrotor/state"]["data"], dict(zip("x vx y vy z vz qx qy qz qw wx wy wz".split(), hover)))
            self.assertEqual(seen["/quadrotor/pose"]["schema"], "foxglove.PoseInFrame")
            self.assertEqual(seen["/quadrotor/pose"]["data"]["pose"]["position"], {"x": 0.1, "y": 0.2, "z": 0.3})
            self.assertEqual(seen["/quadrotor/target_pose"]["data"]["pose"]["position"], {"x": 0, "y": 0, "z": 1})
            self.assertEqual(len(seen["/quadrotor/plan"]["data"]["poses"]), 11)
            self.assertEqual(seen["/quadrotor/tf"]["data"]["child_frame_id"], "quadrotor")
            self.assertEqual(list(seen["/quadrotor/action"]["data"].values()), list(reply.action))
            status = pb.Status.FromString(base64.b64decode(seen["/quadrotor/status"]["data"]))
            self.assertEqual(list(status.state), hover)
            self.assertAlmostEqual(seen["/quadrotor/status"]["time"], time.time(), delta=60)

    def test_layout_names_what_there_is(self):
        daemon = self.started(QUADROTOR, model=None)
        view = self.view("--socket", daemon.folder)
        s = self.socket(view, protocol="foxglove.sdk.v1")
        channels = {}
        while len(channels) < 9:
            message = json.loads(s.receive()[1])
            channels |= {c["topic"]: c for c in message.get("channels", [])}
        with open(f"{SOURCE}/packaging/foxglove/hilbert.layout.json") as file:
            layout = json.load(file)
        shown = set(re.findall(r'"([^"]+!\w+)"', json.dumps(layout["layout"])))
        self.assertEqual(shown, set(layout["configById"]))
        named = re.findall(r'"(/quadrotor/\w+)((?:\.[\w\[\]]+)*)"', json.dumps(layout["configById"]))
        self.assertGreater(len(named), 20)
        for topic, path in named:
            self.assertIn(topic, channels)
            if topic == "/quadrotor/status":
                kind = pb.Status.DESCRIPTOR
                for part in filter(None, re.sub(r"\[\d+\]", "", path).split(".")):
                    self.assertIn(part, kind.fields_by_name, path)
                    kind = kind.fields_by_name[part].message_type
            elif path:
                self.assertIn(path[1:], json.loads(channels[topic]["schema"])["properties"])

    def test_subscriptions_that_make_no_sense(self):
        daemon = self.started()
        view = self.view("--socket", daemon.folder)
        s = self.socket(view, protocol="foxglove.websocket.v1")
        self.assertEqual(s.protocol, "foxglove.websocket.v1")
        for text in ['{"op":"subscribe"}', '{"op":"subscribe","subscriptions":[{"id":1,"channelId":-5},{"id":2,"channelId":1e9},{"id":3,"channelId":99999},7]}',
                     '{"op":"unsubscribe","subscriptionIds":["x",7]}', '{"op":"getParameters"}',
                     json.dumps({"op": "subscribe", "subscriptions": [{"id": i, "channelId": 4000} for i in range(1500)]}),
                     '{"op":"subscribe","subscriptions":[{"id":77,"channelId":1}]}']:
            s.send(text)
        s.send(b"\x01\x00\x00", opcode=2)
        # all of the room for subscriptions is taken by what there is not: the page still is served
        self.assertEqual(view.get("/")[0], 200)
        s = self.socket(view, protocol="foxglove.sdk.v1")
        s.send('{"op":"subscribe","subscriptions":[{"id":77,"channelId":1}]}')

        def binary():
            opcode, data = s.receive()
            return opcode == 2 and data[0] == 1 and data[1:5] == b"M\0\0\0"

        wait_until(binary, "a message", PATIENCE)


def keyed(test):
    """A daemon over tcp that knows the key "ground", and the arguments with which hilbert-view finds it."""
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
    config = CART.replace("control: ipc://{folder}/control", f"control: [ipc://{{folder}}/control, tcp://127.0.0.1:{ports[0]}]")
    config = config.replace("status: ipc://{folder}/status", f"status: [ipc://{{folder}}/status, tcp://127.0.0.1:{ports[1]}]")
    daemon = test.daemon(config + "security: {{server_key: server.key, authorized_keys: authorized_keys}}\n")
    for name in ("server", "ground"):
        subprocess.run([HILBERTCTL, "keygen", f"{daemon.folder}/{name}"], check=True, capture_output=True)
    with open(f"{daemon.folder}/ground.pub") as key, open(f"{daemon.folder}/authorized_keys", "w") as file:
        file.write(f"ground {key.read().strip()} observe,operate\n")
    daemon.start()
    return daemon, ["--socket", f"tcp://127.0.0.1:{ports[0]},tcp://127.0.0.1:{ports[1]}", "--server-key", f"{daemon.folder}/server.pub",
                    "--client-key", f"{daemon.folder}/ground.key"]


class Control(WithView):
    def answer(self, view, what, origin=True):
        s = self.socket(view, origin=f"http://127.0.0.1:{view.port}" if origin else None)
        s.send(json.dumps({"change": {"vehicle": 0, **what}}))
        while True:
            message = json.loads(s.receive()[1])
            if "answer" in message:
                return message["answer"]

    def test_who_may_change_what(self):
        daemon, arguments = keyed(self)
        looking, view = self.view(*arguments), self.view(*arguments, "--control")
        self.assertIn("without --control", self.answer(looking, {"reset": True})["error"])
        self.assertIn("only the page", self.answer(view, {"reset": True}, origin=False)["error"])
        self.assertIn("nothing that can be changed", self.answer(view, {"frob": 1})["error"])
        self.assertIn("list of numbers", self.answer(view, {"target": [1, "x"]})["error"])
        self.assertIn("2 expected, 1 given", self.answer(view, {"target": [1]})["error"])
        self.assertIn("below 0", self.answer(view, {"key": "cost.0.weight", "value": "-1"})["error"])
        self.assertTrue(self.answer(view, {"key": "cost.0.weight", "value": "6", "seconds": 600})["ok"])
        self.assertTrue(self.answer(view, {"target": [0.5, 0]})["ok"])
        self.assertTrue(self.answer(view, {"reset": True})["ok"])
        self.assertTrue(self.answer(view, {"reload": True})["ok"])
        for line in ("set by ground: cost.0.weight is 6 for 600 s", "the target was set on request by ground: position 0.5", "reset on request by ground",
                     "reload: done"):
            self.assertIn(line, daemon.text())
        # a daemon that knows no key of ours is only looked at
        other = self.started()
        plain = self.view("--socket", other.folder, "--server-key", f"{daemon.folder}/server.pub", "--client-key", f"{daemon.folder}/ground.key", "--control")
        self.assertIn("no key", self.answer(plain, {"reset": True})["error"])


class InBrowser(WithView):
    def test_words_and_terms(self):
        """What was learned and what drives the plan, of one vehicle and in the list: as the status says it."""
        daemon = self.started(QUADROTOR, model=None)
        view = self.view("--socket", daemon.folder)
        with daemon.client() as client:
            client.request(0, [0] * 9 + [1] + [0] * 3)
            status = client.status()
        b = self.browser()
        b.open(view.address + "#vehicle=0")
        b.wait("return page.showing && page.showing.tiles && page.showing.tiles.learned && document.querySelector('[data-field=driven]').textContent !== '–'", "tiles")
        word, term = status.word[0], max(status.cost_term, key=lambda t: t.value)
        self.assertEqual(b.run("return told(page.vehicle.status.word[0])"), b.text("[data-field=learned]"))
        self.assertAlmostEqual(b.run("return page.vehicle.status.word[0].value"), word.value, delta=1e-6 * abs(word.value))
        self.assertEqual(b.text("[data-field=driven]"), term.name.split()[0])
        self.assertTrue(b.run("return [...document.querySelectorAll('h2')].some(h => h.textContent.startsWith('What drives the plan'))"))
        b.run("location.hash = '#fleet'")
        b.wait("return [...document.querySelectorAll('.fleet tbody td')].some(c => c.textContent.includes(' ± '))", "a row that says what was learned")
        self.assertEqual(b.complaints(), [])

    def test_changes_ask_back(self):
        daemon, arguments = keyed(self)
        view = self.view(*arguments, "--control")
        with daemon.client() as client:
            client.request(0, [0, 0])
        b = self.browser()
        b.open(view.address)
        b.wait("return document.querySelector('[data-key=\"cost.0.weight\"]')", "the card of changes")

        def change(button):
            b.run("""const i = document.querySelector('[data-key="cost.0.weight"]'); i.value = 8;
                i.closest('tr').querySelector('button').click();""")
            self.assertIn("Set the weight of squared position of cart to 8 for 30 s?", b.text("#question"))
            b.run(f"document.querySelector('#ask button[value={button}]').click()")

        change("no")
        change("yes")
        b.wait("return document.querySelector('.change p.good')", "an answer")
        self.assertEqual(daemon.text().count("set by ground"), 1)
        # the target's cross, dragged
        at = b.run("const s = page.view.plots.find(p => p instanceof Scene); s.canvas.scrollIntoView(); const r = s.canvas.getBoundingClientRect(), p = s.project(s.target); return [r.x + p[0], r.y + p[1]]")
        pointer = [{"type": "pointerMove", "x": round(at[0]), "y": round(at[1])}, {"type": "pointerDown", "button": 0},
                   {"type": "pointerMove", "x": round(at[0]) + 30, "y": round(at[1]), "duration": 50}, {"type": "pointerUp", "button": 0}]
        b.call("/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": pointer}]})
        b.wait("return document.getElementById('ask').open", "a question")
        self.assertIn("Set the target of cart to position", b.text("#question"))
        b.run("document.querySelector('#ask button[value=yes]').click()")
        wait_until(lambda: "the target was set on request by ground" in daemon.text(), "another target", PATIENCE)
        self.assertEqual(b.complaints(), [])

    def browser(self, **options):
        b = browser.Browser(**options)
        self.addCleanup(b.close)
        return b

    def test_a_vehicle_live(self):
        daemon = self.started()
        view = self.view("--socket", daemon.folder)
        flight = self.flight(daemon)
        b = self.browser()
        b.open(view.address)
        # the only vehicle is opened by itself
        b.wait("return page.vehicle && page.vehicle.table.t.length > 20 && document.querySelectorAll('canvas').length > 5", "a live page")
        self.assertEqual(b.text("#title"), "cart")
        before = b.run("return [page.view.t1, page.vehicle.table.t.length]")
        b.wait(f"return page.view.t1 > {before[0]} + 1 && page.vehicle.table.t.length > {before[1]}", "progress of the plots")
        # a plot has something on it
        self.assertTrue(b.run("""const c = [...document.querySelectorAll('canvas')].find(c => c.getAttribute('aria-label').startsWith('position'));
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const seen = new Set();
            for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
            return seen.size > 5;"""))
        self.assertTrue(b.run("return page.vehicle.data().plan().length === 11"))  # the plan, horizon 10

        # the same numbers as hilbertctl's, once nothing moves
        flight.end()

        def same():
            own = json.loads(subprocess.run([HILBERTCTL, "status", "--json", "-s", daemon.folder], capture_output=True,
                                            text=True, check=True).stdout)
            shown = b.run("return Object.fromEntries([...document.querySelectorAll('.counts [data-key]')].map(e => [e.dataset.key, e.lastChild.textContent]))")
            told = b.run("return page.vehicle.status")
            for group in ("replies", "counters"):
                for name, n in own[group].items():
                    if (n or group == "counters") and name != "control_requests" and shown.get(f"{group}.{name}") != str(n):
                        return False
            return all(told[k] == own[k] for k in ("state", "target", "action", "coefficient", "variance", "predicted", "cost", "replies", "total"))

        wait_until(same, "the same numbers as hilbertctl status --json", PATIENCE)
        self.assertEqual(b.complaints(), [])

    def test_gone_and_back(self):
        daemon = self.started()
        view = self.view("--socket", daemon.folder)
        b = self.browser()
        b.open(view.address)
        b.wait("return page.vehicle && page.vehicle.status && document.querySelector('#badge').textContent", "a live page")
        daemon.stop(signal.SIGKILL)
        # the page's own clock says when it knew: this test may be slow, the page must not
        b.wait("return document.querySelector('#badge').textContent.startsWith('gone')", "that it is gone")
        silent = b.run("return page.fleet[0].age")
        self.assertLess(silent, 30)
        daemon.start()
        b.wait("return !document.querySelector('#badge').textContent.startsWith('gone')", "that it is back")
        b.wait("return [...document.querySelectorAll('.log li')].some(e => e.textContent.includes('started again'))", "a line in the log")
        # and the program itself may go away, too
        port = view.port
        view.close()
        b.wait("return document.querySelector('#note').textContent.includes('no connection')", "that the program is gone")
        self.view("--socket", daemon.folder, "--port", str(port))
        b.wait("return page.connected && !document.querySelector('#note').textContent.includes('no connection')", "that it is back")

    def test_keyboard_and_400_pixels(self):
        daemon = self.started()
        view = self.view("--socket", daemon.folder)
        self.flight(daemon)
        b = self.browser()
        b.resize(400, 800)
        b.open(view.address)
        b.wait("return page.vehicle && page.vehicle.table.t.length > 10 && document.querySelectorAll('canvas').length > 5", "a live page")
        self.assertLessEqual(b.run("return document.documentElement.scrollWidth"), 400)
        self.assertEqual(b.run("return [...document.querySelectorAll('canvas')].filter(c => c.getBoundingClientRect().right > 400).length"), 0)
        b.key("space")
        b.wait("return page.paused", "a pause")
        frozen = b.run("return page.view.t1")
        n = b.run("return page.vehicle.table.t.length")
        b.wait(f"return page.vehicle.table.t.length > {n} + 5", "samples behind the pause")
        self.assertEqual(b.run("return page.view.t1"), frozen)
        b.key(".")
        self.assertIsNotNone(b.run("return page.view.cursor"))
        b.key("escape")
        self.assertIsNone(b.run("return page.view.cursor"))
        span = b.run("return page.view.t1 - page.view.t0")
        b.key("+")
        self.assertLess(b.run("return page.view.t1 - page.view.t0"), span)
        b.key("end")
        b.wait(f"return page.live && page.view.t1 > {frozen}", "live again")
        dark = b.run("return document.documentElement.classList.contains('dark')")
        b.key("d")
        self.assertNotEqual(b.run("return document.documentElement.classList.contains('dark')"), dark)
        b.key("?")
        self.assertTrue(b.run("return document.querySelector('#help').open"))
        b.key("escape")
        b.key("f")
        b.wait("return page.showing.kind === 'fleet' && document.querySelector('.fleet tbody tr')", "the fleet")
        self.assertLessEqual(b.run("return document.documentElement.scrollWidth"), 400)
        self.assertEqual(b.text("#note"), "")  # not what was said of the vehicle
        b.key("1")
        b.wait("return page.showing.kind === 'vehicle'", "the first of the list")
        self.assertEqual(b.complaints(), [])

    def test_zoom_and_hover(self):
        daemon = self.started()
        view = self.view("--socket", daemon.folder)
        self.flight(daemon)
        b = self.browser()
        b.open(view.address)
        b.wait("return page.vehicle && page.vehicle.table.t.length > 30 && document.querySelectorAll('canvas').length > 5", "a live page")
        x, y, w, h = b.run("const r = document.querySelector('canvas').getBoundingClientRect(); return [r.x, r.y, r.width, r.height]")
        b.pointer((x + 0.7 * w, y + h / 2))
        b.wait("return page.view.cursor !== null", "a cursor")
        span = b.run("return page.view.t1 - page.view.t0")
        b.pointer((x + 0.75 * w, y + h / 2), "down", (x + 0.85 * w, y + h / 2), (x + 0.95 * w, y + h / 2), "up")
        b.wait(f"return page.view.t1 - page.view.t0 < {span} / 3 && !page.live", "a zoom")

    def test_figures_are_readable(self):
        """Digits that can be seen, no sign of nothing, no axis below zero for what cannot be, nothing cut off."""
        daemon = self.started(QUADROTOR.replace("name:", "adapt: false\nname:", 1), model=None)
        view = self.view("--socket", daemon.folder)
        with daemon.client() as client:
            client.request(0, [1e-9] + [0] * 8 + [1] + [0] * 3)
        b = self.browser()
        b.open(view.address)
        b.wait("return page.showing && page.showing.tiles && page.drawn", "a page")
        for script, text in [("onAxis(-1.3e-9, 1.2)", "0.000"), ("onAxis(-0.0514, 1.1)", "−0.051"), ("onAxis(0.00504, 106, '%')", "0.0 %"), ("onAxis(3.2e-7, 4e-7)", "3.2e-7"),
                             ("onAxis(NaN, 1)", "–"), ("inDigits(-0.02, 1.3)", "0.0"), ("told({value: 3.69, deviation: 32.7, unit: 'ms'})", "4 ± 33 ms"),
                             ("told({value: 3, deviation: 0, unit: 'ms'})", "3.00 ms"), ("metres(2.2e-5)", "22.0 µm"), ("metres(0.0651)", "65.1 mm"), ("metres(1.5)", "1.50 m")]:
            self.assertEqual(b.run(f"return {script}"), text, script)
        low, high = b.run("return page.view.plots.find(p => p.title === 'Does the model fit?').range()")
        self.assertGreater(low, -0.03 * high)
        self.assertIn("not adapting", b.text("#note"))
        self.assertIn("not adapting", b.run("return page.showing.tiles.error.tile.textContent"))
        for width in (1280, 400):
            b.resize(width, 900)
            cut = b.run("""return [...document.querySelectorAll('.card, .card *, .tile, .tile *')].filter(e => getComputedStyle(e).overflowY !== 'visible' && !e.querySelector('.log')
                && e.tagName !== 'CANVAS' && (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1)).map(e => e.textContent.slice(0, 60))""")
            self.assertEqual(cut, [])
        self.assertEqual(b.complaints(), [])

    def test_limits(self):
        """A fence of the configuration is drawn, in force as it is after a reload; of a recording, too."""
        fence = CART + "limits: {{rules: [{{kind: box, states: [position], min: [-2], max: [%s], name: fence}}]}}\nrecorder: {{enabled: true, directory: {folder}}}\n"
        daemon = self.started(fence % 3)
        view = self.view("--socket", daemon.folder)
        with daemon.client() as client:
            client.request(0, [0, 0])
        b = self.browser()
        b.open(view.address)
        b.wait("return page.vehicle && page.vehicle.limits.length && page.vehicle.limits[0].max[0] === 3 && page.view.plots.some(p => p instanceof Scene && p.limits.length)", "a fence")
        self.assertIn("position ≤ 3.00", b.run("return page.view.plots.flatMap(p => p.title && p.title.startsWith('position') ? p.limits.map(l => l.name) : [])"))
        daemon.write(fence % 2)
        subprocess.run([HILBERTCTL, "reload", "-s", daemon.folder], check=True, capture_output=True)
        b.wait("return page.vehicle.limits[0].max[0] === 2 && page.view.plots.some(p => p instanceof Scene && p.limits[0].max[0] === 2)", "the other fence")
        self.assertEqual(b.run("""const l = readLimits(['{kind: keep_out_cylinder, name: mast, states: [x, y], centre: [0.5, -0.5], radius: 0.2}', '{kind: speed, states: [vx], max: 3}',
            '{kind: keep_out_box, states: [x, y, z], min: [0, 0, 0], max: [1, 2, 3]}']);
            return [l.length, limitRange(l[0], 'y').map(v => v.toFixed(1)), limitRange(l[0], 'z'), limitLines(l[0], ['x', 'y', 'z'], [-1, -1, 0], [1, 1, 2]).length,
            limitLines(l[1], ['x', 'y', 'z'], [-1, -1, 0], [1, 1, 2])[1][2], limitLines(l[1], ['x', 'y'], [-1, -1, 0], [1, 1, 0]).length]"""), [2, ["-0.7", "-0.3"], None, 7, [1, 2, 3], 1])
        self.assertEqual(b.complaints(), [])
        daemon.stop()
        recorded = self.view(glob.glob(f"{daemon.folder}/*.mcap")[0])
        self.assertEqual(len(json.loads(recorded.get("/flight/0.json")[1])["limits"]), 1)

    def test_fifty_vehicles(self):
        """What is in trouble is what hilbertctl list says, and first; a phone can read it."""
        daemon = self.started()
        with daemon.client() as client:
            client.request(0, [0, 0])
        with generated(daemon, 50) as folders:
            view = self.view(*(a for f in folders for a in ("--socket", f)), "--socket", f"{daemon.folder}/none")
            b = self.browser()
            b.open(view.address + "#fleet")
            b.wait("return document.querySelectorAll('.fleet tbody tr').length === 51 && page.fleet.filter(v => v.heard).length === 50", "all rows")
            listed = subprocess.run([HILBERTCTL, "list", "-s", os.path.dirname(folders[0])], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(listed.returncode, 1, listed.stderr)
            wrong = sorted(re.findall(r"(?m)^(vehicle\d+) +(?:actions|telemetry|model):", listed.stdout))
            self.assertEqual(wrong, ["vehicle03", "vehicle13", "vehicle23", "vehicle33", "vehicle43"])
            b.wait("return document.querySelector('#badge').textContent === '6 in trouble'", "a count")
            first = b.run("return [...document.querySelectorAll('.fleet tbody tr')].slice(0, 6).map(r => r.cells[0].textContent)")
            self.assertEqual(sorted(first), ["none", *wrong])
            b.resize(400, 800)
            self.assertLessEqual(b.run("return document.documentElement.scrollWidth"), 400)
            heights = b.run("return Object.fromEntries([...document.querySelectorAll('.fleet tbody tr')].map(r => [r.cells[0].textContent, r.offsetHeight]))")
            self.assertLess(heights["none"], heights["vehicle00"] / 2)  # nothing is known: no list of dashes
            self.assertEqual(b.complaints(), [])

    def test_recordings(self):
        daemon = self.daemon(CART + "recorder: {{enabled: true, directory: {folder}}}\n").start()
        flight = self.flight(daemon)
        wait_until(lambda: daemon.client().status().counters.requests > 100, "a flight", PATIENCE)
        flight.end()
        daemon.stop()
        daemon.start()  # a second recording, without a flight
        wait_until(lambda: daemon.client().status().recorder.file, "its file", PATIENCE)
        daemon.stop()
        first, second = sorted(glob.glob(f"{daemon.folder}/*.mcap"))
        shutil.copy(first, f"{daemon.folder}/again.mcap")
        view = self.view(first, f"{daemon.folder}/again.mcap")
        b = self.browser()
        b.open(view.address)
        b.wait("return page.flight && document.querySelectorAll('canvas').length > 5", "the flight")
        data = json.loads(view.get("/flight/0.json")[1])
        self.assertGreater(len(data["reply"]["t"]), 100)
        self.assertEqual(b.text("[data-field=samples]"), str(len(data["sample"]["t"])))
        b.run("document.querySelector('.scrub').value = 500; document.querySelector('.scrub').oninput()")
        self.assertAlmostEqual(b.run("return page.view.cursor"), data["seconds"] / 2, delta=0.1)
        # a stretch of bad replies is one event, in the list and on the panels
        told = b.run("""const data = page.flight, n = data.reply.t.length;
            data.reply.c.status.fill(index(ACTIONS, 'converged')); data.reply.c.status.fill(index(ACTIONS, 'fallback'), 20, 40); data.reply.c.status.fill(index(ACTIONS, 'refused'), 90, 92);
            data.words = [{name: 'effective_mass', unit: 'kg', value: 0.02203, deviation: 0.00041}];
            showFlight(data, null); return [page.view.events.filter(e => e.text.startsWith('actions')).map(e => [e.t, e.text]), document.querySelector('.log').textContent, data.reply.t[20]]""")
        self.assertEqual([(t == told[2], re.sub(r" for .*", "", text)) for t, text in told[0]], [(True, "actions: fallback"), (False, "actions: refused")])
        self.assertIn("actions: fallback for", told[1])
        self.assertRegex(told[1], r"actions: refused for 0\.0[1-9] s")
        b.resize(400, 800)
        self.assertLessEqual(b.run("return document.documentElement.scrollWidth"), 400)
        b.resize(1280, 900)
        b.run("location.hash = '#flight=0,1'")
        b.wait("return page.second && page.second.number === 1", "the second over it")
        self.assertEqual(view.get("/flight/2.json")[0], 404)
        self.assertEqual(b.complaints(), [])
        # an empty one says so and is shown
        empty = self.view(second)
        b.open(empty.address)
        b.wait("return page.flight && page.flight.number === 0", "a flight without anything in it")
        self.assertEqual(b.complaints(), [])
        wrong = subprocess.run([VIEW, __file__], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("test_view.py", wrong.stderr)

    def test_a_fleet(self):
        daemons = [self.started(CART.replace("name: cart", f"name: cart{k}")) for k in range(3)]
        view = self.view(*(a for d in daemons for a in ("--socket", d.folder)))
        self.flight(daemons[0])
        b = self.browser()
        b.open(view.address)
        rows = "[...document.querySelectorAll('.fleet tbody tr')].map(r => r.innerText)"
        b.wait(f"return {rows}.length === 3 && {rows}.some(r => r.includes('converged'))", "three rows")
        daemons[2].stop(signal.SIGKILL)
        b.wait(f"return {rows}[0].includes('cart2') && {rows}[0].includes('gone')", "trouble first")
        self.assertIn("1 in trouble", b.text("#badge"))
        daemons[2].start()
        b.wait(f"return !{rows}.some(r => r.includes('gone'))", "its return")
        b.run("document.querySelector('.fleet tbody tr a').click()")
        b.wait("return page.showing.kind === 'vehicle' && document.querySelectorAll('canvas').length > 5", "a vehicle")
        self.assertEqual(b.complaints(), [])


if not browser.CHROMIUM or not browser.DRIVER:
    print("SKIPPED: InBrowser: no chromium or no chromium-driver (packaging/deps.sh --browser installs them)", flush=True)
    del InBrowser

if __name__ == "__main__":
    main()
