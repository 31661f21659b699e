"""A host with a roster, and the devices that it lists."""

import base64
import http.client
import json
import os
import subprocess
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Device:
    """A simulated device with a key of its own."""

    def __init__(self, number, name=None):
        self.key = Ed25519PrivateKey.generate()
        self.spki = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id, self.name = f"{number:016x}", name or f"Screen {number}"
        self.address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"

    def message(self, **changes):
        """Returns the state of the device, and the header fields for it."""
        return self.signed({
            "schema": 1, "appId": "com.example.kiosk", "device": self.id, "name": self.name, "runs": "1.5.1", "state": "good",
            "next": None, "waiting": None, "screen": "client", "shell": "1.2.0", "channel": "stable", "sequence": 18,
            "checked": now(), "code": None, "blocked": [], "findings": [], "program": "0.9.0", "interval": 900} | changes)

    def picture(self, kind, picture):
        """Returns a picture of the screen, and the header fields for it."""
        return self.signed({"schema": 1, "device": self.id, "kind": kind, "taken": now(), "picture": base64.b64encode(picture).decode()})

    def signed(self, message):
        body = json.dumps(message).encode()
        key = base64.b64encode(self.spki) + b":" + base64.b64encode(self.key.sign(body))
        return body, {"Content-Type": "application/json", "X-Device-Key": key.decode(), "X-Forwarded-For": self.address}


class Host:
    """A running `feed serve` with a roster in a folder."""

    def __init__(self, program, work, folder, *more):
        self.process = subprocess.Popen(
            [program, "feed", "serve", f"{work}/feed", "--roster", f"{folder}/roster.db", "--roster-token-file", f"{work}/operators",
             "--port", "0", "--json", "--access-log", "/dev/null", *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("roster: feed serve ended")
            text += line
        self.port = json.loads(text)["port"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, *request):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(*request)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content

    def post(self, device, **changes):
        return self.ask("POST", "/roster", *device.message(**changes))[0]

    def get(self, path):
        return self.ask("GET", path, None, {"Authorization": "Bearer operator"})
