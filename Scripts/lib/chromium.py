"""A headless Chromium, driven over its debugging pipe, and what its pages, frames and workers say."""

import base64
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import zlib
from typing import NamedTuple

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
    "--no-default-browser-check", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-breakpad", "--disable-dev-shm-usage", "--mute-audio", "--no-proxy-server",
    "--password-store=basic", "--use-mock-keychain", "--window-size=1280,800", "about:blank"]
DOMAINS = ("Runtime.enable", "Log.enable", "Network.enable", "Audits.enable")


def executable():
    """The browser of this machine; None where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class BrowserError(Exception):
    """The browser did not do what it was asked to."""


class Violation(NamedTuple):
    """What a policy forbade, in the browser's words."""

    directive: str
    # An address, or inline, eval or wasm-eval.
    blocked: str


class Chromium:
    """Runs until the end of a `with`; everything that it started goes with it."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="chromium-")
        commands, self.commands = os.pipe()
        self.messages, messages = os.pipe()

        def descriptors():
            for number, end in ((10, commands), (11, messages)):
                os.dup2(end, number)
            os.dup2(10, 3)
            os.dup2(11, 4)

        self.child = subprocess.Popen(
            [executable(), f"--user-data-dir={self.folder}/profile", *FLAGS], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=descriptors, close_fds=False,
            start_new_session=True, env=os.environ | {"HOME": self.folder, "TMPDIR": self.folder})
        os.close(commands)
        os.close(messages)
        self.news = threading.Condition()
        self.answers, self.events, self.number, self.ended = {}, [], 0, False
        threading.Thread(target=self.read, daemon=True).start()
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        os.close(self.commands)
        # What is being ended may still write.
        for _ in range(50):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                break
            time.sleep(0.1)

    def read(self):
        rest = b""
        while chunk := os.read(self.messages, 1 << 16):
            *whole, rest = (rest + chunk).split(b"\0")
            for message in map(json.loads, whole):
                if message.get("method") == "Target.attachedToTarget":
                    self.listen(message["params"]["sessionId"])
                with self.news:
                    if "id" in message:
                        self.answers[message["id"]] = message
                    else:
                        self.events.append(message)
                    self.news.notify_all()
        with self.news:
            self.ended = True
            self.news.notify_all()

    def listen(self, session):
        """Frames and workers wait for this: nothing that they say first is lost."""
        for method in DOMAINS:
            self.send(method, {}, session)
        self.send("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}, session)
        self.send("Runtime.runIfWaitingForDebugger", {}, session)

    def send(self, method, params, session=None):
        with self.news:
            self.number += 1
            message = {"id": self.number, "method": method, "params": params} | ({"sessionId": session} if session else {})
            os.write(self.commands, json.dumps(message).encode() + b"\0")
            return self.number

    def call(self, method, params=None, session=None, seconds=60):
        """The answer to one command."""
        number = self.send(method, params or {}, session)
        with self.news:
            if not self.news.wait_for(lambda: number in self.answers or self.ended, seconds):
                raise BrowserError(f"{method} was not answered within {seconds} s")
            answer = self.answers.pop(number, {"error": {"message": "the browser ended"}})
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, url, seconds=60):
        """A page with cookies and a cache of its own, once it is loaded or `seconds` have gone by."""
        return Page(self, url, seconds)


class Page:
    """One window, with all that it, its frames and its workers have said."""

    def __init__(self, browser, url, seconds):
        self.browser = browser
        context = browser.call("Target.createBrowserContext")["browserContextId"]
        self.target = browser.call("Target.createTarget", {"url": "about:blank", "browserContextId": context})["targetId"]
        self.first = len(browser.events)
        self.session = browser.call("Target.attachToTarget", {"targetId": self.target, "flatten": True})["sessionId"]
        self.call("Page.enable")
        # A dialog holds the page up until it is answered, with what it proposes.
        self.answered = 0
        error = self.call("Page.navigate", {"url": url}).get("errorText")
        if error:
            raise BrowserError(f"{url}: {error}")
        self.wait(lambda: any(event["method"] == "Page.loadEventFired" for event in self.events(own=True)), seconds)

    def call(self, method, params=None, seconds=60):
        return self.browser.call(method, params, self.session, seconds)

    def close(self):
        self.browser.call("Target.closeTarget", {"targetId": self.target})

    def events(self, own=False):
        """What came from this window; with `own` without its frames and workers."""
        sessions, found = {self.session}, []
        for event in self.browser.events[self.first:]:
            if event.get("sessionId") in sessions:
                if event["method"] == "Target.attachedToTarget" and not own:
                    sessions.add(event["params"]["sessionId"])
                found.append(event)
        return found

    def wait(self, condition, seconds):
        """Whether `condition` came to hold in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or self.browser.ended:
                return False
            dialogs = [event["params"] for event in self.events(own=True) if event["method"] == "Page.javascriptDialogOpening"]
            if len(dialogs) > self.answered:
                answer = {"accept": True, "promptText": dialogs[-1].get("defaultPrompt", "")}
                self.answered = len(dialogs)
                self.browser.send("Page.handleJavaScriptDialog", answer, self.session)
            time.sleep(0.1)
        return True

    def evaluate(self, expression, seconds=20):
        """The value of a script's expression or promise; None where it throws, or nothing answers."""
        try:
            answer = self.call(
                "Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True}, seconds)
        except BrowserError:
            return None
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    def screenshot(self, path):
        """Writes a picture; how many of a hundred pixels have not its most frequent color."""
        image = base64.b64decode(self.call("Page.captureScreenshot", {"format": "png"})["data"])
        pathlib.Path(path).write_bytes(image)
        small = {"x": 0, "y": 0, "width": 1280, "height": 720, "scale": 0.25}
        return busyness(base64.b64decode(self.call("Page.captureScreenshot", {"format": "png", "clip": small})["data"]))

    @property
    def violations(self):
        """What policies forbade, in the window, its frames and its workers; without reports that forbid nothing."""
        found = set()
        for event in self.events():
            details = event.get("params", {}).get("issue", {}).get("details", {}).get("contentSecurityPolicyIssueDetails")
            if event["method"] != "Audits.issueAdded" or not details or details["isReportOnly"]:
                continue
            blocked = {
                "kInlineViolation": "inline", "kEvalViolation": "eval", "kWasmEvalViolation": "wasm-eval",
            }.get(details["contentSecurityPolicyViolationType"], details.get("blockedURL", ""))
            found.add(Violation(details["violatedDirective"], blocked))
        return sorted(found)

    @property
    def errors(self):
        """Errors in its console, each once."""
        found = {}
        for event in self.events():
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                text = details.get("exception", {}).get("description", details["text"]).split("\n")[0]
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                text = " ".join(str(one.get("value", one.get("description", ""))) for one in params["args"])
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                text = f"{params['entry']['text']} {params['entry'].get('url', '')}"
            else:
                continue
            found[text.strip()] = None
        return list(found)


def busyness(png):
    """How many of a hundred pixels of a PNG with 8 bits a channel have not its most frequent color."""
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, _, form = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    step = {2: 3, 6: 4}[form]
    raw, size = zlib.decompress(data), width * step
    before, colors = bytes(size), {}
    for row in range(height):
        filtered, line = raw[row * (size + 1)], bytearray(raw[row * (size + 1) + 1:(row + 1) * (size + 1)])
        for index in range(size) if filtered else ():
            left = line[index - step] if index >= step else 0
            up, corner = before[index], before[index - step] if index >= step else 0
            line[index] = (line[index] + (0, left, up, (left + up) // 2, paeth(left, up, corner))[filtered]) & 255
        before = bytes(line)
        for index in range(0, size, step):
            color = before[index:index + step]
            colors[color] = colors.get(color, 0) + 1
    return 100 - 100 * max(colors.values()) / (width * height)


def paeth(left, up, corner):
    """The predictor of PNG (specification, section 9.4)."""
    return min((left, up, corner), key=lambda one: abs(left + up - corner - one))
