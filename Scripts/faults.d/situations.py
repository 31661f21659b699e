"""The situations that Scripts/faults tries. Each is a function: it makes what the command finds in the world's place
and returns the command line. What has to hold then is said by the judge that it names (judges.py)."""

import subprocess
from typing import Callable, NamedTuple

from judges import Change, Confirmation, Following, Launch, Locking, Publication, Removal
from published import APP_ID, LASTING, creating, publish_line, release_line


class Situation(NamedTuple):
    """One command on one state of a store or feed."""

    name: str
    prepare: Callable
    judge: type
    # Clients that are there before and must never go.
    stays: frozenset


SITUATIONS = {}


def situation(judge, *stays):
    """Makes a situation of a function; its name is that of the function."""

    def add(function):
        name = function.__name__.replace("_", "-")
        SITUATIONS[name] = Situation(name, function, judge, frozenset(stays))
        return function

    return add


# Building blocks


def token(answer):
    return answer.json["token"]


def good(world, version):
    """Installs a version, launches it and says that it works."""
    world.must(world.install(version, keep=9))
    launched = world.must(world.launch())
    world.must(world.by_hand("confirm", "--version", version, "--token", token(launched), "--keep", 9))


def two_good(world):
    for version in ("1.0.0", "1.1.0"):
        good(world, version)


def on_trial(world):
    """1.0.0 is good, 1.1.0 was launched and nobody knows yet; returns its token."""
    good(world, "1.0.0")
    world.must(world.install("1.1.0"))
    return token(world.must(world.launch()))


def stop_at(world, arguments, call):
    """Runs a command that is killed at its first `call`."""
    options = ["-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when=1"]
    subprocess.run(
        ["strace", *options, world.clientctl, *arguments], env=world.environment, stdin=subprocess.DEVNULL,
        capture_output=True, check=False)


# install, of archives


@situation(Change)
def install_first(world):
    return world.install("1.0.0")


@situation(Change, "v1.0.0")
def install_update(world):
    world.must(world.install("1.0.0"))
    return world.install("1.1.0")


@situation(Change, "v1.1.0")
def install_retention(world):
    world.must(world.install("1.0.0"))
    world.must(world.install("1.1.0"))
    return world.install("1.2.0", keep=1)


@situation(Change, "v1.0.0")
def install_resumed(world):
    """Over what a stopped installation left."""
    world.must(world.install("1.0.0"))
    stop_at(world, world.install("1.1.0"), "syncfs")
    return world.install("1.1.0")


# install, of hot code pushes


@situation(Change)
def push_first(world):
    return world.push(1)


@situation(Change, "meteor-push-1")
def push_resumed(world):
    """Over what a stopped push left."""
    world.must(world.push(1))
    stop_at(world, world.push(2), "syncfs")
    return world.push(2)


@situation(Change, "v1.0.0", "meteor-push-2")
def push_update(world):
    """Over an older push and an archive; retention removes a client."""
    world.must(world.install("1.0.0"))
    world.must(world.push(1))
    world.must(world.push(2))
    return world.push(3, keep=1)


# The launch line


@situation(Launch, "v1.0.0")
def launch_first(world):
    world.must(world.install("1.0.0"))
    return world.launch()


@situation(Launch, "v1.0.0", "v1.1.0")
def launch_next(world):
    good(world, "1.0.0")
    world.must(world.install("1.1.0"))
    return world.launch()


@situation(Launch, "v1.0.0", "v1.1.0")
def launch_fallback(world):
    """After a trial that nobody ended."""
    on_trial(world)
    return world.launch()


@situation(Launch, "meteor-push-1")
def launch_push(world):
    world.must(world.push(1))
    return world.launch(world.push_seed)


@situation(Launch, "meteor-push-1", "meteor-push-2")
def launch_push_next(world):
    world.must(world.push(1))
    launched = world.must(world.launch(world.push_seed))
    world.must(world.by_hand("confirm", "--version", "push-1", "--token", token(launched)))
    world.must(world.push(2))
    return world.launch(world.push_seed)


@situation(Confirmation, "v1.0.0", "v1.1.0")
def confirm(world):
    verdict = on_trial(world)
    return world.by_hand("confirm", "--version", "1.1.0", "--token", verdict, "--keep", 1)


@situation(Confirmation, "v1.1.0", "v1.2.0")
def confirm_retention(world):
    """Retention removes a client afterwards."""
    two_good(world)
    world.must(world.install("1.2.0", keep=9))
    verdict = token(world.must(world.launch()))
    return world.by_hand("confirm", "--version", "1.2.0", "--token", verdict, "--keep", 1)


@situation(Confirmation, "meteor-push-2")
def confirm_push(world):
    """The first good start of a second push; retention removes the first."""
    world.must(world.push(1))
    world.must(world.push(2))
    verdict = token(world.must(world.launch(world.push_seed)))
    return world.by_hand("confirm", "--version", "push-2", "--token", verdict, "--keep", 1)


@situation(Change, "v1.0.0", "v1.1.0")
def fail(world):
    verdict = on_trial(world)
    return world.by_hand("fail", "--version", "1.1.0", "--token", verdict, "--reason", "white screen")


@situation(Change, "v1.0.0", "v1.1.0")
def fail_again(world):
    """The second failure, which blocks."""
    verdict = on_trial(world)
    world.must(world.by_hand("fail", "--version", "1.1.0", "--token", verdict, "--reason", "white screen"))
    for _ in range(9):
        launched = world.must(world.launch())
        if launched.json["version"] == "1.1.0":
            break
        world.must(world.by_hand("confirm", "--version", "1.0.0", "--token", token(launched)))
    return world.by_hand("fail", "--version", "1.1.0", "--token", token(launched), "--reason", "white screen")


# By hand


@situation(Change, "v1.0.0", "v1.1.0")
def rollback(world):
    two_good(world)
    return world.by_hand("rollback", "--version", "1.0.0")


@situation(Change, "v1.0.0", "v1.1.0")
def unblock(world):
    two_good(world)
    world.must(world.by_hand("rollback", "--version", "1.0.0"))
    return world.by_hand("unblock", "--version", "1.1.0")


@situation(Locking, "v1.0.0")
def lock(world):
    """A device that somebody is logged in on."""
    good(world, "1.0.0")
    secret = world.place.parent / "token"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    world.must(world.by_hand("login", "--token-file", secret))
    return world.by_hand("lock")


@situation(Removal, "v1.1.0", "v1.2.0")
def gc(world):
    two_good(world)
    good(world, "1.2.0")
    return world.by_hand("gc", "--keep", 1)


@situation(Removal, "v1.0.0", "meteor-push-1")
def gc_leftovers(world):
    """After an installation and a push that were stopped."""
    world.must(world.install("1.0.0"))
    world.must(world.push(1))
    stop_at(world, world.install("1.1.0"), "syncfs")
    stop_at(world, world.push(2), "syncfs")
    return world.by_hand("gc")


# publish


@situation(Publication)
def publish_first(world):
    return publish_line(world, "1.0.0", world.feed)


@situation(Publication)
def publish_next(world):
    world.must(publish_line(world, "1.0.0", world.feed))
    return publish_line(world, "1.1.0", world.feed)


@situation(Publication)
def publish_older(world):
    """A release below the newest: devices go on seeing that."""
    world.must(publish_line(world, "1.1.0", world.feed))
    return publish_line(world, "1.0.0", world.feed)


# Channels and trust roots


def publish_to_channel(world, version, *more):
    return [*publish_line(world, version, world.feed), "--channel", "stable", *creating(world, "stable"), *LASTING, *more]


def release(world, *arguments):
    return release_line(world, "stable", *arguments, "--channel-key", str(world.key), *LASTING)


def root(world):
    """A first trust root in the feed, and the next one as a file; returns the paths of both."""
    (world.place / "roots").mkdir()
    first, second = world.place / "roots/1.json", world.place / "roots/2.json"
    key = ["--root-key", str(world.trust), "--release-key", str(world.trust), "--sign-key", str(world.key)]
    world.must(["trust", "init", "--out", str(first), "--app-id", APP_ID, *key, *LASTING, "--json"])
    world.must(["trust", "publish", str(first), "--feed", str(world.feed), "--json"])
    world.must(["trust", "renew", str(first), "--out", str(second), *LASTING, "--json"])
    world.must(["trust", "sign", str(second), "--key", str(world.key), "--json"])
    return first, second


@situation(Following)
def follow_first(world):
    """A first installation that follows a rotated trust root."""
    world.must(publish_to_channel(world, "1.0.0"))
    first, second = root(world)
    world.must(["trust", "publish", str(second), "--feed", str(world.feed), "--json"])
    return world.follow(first)


@situation(Following, "v1.0.0", "v1.1.0")
def follow_recall(world):
    """The client that runs is recalled."""
    for version in ("1.0.0", "1.1.0"):
        world.must(publish_to_channel(world, version))
        world.must(world.follow(world.trust))
    world.must(world.by_hand(
        "confirm", "--version", "1.1.0", "--token", token(world.must(world.launch()))))
    world.must(release(world, "revoke", "--version", "1.1.0", "--reason", "white screen"))
    return world.follow(world.trust)


@situation(Publication)
def publish_channel(world):
    world.must(publish_to_channel(world, "1.0.0"))
    return publish_to_channel(world, "1.1.0")


@situation(Publication)
def release_revoke(world):
    for version in ("1.0.0", "1.1.0"):
        world.must(publish_to_channel(world, version))
    return release(world, "revoke", "--version", "1.1.0", "--reason", "white screen")


@situation(Publication)
def trust_publish(world):
    """The next trust root goes into the feed."""
    world.must(publish_to_channel(world, "1.0.0"))
    _, second = root(world)
    return ["trust", "publish", str(second), "--feed", str(world.feed), "--json"]


@situation(Publication)
def trust_sign(world):
    """The next trust root is signed in its file."""
    world.must(publish_to_channel(world, "1.0.0"))
    first, second = root(world)
    world.must(["trust", "renew", str(first), "--out", str(world.place / "roots/3.json"), *LASTING, "--json"])
    return ["trust", "sign", str(world.place / "roots/3.json"), "--key", str(world.key), "--json"]
