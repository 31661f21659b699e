"""What Scripts/prove/faults and Scripts/prove/soak publish, and how they build and run clientctl: small clients as archives and as hot code
pushes, in a work folder of their own."""

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
# Every exit status that a command may end with (CONTRACT section 6).
EXIT_CODES = {0, 1, 3, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27, 30, 31, 32, 33, 34, 40, 41, 42, 43, 51, 64, 78}
# How long channel documents and trust roots count.
LASTING = ("--expires-in", "3650d")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Answer(NamedTuple):
    """How one command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


class Parser(argparse.ArgumentParser):
    """With the exit status that wrong use has everywhere here."""

    def error(self, message):
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(64)


# How programs are built that are measured.
RELEASE = ("-c", "release", "--scratch-path", str(ROOT / ".build-bench"))


def built(product, named, *flags):
    """The path of a program: as named, or built (debug, unless the flags say otherwise)."""
    if named:
        return os.path.realpath(named)
    command = ["swift", "build", "--package-path", str(ROOT), "--product", product, *flags]
    subprocess.run(command, check=True, stdout=sys.stderr)
    shown = subprocess.run(command + ["--show-bin-path"], check=True, capture_output=True, text=True)
    return os.path.join(shown.stdout.strip(), product)


def released(named):
    """The path of clientctl as devices get it, unless another is named."""
    if named:
        return os.path.realpath(named)
    shown = subprocess.run([str(ROOT / "Scripts/release")], check=True, stdout=subprocess.PIPE, text=True)
    return shown.stdout.split("\n")[-2]


def dies_with_parent():
    """For a child between fork and exec: it ends when this process does, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def tree(folder):
    """Relative path to SHA-256, or to the kind of what is no file; None where there is no folder."""
    folder = str(folder)
    if not os.path.isdir(folder):
        return None
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            kind = os.lstat(path).st_mode
            relative = os.path.relpath(path, folder)
            found[relative] = digest(path) if stat.S_ISREG(kind) else oct(stat.S_IFMT(kind))
    return found


def signed_content(path):
    """What a channel file states, without its times and the digest of the one before, which differ from run to run. The digest of
    a file that is none."""
    try:
        with open(path, encoding="utf-8") as file:
            envelope = json.load(file)
        payload = json.loads(base64.b64decode(envelope["payload"]))
        payload.pop("previous", None)
        return TIME.sub("T", json.dumps([payload, len(envelope["signatures"])], sort_keys=True))
    except (ValueError, KeyError, TypeError):
        return digest(path)


def state(folder):
    """Everything below a folder, without the times, the checksum, the ids of reports and the routes in a ledger: by which route a
    client came is not known of one that was found whole after a kill."""
    folder = str(folder)
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            content = ""
            # What the ledger was before depends on how often the command was run.
            if name == "ledger.before.json":
                continue
            if name == "ledger.json":
                with open(path, encoding="utf-8", errors="replace") as file:
                    content = re.sub(r'"checksum": ".*"', "", TIME.sub("T", file.read()))
                    content = re.sub(r',\s*"route(Reason|Detail)?": [^\n]*?(?=,?\n)', "", content)
                    content = re.sub(r'"id": "[0-9a-f]{32}"', "I", content)
            elif stat.S_ISREG(mode):
                content = signed_content(path) if "/channels/" in path else digest(path)
            found[os.path.relpath(path, folder)] = (oct(mode), content)
    return found


def difference(found, wanted):
    """The first differences of two dictionaries, for people."""
    lines = [f"{name} is missing" for name in wanted if name not in found]
    lines += [f"{name} is new" for name in found if name not in wanted]
    both = [name for name in wanted if name in found]
    lines += [f"{name}: {found[name]}, not {wanted[name]}" for name in both if found[name] != wanted[name]]
    return "; ".join(line[:200] for line in lines[:4])


class World:
    """A work folder with published clients. What a command may change is all below `place`."""

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
        # Path by path what a launch of a client shows, without its index page.
        self.roots = {}
        self.key = self.work / "release.key.pem"
        self.trust = self.work / "release.pub.pem"
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CLIENTCTL_", "XDG_CONFIG"))
        } | {"SOURCE_DATE_EPOCH": "1700000000", "XDG_CONFIG_HOME": str(self.work / "none"), "CLIENTCTL_PUBLISHER_STATE": "none"}
        self.must(["keys", "generate", "--out", str(self.work / "release")])

    # Running

    def run(self, arguments, program=None, timeout=60):
        """Runs one command to its end."""
        done = subprocess.run(
            [program or self.clientctl, *arguments], env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=timeout)
        return Answer(done.returncode, done.stdout, done.stderr)

    def must(self, arguments, program=None):
        """Runs one command that has to succeed."""
        answer = self.run(arguments, program)
        if answer.status != 0:
            raise RuntimeError(f"{' '.join(map(str, arguments))} ends with {answer.status}: {answer.out}{answer.err}")
        return answer

    # Publishing

    def publish_archives(self, versions=VERSIONS, large=60000):
        """A client and a feed of its own for each version."""
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
        """The same contents as hot code pushes: a seed that has one file of them, and a server for each."""
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
            # What is installed: all but the file that the seed has.
            del installed["assets/same.txt"]
            self.clients[f"meteor-push-{number}"] = installed
            served = self.work / f"served-{number}"
            served.mkdir()
            (out / "server").rename(served / f"push-{number}")
            self.address[number] = self.serve(served)

    def serve(self, folder):
        """Starts a server of hot code pushes; returns its address."""
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
        raise RuntimeError(f"no server of hot code pushes: {log.read_text()}")

    def close(self):
        for server in self.servers:
            server.kill()
            server.wait()

    # Lines

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

    # What a device sees

    def listed(self):
        """The answer of `list`, without times; raises where there is none."""
        answer = self.run(self.by_hand("list"))
        if answer.status != 0:
            raise ValueError(f"list ends with {answer.status}: {answer.out[:300]}{answer.err[:300]}")
        return json.loads(TIME.sub("T", answer.out))

    def status(self):
        """The answer of `status`, without times."""
        answer = self.run(self.by_hand("status"))
        if answer.status != 0:
            raise ValueError(f"status ends with {answer.status}: {answer.out[:300]}{answer.err[:300]}")
        return json.loads(TIME.sub("T", answer.out))

    def folder(self, name):
        """Where the store has a client."""
        if name.startswith("meteor-"):
            return self.store / "meteor" / name.removeprefix("meteor-")
        return self.store / "clients" / name

    def broken_clients(self, listed):
        """Of what `list` names and what lies in the folders of clients: what is not byte for byte as published."""
        names = {name for name in listed["versions"] if name != "embedded"}
        for channel, prefix in (("clients", ""), ("meteor", "meteor-")):
            if (self.store / channel).is_dir():
                names |= {prefix + e.name for e in os.scandir(self.store / channel) if e.name != "previousVersion"}
        return sorted(name for name in names if tree(self.folder(name)) != self.clients.get(name, "unknown"))

    def root_fault(self, launched):
        """What is wrong with the serving root of a launch; None where nothing is. `launched` is its JSON."""
        name = launched["version"]
        if name != "embedded":
            name = ("meteor-" if launched["source"] == "meteor" else "v") + name
        root = pathlib.Path(launched["servingRoot"])
        page = root / "index.html"
        # The seed in its own folder is shown where no root can be made, and nothing is put into it.
        if launched.get("inPlace") and name == "embedded":
            return None if page.is_file() else "the seed in place has no page"
        if not page.is_file() or "WebAppLocalServer" not in page.read_text(errors="replace"):
            return f"the page of {name} has no shim"
        found = without_page(tree(root))
        wanted = [self.roots[key] for key in (name, f"{name} of a push") if key in self.roots]
        if found not in wanted:
            return f"the serving root of {name} is not whole: {difference(found, wanted[0]) if wanted else 'unknown'}"
        return None

    def learn_push_roots(self, versions=VERSIONS):
        """What launches of hot code pushes show, where nothing disturbs them. Leaves no store."""
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
    """A made-up client: folders, spaces, an empty file, one larger than any buffer on the way."""
    (folder / "assets/deep/er").mkdir(parents=True)
    (folder / "page s").mkdir()
    (folder / "index.html").write_text(f"<!doctype html><title>{version}</title>\n")
    (folder / "assets/same.txt").write_text("the same in every version\n")
    (folder / "assets/deep/er/app.js").write_text(f'console.log("{version}")\n')
    (folder / "assets/empty").touch()
    if large:
        # No good to compress, and in every version another one only at its end, so that there is a delta.
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
    """What makes a channel where there is none yet."""
    return [] if (world.feed / f"channels/{channel}.json").exists() else ["--create"]


def release_line(world, channel, *arguments):
    return ["release", *arguments, "--feed", str(world.feed), "--channel", channel, "--json"]
