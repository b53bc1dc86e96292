"""tcp: CURVE admits who is known and nobody else; without it tcp is refused unless the configuration says otherwise."""
import errno
import os
import re
import resource
import socket
import subprocess
import sys
import time

import zmq

from harness import BUILD, CART, HILBERTCTL, HILBERTD, PATIENCE, TestCase, hilbert, main, pb, unsanitized, wait_until

PORTS = """
sockets:
  telemetry: [ipc://{folder}/telemetry, tcp://127.0.0.1:%d]
  actions: [ipc://{folder}/actions, tcp://127.0.0.1:%d]
  control: [ipc://{folder}/control, tcp://127.0.0.1:%d]
  status: [ipc://{folder}/status, tcp://127.0.0.1:%d]
"""


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def with_tcp(security):
    ports = free_ports(4)
    start, end = CART.index("sockets:"), CART.index("planner:")
    return CART[:start] + (PORTS % tuple(ports)).lstrip() + CART[end:] + security, ports


def endpoints(ports):
    return dict(zip(("telemetry", "actions", "control", "status"), (f"tcp://127.0.0.1:{p}" for p in ports)))


def keygen(path):
    done = subprocess.run([HILBERTCTL, "keygen", path], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


class RawPeer:
    """Speaks ZMTP 3.0 with the NULL mechanism, and says of itself what it likes."""

    def __init__(self, place, kind, metadata):
        self.socket = socket.socket(socket.AF_INET if isinstance(place, tuple) else socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(place)
        self.socket.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(23, b"\0") + bytes(32))
        self.take(64)
        ready = b"\x05READY"
        for key, value in {b"Socket-Type": kind, b"Identity": b"", **metadata}.items():
            ready += bytes([len(key)]) + key + len(value).to_bytes(4, "big") + value
        self.socket.sendall(b"\x04" + bytes([len(ready)]) + ready)
        self.frame()  # the daemon's own READY

    def close(self):
        self.socket.close()

    def take(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise AssertionError("the daemon has ended the connection")
            data += more
        return data

    def frame(self):
        flags = self.take(1)[0]
        size = int.from_bytes(self.take(8 if flags & 2 else 1), "big")
        return flags, self.take(size)

    def subscribed(self):
        return self.frame()[1][:1] == b"\x01"

    def send(self, data):
        self.socket.sendall(b"\x02" + len(data).to_bytes(8, "big") + data)

    def receive(self):
        while (frame := self.frame())[0] & 4:
            pass
        return frame[1]


class Security(TestCase):
    def secured(self):
        config, ports = with_tcp("security: {{server_key: server.key, client_keys: [alice.pub, bob.pub]}}\n")
        daemon = self.daemon(config)
        for name in ("server", "alice", "bob", "mallory"):
            keygen(f"{daemon.folder}/{name}")
        return daemon.start(), endpoints(ports)

    def client(self, daemon, places, name, timeout=PATIENCE, server="server"):
        client = hilbert.Client(**places, server_key=f"{daemon.folder}/{server}.pub",
                                client_key=f"{daemon.folder}/{name}.key", timeout=timeout)
        self.addCleanup(client.close)
        return client

    def test_known_clients_are_served_over_tcp(self):
        daemon, places = self.secured()
        for name in ("alice", "bob"):
            client = self.client(daemon, places, name)
            self.assertEqual(client.request(0, [0, 0]).status, hilbert.Status.WARMING_UP)
            self.assertEqual(client.model().state[0].name, "position")
            self.assertEqual(next(client.watch(PATIENCE)).name, "cart")
            before = client.status().counters.telemetry

            def arrives():
                client.publish(0, [0, 0], [0])
                return client.status().counters.telemetry > before
            wait_until(arrives, "arrival of telemetry")
        self.assertEqual(client.status().counters.handshakes_refused, 0)

    def test_the_pilot_is_told_by_its_key(self):
        config, ports = with_tcp("security: {{server_key: server.key, client_keys: [alice.pub], pilot_key: bob.pub}}\n")
        daemon = self.daemon(config)
        for name in ("server", "alice", "bob"):
            keygen(f"{daemon.folder}/{name}")
        daemon.start()
        places = endpoints(ports)
        alice, bob = self.client(daemon, places, "alice"), self.client(daemon, places, "bob")
        for k in range(3):
            self.assertTrue(alice.request(k, [0, 0]).guest)
            self.assertFalse(bob.request(k, [0, 0]).guest)
        # nor is it whoever is on this machine
        self.assertTrue(daemon.client().request(0, [0, 0]).guest)

    def pilot_by_key(self):
        daemon, places = self.with_rights({"bob": "act", "alice": "act"}, ", pilot_key: bob.pub")

        def named(key):
            return hilbert.Client(**places, server_key=f"{daemon.folder}/server.pub", client_key=f"{daemon.folder}/{key}.key",
                                  timeout=PATIENCE, name="bridge")
        return daemon, named

    def test_the_pilot_is_not_told_by_its_name_where_it_has_a_key(self):
        daemon, named = self.pilot_by_key()
        bob = named("bob")
        for k in range(10):
            self.assertFalse(bob.request(k, [0, 0]).guest)
        bob.close()  # for a moment: others take its name, over tcp and on this machine
        for thief in (named("alice"), hilbert.Client(daemon.folder, timeout=PATIENCE, name="bridge")):
            self.addCleanup(thief.close)
            self.assertTrue(thief.request(0, [0, 0]).guest)
            time.sleep(0.3)
            bob = named("bob")
            self.addCleanup(bob.close)
            for k in range(10):
                self.assertFalse(bob.request(k, [0, 0]).guest)
            bob.close()

    def test_who_says_of_itself_who_it_is_is_nobody(self):
        """A client's own word in its handshake is not the daemon's: neither over ipc nor where tcp is open to all."""
        sockets = ("telemetry", "actions", "control")
        insecure, ports = with_tcp("security: {{insecure: true}}\n")
        secured, _ = with_tcp("security: {{server_key: server.key, client_keys: [alice.pub], pilot_key: alice.pub}}\n")
        for config, tcp in ((CART, ()), (insecure, ports), (secured, ())):
            daemon = self.daemon(config)
            for name in ("server", "alice"):
                keygen(f"{daemon.folder}/{name}")
            daemon.start()
            places = [(f"{daemon.folder}/{name}", name) for name in sockets]
            places += [(("127.0.0.1", port), name) for port, name in zip(tcp, sockets)]
            for place, name in places:
                for user in (b"1", b"2", b"100000", b"-7", b"2147483647", b""):
                    with self.subTest(place=place, user=user):
                        peer = RawPeer(place, b"PUB" if name == "telemetry" else b"DEALER", {b"User-Id": user})
                        self.addCleanup(peer.close)
                        if name == "telemetry":
                            wait_until(lambda: peer.subscribed(), "a subscription")
                            peer.send(pb.Telemetry(time_us=1, state=[0, 0], control=[0]).SerializeToString())
                            continue
                        message = pb.ActionRequest(id=7, state=[0, 0]) if name == "actions" else pb.ControlRequest(id=7)
                        if name == "control":
                            message.reset_window.SetInParent()
                        peer.send(message.SerializeToString())
                        reply = (pb.ActionReply if name == "actions" else pb.ControlReply).FromString(peer.receive())
                        self.assertEqual(reply.id, 7)
                        if name == "actions" and config == secured:
                            self.assertTrue(reply.guest)
            self.assertEqual(daemon.client().status().name, "cart")
            self.assertEqual(daemon.stop(), 0)

    def with_rights(self, rights, security=""):
        """A daemon, its tcp endpoints, and a function that makes a client of each name."""
        config, ports = with_tcp(f"security: {{{{server_key: server.key, authorized_keys: authorized_keys{security}}}}}\n")
        daemon = self.daemon(config)
        keygen(f"{daemon.folder}/server")
        with open(f"{daemon.folder}/authorized_keys", "w") as file:
            file.write("# name, public key, rights\n")
            for name, words in rights.items():
                keygen(f"{daemon.folder}/{name}")
                with open(f"{daemon.folder}/{name}.pub") as key:
                    file.write(f"{name} {key.read().strip()} {words}\n")
        return daemon.start(), endpoints(ports)

    def test_a_key_opens_what_it_has_a_right_to(self):
        rights = {"watcher": "observe", "operator": "operate", "actor": "act", "sensor": "telemetry",
                  "stack": "telemetry,act"}
        daemon, places = self.with_rights(rights)
        local = daemon.client()

        def publishes(client):
            before, end = local.status().counters.telemetry, time.monotonic() + 1
            while time.monotonic() < end and local.status().counters.telemetry == before:
                client.publish(0, [0, 0], [0])
            return local.status().counters.telemetry > before

        def succeeds(call, *arguments):
            try:
                call(*arguments)
                return True
            except hilbert.NotConnected as error:
                self.assertIn("with the right to this socket", str(error))
            except hilbert.TimedOut:
                pass
            return False

        for name, words in rights.items():
            client = self.client(daemon, places, name, timeout=1)
            with self.subTest(name):
                self.assertEqual(publishes(client), "telemetry" in words)
                self.assertEqual(succeeds(client.request, 0, [0, 0]), "act" in words)
                self.assertEqual(succeeds(client.status), words in ("observe", "operate"))
                self.assertEqual(succeeds(lambda: next(client.watch(1))), words in ("observe", "operate"))
            client.close()  # it would go on trying
        daemon.says(re.compile(r"watcher at \S*127\.0\.0\.1 was refused at the telemetry socket: its rights are observe"))
        refused = local.status().counters.handshakes_refused
        self.assertGreater(refused, 10)
        self.assertLess(len(re.findall("was refused", daemon.text())), refused / 2, "the log is limited")

    def test_an_observer_asks_and_changes_nothing(self):
        daemon, places = self.with_rights({"watcher": "observe", "operator": "operate"})
        watcher, operator = (self.client(daemon, places, name) for name in ("watcher", "operator"))
        self.assertEqual(watcher.status().name, "cart")
        self.assertEqual(watcher.model().state[0].name, "position")
        changes = {"reset": lambda c: c.reset_window(), "target": lambda c: c.set_target([1, 0]), "reload": lambda c: c.reload(),
                   "coefficients": lambda c: c.set_coefficients(watcher.coefficients()),
                   "prediction": lambda c: c.predict([[0, 0]], [[[0]]])}
        keys = ["-K", f"{daemon.folder}/server.pub", "-s", places["control"]]
        for name, change in changes.items():
            with self.subTest(name):
                self.assertRaisesRegex(hilbert.Error, "may observe, and not operate", change, watcher)
                change(operator)
        done = subprocess.run([HILBERTCTL, "reset", *keys, "-k", f"{daemon.folder}/watcher.key"], capture_output=True,
                              text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("may observe, and not operate", done.stderr)
        done = subprocess.run([HILBERTCTL, "reset", *keys, "-k", f"{daemon.folder}/operator.key"], capture_output=True,
                              text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_pilot_needs_the_right_to_act(self):
        daemon, places = self.with_rights({"bob": "act", "alice": "act"}, ", pilot_key: bob.pub")
        alice, bob = self.client(daemon, places, "alice"), self.client(daemon, places, "bob")
        self.assertTrue(alice.request(0, [0, 0]).guest)
        self.assertFalse(bob.request(0, [0, 0]).guest)

    def test_others_are_not(self):
        daemon, places = self.secured()
        local = daemon.client()
        mallory = self.client(daemon, places, "mallory", timeout=1)
        self.assertRaises((hilbert.NotConnected, hilbert.TimedOut), mallory.request, 0, [0, 0])
        wait_until(lambda: local.status().counters.handshakes_refused >= 1, "counting")
        self.assertRaisesRegex(hilbert.NotConnected, "refuses our key", mallory.request, 0, [0, 0])
        with open(f"{daemon.folder}/mallory.pub") as file:
            key = file.read().strip()
        wait_until(lambda: f"with the public key {key} was refused" in daemon.text(), "a log line")
        # who takes somebody else for the daemon gets nowhere
        misled = self.client(daemon, places, "alice", timeout=1, server="mallory")
        self.assertRaisesRegex(hilbert.NotConnected, "not with this server key", misled.request, 0, [0, 0])
        wait_until(lambda: "the client uses another server key than ours, or no keys" in daemon.text(), "a log line")
        # nor does one without a key
        plain = hilbert.Client(**places, timeout=1)
        self.addCleanup(plain.close)
        self.assertRaisesRegex(hilbert.NotConnected, "wants keys", plain.request, 0, [0, 0])
        self.assertRaises((hilbert.NotConnected, hilbert.TimedOut), plain.status)
        self.assertEqual(local.status().counters.requests, 0)
        # and the daemon is there for those it knows, and locally
        self.assertEqual(self.client(daemon, places, "bob").request(0, [0, 0]).status, hilbert.Status.WARMING_UP)
        self.assertEqual(local.request(0, [0, 0]).status, hilbert.Status.WARMING_UP)

    @unsanitized
    def test_a_sandbox_without_netlink_is_told(self):
        """libzmq would abort."""
        config, _ = with_tcp("security: {{insecure: true}}\n")
        daemon = self.daemon(config)
        environment = dict(os.environ, LD_PRELOAD=f"{BUILD}/tests/system/libfail_call.so",
                           HILBERT_FAULT=f"socket 1 {errno.EAFNOSUPPORT}")
        done = subprocess.run([HILBERTD, "--check", daemon.file], env=environment, capture_output=True, text=True, timeout=30,
                              cwd=daemon.folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout + done.stderr, r"config.yaml:\d+:\d+: sockets.\w+: tcp://\S+: tcp needs netlink sockets")

    def test_hilbertctl_over_tcp(self):
        daemon, places = self.secured()
        known = ["-s", places["control"], "-K", f"{daemon.folder}/server.pub", "-k", f"{daemon.folder}/alice.key"]

        def run(*args):
            return subprocess.run([HILBERTCTL, *args], capture_output=True, text=True, timeout=30)
        self.assertIn("model", run("status", *known).stdout)
        self.assertEqual(run("request", *known, "-A", places["actions"]).returncode, 0)
        self.assertEqual(run("watch", *known, "-S", places["status"], "-c", "1").returncode, 0)
        for keys, expected in (([], "but wants keys"),
                               (["-K", f"{daemon.folder}/server.pub", "-k", f"{daemon.folder}/mallory.key"], "refuses our key"),
                               (["-K", f"{daemon.folder}/bob.pub", "-k", f"{daemon.folder}/alice.key"], "not with this server key")):
            done = run("status", "-s", places["control"], "-t", "2", *keys)
            self.assertEqual(done.returncode, 1)
            self.assertIn(expected, done.stderr)
            if keys:
                done = run("request", "-s", daemon.folder, "-A", places["actions"], "-t", "2", *keys)
                self.assertEqual(done.returncode, 1)
        self.assertEqual(run("status", *known[:4]).returncode, 1)
        self.assertIn("belong together", run("status", *known[:4]).stderr)

    def refused(self, config, expected, prepare=lambda folder: None):
        daemon = self.daemon(config)
        prepare(daemon.folder)
        daemon.start(ready=False)
        self.assertEqual(daemon.process.wait(PATIENCE), 1)
        daemon.says(expected)

    def test_tcp_without_keys_is_refused(self):
        config, _ = with_tcp("")
        self.refused(config, "is open to the network: set security.server_key")

    def test_tcp_that_is_insecure_in_so_many_words(self):
        config, ports = with_tcp("security: {{insecure: true}}\n")
        daemon = self.started(config)
        client = hilbert.Client(**endpoints(ports), timeout=PATIENCE)
        self.addCleanup(client.close)
        self.assertEqual(client.request(0, [0, 0]).status, hilbert.Status.WARMING_UP)
        self.assertEqual(daemon.text().count("open to anyone who reaches it"), 4)

    def test_a_socket_handed_over_is_no_way_around(self):
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        self.addCleanup(listening.close)
        daemon = self.daemon(listen=[("actions", listening.fileno())])
        daemon.start(ready=False)
        self.assertEqual(daemon.process.wait(PATIENCE), 1)
        daemon.says("is open to the network")

    def test_a_socket_handed_over_that_is_open_to_anyone_is_said(self):
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        self.addCleanup(listening.close)
        daemon = self.started(CART + "security: {{insecure: true}}\n", listen=[("actions", listening.fileno())])
        port = listening.getsockname()[1]
        daemon.says(f"sockets.actions: tcp://127.0.0.1:{port} is open to anyone who reaches it")
        self.assertEqual(daemon.text().count("open to anyone who reaches it"), 1)  # the others are ipc

    def test_keys_that_others_can_read_are_refused(self):
        config, _ = with_tcp("security: {{server_key: server.key, client_keys: [alice.pub]}}\n")

        def prepare(folder):
            for name in ("server", "alice"):
                keygen(f"{folder}/{name}")
            self.assertEqual(os.stat(f"{folder}/server.key").st_mode & 0o777, 0o600)
            os.chmod(f"{folder}/server.key", 0o644)
        self.refused(config, "chmod 600", prepare)

    def test_files_that_are_no_keys_are_refused(self):
        config, _ = with_tcp("security: {{server_key: server.key, client_keys: [alice.pub]}}\n")

        def prepare(folder):
            keygen(f"{folder}/server")
            with open(f"{folder}/alice.pub", "w") as file:
                file.write("not a key\n")
        self.refused(config, "alice.pub: not a key", prepare)

    def test_keys_are_never_overwritten(self):
        daemon = self.daemon()
        keygen(f"{daemon.folder}/a")
        with open(f"{daemon.folder}/a.key") as file:
            before = file.read()
        done = subprocess.run([HILBERTCTL, "keygen", f"{daemon.folder}/a"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not overwritten", done.stderr)
        with open(f"{daemon.folder}/a.key") as file:
            self.assertEqual(file.read(), before)


class Crowds(TestCase):
    """Connections without end do not end the daemon, and those that were there before go on."""

    def test_silent_connections_are_turned_away(self):
        port = free_ports(1)[0]
        config = CART.replace("  status: ipc://{folder}/status\n",
                              f"  status: [ipc://{{folder}}/status, tcp://127.0.0.1:{port}]\n")
        daemon = self.started(config + "security: {{insecure: true}}\n", limits={resource.RLIMIT_NOFILE: 256})
        client = daemon.client()
        client.request(0, [0, 0])
        crowd = []
        self.addCleanup(lambda: [s.close() for s in crowd])
        for k in range(500):
            one = socket.socket(socket.AF_UNIX)
            two = socket.socket()
            crowd += [one, two]
            one.setblocking(False)
            two.setblocking(False)
            for s, where in ((one, f"{daemon.folder}/status"), (two, ("127.0.0.1", port))):
                try:
                    s.connect(where)
                except OSError:
                    pass
            if k % 20 == 0:
                self.assertEqual(client.request(k, [0, 0]).status, hilbert.Status.WARMING_UP)
        # one that speaks is answered as soon as those that do not are gone
        wait_until(lambda: "new connections are turned away" in daemon.text(), "a log line")
        self.assertEqual(client.request(1000, [0, 0]).status, hilbert.Status.WARMING_UP)
        for s in crowd:
            s.close()
        crowd.clear()
        self.assertEqual(client.status().name, "cart")
        self.assertIsNone(daemon.process.poll())

    @unsanitized
    def test_what_is_missing_is_said(self):
        # threads count by user, and root has no limit: then as a user who has none, and whom files are open to
        rights = "-all,+dac_override"
        user = [] if os.geteuid() else ["setpriv", "--reuid=64999", "--clear-groups", f"--inh-caps={rights}",
                                        f"--ambient-caps={rights}", f"--bounding-set={rights}"]
        for limit, value, expected in (("n", 8, "needs 128 .RLIMIT_NOFILE"),
                                       ("v", 100 << 10, "address space is limited.*RLIMIT_AS"),
                                       ("u", 3, "may start [0-9]+ threads, and needs 4 .RLIMIT_NPROC")):
            daemon = self.daemon()
            os.chmod(daemon.folder, 0o777)
            command = [*(user if limit == "u" else []), HILBERTD, daemon.file]
            done = subprocess.run(["bash", "-c", f'ulimit -{limit} {value} && exec "$@"', "bash", *command],
                                  capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})  # its threads are none of ours
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, expected)


if __name__ == "__main__":
    main()
