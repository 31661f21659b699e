"""Shared by Scripts/prove/faults and Scripts/prove/soak: builds and runs clientctl, and publishes small clients as archives and as hot
code pushes in a work folder."""

import argparse
import base64
import ctypes
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
APP_ID = "org.example.faults"
VERSIONS = ("1.0.0", "1.1.0", "1.2.0")
# The validity of channel documents and trust roots.
LASTING = ("--expires-in", "3650d")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Answer(NamedTuple):
    """The result of one command."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Parser(argparse.ArgumentParser):
    """An argument parser with exit status 64 for invalid arguments."""

    def error(self, message):
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(64)


def built(product, named):
    """Returns the path of a program: `named`, or its debug build."""
    if named:
        return os.path.realpath(named)
    command = ["swift", "build", "--package-path", str(ROOT), "--product", product]
    subprocess.run(command, check=True, stdout=sys.stderr)
    shown = subprocess.run(command + ["--show-bin-path"], check=True, capture_output=True, text=True)
    return os.path.join(shown.stdout.strip(), product)


def released(named):
    """Returns `named`, or the path of the release build of clientctl."""
    if named:
        return os.path.realpath(named)
    shown = subprocess.run([str(ROOT / "Scripts/release")], check=True, stdout=subprocess.PIPE, text=True)
    return shown.stdout.split("\n")[-2]


def dies_with_parent():
    """Called between fork and exec: ends the child when this process ends for any reason."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def tree(folder):
    """Returns the SHA-256 of each file, or the type of another entry, by relative path; None without a folder."""
    folder = str(folder)
    if not os.path.isdir(folder):
        return None
    found = {}
    for parent, folders, files in os.walk(folder):
        if parent == folder and "publisher" in folders:
            folders.remove("publisher")
        for name in folders + files:
            path = os.path.join(parent, name)
            kind = os.lstat(path).st_mode
            relative = os.path.relpath(path, folder)
            found[relative] = digest(path) if stat.S_ISREG(kind) else oct(stat.S_IFMT(kind))
    return found


def signed_content(path):
    """Returns the content of a channel file without its times and the previous digest, which differ between runs. Returns the digest of
    another file."""
    try:
        with open(path, encoding="utf-8") as file:
            envelope = json.load(file)
        payload = json.loads(base64.b64decode(envelope["payload"]))
        payload.pop("previous", None)
        return TIME.sub("T", json.dumps([payload, len(envelope["signatures"])], sort_keys=True))
    except (ValueError, KeyError, TypeError):
        return digest(path)


def state(folder):
    """Returns everything below a folder, without the times, the checksum, the ids of reports and the routes in a ledger, and the digests in the publisher's state,
    which depend on the times of channel files. The route of a client that was recovered after a kill is unknown."""
    folder = str(folder)
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            content = ""
            # The previous ledger depends on the number of runs.
            if name == "ledger.before.json":
                continue
            if name == "ledger.json":
                with open(path, encoding="utf-8", errors="replace") as file:
                    content = re.sub(r'"checksum": ".*"', "", TIME.sub("T", file.read()))
                    content = re.sub(r',\s*"route(Reason|Detail)?": [^\n]*?(?=,?\n)', "", content)
                    content = re.sub(r'"id": "[0-9a-f]{32}"', "I", content)
            elif parent == os.path.join(folder, "publisher"):
                with open(path, encoding="utf-8", errors="replace") as file:
                    content = re.sub("[0-9a-f]{64}", "D", file.read())
            elif stat.S_ISREG(mode):
                content = signed_content(path) if "/channels/" in path else digest(path)
            found[os.path.relpath(path, folder)] = (oct(mode), content)
    return found


def difference(found, wanted):
    """Returns the first differences of two dictionaries."""
    lines = [f"{name} is missing" for name in wanted if name not in found]
    lines += [f"{name} is new" for name in found if name not in wanted]
    both = [name for name in wanted if name in found]
    lines += [f"{name}: {found[name]}, not {wanted[name]}" for name in both if found[name] != wanted[name]]
    return "; ".join(line[:200] for line in lines[:4])


class World:
    """A work folder with published clients. Commands change files below `place` only."""

    def __init__(self, work, clientctl, mock):
        self.work = pathlib.Path(work)
        self.clientctl = clientctl
        self.mock = mock
        self.place = self.work / "place"
        self.store = self.place / "store"
        self.feed = self.place / "feed"
        self.place.mkdir()
        self.servers = []
        self.address = {}
        self.clients = {}
        # The files of a launched client without its index page.
        self.roots = {}
        self.key = self.work / "release.key.pem"
        self.trust = self.work / "release.pub.pem"
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CLIENTCTL_", "XDG_CONFIG"))
        } | {"SOURCE_DATE_EPOCH": "1700000000", "XDG_CONFIG_HOME": str(self.work / "none"), "CLIENTCTL_PUBLISHER_STATE": str(self.place / "publisher")}
        self.must(["keys", "generate", "--out", str(self.work / "release")])

    # Running

    @property
    def working_folder(self):
        """The working folder of commands: that of a project, if the situation has one."""
        project = self.place / "project"
        return project if project.is_dir() else self.place

    def run(self, arguments, program=None, timeout=60):
        """Runs one command to its end."""
        done = subprocess.run(
            [program or self.clientctl, *arguments], cwd=self.working_folder, env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=timeout)
        return Answer(done.returncode, done.stdout, done.stderr)

    def must(self, arguments, program=None):
        """Runs one command that must succeed."""
        answer = self.run(arguments, program)
        if answer.status != 0:
            raise RuntimeError(f"{' '.join(map(str, arguments))} ended with {answer.status}: {answer.out}{answer.err}")
        return answer

    # Publishing

    def publish_archives(self, versions=VERSIONS, large=60000):
        """Publishes a client in a separate feed for each version."""
        for version in versions:
            folder = content(self.work / "published" / version, version, large)
            self.must(publish_line(self, version, self.work / f"feed-{version}"))
            self.clients[f"v{version}"] = tree(folder)
            self.roots[f"v{version}"] = without_page(tree(folder))
        self.seed = self.work / "seed"
        self.seed.mkdir()
        (self.seed / "index.html").write_text("<!doctype html><title>seed</title>\n")
        self.roots["embedded"] = {}

    def publish_pushes(self, versions=VERSIONS):
        """Publishes the same contents as hot code pushes with a server for each, and a seed with one of their files."""
        web = self.work / "seed-web"
        (web / "assets").mkdir(parents=True)
        (web / "index.html").write_text("<!doctype html><html><head><title>seed</title></head><body></body></html>\n")
        first = self.work / "published" / versions[0]
        shutil.copy(first / "assets/same.txt", web / "assets")
        self.push_seed = self.work / "push-seed"
        self.must(["bundle", str(web), str(self.push_seed), "--layout", "bundle", "--version", "push-0"], self.mock)
        for number, version in enumerate(versions, 1):
            out = self.work / f"push-{number}"
            source = self.work / "published" / version
            self.must(["bundle", str(source), str(out), "--layout", "both", "--version", f"push-{number}"], self.mock)
            installed = tree(out / "bundle")
            # All files but the one in the seed are installed.
            del installed["assets/same.txt"]
            self.clients[f"meteor-push-{number}"] = installed
            served = self.work / f"served-{number}"
            served.mkdir()
            (out / "server").rename(served / f"push-{number}")
            self.address[number] = self.serve(served)

    def serve(self, folder):
        """Starts a server of hot code pushes and returns its URL."""
        log = self.work / f"log-{folder.name}"
        with open(log, "wb") as out:
            self.servers.append(subprocess.Popen(
                [self.mock, "--port", "0", "--folder", str(folder)], stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, preexec_fn=dies_with_parent))
        for _ in range(400):
            port = re.search(r"at http://localhost:(\d+)/", log.read_text())
            if port:
                return f"http://127.0.0.1:{port[1]}/"
            time.sleep(0.05)
        raise RuntimeError(f"the server of hot code pushes did not start: {log.read_text()}")

    def close(self):
        for server in self.servers:
            server.kill()
            server.wait()

    # Command lines

    def install(self, version, keep=3):
        return [
            "install", "--manifest", f"{self.work}/feed-{version}/manifest.json", "--trust", str(self.trust), "--store",
            str(self.store), "--shell-version", "1.0.0", "--app-id", APP_ID, "--keep", str(keep), "--json"]

    def follow(self, trust, document="channels/stable.json", keep=3, device="faults"):
        return [
            "install", "--channel", f"{self.feed}/{document}", "--trust", str(trust), "--store", str(self.store),
            "--shell-version", "1.0.0", "--app-id", APP_ID, "--device-id", device, "--keep", str(keep), "--json"]

    def push(self, number, keep=3):
        return [
            "install", "--meteor", self.address[number], "--store", str(self.store), "--shell-version", "1.0.0",
            "--seed", str(self.push_seed), "--keep", str(keep), "--json"]

    def launch(self, seed=None):
        return [
            "launch", "--store", str(self.store), "--shell-version", "1.0.0", "--seed", str(seed or self.seed),
            "--json"]

    def by_hand(self, *arguments):
        return [*map(str, arguments), "--store", str(self.store), "--json"]

    # The state of a device

    def listed(self):
        """Returns the JSON of `list` without times. Raises if it fails."""
        answer = self.run(self.by_hand("list"))
        if answer.status != 0:
            raise ValueError(f"list ended with {answer.status}: {answer.out[:300]}{answer.err[:300]}")
        return json.loads(TIME.sub("T", answer.out))

    def status(self):
        """Returns the JSON of `status` without times."""
        answer = self.run(self.by_hand("status"))
        if answer.status != 0:
            raise ValueError(f"status ended with {answer.status}: {answer.out[:300]}{answer.err[:300]}")
        return json.loads(TIME.sub("T", answer.out))

    def folder(self, name):
        """Returns the folder of a client in the store."""
        if name.startswith("meteor-"):
            return self.store / "meteor" / name.removeprefix("meteor-")
        return self.store / "clients" / name

    def broken_clients(self, listed):
        """Returns the clients in `list` or in the folders of clients that differ from the published ones."""
        names = {name for name in listed["versions"] if name != "embedded"}
        for channel, prefix in (("clients", ""), ("meteor", "meteor-")):
            if (self.store / channel).is_dir():
                names |= {prefix + e.name for e in os.scandir(self.store / channel) if e.name != "previousVersion"}
        return sorted(name for name in names if tree(self.folder(name)) != self.clients.get(name, "unknown"))

    def root_fault(self, launched):
        """Returns the problem with the serving root of a launch; None if it is valid. `launched` is its JSON."""
        name = launched["version"]
        if name != "embedded":
            name = ("meteor-" if launched["source"] == "meteor" else "v") + name
        root = pathlib.Path(launched["servingRoot"])
        page = root / "index.html"
        # If no root can be created, the seed is served in place and unchanged.
        if launched.get("inPlace") and name == "embedded":
            return None if page.is_file() else "the seed has no page"
        if not page.is_file() or "WebAppLocalServer" not in page.read_text(errors="replace"):
            return f"the page of {name} has no shim"
        found = without_page(tree(root))
        wanted = [self.roots[key] for key in (name, f"{name} of a push") if key in self.roots]
        if found not in wanted:
            return f"the serving root of {name} is incomplete: {difference(found, wanted[0]) if wanted else 'unknown'}"
        return None

    def learn_push_roots(self, versions=VERSIONS):
        """Records the files of undisturbed launches of hot code pushes, and removes the store."""
        for number in range(len(versions) + 1):
            if number:
                self.must(self.push(number))
            launched = self.must(self.launch(self.push_seed)).json
            if number:
                self.must(self.by_hand("confirm", "--version", f"push-{number}", "--token", launched["token"]))
            name = f"meteor-push-{number}" if number else "embedded of a push"
            self.roots[name] = without_page(tree(launched["servingRoot"]))
        shutil.rmtree(self.store)


def without_page(files):
    return {path: kind for path, kind in files.items() if path != "index.html"}


def content(folder, version, large):
    """Creates a client with folders, spaces, an empty file and one larger than all buffers."""
    (folder / "assets/deep/er").mkdir(parents=True)
    (folder / "page s").mkdir()
    (folder / "index.html").write_text(f"<!doctype html><title>{version}</title>\n")
    (folder / "assets/same.txt").write_text("the same in every version\n")
    (folder / "assets/deep/er/app.js").write_text(f'console.log("{version}")\n')
    (folder / "assets/empty").touch()
    if large:
        # Compresses badly, and differs between versions only at its end, so that a delta is made.
        source = random.Random("all")
        (folder / "page s/large.bin").write_text("".join(f"{source.getrandbits(32):08x}\n" for _ in range(large)) + version)
    for number in range(1, 7):
        (folder / f"assets/file-{number}.css").write_text(f"{version} {number}\n")
    return folder


def publish_line(world, version, feed):
    return [
        "publish", f"{world.work}/published/{version}", "--version", version, "--feed", str(feed), "--key",
        str(world.key), "--min-shell", "1.0.0", "--app-id", APP_ID, "--level", "3", "--json"]


def creating(world, channel):
    """Returns the flag that creates a channel that does not exist."""
    return [] if (world.feed / f"channels/{channel}.json").exists() else ["--create"]


def release_line(world, channel, *arguments):
    return [*arguments, "--feed", str(world.feed), "--channel", channel, "--json"]
