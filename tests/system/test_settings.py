"""Keys of a running daemon: set, got, for a time, back, saved with the comments kept; and the list of daemons.

usage: test_settings.py BUILD_ROOT
"""
import os
import re
import subprocess

from harness import CART, HILBERTCTL, TestCase, main, wait_until

COMMENTED = CART.replace("cost:\n", "cost:  # what counts\n").replace("safe_action:", "# in doubt\nsafe_action:")


def text_of(path):
    with open(path) as file:
        return file.read()


def ctl(daemon, *arguments, code=0):
    out = subprocess.run([HILBERTCTL, arguments[0], "-s", f"ipc://{daemon.folder}", *arguments[1:]], capture_output=True, text=True, timeout=60)
    assert out.returncode == code, f"{arguments}: {out.returncode}: {out.stdout}{out.stderr}"
    return out.stdout + out.stderr


class Settings(TestCase):
    def weight(self, daemon):
        """Of the cost's terms, as a plan that is made now has them."""
        client = daemon.clients[0] if daemon.clients else daemon.client()
        self.time_us = getattr(self, "time_us", 0) + 20000
        client.request(self.time_us, [0, 0])
        return [t.weight for t in client.status().cost_term][:3]

    def test_set_get_diff_save(self):
        daemon = self.started(COMMENTED)
        before = text_of(daemon.file)
        self.assertEqual(ctl(daemon, "get", "cost.0.weight").strip(), "5")
        self.assertIn("nothing differs", ctl(daemon, "diff"))
        self.assertIn("until a reload", ctl(daemon, "set", "cost.0.weight", "7"))
        self.assertEqual(self.weight(daemon), [7, 1, 0.05])
        ctl(daemon, "set", "cost.effort.weight", "0.25")
        ctl(daemon, "set", "planner.iterations", "30")
        self.assertEqual(self.weight(daemon), [7, 1, 0.25])
        self.assertEqual(ctl(daemon, "get", "cost.0.weight", "planner.iterations"), "cost.0.weight: 7\nplanner.iterations: 30\n")
        diff = ctl(daemon, "diff")
        self.assertIn("cost.0.weight: 5 -> 7 (by a client without a key)", diff)
        self.assertIn("planner.iterations: 20 -> 30", diff)
        self.assertRegex(daemon.text(), r"set by a client without a key: cost\.0\.weight is 7 until a reload")
        self.assertEqual(text_of(daemon.file), before)  # until it is saved

        # lists and sections, each indented as a whole; values that begin like options
        self.assertRegex(ctl(daemon, "get", "cost"), r"^- \{kind: squared.*\n- \{kind: squared.*\n- \{kind: effort")
        self.assertRegex(ctl(daemon, "get", "planner.samples", "cost"), r"^planner.samples: 16\ncost:\n  - \{kind: squared.*\n  - \{kind: squared")
        # without a place: its line would be one of a text that nobody wrote
        self.assertRegex(ctl(daemon, "set", "cost.0.weight", "-1", code=1), r"^hilbertctl set: cost\.0\.weight: .*below 0")
        self.assertRegex(ctl(daemon, "set", "planner.iterations", "2.5", code=1), r"^hilbertctl set: planner\.iterations: '2.5' is not a whole number")
        self.assertIn("target.position is -1.5 for 600 s", ctl(daemon, "set", "target.position", "-1.5", "--for", "600").replace("10 min", "600 s"))
        self.assertEqual(ctl(daemon, "get", "target.position").strip(), "-1.5")
        ctl(daemon, "set", "--back", "target.position")
        self.assertIn("unknown option", ctl(daemon, "set", "target.position", "-x", code=2))

        ctl(daemon, "set", "--back", "cost.effort.weight")
        self.assertEqual(self.weight(daemon), [7, 1, 0.05])
        self.assertIn("was not set", ctl(daemon, "set", "-b", "cost.effort.weight", code=1))
        self.assertIn("saved to", ctl(daemon, "save"))
        after = text_of(daemon.file)
        self.assertEqual(after, before.replace("weight: 5, terminal: 5", "weight: 7, terminal: 5").replace("iterations: 20", "iterations: 30"))
        self.assertIn("nothing differs", ctl(daemon, "diff"))
        self.assertEqual(self.weight(daemon), [7, 1, 0.05])

    def test_for_a_time_and_reload(self):
        daemon = self.started(COMMENTED)
        ctl(daemon, "set", "cost.0.weight", "9", "--for", "0.5s")
        wait_until(lambda: ctl(daemon, "get", "cost.0.weight").strip() == "5", "the end of that time")
        self.assertIn("cost.0.weight is the file's again", daemon.text())
        ctl(daemon, "set", "cost.0.weight", "9", "--for", "2h")
        self.assertRegex(ctl(daemon, "diff"), r"for another 1 h 59 min")
        self.assertIn("is not saved", ctl(daemon, "save"))
        ctl(daemon, "reload")
        self.assertEqual(ctl(daemon, "get", "cost.0.weight").strip(), "5")
        self.assertIn("nothing differs", ctl(daemon, "diff"))

    def test_what_is_refused_changes_nothing(self):
        daemon = self.started(COMMENTED)
        for key, value, why in (("cost.0.weight", "-1", "below 0"), ("planner.horizon", "5", "restart"), ("planner.iteration", "5", "no such key"),
                                ("cost.0.weight", "1, terminal: 3", "not one value"), ("cost.squared.weight", "1", "number"),
                                ("target", "{nowhere: 1}", "nowhere"), ("latency.stale_after", "1000", "fallback_after")):
            self.assertIn(why, ctl(daemon, "set", f"{key}={value}", code=1), key)
        self.assertEqual(self.weight(daemon), [5, 1, 0.05])
        self.assertIn("nothing differs", ctl(daemon, "diff"))
        ctl(daemon, "set", "a", code=2)
        ctl(daemon, "set", "a", "b", "--for", "soon", code=2)
        self.assertIn("no such key", ctl(daemon, "get", "planner.nothing", code=1))

    def test_list(self):
        daemon = self.started(COMMENTED)
        with daemon.client() as client:
            client.request(0, [0, 0])
        rows = ctl(daemon, "list").splitlines()
        self.assertEqual(len(rows), 2)
        self.assertRegex(rows[1], r"^cart +(converged|truncated|warming-up) ")
        self.assertEqual(re.sub(r"\d", "", ctl(daemon, "status", "--all")), re.sub(r"\d", "", "\n".join(rows) + "\n"))
        os.makedirs(f"{daemon.folder}/second")
        os.mknod(f"{daemon.folder}/second/control")  # somebody's socket, and nobody behind it
        self.assertIn("no answer", ctl(daemon, "list", code=1))


if __name__ == "__main__":
    main()
