"""What `serve` and `install` open, send and store with a roster and without one, by strace."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from host import Host, row

OPENED = re.compile(r'(?:openat|openat2|rename|renameat|renameat2|linkat|unlinkat|mkdirat)\((.*)')
NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
PORT = re.compile(r'connect\(\d+, \{sa_family=AF_INET6?, sin6?_port=htons\((\d+)\)')
SENT = re.compile(r'(?:write|sendto|sendmsg|writev|send)\(.*"(?:POST|PUT) ([^ ]+)')


def names(text, store):
    """Returns the names of files that a program used, without those of libraries, processes and single runs."""
    found = set()
    for line in text.splitlines():
        used = OPENED.search(line)
        for name in NAME.findall(used[1]) if used else []:
            if not name.startswith(("/proc", "/sys", "/dev", "/etc", "/lib", "/usr")):
                found.add(re.sub(r"[0-9a-f]{8,}|[A-Za-z0-9]{20,}", "*", name.replace(store, "STORE")))
    return found


def run(program, words, store, folder, seconds):
    """Runs a command for some seconds, or until it ends. Returns the names of files, the ports, and the paths of its messages."""
    out = f"{folder}/trace"
    process = subprocess.Popen(
        ["strace", "-f", "-o", out, "-s", "200", "-e", "trace=network,%file,write,writev", program, *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "HOME": folder}, start_new_session=True)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    text = pathlib.Path(out).read_text(errors="replace")
    files = {str(path.relative_to(store)) for path in pathlib.Path(store).iterdir()}
    return text, names(text, store), set(PORT.findall(text)), SENT.findall(text), files


def trace(program, feed, folder, operators):
    if not shutil.which("strace"):
        return row("serve and install without --roster", "skipped: no strace", "0", True)
    host, lister = Host(program, feed, f"{folder}/traced-feed.db", operators), Host(program, feed, f"{folder}/traced.db", operators)
    for command, more, seconds in (("install", [], 30), ("serve", ["--port", "0", "--check-interval", "1s"], 12)):
        result = {}
        for flags in ([], ["--roster", f"{lister.base}/roster", "--name", "Traced"]):
            store = f"{folder}/traced-{command}-{len(flags)}"
            result[bool(flags)] = run(
                program, [command, "--manifest", f"{host.base}/manifest.json", "--trust", f"{folder}/release.pub.pem", "--store", store,
                          "--shell-version", "1.0.0", "--device-id", f"{command}-{len(flags)}", *more, *flags], store, folder, seconds)
        text, opened, ports, sent, files = result[False]
        _, withOpened, withPorts, withSent, withFiles = result[True]
        mentioned = text.count("roster") + text.count("sqlite")
        row(f"{command} without --roster", f"{len(sent)} messages, connections to {len(ports - {str(host.port)})} other ports, "
            f"{mentioned} names of the roster", "0, 0, 0", not sent and ports == {str(host.port)} and mentioned == 0)
        more = sorted(name for name in withOpened - opened if "roster" in name or "sqlite" in name)
        lacking = sorted(opened - withOpened)
        row(f"{command} with --roster, for comparison",
            f"{len(withSent)} to {sorted(set(withSent))}, ports {len(withPorts - ports)} more, files {sorted(withFiles - files)} more, opened {more} more",
            "at least 1, 1, roster.key.pem", set(withSent) == {"/roster"} and withPorts == {str(host.port), str(lister.port)}
            and withFiles - files == {"roster.key.pem"} and not files - withFiles and more)
        if lacking:
            print(f"    opened only without --roster: {lacking}")
    host.end()
    lister.end()
