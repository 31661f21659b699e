"""The situations of Scripts/prove/faults: command lines that must succeed, and a last one that is disturbed. The judge of a situation
(judges.py) has its checks."""

import shutil
import subprocess
from typing import Callable, NamedTuple

from judges import Addition, Change, Confirmation, Drawing, Following, Founding, Launch, Locking, Mending, Publication, Removal, Start, Sweep, Telling
from published import APP_ID, LASTING, Answer, creating, publish_line, release_line, tree


class Situation(NamedTuple):
    """One command in one state of a store or feed."""

    name: str
    prepare: Callable
    judge: type
    # The clients that exist before and must remain.
    stays: frozenset


SITUATIONS = {}


def situation(name, judge, stays, *steps):
    """Adds a situation. `stays` are the clients that exist before and must remain."""

    def prepare(world):
        last = None
        for one in steps[:-1]:
            given = one(world, last)
            last = given if isinstance(given, Answer) else last if given is None else world.must(given)
        return steps[-1](world, last)

    SITUATIONS[name] = Situation(name, prepare, judge, frozenset(stays.split()))


# Steps are called with the world and the result of the previous step. A step that returns no command line has run
# itself.


def step(make):
    return lambda *given, **named: lambda world, last: make(world, last, *given, **named)


install = step(lambda world, last, version, keep=3: world.install(version, keep))
# No receiver accepts the reports, so they stay queued.
install_told = step(lambda world, last, version: [*world.install(version, 3), "--report", "http://127.0.0.1:1/report"])
push = step(lambda world, last, number, keep=3: world.push(number, keep))
repair = step(lambda world, last, version: [
    "repair", "--store", str(world.store), "--manifest", f"{world.work}/feed-{version}/manifest.json", "--json"])
launch = step(lambda world, last: world.launch())
launch_push = step(lambda world, last: world.launch(world.push_seed))
by_hand = step(lambda world, last, *arguments: world.by_hand(*arguments))
verdict = step(lambda world, last, verb, version, *more: world.by_hand(
    verb, "--version", version, "--token", last.json["token"], *more))
fails = lambda: verdict("fail", "1.1.0", "--reason", "white screen")
publish = step(lambda world, last, version: publish_line(world, version, world.feed))
# A copy of the version's feed with a delta.
@step
def delta(world, last, version, base):
    feed = f"{world.work}/feed-{version}-delta"
    shutil.rmtree(feed, ignore_errors=True)
    shutil.copytree(f"{world.work}/feed-{version}", feed)
    return delta_line(world, version, base, feed)


def delta_line(world, version, base, feed):
    return [
        "release", "delta", "--version", version, "--delta-from", f"{world.work}/published/{base}", "--feed", str(feed),
        "--key", str(world.key), "--json"]


add_delta = step(lambda world, last, version, base: delta_line(world, version, base, world.feed))


publish_to_channel = step(lambda world, last, version: [
    *publish_line(world, version, world.feed), "--channel", "stable",
    *creating(world, "stable"), *LASTING])
recall = step(lambda world, last, version: release_line(
    world, "stable", "release", "recall", "--version", version, "--reason", "white screen", "--channel-key", str(world.key), *LASTING))
@step
def draw(world, last):
    (world.place / "page").mkdir(exist_ok=True)
    return ["fleet", "page", "--out", str(world.place / "page/page.html"), "--feed", str(world.feed), "--json"]


follow = step(lambda world, last, root=None: world.follow(root_file(world, root) if root else world.trust))
publish_root = step(lambda world, last, number: [
    "trust", "publish", str(root_file(world, number)), "--feed", str(world.feed), "--json"])
renew_root = step(lambda world, last, number: [
    "trust", "renew", str(root_file(world, 1)), "--out", str(root_file(world, number)), *LASTING, "--json"])
sign_root = step(lambda world, last, number: [
    "trust", "sign", str(root_file(world, number)), "--key", str(world.key), "--json"])


# A program is a script that prints its version and confirms itself.
@step
def install_program(world, last, version):
    feed = world.work / f"programs-{version}"
    if not feed.exists():
        folder = world.work / f"program-{version}"
        folder.mkdir()
        (folder / "kiosk").write_text(f"#!/bin/sh\necho started {version}\n{world.clientctl} confirm --program >&2 || true\n")
        (folder / "data").write_text(version * 20000)
        world.must(["publish", str(folder), "--program", "kiosk", "--version", version, "--feed", str(feed), "--key", str(world.key)])
        world.clients[f"v{version}"] = tree(folder)
    return ["install", "--program", "--manifest", f"{feed}/manifest.json", "--trust", str(world.trust), "--store", str(world.store), "--json"]


@step
def run_program(world, last, *more):
    seed = world.work / "seed-program"
    seed.write_text("#!/bin/sh\necho started seed\n")
    seed.chmod(0o755)
    return ["run", "--store", str(world.store), "--seed", str(seed), "--seed-version", "1.0.0", *more]


# The starts are recorded in another folder.
run_apart = step(lambda world, last: run_program("--starts", str(world.place / "starts"))(world, last))


def root_file(world, number):
    (world.place / "roots").mkdir(exist_ok=True)
    return world.place / f"roots/{number}.json"


@step
def first_root(world, last):
    key = ["--root-key", str(world.trust), "--release-key", str(world.trust), "--sign-key", str(world.key)]
    return ["trust", "init", "--out", str(root_file(world, 1)), "--app-id", APP_ID, *key, *LASTING, "--json"]


@step
def stopped(world, last, one):
    """Kills a step at its first syncfs."""
    options = ["-f", "-qq", "-o", "/dev/null", "-e", "trace=syncfs", "-e", "inject=syncfs:signal=SIGKILL:when=1"]
    subprocess.run(
        ["strace", *options, world.clientctl, *one(world, last)], env=world.environment, stdin=subprocess.DEVNULL,
        capture_output=True, check=False)


@step
def until_tried_again(world, last):
    """Launches until 1.1.0 has its second trial, and returns that result."""
    for _ in range(9):
        last = world.must(world.launch())
        if last.json["version"] == "1.1.0":
            break
        world.must(world.by_hand("confirm", "--version", "1.0.0", "--token", last.json["token"]))
    return last


@step
def log_in(world, last):
    secret = world.place.parent / "token"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    return world.by_hand("session", "login", "--token-file", secret)


@step
def damaged(world, last):
    """Changes a hard-linked file of the newest client, removes another file, and adds one."""
    client = world.store / "clients/v1.1.0"
    files = sorted(path for path in client.rglob("*") if path.is_file() and path.name != "index.html" and path.stat().st_size)
    shared = next((path for path in files if path.stat().st_nlink > 2), files[0])
    with shared.open("r+b") as file:
        file.write(b"damaged")
    next(path for path in files if path != shared).unlink()
    (client / "new").mkdir()
    (client / "new/file").write_text("new")


def good(version):
    """Installs, launches and confirms a version."""
    return install(version, keep=9), launch(), verdict("confirm", version, "--keep", 9)


TWO_GOOD = (*good("1.0.0"), *good("1.1.0"))
# 1.1.0 has no verdict yet.
ON_TRIAL = (*good("1.0.0"), install("1.1.0"), launch())
# A first trust root in the feed, and the next one as a file.
ROOTS = (first_root(), publish_root(1), renew_root(2), sign_root(2))

situation("install-first", Change, "", install("1.0.0"))
situation("install-update", Change, "v1.0.0", install("1.0.0"), install("1.1.0"))
situation("install-retention", Change, "v1.1.0", install("1.0.0"), install("1.1.0"), install("1.2.0", keep=1))
# After an interrupted installation.
situation("install-resumed", Change, "v1.0.0", install("1.0.0"), stopped(install("1.1.0")), install("1.1.0"))
situation("install-delta", Change, "v1.0.0", install("1.0.0"), delta("1.1.0", "1.0.0"), install("1.1.0-delta"))

situation("push-first", Change, "", push(1))
# After an interrupted push.
situation("push-resumed", Change, "meteor-push-1", push(1), stopped(push(2)), push(2))
# After an older push and an archive; retention removes a client.
situation("push-update", Change, "v1.0.0 meteor-push-2", install("1.0.0"), push(1), push(2), push(3, keep=1))

situation("launch-first", Launch, "v1.0.0", install("1.0.0"), launch())
situation("launch-next", Launch, "v1.0.0 v1.1.0", *good("1.0.0"), install("1.1.0"), launch())
# After a trial without a verdict.
situation("launch-fallback", Launch, "v1.0.0 v1.1.0", *ON_TRIAL, launch())
situation("launch-push", Launch, "meteor-push-1", push(1), launch_push())
situation("launch-push-next", Launch, "meteor-push-1 meteor-push-2", push(1), launch_push(), verdict("confirm", "push-1"), push(2),
    launch_push())

situation("confirm", Confirmation, "v1.0.0 v1.1.0", *ON_TRIAL, verdict("confirm", "1.1.0", "--keep", 1))
# Retention removes a client afterwards.
situation("confirm-retention", Confirmation, "v1.1.0 v1.2.0", *TWO_GOOD, install("1.2.0", keep=9), launch(),
    verdict("confirm", "1.2.0", "--keep", 1))
# The first good start of a second push; retention removes the first.
situation("confirm-push", Confirmation, "meteor-push-2", push(1), push(2), launch_push(), verdict("confirm", "push-2", "--keep", 1))
situation("fail", Change, "v1.0.0 v1.1.0", *ON_TRIAL, fails())
# The second failure, which blocks.
situation("fail-again", Change, "v1.0.0 v1.1.0", *ON_TRIAL, fails(), until_tried_again(), fails())

situation("rollback", Change, "v1.0.0 v1.1.0", *TWO_GOOD, by_hand("rollback", "--version", "1.0.0"))
situation("unblock", Change, "v1.0.0 v1.1.0", *TWO_GOOD, by_hand("rollback", "--version", "1.0.0"), by_hand("unblock", "--version", "1.1.0"))
# A device with a session.
situation("screen-lock", Locking, "v1.0.0", *good("1.0.0"), log_in(), by_hand("screen", "lock"))
situation("prune", Removal, "v1.1.0 v1.2.0", *TWO_GOOD, *good("1.2.0"), by_hand("prune", "--keep", 1))
# After an interrupted installation and an interrupted push.
situation("prune-leftovers", Removal, "v1.0.0 meteor-push-1", install("1.0.0"), push(1), stopped(install("1.1.0")), stopped(push(2)),
    by_hand("prune"))

# A file that both clients share, a missing file, and an unknown one.
situation("repair", Mending, "", install("1.0.0"), install("1.1.0"), launch(), damaged(), repair("1.1.0"))

situation("publish-first", Publication, "", publish("1.0.0"))
situation("publish-next", Publication, "", publish("1.0.0"), publish("1.1.0"))
# A release below the newest, which devices still use.
situation("publish-older", Publication, "", publish("1.1.0"), publish("1.0.0"))
# A first installation that follows a rotated trust root.
situation("follow-first", Following, "", publish_to_channel("1.0.0"), *ROOTS, publish_root(2), follow(root=1))
# The running client is recalled.
situation("follow-recall", Following, "v1.0.0 v1.1.0", publish_to_channel("1.0.0"), follow(), publish_to_channel("1.1.0"), follow(),
    launch(), verdict("confirm", "1.1.0"), recall("1.1.0"), follow())
situation("publish-channel", Publication, "", publish_to_channel("1.0.0"), publish_to_channel("1.1.0"))
situation("release-recall", Publication, "", publish_to_channel("1.0.0"), publish_to_channel("1.1.0"), recall("1.1.0"))
# The next trust root is published, or signed in its file.
situation("trust-publish", Publication, "", publish_to_channel("1.0.0"), *ROOTS, publish_root(2))
situation("trust-sign", Publication, "", publish_to_channel("1.0.0"), *ROOTS, renew_root(3), sign_root(3))

situation("release-delta", Addition, "", publish("1.1.0"), add_delta("1.1.0", "1.0.0"))
# Two of three releases are removed.
plain = step(lambda world, last, version: [*publish_line(world, version, world.feed), "--no-deltas"])
situation("feed-prune", Sweep, "", plain("1.0.0"), plain("1.1.0"), plain("1.2.0"), step(lambda world, last: [
    "feed", "prune", "--feed", str(world.feed), "--keep", "1", "--min-age", "0s", "--json"])())
# A device that reports.
situation("install-told", Telling, "v1.0.0", install_told("1.0.0"), install_told("1.1.0"))
situation("fail-told", Telling, "v1.0.0 v1.1.0", install_told("1.0.0"), launch(), verdict("confirm", "1.0.0"), install_told("1.1.0"), launch(), fails())
situation("fail-again-told", Telling, "v1.0.0 v1.1.0", install_told("1.0.0"), launch(), verdict("confirm", "1.0.0"), install_told("1.1.0"), launch(),
          fails(), until_tried_again(), fails())
# A project in an empty folder.
@step
def found(world, last):
    (world.place / "project").mkdir()
    return ["init", "--yes", "--app-id", APP_ID, "--json"]


situation("init", Founding, "", found())
situation("program-first", Change, "", install_program("2.0.0"))
situation("program-next", Change, "v2.0.0", install_program("2.0.0"), run_program(), install_program("2.1.0"))
situation("run-seed", Start, "", install_program("0.9.0"), run_program())
situation("run-first", Start, "v2.0.0", install_program("2.0.0"), run_program())
situation("run-next", Start, "v2.0.0 v2.1.0", install_program("2.0.0"), run_program(), install_program("2.1.0"), run_program())
situation("run-apart", Start, "v2.0.0 v2.1.0", install_program("2.0.0"), run_apart(), install_program("2.1.0"), run_apart())
# A page replaces the previous one.
situation("fleet-page", Drawing, "", publish_to_channel("1.0.0"), draw(), publish_to_channel("1.1.0"), draw())
