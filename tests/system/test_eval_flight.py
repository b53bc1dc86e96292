"""From a recorded flight to its report: hilbert-eval flight."""
import glob
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

from harness import BUILD, CART, MAKE_MODEL, Cart, TestCase, connect_telemetry, main, wait_until

import browser

EVAL = f"{BUILD}/clients/eval/hilbert-eval"
RECORDED = CART + "recorder: {{enabled: true, directory: {folder}/recordings}}\n"


def flight(*arguments, code=0):
    done = subprocess.run([EVAL, "flight", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


class Nesting(HTMLParser):
    """Fails on a tag that is closed where another is open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, _):
        if tag not in ("meta", "link", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


class Report(TestCase):
    def recorded(self, steps=150):
        """A cart in closed loop, to and fro; returns the daemon's folder and the recording."""
        daemon = self.daemon(RECORDED)
        os.mkdir(f"{daemon.folder}/recordings")
        daemon.start()
        client = daemon.client()
        connect_telemetry(client, daemon)
        before = client.status().counters.telemetry
        cart = Cart()
        for k in range(steps):
            reply = client.request(cart.time_us, cart.state, target=[1.0 if k // 40 % 2 else -1.0, 0])
            client.publish(cart.time_us, cart.state, reply.action)
            cart.step(reply.action[0])
        wait_until(lambda: client.status().counters.telemetry >= before + steps, "intake")
        self.assertEqual(daemon.stop(), 0)
        return daemon.folder, glob.glob(f"{daemon.folder}/recordings/*.mcap")[0]

    def test_the_page(self):
        folder, file = self.recorded()
        report = f"{folder}/report.html"
        text = flight(file, "-o", report)
        # 150 requests at 0.02 s, each with a sample
        self.assertRegex(text, r"flight +3\.0 s, 150 samples, 50\.\d a second")
        self.assertRegex(text, r"replies +150, ")
        # the model is exact: a tenth of a second ahead it misses by next to nothing of what the cart moves
        match = re.search(r"position +m +1: (\S+) +5: (\S+) +10: (\S+) +\((\S+)\)", text)
        self.assertIsNotNone(match, text)
        self.assertLess(float(match[3]), 0.02 * float(match[4]))
        with open(report) as page:
            html = page.read()
        Nesting().feed(html)
        # one file: nothing is loaded from anywhere
        self.assertNotRegex(html, r'(src|href)="(?!data:|#)')
        data = json.loads(re.search(r'(?s)<script type="application/json" id="flight">(.*?)</script>', html)[1])
        self.assertEqual(len(data["sample"]["t"]), 150)
        self.assertEqual(len(data["reply"]["t"]), 150)
        self.assertEqual([c["name"] for c in data["state"]], ["position", "velocity"])
        self.assertEqual(set(data["reply"]["target"][0]), {1.0, -1.0})
        self.assertGreater(len(data["predicted"]["t"]), 100)
        self.assertEqual(dict(data["rows"])["flight"], re.search(r"(?m)^flight +(.*)$", text)[1])

        self.assertIn("exists: name another --output, or add --force", flight(file, "-o", report, code=1))
        flight(file, "-o", report, "--force")
        self.assertIn("is a folder", flight(file, "-o", folder, code=1))
        self.in_a_browser(report)

    def in_a_browser(self, report):
        if not browser.CHROMIUM or not browser.DRIVER:
            print("SKIPPED: the report in a browser: no chromium or no chromium-driver (packaging/deps.sh --browser)", flush=True)
            return
        b = browser.Browser(width=500)
        self.addCleanup(b.close)
        b.open("file://" + report)
        b.wait("return page.flight && document.querySelectorAll('canvas').length > 5", "the page")
        self.assertEqual(b.text("[data-field=samples]"), "150")
        b.resize(400, 800)
        b.run("document.querySelector('.card.wide td').textContent = 'a_model'.repeat(12)")
        self.assertLessEqual(b.run("return document.documentElement.scrollWidth"), 400)
        b.key("+")
        self.assertLess(b.run("return page.view.t1 - page.view.t0"), 2)
        b.key("end")
        self.assertAlmostEqual(b.run("return page.view.t1 - page.view.t0"), 2.98, places=5)
        self.assertEqual(b.complaints(), [])

    def test_without_the_model_and_with_another(self):
        folder, file = self.recorded(60)
        os.remove(f"{folder}/cart.safetensors")
        text = flight(file, "--text")
        self.assertIn("Nothing is predicted: ", text)
        self.assertIn("cart.safetensors", text)
        subprocess.run([MAKE_MODEL, "wrong-cart", f"{folder}/wrong.safetensors"], check=True)
        self.assertRegex(flight(file, "--text", "--model", f"{folder}/wrong.safetensors", code=1),
                         "model [0-9a-f]{16} is not the one of the flight")
        subprocess.run([MAKE_MODEL, "cart", f"{folder}/moved.safetensors"], check=True)
        self.assertRegex(flight(file, "--text", "--model", f"{folder}/moved.safetensors"), "prediction +median error")

    def test_a_recording_without_its_end(self):
        folder, file = self.recorded(60)
        short = f"{folder}/short.mcap"
        shutil.copy(file, short)
        os.truncate(short, os.path.getsize(short) - 300)
        self.assertRegex(flight(short, "--text"), "replies +60, ")

    def test_wrong_usage(self):
        self.assertIn("flight wants a recording and --output", flight(code=2))
        self.assertIn("No such file", flight("/nowhere.mcap", "--text", code=1))
        self.assertIn("usage: hilbert-eval flight", flight("--help"))
        self.assertRegex(flight(__file__, "--text", code=1), "test_eval_flight.py")


if __name__ == "__main__":
    main()
