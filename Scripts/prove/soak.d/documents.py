"""Reads the channels of a feed and predicts the result of each command, independently of clientctl."""

import base64
import itertools
import json
from typing import NamedTuple


class Release(NamedTuple):
    """The properties of a release in a channel."""

    rollout: int = 1000
    salt: str = ""
    paused: bool = False


class Document(NamedTuple):
    """The parts of a channel document that commands change."""

    sequence: int
    # Version to release.
    releases: dict
    # Version to reason.
    recalled: dict
    # The lowest permitted version, or None.
    floor: str | None

    def allows(self, version):
        return version not in self.recalled and (self.floor is None or number(version) >= number(self.floor))

    def having(self, version, release):
        return self._replace(releases=self.releases | {version: release})


class Change(NamedTuple):
    """The change of a channel by a command."""

    verb: str
    channel: str
    version: str | None = None
    # The rollout, the reason, or the channel from which a release is promoted.
    value: object = None


def number(version):
    return tuple(map(int, version.split(".")))


def opened(path):
    """Returns the payload of a signed file and the key ids in it, without verification."""
    envelope = json.loads(path.read_text())
    return json.loads(base64.b64decode(envelope["payload"])), [s["keyid"] for s in envelope["signatures"]]


def read(path):
    payload, _ = opened(path)
    if payload["channel"] != path.stem:
        raise ValueError(f"{path} is the document of channel {payload['channel']}")
    releases = {
        release["version"]: Release(
            release.get("rollout", 1000), release.get("salt", ""), release.get("paused", False))
        for release in payload["releases"]}
    recalled = {entry["version"]: entry["reason"] for entry in payload["recalled"]}
    return Document(payload["sequence"], releases, recalled, payload.get("minimumVersion"))


def applied(feed, change):
    """Returns the documents by channel after a change, or None if clientctl must refuse it."""
    before = feed[change.channel]
    if change.verb == "promote":
        source = feed[change.value]
        if change.version not in source.releases or not source.allows(change.version):
            return None
        after = promoted(before, change.version, source.releases[change.version])
    else:
        after = changed(before, change)
    if after is None or after == before and change.verb != "renew":
        return after and feed
    if change.verb in ("publish", "promote"):
        others = [document for name, document in feed.items() if name != change.channel]
        if any(change.version in other.recalled for other in others):
            return None
        after = pruned(after)
    return feed | {change.channel: after._replace(sequence=before.sequence + 1)}


# The highest releases that are kept although no device installs them.
KEPT = 20


def pruned(document):
    """Removes the releases that a channel drops when a release is added."""
    floor = document.floor
    recalled = {v: why for v, why in document.recalled.items() if floor is None or number(v) >= number(floor)}
    for_all = [v for v, release in document.releases.items()
               if release.rollout == 1000 and not release.paused and document.allows(v)]
    newest = max(map(number, for_all), default=(0,))
    lower = sorted((v for v in document.releases if number(v) < newest), key=number, reverse=True)
    left = {v: release for v, release in document.releases.items() if v not in lower[KEPT:]}
    return document._replace(releases=left, recalled=recalled)


def promoted(document, version, release):
    """Copies a release with its pause and rollout from another channel."""
    if version in document.releases or not document.allows(version):
        return document if version in document.releases else None
    salt = "" if release.rollout == 1000 else version
    return document.having(version, release._replace(salt=salt))


def changed(document, change):
    version, release = change.version, document.releases.get(change.version)
    match change.verb:
        case "publish":
            if release or not document.allows(version):
                return document if release else None
            return document.having(version, Release() if change.value is None else Release(change.value, version))
        case "rollout":
            if not release or not document.allows(version):
                return None
            if release.rollout == change.value:
                return document
            return document.having(version, release._replace(rollout=change.value, salt=release.salt or version))
        case "pause":
            return release and document.having(version, release._replace(paused=True))
        case "resume":
            is_possible = release and document.allows(version)
            return document.having(version, release._replace(paused=False)) if is_possible else None
        case "recall":
            return document._replace(recalled=document.recalled | {version: change.value})
        case "undo":
            return document._replace(recalled={v: why for v, why in document.recalled.items() if v != version})
        case "floor":
            stays = [v for v in document.releases if number(v) >= number(version) and v not in document.recalled]
            is_lower = document.floor is not None and number(version) < number(document.floor)
            return None if is_lower or not stays else document._replace(floor=version)
        case "withdraw":
            left = {v: r for v, r in document.releases.items() if v != version}
            return document._replace(releases=left) if release else None
        case _:
            return document


def explained(before, after, done, perhaps):
    """Returns whether the documents are the result of all changes `done` and any of `perhaps`, in any order."""
    for count in range(len(perhaps) + 1):
        for stopped in itertools.combinations(perhaps, count):
            for order in itertools.permutations([*done, *stopped]):
                feed = before
                for change in order:
                    feed = feed and applied(feed, change)
                if feed == after:
                    return True
    return False
