"""Fifty real `serve` processes with a roster. Some do not get a release, each for another reason, and others are switched off."""

import contextlib
import fcntl
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request

from host import Host, row

DEVICES, WORST = 50, 420
# The time between two checks of the devices. Two messages are at most five minutes apart.
CHECKS, INTERVAL = "5s", 300

# Moves the clock of a program by CLOCK_OFFSET seconds.
CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>
time_t time(time_t *out) {
    struct timespec now;
    const char *offset = getenv("CLOCK_OFFSET");
    clock_gettime(CLOCK_REALTIME, &now);
    time_t moved = now.tv_sec + (offset ? atol(offset) : 0);
    if (out) *out = moved;
    return moved;
}
"""

# The devices that do not run the new release, and a part of what the roster shows first.
REASONS = {
    "clock": r"clock \d+ days ahead", "full disk": r"diskFull", "blocked": r"blocked 1\.1\.0", "download hours": r"waits for the download hours",
    "metered budget": r"waits for the metered budget", "wrong key": r"keyUnknown|signatureInvalid", "old shell": r"needs a newer shell",
    "paused": r"its release is paused", "rollout": r"not in the rollout", "other group": r"not in the rollout", "unreachable": r"networkUnavailable",
    "stale feed": r"expired", "busy store": r"storeLocked", "damaged": r"digestMismatch|sizeMismatch", "other application": r"appMismatch",
    "activation window": r"waits for an activation window", "no reload": r"waits for its page", "locked": r"locked",
}


class Proxy(http.server.ThreadingHTTPServer):
    """A proxy in front of the roster. It names the address of each device, as nginx does: the N of the path /N/roster."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            number = int(self.path.split("/")[1])
            body = self.rfile.read(int(self.headers["Content-Length"]))
            fields = {name: self.headers[name] for name in ("Content-Type", "X-Device-Key")}
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
            connection.request("POST", "/roster", body, fields | {"X-Forwarded-For": f"192.0.2.{number}"})
            response = connection.getresponse()
            content = response.read()
            self.send_response(response.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        def log_message(self, *_):
            pass

    daemon_threads = True

    def handle_error(self, *_):
        """Ignores a device that is killed while it sends."""

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.port = port
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Screen:
    """A `serve` process with the calls that its page makes in a browser."""

    def __init__(self, number, name, fleet):
        self.number, self.name, self.fleet, self.store = number, name, fleet, f"{fleet.folder}/stores/{name}"
        self.process = self.port = self.page = None
        self.loads, self.fails = True, False

    def start(self, source=None, trust="release.pub.pem", more=(), env=None):
        log = f"{self.fleet.folder}/logs/{self.name}"
        words = [self.fleet.program, "serve", "--port", "0", "--store", self.store, "--channel",
                 f"{source or self.fleet.host.base}/channels/stable.json", "--trust", f"{self.fleet.folder}/{trust}", "--shell-version", "1.2.0",
                 "--device-id", self.name, "--check-interval", CHECKS, "--startup-timeout", "20s", "--roster",
                 f"http://127.0.0.1:{self.fleet.proxy.server_port}/{self.number}/roster", "--name", self.name, *more]
        with open(log, "a") as errors, open(f"{log}.out", "w") as out:
            self.process = subprocess.Popen(words, stdout=out, stderr=errors, env=self.fleet.clean | (env or {}))
        self.port = None
        if self.page is None:
            self.page = threading.Thread(target=self.show, daemon=True)
            self.page.start()

    def end(self, how=signal.SIGTERM):
        if self.process:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def call(self, path, body=None, **fields):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body and body.encode(),
                                         {"Accept": "text/html", "Content-Type": "application/json", **fields})
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.read().decode()

    def show(self):
        """Loads the page when another client is ready, and reports whether it works."""
        settled = None
        while not self.fleet.ended.wait(1):
            with contextlib.suppress(OSError):
                if self.port is None:
                    found = re.search(r"127\.0\.0\.1:(\d+)", pathlib.Path(f"{self.fleet.folder}/logs/{self.name}.out").read_text())
                    if found is None:
                        continue
                    self.port, settled = int(found[1]), None
                isReady = "clientctl_update_available 1" in self.call("/__clientctl/v1/metrics")
                if settled and not (isReady and self.loads):
                    continue
                page = self.call("/")
                found = re.search('name="clientctl-token" content="([^"]+)"', page)
                if found is None:
                    continue
                fails = self.fails and "<title>1.1.0" in page
                fields = {"X-Client-Token": found[1], "Origin": f"http://127.0.0.1:{self.port}"}
                self.call("/__clientctl/v1/" + ("startupDidFail" if fails else "startupDidComplete"),
                          '{"reason":"white screen"}' if fails else "{}", **fields)
                # After a failure, the page shows the previous client.
                settled = None if fails else found[1]


class Fleet:
    def __init__(self, program, folder, operators):
        self.program, self.folder, self.operators = program, folder, operators
        self.clean = {"PATH": os.environ["PATH"], "HOME": folder, "CLIENTCTL_PUBLISHER_STATE": "none", "LANG": "C.UTF-8"}
        self.feed, self.database, self.small = f"{folder}/fleet", f"{folder}/fleet.db", f"{folder}/stores/full disk"
        self.ended, self.key = threading.Event(), f"{folder}/release.key.pem"
        for name in ("stores", "logs"):
            os.mkdir(f"{folder}/{name}")
        pathlib.Path(f"{folder}/clock.c").write_text(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{folder}/clock.so", f"{folder}/clock.c"], check=True)
        self.run("keys", "generate", "--out", f"{folder}/foreign")
        self.publish("1.0.0", self.feed, "--create")
        self.host = Host(program, self.feed, self.database, operators)
        self.proxy = Proxy(self.host.port)
        self.isRoot = os.geteuid() == 0
        if self.isRoot:
            os.mkdir(self.small)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs", self.small], check=True)
        stuck = [name for name in REASONS if self.isRoot or name != "full disk"]
        names = [f"Screen {number}" for number in range(DEVICES - len(stuck))] + stuck
        self.screens = [Screen(number, name, self) for number, name in enumerate(names)]
        self.healthy, self.stuck = self.screens[:-len(stuck)], self.screens[-len(stuck):]

    def end(self):
        self.ended.set()
        for screen in self.screens:
            screen.end(signal.SIGKILL)
        self.proxy.shutdown()
        self.host.end()
        if os.path.ismount(self.small):
            subprocess.run(["umount", self.small], check=True)

    def run(self, *words, env=None, check=True):
        result = subprocess.run([self.program, *words], env=self.clean | (env or {}), capture_output=True, text=True)
        if check and result.returncode != 0:
            raise SystemExit(f"prove-roster: {' '.join(words)}: {result.stderr}")
        return result

    def publish(self, version, feed, *more, shell="1.0.0"):
        page = pathlib.Path(f"{self.folder}/dist/index.html")
        page.write_text(f"<!doctype html><title>{version}</title>")
        pathlib.Path(f"{self.folder}/dist/big").write_bytes(os.urandom(4 << 20 if version == "1.1.0" else 64))
        self.run("publish", f"{self.folder}/dist", "--version", version, "--feed", feed, "--key", self.key, "--min-shell", shell,
                 "--app-id", "com.example.kiosk", "--channel", "stable", "--no-deltas", *more)

    def devices(self, *more):
        return {one["name"]: one for one in json.loads(self.run("fleet", "list", "--roster", self.database, "--json", *more, check=False).stdout)["devices"]}

    def wait(self, what, isMet, seconds=WORST):
        """Waits until the roster has what is expected, and returns its devices."""
        limit = time.monotonic() + seconds
        while True:
            devices = self.devices()
            if isMet(devices):
                return devices
            if time.monotonic() > limit:
                print(f"    not within {seconds} s: {what}", flush=True)
                return devices
            time.sleep(1)

    def variant(self, name):
        copy = f"{self.folder}/{name.replace(' ', '-')}"
        shutil.copytree(f"{self.folder}/before", copy)
        return copy

    def signed(self, feed, *words):
        self.run(*words, "--feed", feed, "--channel", "stable", "--channel-key", self.key)

    def hinder(self):
        """Restarts each device of REASONS so that it cannot run 1.1.0."""
        for screen in self.stuck:
            screen.end()
        shutil.copytree(self.feed, f"{self.folder}/before")
        self.publish("1.1.0", self.feed)
        sources = {name: self.variant(name) for name in ("old shell", "paused", "rollout", "other group", "stale feed", "damaged")}
        self.publish("1.1.0", sources["old shell"], shell="9.0.0")
        for name in ("paused", "other group", "damaged"):
            self.publish("1.1.0", sources[name])
        self.publish("1.1.0", sources["rollout"], "--rollout", "0%")
        self.signed(sources["paused"], "release", "pause", "--version", "1.1.0")
        self.signed(sources["other group"], "release", "target", "lab", "--only", "--version", "1.1.0")
        self.signed(sources["stale feed"], "channel", "renew", "--expires-in", "1s")
        archive, = pathlib.Path(sources["damaged"]).glob("releases/v1.1.0/*.tar.zst")
        content = bytearray(archive.read_bytes())
        content[len(content) // 2] ^= 1
        archive.chmod(0o644)
        archive.write_bytes(content)

        hour = time.localtime().tm_hour
        later = f"{(hour + 6) % 24:02}:00-{(hour + 7) % 24:02}:00"
        flags = {
            "download hours": ["--download-window", later], "metered budget": ["--metered", "yes", "--metered-budget", "10kB"],
            "activation window": ["--activation-window", later], "other application": ["--app-id", "com.example.other"],
        }
        sources["unreachable"] = "http://127.0.0.1:9"
        for screen in self.stuck:
            # A page that is loaded would show the next client.
            screen.loads = screen.name not in ("activation window", "no reload")
            screen.fails = screen.name == "blocked"
            if screen.name == "busy store":
                # Another process installs.
                self.lock = open(f"{screen.store}/lock", "a")
                fcntl.flock(self.lock, fcntl.LOCK_EX)
            if screen.name == "locked":
                self.run("screen", "lock", "--store", screen.store)
            isAhead = screen.name == "clock"
            screen.start(
                sources.get(screen.name), "foreign.pub.pem" if screen.name == "wrong key" else "release.pub.pem", flags.get(screen.name, []),
                {"LD_PRELOAD": f"{self.folder}/clock.so", "CLOCK_OFFSET": f"{400 * 86_400}"} if isAhead else None)

    def reasons(self):
        for screen in self.screens:
            screen.start()
        names = {screen.name for screen in self.screens}
        devices = self.wait("1.0.0 is good on all devices", lambda devices: set(devices) == names and all(
            (one["runs"], one["state"]) == ("1.0.0", "good") for one in devices.values()))
        good = sum((one["runs"], one["state"]) == ("1.0.0", "good") for one in devices.values())
        row(f"{DEVICES} serve processes install and confirm a release", f"{good} of {len(devices)} devices", f"{DEVICES}", good == DEVICES)
        self.hinder()
        expected = {name: re.compile(reason) for name, reason in REASONS.items() if name in names}

        def isStuck(one):
            return bool(one["reasons"]) and bool(expected[one["name"]].search(one["reasons"][0]))

        devices = self.wait("all devices run 1.1.0 or have a reason", lambda devices: all(
            isStuck(one) if name in expected else (one["runs"], one["state"]) == ("1.1.0", "good") for name, one in devices.items()))
        table = self.run("fleet", "list", "--roster", self.database).stdout
        named = 0
        for name, reason in expected.items():
            line, = [line for line in table.splitlines() if line.startswith(f"{name} ")]
            shown = self.run("fleet", "show", name, "--roster", self.database).stdout
            shown = next((line.strip() for line in shown.splitlines() if "needs attention" in line), "no reason")
            print(f"    {name}: {shown}", flush=True)
            if reason.search(line) and reason.search(shown) and devices[name]["runs"] == "1.0.0":
                named += 1
            else:
                print(f"    {line}\n    {json.dumps(devices[name])}", flush=True)
        row(f"{len(expected)} devices stuck on an old version, each for another reason", f"list and show name {named} reasons", f"{len(expected)}",
            named == len(expected))
        new = sum((devices[one.name]["runs"], devices[one.name]["state"]) == ("1.1.0", "good") for one in self.healthy if one.name in devices)
        free = sum(one.name in devices and not devices[one.name]["reasons"] for one in self.healthy)
        row("the other devices", f"{new} run the new version, {free} without a reason", f"{len(self.healthy)}", new == free == len(self.healthy))

    # Silence

    def switchOff(self):
        """Kills all devices but three. Returns the time, and the devices that stay."""
        stay = self.healthy[:3]
        for screen in self.screens:
            if screen not in stay:
                screen.end(signal.SIGKILL)
        self.off = time.monotonic()
        self.on = {screen.name for screen in stay}

    def silent(self):
        """Returns the status of `fleet list --silent`, and the silent devices there, in /roster.json and in the metrics."""
        listed = self.run("fleet", "list", "--roster", f"{self.host.base}/roster", "--roster-token-file", self.operators, "--silent",
                          f"{2 * INTERVAL}s", "--json", check=False)
        answer = json.loads(self.host.get("/roster.json")[1])["devices"]
        metrics = self.host.get("/metrics")[1].decode()
        count = re.search(r'clientctl_roster_silent\{over="2 intervals"\} (\d+)', metrics)
        return (listed.returncode, {one["name"] for one in json.loads(listed.stdout)["devices"]}, {one["name"] for one in answer if one["silent"]},
                int(count[1]) if count else -1)

    def silence(self):
        """Waits until the devices that were switched off are silent."""
        off = {screen.name for screen in self.screens} - self.on
        status, listed, shown, count = self.silent()
        isEarly = time.monotonic() - self.off < INTERVAL
        row("devices that were just switched off", f"{len(listed)} silent, status {status}", "0, 0", not isEarly or (not listed and status == 0))
        while True:
            status, listed, shown, count = self.silent()
            took = time.monotonic() - self.off
            if listed >= off and shown >= off and count >= len(off) or took > 2 * INTERVAL + 10:
                break
            time.sleep(2)
        row(f"{len(off)} serve processes killed, silent after two intervals ({2 * INTERVAL} s)",
            f"after {took:.0f} s: {len(listed)} in fleet list --silent, {len(shown)} in /roster.json, {count} in the metric, status {status}",
            f"{2 * INTERVAL + 10} s, {len(off)}, 63",
            took <= 2 * INTERVAL + 10 and listed == shown == off and count == len(off) and status == 63)
