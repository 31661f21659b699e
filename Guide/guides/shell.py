#!/usr/bin/env python3
"""A shell in Python: shows the client of a store to a browser on this machine, and rolls back a client that does not start.

Four commands make all decisions of a shell: launch, confirm, fail and status. They read their settings from the
environment: CLIENTCTL_STORE, CLIENTCTL_SHELL_VERSION, CLIENTCTL_SEED. CLIENTCTL_STARTUP_TIMEOUT is the time for a start (10s).
It begins with the first page, and is suspended while every page is hidden.
"""

import functools
import hmac
import http.server
import json
import os
import pathlib
import re
import secrets
import subprocess
import threading
import time

CLOSED = {44: "This device is locked.", 45: "No user is signed in."}
NO_NETWORK = 10
SESSION_EVENTS = ("locked", "unlocked", "loggedIn", "loggedOut")
HOSTS = ("127.0.0.1", "localhost")
CALLS = "/__clientctl/v1/"
TIMEOUT = float(os.environ.get("CLIENTCTL_STARTUP_TIMEOUT", "10s").removesuffix("s"))
# The start of a page up to the contents of its head. All its tags are optional.
HEAD = re.compile(r"\ufeff?(\s|<!--.*?-->|<!doctype[^>]*>|<html(?=[\s>])[^>]*>)*(<head(?=[\s>])[^>]*>)?", re.IGNORECASE | re.DOTALL)
BRIDGE = """<meta name="clientctl-token" content="%s"><script>
(function () {
  var token = document.querySelector('meta[name="clientctl-token"]').content;
  function call(method, body) {
    return fetch('/__clientctl/v1/' + method, { method: 'POST', body: JSON.stringify(body || {}),
      headers: { 'Content-Type': 'application/json', 'X-Client-Token': token } }).then(function (answer) {
        if (answer.status === 403) { location.reload(); }
        return answer.json();
      });
  }
  setInterval(function () { call('getCurrentVersion'); }, 1000);
  var page = String(Math.random()), number = 0;
  function report() { call('visibility', { page: page, number: ++number, hidden: document.hidden }); }
  document.addEventListener('visibilitychange', report);
  report();
  window.Capacitor = { Plugins: { CapacitorMeteorWebApp: {
    startupDidComplete: function () { return call('startupDidComplete'); },
    startupDidFail: function (options) { return call('startupDidFail', options); },
    getCurrentVersion: function () { return call('getCurrentVersion'); },
    reload: function () { return call('reload').then(function () { location.reload(); }); },
    addListener: function () { return Promise.resolve({ remove: function () {} }); }
  } } };
})();
</script>"""


def clientctl(*arguments):
    """Runs one command and returns its output. A failure ends the shell, and the service manager restarts it."""
    done = subprocess.run(["clientctl", *arguments, "--json"], stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode in CLOSED:
        return {"version": None, "servingRoot": os.devnull, "token": secrets.token_hex(32), "trial": False,
                "closed": CLOSED[done.returncode]}
    if done.returncode != 0:
        raise RuntimeError(f"clientctl {arguments[0]} ended with {done.returncode}: {done.stdout}")
    return json.loads(done.stdout)


class Watchdog:
    """Calls `expired` when pages of a trial have been visible for TIMEOUT seconds. It starts with the first page."""

    def __init__(self, expired):
        self.expired, self.left, self.pages, self.timer, self.since = expired, TIMEOUT, {}, None, 0

    def see(self, page, number, hidden):
        """Records whether a page is hidden. The reports of a page can arrive in any order."""
        if number >= self.pages.get(page, (0, False))[0]:
            self.pages[page] = (number, hidden)
        if any(not hidden for _, hidden in self.pages.values()):
            self.run()
        else:
            self.stop()

    def run(self):
        if not self.timer:
            self.since = time.monotonic()
            self.timer = threading.Timer(self.left, self.expired)
            self.timer.daemon = True
            self.timer.start()

    def stop(self):
        if self.timer:
            self.timer.cancel()
            self.left = max(0, self.left - (time.monotonic() - self.since))
        self.timer = None


class Shell:
    """The current launch and its watchdog. A lock serializes all changes."""

    def __init__(self):
        self.lock = threading.RLock()
        self.watchdog = None
        self.launch()
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        """Launches again when the device is locked or unlocked, and when a session begins or ends."""
        with subprocess.Popen(["clientctl", "events"], stdout=subprocess.PIPE, text=True) as events:
            for line in events.stdout:
                if json.loads(line)["event"] in SESSION_EVENTS:
                    self.launch()

    def launch(self):
        """Chooses the client and starts it. When this returns, the boot attempt is on the disk."""
        with self.lock:
            self.settle()
            self.shown = clientctl("launch")
            if self.shown["trial"]:
                token = self.shown["token"]
                self.watchdog = Watchdog(lambda: self.fail(token, f"no confirmation in {TIMEOUT:g} s"))

    def page(self):
        """Returns the token for a page that a browser loads. The page counts as visible until its first report."""
        with self.lock:
            if self.watchdog and not self.watchdog.pages:
                self.watchdog.run()
            return self.shown["token"]

    def settle(self):
        if self.watchdog:
            self.watchdog.stop()
        self.watchdog = None

    def is_shown(self, token):
        """Returns whether a call is from the current page. The outgoing page must not confirm the incoming client."""
        return hmac.compare_digest(token.encode(), self.shown["token"].encode())

    def verdict(self, command, *more):
        self.settle()
        clientctl(command, "--version", self.shown["version"], "--token", self.shown["token"], *more)

    def fail(self, token, reason):
        """Replaces a client that does not work. Does nothing without a trial."""
        with self.lock:
            if self.watchdog and self.is_shown(token):
                self.verdict("fail", "--reason", reason[:500] or "no reason")
                self.launch()

    def confirm_later(self, token):
        """Confirms a client whose release requires endpoints. `confirm` waits for their answers."""
        if self.watchdog:
            self.settle()
            threading.Thread(target=self.wait_for_endpoints, args=(token, self.shown["version"]), daemon=True).start()

    def wait_for_endpoints(self, token, version):
        """Repeats `confirm` while the device has no network, and fails a client whose endpoints do not answer."""
        command = ["clientctl", "confirm", "--version", version, "--token", token, "--json",
                   "--page-origin", f"http://127.0.0.1:{server.server_port}/"]
        status = NO_NETWORK
        while status == NO_NETWORK:
            done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
            status = done.returncode
        with self.lock:
            if status != 0 and self.is_shown(token):
                self.verdict("fail", "--reason", json.loads(done.stdout)["error"]["message"][:500])
                self.launch()

    def call(self, method, token, body):
        """Executes a call of a page. Returns the status and the response."""
        with self.lock:
            if not self.is_shown(token):
                return 403, {"error": {"code": "staleLaunch", "message": "This page belongs to another launch."}}
            if method == "startupDidComplete":
                if self.shown["trial"] and self.shown["requiredEndpoints"]:
                    self.confirm_later(token)
                else:
                    self.verdict("confirm")
            elif method == "startupDidFail":
                self.fail(token, str(body.get("reason", "")))
            elif method == "reload":
                self.launch()
            elif method == "visibility":
                if self.watchdog:
                    self.watchdog.see(str(body["page"]), int(body["number"]), bool(body["hidden"]))
            elif method != "getCurrentVersion":
                return 404, {"error": {"code": "unknownMethod", "message": "There is no such method."}}
            return 200, {"version": self.shown["version"]}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the files of the serving root and the calls of its page, only to this machine and to pages of this origin."""

    def __init__(self, shell, *arguments):
        self.shell = shell
        super().__init__(*arguments, directory=shell.shown["servingRoot"])

    def is_ours(self):
        hosts = [f"{host}:{self.server.server_port}" for host in HOSTS]
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in hosts and origin in (None, *(f"http://{host}" for host in hosts))

    def answer(self, status, kind, content):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        if not self.is_ours():
            self.send_error(421)
        elif self.shell.shown.get("closed"):
            text = "<!doctype html><head>" + BRIDGE % self.shell.page() + "</head><p>" + self.shell.shown["closed"]
            self.answer(200, "text/html; charset=utf-8", text.encode())
        elif self.path.split("?")[0] in ("/", "/index.html"):
            page = pathlib.Path(self.directory, "index.html").read_text(encoding="utf-8")
            start = HEAD.match(page).end()
            page = page[:start] + BRIDGE % self.shell.page() + page[start:]
            self.answer(200, "text/html; charset=utf-8", page.encode())
        else:
            super().do_GET()

    def do_POST(self):
        is_json = self.headers.get("Content-Type") == "application/json"
        if not (self.is_ours() and self.headers.get("Origin") and is_json and self.path.startswith(CALLS)):
            return self.send_error(403)
        body = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), 65536)) or b"{}")
        status, answer = self.shell.call(self.path.removeprefix(CALLS), self.headers.get("X-Client-Token", ""), body)
        self.answer(status, "application/json", json.dumps(answer).encode())

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, Shell()))
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
