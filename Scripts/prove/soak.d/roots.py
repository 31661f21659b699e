"""The trust roots of a feed and their changes. Only the files determine the next step, so a killed command has no effect on it."""

from documents import opened
from published import APP_ID, LASTING

CHANNELS = ("stable", "beta")


class Roots:
    """A trust root: two of two root keys must sign it; releases and channels require one of their keys."""

    def __init__(self, world, random):
        self.world = world
        self.random = random
        self.keys = {}
        self.drafts = world.work / "roots"
        self.shown = world.feed / "trust.json"
        # The trust file for devices.
        self.pinned = world.work / "pinned.json"
        # All public keys that have signed channels.
        self.vouching = world.work / "vouching"

    def prepare(self):
        self.drafts.mkdir()
        self.vouching.mkdir()
        shown = self.world.must(["keys", "show", str(self.world.trust), "--json"])
        self.main_key = shown.json["keyId"]
        roots = [self.make_key() for _ in range(2)]
        first = str(self.draft(1))
        line = ["trust", "init", "--out", first, "--app-id", APP_ID, "--root-threshold", "2", *LASTING, "--json"]
        for key in roots:
            line += ["--root-key", self.public(key), "--sign-key", self.private(key)]
        line += ["--release-key", str(self.world.trust), "--channel-key", self.public(self.make_channel_key())]
        self.world.must(line)
        self.world.must(["trust", "publish", first, "--feed", str(self.world.feed), "--json"])
        self.pinned.write_bytes(self.shown.read_bytes())
        self.first = self.world.work / "first.json"
        self.first.write_bytes(self.shown.read_bytes())

    # Keys

    def make_key(self):
        prefix = self.world.work / f"key-{len(self.keys)}"
        algorithm = self.random.choice(("ed25519", "ecdsa-p256"))
        made = self.world.must(["keys", "generate", "--out", str(prefix), "--algorithm", algorithm, "--json"])
        self.keys[made.json["keyId"]] = prefix
        return made.json["keyId"]

    def make_channel_key(self):
        key = self.make_key()
        (self.vouching / f"{key}.pem").write_bytes(open(self.public(key), "rb").read())
        return key

    def public(self, key):
        return f"{self.keys[key]}.pub.pem"

    def private(self, key):
        return f"{self.keys[key]}.key.pem"

    def signing(self):
        """Returns the options for signing a channel: the newest key, and the trust for documents that other keys signed."""
        key = keys_of(opened(self.shown)[0], "channel")[-1]
        options = ["--channel-key", self.private(key), *LASTING]
        if any(signers != [key] for signers in self.signers().values()):
            options += ["--trust", str(self.vouching), "--devices-trust-new-key"]
        return options

    def signers(self):
        """Returns the keys that signed the document of each channel."""
        files = {channel: self.world.feed / f"channels/{channel}.json" for channel in CHANNELS}
        return {channel: opened(file)[1] for channel, file in files.items() if file.exists()}

    # The feed

    def newest(self):
        return max(int(file.stem) for file in (self.world.feed / "trust").glob("*.json"))

    def in_feed(self, version):
        return self.world.feed / f"trust/{version}.json"

    def draft(self, version):
        return self.drafts / f"{version}.json"

    def to_sign(self):
        """Returns the channels that the newest root does not cover, so a newer key must sign them."""
        trusted = keys_of(opened(self.in_feed(self.newest()))[0], "channel")
        return [channel for channel, signers in self.signers().items() if not set(signers) <= set(trusted)]

    def is_settled(self):
        """Returns whether devices and publishers accept every channel of the feed."""
        return self.shown.read_bytes() == self.in_feed(self.newest()).read_bytes() and not self.to_sign()

    # Changes

    def step(self):
        """Returns the next command of a change: edit, sign with each root key, publish."""
        newest = self.newest()
        if self.shown.read_bytes() != self.in_feed(newest).read_bytes():
            return self.publish(newest)
        draft = self.draft(newest + 1)
        if not draft.exists():
            return [*self.edit(opened(self.in_feed(newest))[0], str(self.in_feed(newest))), "--out", str(draft)]
        edited, signed = opened(draft)
        needed = keys_of(opened(self.in_feed(newest))[0], "root") + keys_of(edited, "root")
        missing = [key for key in needed if key not in signed]
        if missing:
            return ["trust", "sign", str(draft), "--key", self.private(self.random.choice(missing)), "--json"]
        return self.publish(newest + 1)

    def publish(self, version):
        return ["trust", "publish", str(self.draft(version)), "--feed", str(self.world.feed), "--json"]

    def update(self):
        return ["trust", "update", str(self.pinned), "--feed", str(self.world.feed), "--json"]

    def edit(self, root, file):
        """Returns a random edit that leaves enough keys for signing."""
        channel, release = keys_of(root, "channel"), keys_of(root, "release")
        spare = [key for key in release if key != self.main_key]
        kinds = ["renew", "rotate root", "rotate channel"]
        kinds.append("remove channel" if len(channel) > 1 else "add channel")
        kinds.append("remove release" if spare else "add release")
        revoke = self.random.choice(([], ["--revoke"]))
        match self.random.choice(kinds):
            case "renew":
                line = ["renew", file]
            case "rotate root":
                old = self.random.choice(keys_of(root, "root"))
                line = ["rotate", file, "--old", old, "--new", self.public(self.make_key()), *revoke]
            case "rotate channel":
                new = self.public(self.make_channel_key())
                line = ["rotate", file, "--old", self.random.choice(channel), "--new", new, *revoke]
            case "add channel":
                line = ["add-key", file, "--role", "channel", "--public-key", self.public(self.make_channel_key())]
            case "remove channel":
                line = ["remove-key", file, "--role", "channel", "--key-id", self.random.choice(channel)]
            case "add release":
                line = ["add-key", file, "--role", "release", "--public-key", self.public(self.make_key())]
            case _:
                line = ["remove-key", file, "--role", "all", "--key-id", self.random.choice(spare), *revoke]
        return ["trust", *line, *LASTING, "--json"]


def keys_of(root, role):
    return root["roles"][role]["keyids"]
