"""tcp: CURVE admits who is known and nobody else; without it tcp is refused unless the configuration says otherwise."""
import os
import resource
import socket
import subprocess
import sys
import time

import zmq

from harness import CART, HILBERTCTL, HILBERTD, PATIENCE, TestCase, hilbert, main, pb, wait_until

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
        self.assertIn(expected, daemon.text())

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
        self.assertIn("is open to the network", daemon.text())

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

    def test_what_is_missing_is_said(self):
        for limits, expected in (({resource.RLIMIT_NOFILE: 8}, "needs 128 .RLIMIT_NOFILE"),
                                 ({resource.RLIMIT_AS: 100 << 20}, "address space is limited.*RLIMIT_AS")):
            # the interpreter that starts it would need more
            code = "import os, resource, sys; [resource.setrlimit(int(k), (int(v), int(v))) for k, v in " \
                   "[a.split('=') for a in sys.argv[3:]]]; os.execv(sys.argv[1], sys.argv[1:3])"
            daemon = self.daemon()
            done = subprocess.run([sys.executable, "-c", code, HILBERTD, daemon.file,
                                   *[f"{k}={v}" for k, v in limits.items()]],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, expected)


if __name__ == "__main__":
    main()
