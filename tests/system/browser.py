"""A real browser for tests: Debian's chromium, driven by its chromedriver over WebDriver (plain HTTP and JSON)."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

from waiting import wait_until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# nothing that looks for a network; no sandbox, which root does not get
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio"]
KEYS = {"space": " ", "escape": "\ue00c", "home": "\ue011", "end": "\ue010", "left": "\ue012", "right": "\ue014",
        "enter": "\ue007", "tab": "\ue004"}


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        self.folder = tempfile.mkdtemp(prefix="hilbert-browser-")
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                       start_new_session=True, env=dict(os.environ, HOME=self.folder))
        try:
            for line in self.driver.stdout:
                if match := re.search(r"started successfully on port (\d+)", line):
                    break
            else:
                raise AssertionError("chromedriver did not start")
            self.base = f"http://127.0.0.1:{match[1]}"
            flags = FLAGS + [f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}"]
            options = {"binary": CHROMIUM, "args": flags + (["--force-dark-mode"] if dark else [])}
            self.base += "/session/" + self.call("/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def call(self, path, body=None, method=None):
        request = urllib.request.Request(self.base + path, method=method or ("GET" if body is None else "POST"),
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()[:600]}") from None

    def open(self, address):
        self.call("/url", {"url": address})

    def run(self, script, *arguments):
        return self.call("/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector):
        """Of the first element; None: there is none."""
        return self.run("const e = document.querySelector(arguments[0]); return e && e.textContent;", selector)

    def wait(self, script, what, patience=40.0):
        """Until a script returns something true; returns that."""
        try:
            return wait_until(lambda: self.run(script), what, patience, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page says:\n"
                                 + self.run("return document.body.innerText.slice(0, 1500)")) from None

    def key(self, key):
        key = KEYS.get(key, key)
        self.call("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def pointer(self, *steps):
        """(x, y), "down" or "up", in turn."""
        actions = [{"type": "pointer" + {"down": "Down", "up": "Up"}[s], "button": 0} if isinstance(s, str)
                   else {"type": "pointerMove", "duration": 50, "x": int(s[0]), "y": int(s[1])} for s in steps]
        self.call("/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
                                            "actions": actions}]})

    def resize(self, width, height):
        # a headless window may not become this narrow: the page's own width can
        self.call("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}})

    def complaints(self):
        """What the console has of warnings and errors since the last time."""
        return [e["message"] for e in self.call("/se/log", {"type": "browser"}) if e["level"] in ("SEVERE", "WARNING")]

    def close(self):
        if "/session/" in getattr(self, "base", ""):
            try:
                self.call("", method="DELETE")
            except (AssertionError, OSError):
                pass
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)  # its own session: the driver and its browser
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.driver.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
