"""Shared by the steps of Scripts/guide: files, the program, a place for commands, and the failure codes."""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GUIDE = ROOT / "Guide"
SCHEMAS = GUIDE / "reference/json"
CODES = ROOT / "Sources/Base/BundleValues/Failure/FailureCode.swift"
# The time limit for the blocks of a sequence of pages.
SECONDS = 60


def fail(message):
    print(f"guide: {message}", file=sys.stderr)
    sys.exit(1)


def program(named):
    """Returns the path of the given clientctl, or of the debug build."""
    path = pathlib.Path(named or ROOT / ".build/debug/clientctl").resolve()
    if not path.exists():
        subprocess.run(["swift", "build", "--package-path", str(ROOT), "--product", "clientctl"], check=True,
                       stdout=sys.stderr)
    return path


def read(path):
    return path.read_text(encoding="utf-8")


@contextlib.contextmanager
def workplace(clientctl, root=None):
    """Gives a temporary folder below `root` with an empty folder `work`, its path inside of `root`, and an environment for commands, with
    clientctl on the path and without settings of the user."""
    with tempfile.TemporaryDirectory(prefix="guide-", dir=root and f"{root}/tmp") as folder:
        place = pathlib.Path(folder)
        inside = pathlib.Path("/tmp", place.name) if root else place
        for name in ("bin", "work"):
            (place / name).mkdir()
        if clientctl:
            (place / "bin/clientctl").symlink_to(clientctl)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLIENTCTL_", "XDG_"))}
        yield place, inside, kept | {
            "PATH": f"{inside}/bin:{kept['PATH']}", "XDG_CONFIG_HOME": f"{inside}/none", "XDG_STATE_HOME": f"{inside}/state",
            "LC_ALL": "C.UTF-8"}


def alone():
    """Gives the calling process a separate network, so that all ports are free, if the system permits this."""
    if ctypes.CDLL(None).unshare(0x40000000) == 0:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unconnected:
            fcntl.ioctl(unconnected, 0x8914, struct.pack("16sh", b"lo", 1))


def wrapped(command):
    """Returns a command as lines of at most 90 characters, each with whole flags."""
    lines = [""]
    for word in re.findall(r'--\S+ (?:"[^"]*"|[^-\s"]\S*)|(?:"[^"]*"|\S)+', command):
        if len(lines[-1]) + len(word) > 88:
            lines.append("")
        lines[-1] += f"{word} "
    return [line.rstrip() for line in lines]


def codes():
    """Returns every failure code with its exit status, in the order of the source."""
    text = CODES.read_text(encoding="utf-8")
    return [(code, int(status)) for cases, status in re.findall(r"case ((?:\.\w+(?:, )?)+): (\d+)", text)
            for code in re.findall(r"\.(\w+)", cases)]
