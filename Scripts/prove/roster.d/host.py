"""A host with a roster, simulated devices that send messages to it, and the table of results."""

import base64
import http.client
import json
import os
import pathlib
import subprocess
import time

INTERVAL = 900
rows = []


def row(what, result, bound, ok):
    rows.append((what, result, bound, bool(ok)))
    print(f"{'ok  ' if ok else 'BAD '}{what}: {result} (bound: {bound})", flush=True)


def table():
    print("\n| what | result | bound |\n| --- | --- | --- |")
    for what, result, bound, _ in rows:
        print(f"| {what} | {result} | {bound} |")
    return 0 if all(ok for *_, ok in rows) else 1


class Device:
    """A simulated device with a key of its own."""

    def __init__(self, number, name=None):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self.key = Ed25519PrivateKey.generate()
        self.spki = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id, self.name = f"{number:016x}", f"Screen {number}" if name is None else name
        self.address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"

    def body(self):
        return json.dumps({
            "schema": 1, "appId": "com.example.kiosk", "device": self.id, "name": self.name, "runs": "1.5.1", "state": "good",
            "next": None, "waiting": None, "screen": "client", "shell": "1.2.0", "channel": "stable", "sequence": 18,
            "checked": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "code": None, "blocked": [], "findings": [],
            "program": "0.9.0", "interval": INTERVAL}).encode()

    def message(self, body=None):
        body = self.body() if body is None else body
        key = base64.b64encode(self.spki) + b":" + base64.b64encode(self.key.sign(body))
        return body, {"Content-Type": "application/json", "X-Device-Key": key.decode(), "X-Forwarded-For": self.address}


class Host:
    """A running `feed serve` with a roster."""

    def __init__(self, program, feed, database, operators):
        start = time.monotonic()
        self.process = subprocess.Popen(
            [program, "feed", "serve", feed, "--roster", database, "--roster-token-file", operators, "--json",
             "--access-log", "/dev/null"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("prove-roster: feed serve ended")
            text += line
        self.port = json.loads(text)["port"]
        self.base = f"http://127.0.0.1:{self.port}"
        self.started = time.monotonic() - start

    def post(self, device, connection=None, body=None):
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        own.request("POST", "/roster", *device.message(body))
        response = own.getresponse()
        response.read()
        if connection is None:
            own.close()
        return response.status

    def get(self, path, token="operator"):
        own = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        own.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = own.getresponse()
        return response.status, response.read()

    def usage(self):
        """Returns the processor seconds and the largest resident memory in MB."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak

    def end(self, signal=15):
        self.process.send_signal(signal)
        self.process.wait()
