"""A machine in QEMU, and what is on its screen."""

import collections
import os
import socket
import struct
import subprocess
import sys
import time
import zlib

PATIENCE = 1800  # seconds for each picture, on a machine that does other work


def read_picture(path):
    """Returns the width, the height and the pixels of a screendump."""
    with open(path, "rb") as file:
        _, size, _, pixels = file.read().split(b"\n", 3)
    width, height = map(int, size.split())
    return width, height, pixels


def write_png(path, width, height, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[row * width * 3:(row + 1) * width * 3] for row in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


class Machine:
    """The running machine. Its files are in `folder`: the sockets `monitor` and `line`, and `journal`, the second serial line."""

    def __init__(self, folder, name, program, *words):
        self.folder = folder
        self.name = name
        self.pictures = 0
        for socket_file in ("monitor", "line"):
            if os.path.exists(f"{folder}/{socket_file}"):
                os.remove(f"{folder}/{socket_file}")
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [program, "-smp", "2", "-m", "2048", "-no-reboot", "-display", "none", "-monitor", f"unix:{folder}/monitor,server,nowait",
             "-serial", f"unix:{folder}/line,server,nowait", "-serial", f"file:{folder}/journal", *words])

    def say(self, text):
        print(f"{self.name}: {text}", flush=True)

    def stop(self):
        """Ends the machine at once, like a power cut."""
        self.process.kill()
        self.process.wait()

    def send(self, line, name="line", wait=1.0):
        """Sends a line to a socket of QEMU."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{self.folder}/{name}")
            connection.sendall(line.encode() + b"\n")
            time.sleep(wait)

    def picture(self):
        """Returns the share of each colour on the screen."""
        path = f"{self.folder}/screen.ppm"
        try:
            self.send(f"screendump {path}", "monitor")
            pixels = read_picture(path)[2]
        except (OSError, ValueError):
            return collections.Counter()
        colours = collections.Counter(pixels[place:place + 3].hex() for place in range(0, len(pixels) - 2, 3 * 97))
        return collections.Counter({colour: count / colours.total() for colour, count in colours.items()})

    def wait(self, what, holds, keep=None):
        """Waits for a picture, and keeps it as NUMBER.png, or as KEEP.png, which also waits for something bright, such as the text of the page.
        Returns the seconds since the start."""
        end = time.monotonic() + PATIENCE
        while True:
            if self.process.poll() is not None:
                sys.exit(f"{self.name}: the machine has ended")
            shares = self.picture()
            if shares and holds(shares):
                width, height, pixels = read_picture(f"{self.folder}/screen.ppm")
                if not keep or sum(value > 128 for value in pixels) >= len(pixels) / 1000:
                    break
            if time.monotonic() > end:
                with open(f"{self.folder}/journal", encoding="utf-8", errors="replace") as file:
                    print("".join(file.readlines()[-60:]))
                sys.exit(f"{self.name}: the screen does not show {what}; it shows the colours {shares.most_common(3)}")
            time.sleep(2)
        took = time.monotonic() - self.began
        self.pictures += 1
        write_png(f"{self.folder}/{keep or self.pictures}.png", width, height, pixels)
        self.say(f"{what}, {took:.0f} s after the start of the machine")
        return took


def shows(colour, share=0.9):
    return lambda shares: shares[colour] > share
