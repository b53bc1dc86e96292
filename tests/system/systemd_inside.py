"""An operator's life with hilbertd under systemd; run by systemd.sh inside the container that it boots.

Every check prints a line; the last line is "N passed, N failed".
"""

import json
import math
import os
import pathlib
import resource
import signal
import stat
import subprocess
import sys
import threading
import time

import hilbert
from hardening import hardening

ETC = pathlib.Path("/etc/hilbertd")
CONFIG = ETC / "hilbertd.yaml"
SERVICE = "hilbertd.service"

passed = failed = 0


def check(what, good, detail=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(f"{'ok    ' if good else 'FAILED'} {what}{': ' if detail != '' else ''}{detail}")
    return good


def section(title):
    print(f"\n-- {title}")


def run(*command, timeout=60):
    """Exit status and output of a command."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
    return done.returncode, done.stdout.strip()


def show(text, most=12):
    for line in text.splitlines()[:most]:
        print(f"       | {line}")


def unit(key, name=SERVICE):
    return run("systemctl", "show", "--value", "-p", key, name)[1]


def pid(name=SERVICE):
    return int(unit("MainPID", name))


def journal(since, name=SERVICE):
    """What the unit logged since a time (seconds of the real clock)."""
    run("journalctl", "--sync")
    return run("journalctl", "-q", "--no-pager", "-o", "cat", "-u", name, f"--since=@{since:.6f}")[1]


def own_status(key, process="self"):
    """A line of /proc/PID/status."""
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return line.split(":", 1)[1].strip()
    raise KeyError(key)


def until(condition, seconds):
    """Waits for a condition; returns how long it took, or None."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if condition():
            return time.monotonic() - began
        time.sleep(0.005)
    return None


def status(*options):
    code, text = run("hilbertctl", "status", "--json", *options)
    return json.loads(text) if code == 0 else None


def window(*options):
    """What a restart must keep: the number of samples, and the coefficients with their standard deviations."""
    s = status(*options)
    return s and (s["health"]["samples"], s["coefficient"], [math.sqrt(v) for v in s["variance"]])


def same_window(what, before, after):
    """The same samples, and the same coefficients: a restart evaluates all samples anew along the present model, which
    moves the estimate by a fraction of its own uncertainty."""
    if not (before and after):
        return check(what, False, f"{before} before, {after} after")
    scale = max(map(abs, before[1])) or 1
    moved = [abs(a - b) for a, b in zip(before[1], after[1])]
    deviations = max((m / s if s else math.inf * (m > 0) for m, s in zip(moved, before[2])), default=math.inf)
    good = before[0] == after[0] > 0 and len(before[1]) == len(after[1]) and deviations < 1
    told = f"{max(moved) / scale:.1e} of the largest, {deviations:.2f} standard deviations"
    return check(what, good, f"{before[0]} -> {after[0]} samples; coefficients moved by at most {told}")


def edit(path, old, new):
    text = path.read_text()
    assert old in text, f"{old} is not in {path}"
    path.write_text(text.replace(old, new, 1))


def restart():
    run("systemctl", "reset-failed", SERVICE)  # there are more restarts here than systemd takes for healthy
    return run("systemctl", "restart", SERVICE)[0]


# ---- the parts ----


def installation():
    section("installation")
    check("active after boot", until(lambda: unit("ActiveState") == "active", 20) is not None, unit("StatusText"))
    check("user hilbertd", run("id", "hilbertd")[0] == 0, run("id", "hilbertd")[1])
    code, text = run("hilbertctl", "status")
    check("hilbertctl status", code == 0)
    show(text, 30)
    check("no capability", int(own_status("CapEff", pid()), 16) == int(own_status("CapBnd", pid()), 16) == 0)
    check("no new privileges", own_status("NoNewPrivs", pid()) == "1")
    check("system-call filter", own_status("Seccomp", pid()) == "2")
    code, text = run("systemd-analyze", "security", "--no-pager", "--threshold=15", SERVICE)
    check("exposure at most 1.5", code == 0, text.splitlines()[-1])
    code, text = run("systemd-analyze", "verify", "--man=no", SERVICE, "hilbertd@vehicle.service")
    check("verify is silent", code == 0 and text == "", text)


def fly(*options):
    """Exit status and summary of a flight of the simulated quadrotor against the daemon."""
    code, text = run("hilbert-sim", "fly", "quadrotor", "--json", *options)
    try:
        last = json.loads(text.splitlines()[-1])
        return code, last, {k: last[k] for k in ("settled_m", "crashed", "late", "slew", "status", "latency_ms")}
    except (ValueError, IndexError, KeyError):
        return code or 1, {"crashed": True, "settled_m": math.inf}, text


def fill_window():
    """Fills the window."""
    fly("--mass", "0.025", "--seconds", "5")


def flight():
    section("flight")
    code, last, told = fly("--mass", "0.03", "--seconds", "10")
    check("flown to the target", code == 0 and last["settled_m"] < 0.1, told)
    show(run("systemctl", "status", "--no-pager", "-n", "0", SERVICE)[1], 8)


def restarts():
    section("systemctl restart")
    before, old, since = window(), pid(), time.time()
    check("restart", restart() == 0 and pid() != old)
    same_window("window kept by the file-descriptor store", before, window())
    check("resumed", status()["resumed"])
    show("\n".join(l for l in journal(since).splitlines() if "window" in l or "ready" in l))
    before = window()
    run("systemctl", "stop", SERVICE)
    check("stopped as asked", unit("Result") == "success" and unit("ActiveState") == "inactive")
    run("systemctl", "start", SERVICE)
    check("a stop gives the window up", not status()["resumed"] and window()[0] == 0, f"{window()[0]} samples")


def reloads():
    section("systemctl reload")
    original, old, since = CONFIG.read_text(), pid(), time.time()
    check("budget before", status()["budget_us"] == 10000, status()["budget_us"])
    edit(CONFIG, "budget: 0.01", "budget: 0.012")
    code, text = run("systemctl", "reload", SERVICE)
    took = until(lambda: status()["budget_us"] == 12000, 5)
    check("good: taken over, same process", code == 0 and took is not None and pid() == old, text)
    edit(CONFIG, "budget: 0.012", "budget: soon")
    code, text = run("systemctl", "reload", SERVICE)
    check("bad: reload fails", code != 0, text)
    check("bad: nothing changed, same process", status()["budget_us"] == 12000 and pid() == old)
    lines = [l for l in journal(since).splitlines() if "latency.budget" in l]
    check("bad: journal says what is wrong where", bool(lines), lines[:1])
    os.kill(old, signal.SIGHUP)
    check(
        "bad, by signal: counted and nothing changed",
        until(lambda: status()["counters"]["reload_errors"] == 1, 5) is not None and status()["budget_us"] == 12000,
    )
    CONFIG.write_text(original)
    check("back to the first", run("systemctl", "reload", SERVICE)[0] == 0 and
          until(lambda: status()["budget_us"] == 10000, 5) is not None)


class Vehicle:
    """Something that hovers: publishes telemetry and asks for actions at 100 Hz, and notes when valid ones came."""

    def __init__(self):
        self.valid = []  # of replies with a plan: when asked for, when there
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._fly)

    def __enter__(self):
        self.thread.start()
        until(lambda: self.valid, 5)
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def kill(self):
        """Kills the daemon; seconds until the next valid action, asked for after the daemon was gone, or None."""
        victim, moment = pid(), time.monotonic()
        os.kill(victim, signal.SIGKILL)
        until(lambda: not pathlib.Path(f"/proc/{victim}").exists(), 5)
        gone = time.monotonic()
        until(lambda: self.valid[-1][0] > gone, 20)
        return next((there - moment for asked, there in self.valid if asked > gone), None)

    def _fly(self):
        with hilbert.Client(timeout=2) as client:
            model = client.model()
            client.timeout = 0.05
            state, trim = [0.0] * len(model.state), [c.trim for c in model.control]
            state[4], state[9] = 1.0, 1.0  # z, qw
            while not self.stopping.is_set():
                asked = time.monotonic()
                now = int(1e6 * asked)
                client.publish(now, state, trim)
                try:
                    reply = client.request(now, state)
                    if reply.action and reply.status < hilbert.Status.STALE:
                        self.valid.append((asked, time.monotonic()))
                except hilbert.Error:
                    pass
                time.sleep(0.01)


def kills():
    section("SIGKILL")
    fill_window()
    before, old, since = window(), pid(), time.time()
    os.kill(old, signal.SIGKILL)
    took = until(lambda: pid() not in (0, old) and unit("ActiveState") == "active", 10)
    check("restarted", took is not None, f"ready again after {1e3 * (took or 0):.0f} ms")
    same_window("window kept", before, window())
    times = []
    with Vehicle() as vehicle:
        for _ in range(5):
            time.sleep(2)
            times.append(vehicle.kill())
    worst = max(t if t is not None else 99 for t in times)
    check("first valid action within 500 ms", worst < 0.5, ", ".join(f"{1e3 * t:.0f} ms" if t else "none" for t in times))
    show(journal(since), 8)


def hangs():
    section("SIGSTOP")
    fill_window()
    before, old, since = window(), pid(), time.time()
    os.kill(old, signal.SIGSTOP)
    took = until(lambda: pid() not in (0, old) and unit("ActiveState") == "active", 20)
    check("the watchdog restarts it", took is not None, f"ready again after {took or 0:.2f} s")
    check("for that reason", "Watchdog timeout" in journal(since))
    same_window("window kept", before, window())


def break_and_mend(text):
    """Restarts with a configuration that cannot work until systemd gives up, then mends it; seconds until it is back."""
    CONFIG.write_text(text.replace("budget: 0.01", "budget: never"))
    check("restart fails", restart() != 0)
    took = until(lambda: unit("ActiveState") == "failed", 10)
    check("tried again at once, then given a rest", took is not None, f"{unit('NRestarts')} restarts, {unit('Result')}")
    CONFIG.write_text(text)
    took = until(lambda: unit("ActiveState") == "active", 20)
    check("comes back by itself once it is mended", took is not None, f"after {took or 0:.1f} s")


def broken():
    section("a configuration that cannot work")
    original, since = CONFIG.read_text(), time.time()
    fill_window()
    before = window()
    break_and_mend(original)
    show("\n".join(sorted({l for l in journal(since).splitlines() if "never" in l})))
    check("systemd gives the window up with the pause", window()[0] == 0 and not status()["resumed"],
          f"{before[0]} -> {window()[0]} samples")
    filed = original.replace('state_file: ""', "state_file: /var/lib/hilbertd/window")
    CONFIG.write_text(filed)
    check("restart with a state file", restart() == 0)
    fill_window()
    before = window()
    break_and_mend(filed)
    same_window("a state file keeps it", before, window())
    CONFIG.write_text(original.replace("budget: 0.01", "budget: never"))
    restart()
    until(lambda: unit("ActiveState") == "failed", 10)
    run("systemctl", "stop", SERVICE)
    CONFIG.write_text(original)
    time.sleep(12)
    check("but not after systemctl stop", unit("ActiveState") != "active", unit("ActiveState"))
    run("systemctl", "reset-failed", SERVICE)
    check("and starts when asked", run("systemctl", "start", SERVICE)[0] == 0)


def realtime():
    section("SCHED_FIFO on and off")
    original, folder = CONFIG.read_text(), pathlib.Path("/run/systemd/system/hilbertd.service.d")
    limit = int(resource.getrlimit(resource.RLIMIT_RTPRIO)[1])
    if not int(own_status("CapEff"), 16) >> 24 & 1 and 0 <= limit < 40:
        # then systemd cannot raise limits at all, and the sandbox's user namespace makes capabilities worthless
        print("       | this machine's root may not raise limits (no CAP_SYS_RESOURCE): capabilities for LimitRTPRIO")
        folder.mkdir(parents=True)
        capabilities = "CAP_SYS_NICE CAP_IPC_LOCK"
        (folder / "test.conf").write_text(
            f"[Service]\nPrivateUsers=no\nCapabilityBoundingSet={capabilities}\nAmbientCapabilities={capabilities}\n"
        )
        run("systemctl", "daemon-reload")
    text = original.replace("scheduling: other", "scheduling: fifo").replace("lock_memory: false", "lock_memory: true")
    CONFIG.write_text(text.replace("required: false", "required: true"))
    if check("starts with fifo, locked memory, required", restart() == 0 and unit("ActiveState") == "active"):
        lines = run("chrt", "-a", "-p", str(pid()))[1]
        check("server's and planner's threads are SCHED_FIFO", lines.count("SCHED_FIFO") >= 2)
        show("\n".join(l for l in lines.splitlines() if "FIFO" in l or "priority: " in l and not l.endswith(" 0")), 6)
        locked = int(own_status("VmLck", pid()).split()[0])
        check("memory is locked", locked > 1000, f"{locked} kB")
        code, last, told = fly("--mass", "0.03", "--seconds", "10", "--realtime")
        check("flies in real time, whatever else this machine does", code == 0 and last["settled_m"] < 0.1, told)
    CONFIG.write_text(original)
    if folder.exists():
        (folder / "test.conf").unlink()
        folder.rmdir()
        run("systemctl", "daemon-reload")
    check("starts without", restart() == 0 and "SCHED_FIFO" not in run("chrt", "-a", "-p", str(pid()))[1])


def dropins():
    section("drop-ins")
    folder = pathlib.Path("/etc/systemd/system/hilbertd.service.d")
    folder.mkdir()
    for name in ("local-only.conf", "no-realtime.conf"):
        (folder / name).write_text(pathlib.Path("/usr/share/doc/hilbertd/hilbertd.service.d", name).read_text())
    run("systemctl", "daemon-reload")
    check("local only, no real time: works", restart() == 0 and status() is not None)
    check("exposure", True, run("systemd-analyze", "security", "--no-pager", SERVICE)[1].splitlines()[-1])
    for file in folder.iterdir():
        file.unlink()
    device, original = "/dev/cpu_dma_latency", CONFIG.read_text()
    numbers = {name: int(number) for number, name in map(str.split, open("/proc/misc"))}
    if not os.path.exists(device) and "cpu_dma_latency" in numbers:  # a container's /dev has few devices
        try:
            os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(10, numbers["cpu_dma_latency"]))
        except OSError as failed:
            print(f"       | {device}: {failed}")
    if os.path.exists(device):
        name = "keep-awake.conf"
        (folder / name).write_text(pathlib.Path("/usr/share/doc/hilbertd/hilbertd.service.d", name).read_text())
        run("systemctl", "daemon-reload")
        CONFIG.write_text(original.replace("keep_awake: false", "keep_awake: true").replace("required: false", "required: true"))
        check("keep awake: works", restart() == 0 and status() is not None)
        files = [os.path.realpath(entry.path) for entry in os.scandir(f"/proc/{pid()}/fd")]
        check("and holds the device", device in files)
        CONFIG.write_text(original)
        (folder / name).unlink()
    else:
        print(f"       | this machine has no {device}: keep-awake.conf is not tried")
    folder.rmdir()
    run("systemctl", "daemon-reload")
    check("without them again", restart() == 0)


def instances():
    section("two instances of hilbertd@")
    for name in ("left", "right"):
        text = (ETC / "quadrotor.yaml").read_text()
        (ETC / f"{name}.yaml").write_text(text.replace("name: quadrotor", f"name: {name}"))
        check(f"hilbertd@{name} starts", run("systemctl", "enable", "--now", f"hilbertd@{name}")[0] == 0)
    for name in ("left", "right"):
        check(f"{name} answers on its own sockets", (status("-n", name) or {}).get("name") == name)
    run("systemctl", "stop", "hilbertd@left")
    check("a stopped one leaves no folder", not pathlib.Path("/run/hilbertd/left").exists())
    run("systemctl", "stop", SERVICE)
    check("the others go on", status("-n", "right") is not None)
    run("systemctl", "start", SERVICE)
    check("and so does hilbertd", status() is not None and status("-n", "right") is not None)


def version():
    return run("dpkg-query", "-W", "-f", "${Version}", "hilbertd")[1]


def upgrade():
    section("upgrade to a rebuilt package")
    edit(CONFIG, "period: 0.1", "period: 0.25")
    run("systemctl", "reload", SERVICE)
    fill_window()
    before, old, right, was = window(), pid(), pid("hilbertd@right.service"), version()
    code, text = run("sh", "-c", "dpkg -i /test/debs/2/*.deb", timeout=300)
    check("upgraded", code == 0 and version() != was, f"{was} -> {version()}")
    if code:
        show(text, 30)
    check("restarted, with its instance", unit("ActiveState") == "active" and pid() != old and
          pid("hilbertd@right.service") not in (0, right))
    same_window("window kept", before, window())
    check("changed configuration kept", "period: 0.25" in CONFIG.read_text())


PACKAGES = ("hilbertd", "hilbert-tools", "libhilbert-client-dev", "libhilbert-client0", "python3-hilbert")


def removal():
    section("remove")
    code, text = run("dpkg", "-r", *PACKAGES, timeout=120)
    check("removed", code == 0, text.splitlines()[-1] if code else "")
    check("nothing runs", run("sh", "-c", "cat /proc/[0-9]*/comm")[1].split().count("hilbertd") == 0)
    check("configuration is still there", "period: 0.25" in CONFIG.read_text())
    check("programs are gone", not pathlib.Path("/usr/sbin/hilbertd").exists())
    section("purge")
    code, text = run("dpkg", "-P", *PACKAGES, timeout=120)
    check("purged", code == 0, text.splitlines()[-1] if code else "")
    run("systemctl", "daemon-reload")
    find = "find / -xdev -path /test -prune -o -path /proc -prune -o -path /sys -prune -o -iname '*hilbert*' -print; ls -d /run/*hilbert*"
    left = [l for l in run("sh", "-c", find)[1].splitlines() if "hilbert-test.service" not in l and "No such file" not in l]
    check("nothing is left", not left, left or "(the user stays, as policy wants it)")


def as_user(name, *command):
    return run("runuser", "-u", name, "--", *command)


def owned(path):
    """Owner, group and mode of a path."""
    p = pathlib.Path(path)
    return f"{p.owner()}:{p.group()} {stat.S_IMODE(p.lstat().st_mode):04o}"


def inside(process, *command):
    """A command as root, and yet with the files as the sandbox of a process has them."""
    return run("nsenter", f"--target={process}", "--mount", "--", *command)


def users():
    """Who may do what on this machine, and what the sandbox leaves to the daemon."""
    section("users and files")
    original = CONFIG.read_text()
    for name in ("visitor", "member"):
        run("useradd", "--create-home", name)
    run("usermod", "-aG", "hilbertd", "member")
    edit(CONFIG, 'state_file: ""', "state_file: /var/lib/hilbertd/window")
    check("restart with a state file", restart() == 0, journal(time.time() - 5) if unit("ActiveState") != "active" else "")
    fill_window()
    expected = {"/run/hilbertd": "hilbertd:hilbertd 0755", "/var/lib/hilbertd": "hilbertd:hilbertd 0750",
                "/var/log/hilbertd": "hilbertd:hilbertd 0750", "/var/lib/hilbertd/window": "hilbertd:hilbertd 0600"}
    expected |= {f"/run/hilbertd/{s}": "hilbertd:hilbertd 0660" for s in ("telemetry", "actions", "control", "status")}
    for path, mode in expected.items():
        check(path, owned(path) == mode, owned(path))
    check("configuration: root's, and no secret", owned(CONFIG) == "root:root 0644", owned(CONFIG))
    check("runs as hilbertd", pathlib.Path(f"/proc/{pid()}").owner() == "hilbertd")
    for command in (("status",), ("reset",), ("request",), ("watch", "-c", "1")):
        code, text = as_user("visitor", "hilbertctl", *command)
        check(f"an ordinary user's hilbertctl {command[0]} is refused", code != 0, text.splitlines()[-1] if text else "")
    code, text = as_user("visitor", "hilbertctl", "status")
    check("and is told what is missing", "group" in text, text)
    for path in ("/var/lib/hilbertd", "/var/log/hilbertd"):
        check(f"nor may it look into {path}", as_user("visitor", "ls", path)[0] != 0)
    check("or end the daemon", as_user("visitor", "kill", str(pid()))[0] != 0)
    code, text = as_user("member", "hilbertctl", "status")
    check("a member of the group may ask", code == 0, "" if code == 0 else text)
    check("a member may not read the window", as_user("member", "cat", "/var/lib/hilbertd/window")[0] != 0)

    section("keys")
    run("hilbertctl", "keygen", "/etc/hilbertd/server")
    run("hilbertctl", "keygen", "/home/member/ground")
    run("chown", "hilbertd", "/etc/hilbertd/server.key")
    run("chown", "member", "/home/member/ground.key", "/home/member/ground.pub")
    run("cp", "/home/member/ground.pub", "/etc/hilbertd/ground.pub")
    check("a new secret key is for its owner alone", owned("/etc/hilbertd/server.key") == "hilbertd:root 0600",
          owned("/etc/hilbertd/server.key"))
    edit(CONFIG, 'control: ["ipc:///run/hilbertd/control"]', "control: [ipc:///run/hilbertd/control, tcp://127.0.0.1:5555]")
    code, text = run("runuser", "-u", "hilbertd", "--", "hilbertd", "--check", str(CONFIG))
    check("tcp without keys is refused", code != 0, text.splitlines()[-1] if text else "")
    edit(CONFIG, 'server_key: ""', "server_key: server.key")
    edit(CONFIG, "client_keys: []", "client_keys: [ground.pub]")
    check("starts with keys", restart() == 0, journal(time.time() - 3) if unit("ActiveState") != "active" else "")
    asks = ("hilbertctl", "status", "-s", "tcp://127.0.0.1:5555", "-K", "/etc/hilbertd/server.pub")
    code, text = as_user("member", *asks, "-k", "/home/member/ground.key")
    check("whoever has a key that is known may ask over tcp", code == 0, "" if code == 0 else text)
    run("hilbertctl", "keygen", "/home/visitor/own")
    run("chown", "visitor", "/home/visitor/own.key", "/home/visitor/own.pub")
    code, text = as_user("visitor", *asks, "-k", "/home/visitor/own.key")
    check("with another key nobody does", code != 0, text.splitlines()[-1] if text else "")
    code, text = as_user("visitor", *asks, "-k", "/home/member/ground.key")
    check("nor with a key that is not theirs", code != 0, text.splitlines()[-1] if text else "")
    os.chmod("/etc/hilbertd/server.key", 0o640)
    code, text = run("runuser", "-u", "hilbertd", "--", "hilbertd", "--check", str(CONFIG))
    check("a secret key that others may read is refused", code != 0 and "server.key" in text, text.splitlines()[-1] if text else "")
    os.chmod("/etc/hilbertd/server.key", 0o600)
    CONFIG.write_text(original)
    for path in ("server.key", "server.pub", "ground.pub"):
        (ETC / path).unlink()
    check("back to the first", restart() == 0)

    section("sandbox")
    daemon = pid()
    for folder in ("/etc", "/usr", "/var", "/"):
        code, text = inside(daemon, "touch", f"{folder}/written")
        check(f"{folder} cannot be written to, not even by root", code != 0 and "Read-only" in text, text)
    check("its own folder can", inside(daemon, "touch", "/var/lib/hilbertd/written")[0] == 0)
    inside(daemon, "rm", "/var/lib/hilbertd/written")
    code, text = inside(daemon, "ls", "/home/member")
    check("homes are out of sight", code != 0, text)
    pathlib.Path("/tmp/ours").touch()
    check("/tmp is its own", inside(daemon, "ls", "/tmp/ours")[0] != 0)
    check("no device of the machine", inside(daemon, "sh", "-c", "ls /dev/sd* /dev/vd* /dev/mem")[0] != 0)
    check("no capability, in effect or in reach", int(own_status("CapEff", daemon), 16) == 0 == int(own_status("CapBnd", daemon), 16))
    check("no new privileges, and a filter of system calls",
          (own_status("NoNewPrivs", daemon), own_status("Seccomp", daemon)) == ("1", "2"))
    for program in ("/usr/sbin/hilbertd", "/usr/bin/hilbertctl", "/usr/bin/hilbert-mavlink"):
        built = hardening(program)
        check(f"{program}: {', '.join(built)}", all(built.values()), "" if all(built.values()) else built)
    for name in ("visitor", "member"):
        run("userdel", "--remove", name)


def main():
    parts = (installation, flight, users, restarts, reloads, kills, hangs, broken, realtime, dropins, instances, upgrade, removal)
    if sys.argv[1:]:
        parts = [globals()[name] for name in sys.argv[1:]]
        until(lambda: unit("ActiveState") == "active", 20)
    for part in parts:
        try:
            part()
        except Exception as e:  # one part that breaks off is a failure, and no reason to leave the others out
            check(part.__name__, False, f"{type(e).__name__}: {e}")
            show(journal(time.time() - 20) if pathlib.Path("/usr/sbin/hilbertd").exists() else "")
    print(f"\n{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
