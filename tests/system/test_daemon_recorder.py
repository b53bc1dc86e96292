"""The flight recorder and replays: flights of all shipped configurations, replayed to the byte."""
import csv
import glob
import json
import os
import re
import resource
import signal
import struct
import subprocess

from harness import BUILD, CART, HILBERTCTL, HILBERTD, TRAP, Cart, TestCase, connect_telemetry, main, shipped, wait_until

SIM = f"{BUILD}/clients/sim/hilbert-sim"
TOOL = f"{BUILD}/tests/system/mcap_tool"
RECORDER = "\nrecorder: {{enabled: true, directory: {folder}%s}}\n"


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def recordings(daemon):
    return sorted(glob.glob(f"{daemon.folder}/*.mcap"))


def rows(path):
    with open(path) as table:
        return len(list(csv.reader(table))) - 1


def text(data):
    """A text of MCAP and what follows it."""
    n = struct.unpack("<I", data[:4])[0]
    return data[4 : 4 + n].decode(), data[4 + n :]


def inner(data):
    """Records, one behind the other: their kind and content."""
    at = 0
    while at + 9 <= len(data):
        n = struct.unpack("<Q", data[at + 1 : at + 9])[0]
        yield data[at], data[at + 9 : at + 9 + n]
        at += 9 + n


def records(path):
    with open(path, "rb") as file:
        return list(inner(file.read()[8:-8]))


class Recorder(TestCase):
    def fly_cart(self, daemon, steps, start=0, position=0.0, velocity=0.0, wait=False, **request):
        """A cart of mass 2 under what is answered, in lock step. wait: no request overtakes the sample before it."""
        client = daemon.client()
        connect_telemetry(client, daemon)
        before = client.status().counters.telemetry
        x, v, replies = position, velocity, []
        for k in range(start, start + steps):
            t = 50_000 * k
            reply = client.request(t, [x, v], **request)
            replies.append(reply)
            u = reply.action[0]
            client.publish(t, [x, v], [u])
            if wait:
                wait_until(lambda: client.status().counters.telemetry > before + k - start, f"arrival of sample {k}")
            v += 0.05 * u / 2
            x += 0.05 * v
        return client, replies

    def replay(self, files, *options, status=0):
        out = run(HILBERTD, "--replay", *options, *files, status=status)
        counts = re.fullmatch(r"(\d+) replies, (\d+) identical", out.strip().splitlines()[-1])
        return out, counts and (int(counts[1]), int(counts[2]))

    def test_signals_have_their_names(self):
        """As any reader of MCAP and protobuf sees them: the schema in the file alone says which number is which."""
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        daemon = self.started(CART + RECORDER % "")
        client, _ = self.fly_cart(daemon, 20, wait=True)
        client.publish(50_000 * 20, [3.25, -0.5], [1.5])
        wait_until(lambda: client.status().counters.telemetry > 20, "arrival of the last sample")
        self.assertEqual(daemon.stop(), 0)
        schemas, channels, chunks = {}, {}, []
        for opcode, data in records(recordings(daemon)[0]):
            if opcode == 3:
                name, rest = text(data[2:])
                encoding, rest = text(rest)
                schemas[struct.unpack("<H", data[:2])[0]] = (name, encoding, rest[4:])
            elif opcode == 4:
                number, schema = struct.unpack("<HH", data[:4])
                topic, rest = text(data[4:])
                _, rest = text(rest)
                rest, said = rest[4:], {}
                while rest:
                    key, rest = text(rest)
                    said[key], rest = text(rest)
                channels[number] = (topic, schema, said)
            elif opcode == 6:
                _, rest = text(data[28:])
                chunks.append(subprocess.run(["zstd", "-dc"], input=rest[8:], capture_output=True, check=True).stdout)
        number = next(n for n, c in channels.items() if c[0] == "signals")
        name, encoding, description = schemas[channels[number][1]]
        self.assertEqual((name, encoding), ("hilbert.Signals", "protobuf"))
        self.assertEqual(channels[number][2], {"state.position": "m", "state.velocity": "m/s", "control.force": "N"})
        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(description).file:
            pool.Add(file)
        signals = message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) if hasattr(message_factory, "GetMessageClass") \
            else message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))
        seen = [signals.FromString(data[22:]) for chunk in chunks for opcode, data in inner(chunk)
                if opcode == 5 and struct.unpack("<H", data[:2])[0] == number]
        self.assertEqual((seen[-1].state.position, seen[-1].state.velocity, seen[-1].control.force), (3.25, -0.5, 1.5))
        self.assertGreaterEqual(len(seen), 21)

    def test_every_plant_is_replayed_to_the_byte(self):
        if not os.path.exists(SIM):
            self.skipTest("there is no hilbert-sim")
        for config, plant in (("quadrotor", "quadrotor"), ("px4", "multirotor"), ("half-cheetah", "half-cheetah"),
                              ("vanderpol", "vanderpol")):
            with self.subTest(config):
                daemon = self.started(shipped(config) + RECORDER % "", model=None)
                run(SIM, "fly", plant, "--endpoint", f"ipc://{daemon.folder}", "--seconds", "2", "--realtime")
                self.assertEqual(daemon.stop(), 0)
                out, (replies, identical) = self.replay(recordings(daemon))
                self.assertEqual(replies, identical, out)
                self.assertGreater(replies, 15)

    def test_every_method_is_replayed_to_the_byte(self):
        """Budgets that are too short, so that plans and preparations are cut off where the clock says."""
        for method in ("gradient", "mppi", "gauss_newton"):
            with self.subTest(method):
                planner = f"planner: {{{{horizon: 20, samples: 200, iterations: 30, method: {method}, "
                config = re.sub(r"planner: .*", planner + "prepare_share: 0.5}}", CART).replace("budget: 0.5", "budget: 0.003")
                daemon = self.started(config + RECORDER % "", environment={"LD_PRELOAD": TRAP})
                self.fly_cart(daemon, 40)
                self.assertEqual(daemon.stop(), 0, daemon.text())
                out, (replies, identical) = self.replay(recordings(daemon))
                # a planner that does not come back in time is answered for by the server
                self.assertEqual(replies, identical, out)
                self.assertGreater(replies, 10)

    def test_whatever_changes_in_flight_is_replayed(self):
        daemon = self.started(CART + RECORDER % "")
        client, _ = self.fly_cart(daemon, 20)
        ctl = [HILBERTCTL]
        place = ["-s", daemon.folder]
        run(*ctl, "target", *place, "position=-0.5")
        self.fly_cart(daemon, 20, start=20, want_plan=True)
        daemon.write(CART.replace("weight: 0.05", "weight: 0.2").replace("position: 1", "position: 0.7") + RECORDER % "")
        run(*ctl, "reload", *place)
        self.fly_cart(daemon, 20, start=40)
        run(*ctl, "coefficients", "save", *place, f"{daemon.folder}/c.json")
        run(*ctl, "reset", *place)
        run(*ctl, "coefficients", "load", *place, f"{daemon.folder}/c.json")
        run(*ctl, "predict", *place, "-N", "40")
        self.fly_cart(daemon, 20, start=60)
        self.assertEqual(daemon.stop(), 0)
        out, (replies, identical) = self.replay(recordings(daemon))
        self.assertEqual((replies, identical), (80, 80), out)

    def test_a_difference_is_an_error_with_time_and_field(self):
        daemon = self.started(CART + RECORDER % "")
        self.fly_cart(daemon, 30, wait=True)
        daemon.stop()
        [file] = recordings(daemon)
        # one bit of a state that was reported, and one of an action that was answered
        for topic, number in (("telemetry", 25), ("replies", 10)):
            bent = f"{daemon.folder}/bent-{topic}"
            run(TOOL, "bend", file, bent, topic, str(number))
            out, (replies, identical) = self.replay([bent], status=1)
            # a sample that no longer repeats its request teaches later, so that a reply may have nothing to go by
            self.assertIn(replies, (29, 30))
            self.assertLess(identical, 30)
            self.assertRegex(out, r"(?m)^\d+\.\d+ s: \S.*recorded")

    def test_other_settings_are_put_beside_it(self):
        daemon = self.started(CART + RECORDER % "")
        self.fly_cart(daemon, 30)
        daemon.stop()
        other = f"{daemon.folder}/other.yaml"
        with open(other, "w") as file:
            file.write(CART.replace("weight: 0.05", "weight: 5").format(folder=daemon.folder))
        out, counts = self.replay(recordings(daemon), "--config", other)
        self.assertIsNone(counts)
        self.assertRegex(out, r"(?m)^replies +30 +30$")
        self.assertRegex(out, r"mean cost of a plan +\S+ +\S+")
        differ = re.search(r"actions differ by (\S+) of their range", out)
        self.assertGreater(float(differ[1]), 1e-3)

    def test_other_settings_learn_from_what_was_flown(self):
        """Costs of actions decide what would have been done, and not what the vehicle is: the estimate stays what it was."""
        daemon = self.started(CART + RECORDER % "")
        client, cart = daemon.client(), Cart(drag=0.5)
        connect_telemetry(client, daemon)
        for k in range(300):  # with actions that leap: what was not flown is not near what was
            reply = client.request(cart.time_us, cart.state, target=[k // 50 % 2, 0] if k % 3 else None)
            client.publish(cart.time_us, cart.state, reply.action)
            cart.step(reply.action[0])
        daemon.stop()
        other = f"{daemon.folder}/other.yaml"
        with open(other, "w") as file:
            file.write(CART.replace("weight: 0.05", "weight: 0.5").format(folder=daemon.folder))
        out, _ = self.replay(recordings(daemon), "--config", other)
        self.assertGreater(float(re.search(r"actions differ by (\S+) of their range", out)[1]), 1e-3)
        then, there = map(float, re.search(r"mean one-step error +(\S+) +(\S+)", out).groups())
        self.assertLess(abs(there - then), 0.1 * then, out)  # under other actions than were flown it is ten times as large
        self.assertNotIn("out-of-span", out)

    def test_the_flights_own_settings_decide_the_same(self):
        """Whoever compares two configurations on a flight begins with its own."""
        config = CART + RECORDER % ""
        daemon = self.started(config)
        self.fly_cart(daemon, 40)
        run(HILBERTCTL, "target", "-s", daemon.folder, "position=-0.5")
        self.fly_cart(daemon, 20, start=40)
        daemon.client().reload()  # the target stays
        self.fly_cart(daemon, 20, start=60)
        daemon.stop()
        first = recordings(daemon)
        daemon.start()  # with what was learned, and the target
        self.fly_cart(daemon, 20, start=80)
        daemon.stop()
        second = [f for f in recordings(daemon) if f not in first]
        elsewhere = f"{daemon.folder}/elsewhere"
        os.mkdir(elsewhere)
        with open(f"{elsewhere}/own.yaml", "w") as file:
            file.write(config.replace("model: cart", f"model: {daemon.folder}/cart").replace("name: cart", "name: other")
                       .format(folder=daemon.folder))
        for files, n in ((first, 80), (second, 20)):
            out, (replies, identical) = self.replay(files, "--config", f"{elsewhere}/own.yaml")
            self.assertEqual((replies, identical), (n, n), out)
            self.assertIn("actions differ by 0 of their range", out)
            self.assertRegex(out, r"recorded +the same")

    def test_killed(self):
        """SIGKILL: the file is readable up to its last chunk, recovered, and what it holds is replayed."""
        daemon = self.started(CART + RECORDER % "")
        self.fly_cart(daemon, 30)
        wait_until(lambda: json.loads(run(HILBERTCTL, "record", "status", "-j", "-s", daemon.folder))["messages"] > 60,
                   "a chunk is written")
        daemon.stop(signal.SIGKILL)
        [file] = recordings(daemon)
        info = json.loads(run(HILBERTCTL, "info", "-j", file))
        self.assertFalse(info["indexed"])
        self.assertIn("recover", run(HILBERTCTL, "info", file))
        # a table of what is there is no table of the flight: it is said, and is a failure
        done = subprocess.run([HILBERTCTL, "export", "-o", f"{daemon.folder}/csv", file], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"ends at byte \d+ without its end: it was cut off.*what comes before is exported")
        self.assertEqual(rows(f"{daemon.folder}/csv/requests.csv"), info["messages"]["requests"])
        run(HILBERTCTL, "recover", file)
        recovered = file.replace(".mcap", ".recovered.mcap")
        again = json.loads(run(HILBERTCTL, "info", "-j", recovered))
        self.assertTrue(again["indexed"])
        self.assertEqual(again["messages"], info["messages"])
        run(HILBERTCTL, "export", "-o", f"{daemon.folder}/csv", recovered)
        self.assertEqual(rows(f"{daemon.folder}/csv/requests.csv"), info["messages"]["requests"])
        for path in (file, recovered):
            out, (replies, identical) = self.replay([path])
            self.assertEqual(replies, identical, out)
            self.assertGreater(replies, 20)

    def test_a_limit_on_the_size_of_files_is_a_full_disk(self):
        daemon = self.started(CART + RECORDER % "", limits={resource.RLIMIT_FSIZE: 100000})
        client = daemon.client()
        k = 0
        while "flying goes on" not in daemon.text() and k < 4000:
            k += 1
            client.request(20000 * k, [0, 0])
        daemon.says("recorder: ")
        daemon.says("File too large")
        self.assertGreater(client.status().recorder.errors, 0)
        client.request(20000 * (k + 1), [0, 0])
        self.assertEqual(daemon.stop(), 0)

    def test_files_of_a_run_follow_on_one_another(self):
        daemon = self.started(CART + RECORDER % ", file_age: 1")
        for k in range(3):
            begun = len(recordings(daemon))
            self.fly_cart(daemon, 15, start=15 * k)
            # its age ends a file once there is something to write
            wait_until(lambda: len(recordings(daemon)) > begun, "another file")
        daemon.stop()
        files = recordings(daemon)
        self.assertGreater(len(files), 1)
        out, (replies, identical) = self.replay(files)
        self.assertEqual((replies, identical), (45, 45), out)
        done = subprocess.run([HILBERTD, "--replay", files[1]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("begins in mid-flight", done.stderr)

    def test_a_window_taken_over_is_replayed(self):
        daemon = self.started(CART + RECORDER % "")
        self.fly_cart(daemon, 30)
        daemon.stop()
        before = recordings(daemon)
        daemon.start()
        self.fly_cart(daemon, 20, start=30)
        daemon.stop()
        after = [f for f in recordings(daemon) if f not in before]
        out, (replies, identical) = self.replay(after)
        self.assertEqual((replies, identical), (20, 20), out)
        self.assertIn("taken over from before a restart", run(HILBERTCTL, "info", *after))

    def test_on_off_and_csv(self):
        daemon = self.started(CART + "\nrecorder: {{directory: {folder}}}\n", environment={"LD_PRELOAD": TRAP})
        place = ["-s", daemon.folder]
        self.assertIn("off", run(HILBERTCTL, "record", "status", *place))
        self.fly_cart(daemon, 5)
        self.assertEqual(recordings(daemon), [])
        self.assertRegex(run(HILBERTCTL, "record", "on", *place), r"recorder +on: .*\.mcap")
        self.fly_cart(daemon, 10, start=5)
        self.assertIn("off", run(HILBERTCTL, "record", "off", *place))
        self.fly_cart(daemon, 5, start=15)
        [file] = recordings(daemon)
        self.assertRegex(run(HILBERTCTL, "status", *place) + run(HILBERTCTL, "metrics", *place), "recorder_lost_total")
        daemon.stop()
        info = json.loads(run(HILBERTCTL, "info", "-j", file))
        self.assertEqual((info["messages"]["requests"], info["messages"]["replies"]), (10, 10))
        self.assertFalse(info["whole"] and info["number"] > 0)
        self.assertIn("name: ", run(HILBERTCTL, "info", "-c", file))
        run(HILBERTCTL, "export", "-o", f"{daemon.folder}/csv", file)
        with open(f"{daemon.folder}/csv/requests.csv") as table:
            asked = list(csv.DictReader(table))
        self.assertEqual([int(r["request.time_us"]) for r in asked], [50_000 * k for k in range(5, 15)])
        self.assertIn("request.state.position", asked[0])

    def test_check_knows_the_folder(self):
        daemon = self.started(CART)
        daemon.stop()
        daemon.write(CART + "\nrecorder: {{enabled: true, directory: {folder}/nowhere}}\n")
        done = subprocess.run([HILBERTD, "--check", daemon.file], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("recorder.directory", done.stderr)


if __name__ == "__main__":
    main()
