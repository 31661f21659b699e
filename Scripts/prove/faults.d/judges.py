"""The checks after a kill or a failure, for each kind of command. A judge belongs to one situation; its methods yield complaints."""

import json
import pathlib
import re
import shutil
import subprocess

from published import difference, signed_content, state

# The exit statuses that a command may end with after each error of the disk.
WANTED_STATUS = {"ENOSPC": {30}, "EDQUOT": {30}, "torn": {30}, "EROFS": {31}, "EIO": {1}}


class Judge:
    """The shared checks: the state before and after, and after a second run."""

    def __init__(self, world, situation, arguments):
        self.world = world
        self.situation = situation
        self.arguments = arguments

        # The last state that `whole` observed; None if it failed.
        self.now = None

    def learn_before(self):
        """Called in the state before the command."""
        self.before = self.observe()

    def learn_after(self):
        """Called after an undisturbed run."""
        self.after = self.observe()
        self.state_after = state(self.world.place)

    def status(self, kind, answer):
        """Checks that the failure explains the exit status."""
        if answer.status in WANTED_STATUS.get(kind, set()):
            return
        # An unreadable ledger without an earlier one is a damaged store.
        if kind == "EIO" and answer.status == 33 and "ledger.json: Input/output error" in answer.out + answer.err:
            return
        yield f"exit {answer.status}: {answer.out[:300]}{answer.err[:300]}"

    def heal(self):
        """Checks that a second run succeeds with the state of an undisturbed run."""
        again = self.world.run(self.arguments)
        if again.status != 0:
            yield f"the second run ended with exit {again.status}: {again.out[:300]}{again.err[:300]}"
            return
        found = state(self.world.place)
        if found != self.state_after:
            yield f"the state after the second run differs: {difference(found, self.state_after)}"


class StoreJudge(Judge):
    """For commands on a store."""

    # The seed of `run` is not a client of the store.
    has_seed_apart = False

    def observe(self):
        status = self.world.status()
        # A failed run stores the version that it could not install.
        status.pop("wanted", None)
        return {"list": self.world.listed(), "status": status}

    def chosen(self, observed):
        return observed["list"]["current"], observed["list"]["pending"]

    def whole(self):
        """Checks that every visible client is complete and that required clients exist."""
        self.now = None
        try:
            self.now = self.observe()
        except ValueError as error:
            yield str(error)
            return
        listed = self.now["list"]
        for name in self.world.broken_clients(listed):
            yield f"{name} is incomplete"
        for name in sorted(self.situation.stays - set(listed["versions"])):
            yield f"{name} is missing"
        if listed["current"] not in listed["versions"] and not (self.has_seed_apart and listed["current"] == "embedded"):
            yield f"the current client is {listed['current']}, which is not installed"


class Change(StoreJudge):
    """install, rollback, unblock, fail, prune: all or nothing, and repeatable."""

    def stopped(self):
        now = self.chosen(self.now)
        if now not in (self.chosen(self.before), self.chosen(self.after)):
            yield f"current and pending are {now}, neither the old nor the new values"

    def failed(self):
        if self.now != self.before:
            yield f"a failed run changed list or status: {json.dumps(self.now)[:600]}"

    def done(self, answer):
        now = self.now
        # A failure during the removal of an old client may delay the removal if the run reports it.
        is_delayed = "until the next run" in answer.err and self.chosen(now) == self.chosen(self.after)
        if now != self.after and not is_delayed:
            yield "exit 0, but list and status do not show the result"


class Following(Change):
    """install by a channel document: the stored state of the feed and its recalls stay if the rest fails."""

    def failed(self):
        def without_feed(seen):
            return {**seen, "status": {**seen["status"], "feed": None}}

        if without_feed(self.now) != without_feed(self.before):
            yield from self.stopped()


class Telling(Change):
    """A device that reports: the queue has each event once."""

    def whole(self):
        yield from super().whole()
        try:
            ledger = json.loads((self.world.store / "ledger.json").read_text())
        except (OSError, ValueError):
            return
        facts = [(one["fact"], one["version"]) for one in (ledger["reports"] or {"waiting": []})["waiting"]]
        if len(set(facts)) != len(facts):
            yield f"an event is queued twice: {facts}"
        happened = {("installed", one["version"]) for one in ledger["versions"]}
        happened |= {("failed", one["version"]) for one in ledger["starts"] if one["failures"]}
        happened |= {("blocked", one["version"]) for one in ledger["blocked"]}
        told = {fact for fact in facts if fact[0] in ("installed", "failed", "blocked")}
        if told != happened:
            yield f"the events are {sorted(happened)}, but the queue has {sorted(told)}"


class Locking(Change):
    """lock: the session file is the old or the new one."""

    def stopped(self):
        yield from super().stopped()
        sessions = [seen["status"]["session"] for seen in (self.before, self.after)]
        if self.now["status"]["session"] not in sessions:
            yield f"the session is {self.now['status']['session']}, neither the old nor the new one"


class Removal(Change):
    """prune: a removed client leaves the ledger first; the next run removes its remaining files."""

    def failed(self):
        now = self.now
        names, before, after = (set(seen["list"]["versions"]) for seen in (now, self.before, self.after))
        if self.chosen(now) != self.chosen(self.before) or not after <= names <= before:
            yield f"a failed run left current and pending {self.chosen(now)} of {sorted(names)}"


class Mending(StoreJudge):
    """repair: every file has its old bytes or those of its receipt, and the next run completes the repair."""

    def learn_before(self):
        super().learn_before()
        self.files_before = state(self.world.place)

    def whole(self):
        self.now = self.observe()
        after = getattr(self, "state_after", None)
        if after is None:
            return
        for path, kind in state(self.world.place).items():
            if path.startswith(("store/clients/", "store/serving/")) and kind not in (self.files_before.get(path), after.get(path)):
                yield f"{path} has neither the old nor the installed bytes"

    def stopped(self):
        return []

    failed = stopped

    def done(self, answer):
        found = state(self.world.place)
        # Copies that cannot be removed may stay if the run reports it.
        told = re.search(r"The next run removes (staging/repair-\w+)\.", answer.err)
        if told:
            found = {path: kind for path, kind in found.items() if not (path + "/").startswith(f"store/{told[1]}/")}
        if found != self.state_after:
            yield f"exit 0, but the store differs: {difference(found, self.state_after)}"


class Launch(StoreJudge):
    """launch: every later launch returns a complete serving root with the shim."""

    def stopped(self):
        return []

    failed = stopped

    def done(self, answer):
        fault = self.world.root_fault(answer.json)
        if fault:
            yield fault

    def heal(self):
        for number in (1, 2):
            again = self.world.run(self.arguments)
            if again.status != 0:
                yield f"later launch {number} ended with exit {again.status}: {again.out[:300]}{again.err[:300]}"
                return
            fault = self.world.root_fault(again.json)
            if fault:
                yield fault
        name = again.json["version"]
        if name == "embedded":
            return
        line = self.world.by_hand("confirm", "--version", name, "--token", again.json["token"])
        confirmed = self.world.run(line)
        if confirmed.status != 0:
            yield f"the later confirmation ended with exit {confirmed.status}: {confirmed.out[:300]}"


class Start(StoreJudge):
    """run: something starts at every point, and later runs start the seed or an installed program."""

    has_seed_apart = True

    def stopped(self):
        return []

    failed = stopped

    def status(self, kind, answer):
        yield f"nothing started: exit {answer.status}: {answer.out[:300]}{answer.err[:300]}"

    def done(self, answer):
        if not self.started(answer):
            yield f"exit 0, but nothing started: {answer.out[:300]}{answer.err[:300]}"

    @staticmethod
    def started(answer):
        return re.search(r"^started (\S+)$", answer.out, re.MULTILINE)

    def heal(self):
        known = {"seed", *(name.removeprefix("v") for name in self.world.listed()["versions"])}
        for number in (1, 2):
            again = self.world.run(self.arguments)
            found = self.started(again)
            if again.status != 0 or not found or found[1] not in known:
                yield f"later run {number} started nothing: exit {again.status}: {again.out[:300]}{again.err[:300]}"
                return


class Confirmation(Change):
    """confirm: a stored verdict stays; the next run may remove older clients."""

    def done(self, answer):
        if self.chosen(self.now) != self.chosen(self.after):
            yield "exit 0, but the client is not confirmed"

    def failed(self):
        return self.stopped()

    def heal(self):
        self.world.run(self.arguments)
        self.world.run(self.world.by_hand("prune", "--keep", "1"))
        yield from super().heal()


class Publication(Judge):
    """publish: at any time, a device reads the complete old or new release, channel file and trust root."""

    MUTABLE = ("manifest.json", "channels/stable.json", "trust.json", "trust/1.json", "trust/2.json")

    def observe(self):
        files = {name: self.world.feed / name for name in self.MUTABLE}
        return {
            name: signed_content(file) if name.startswith("channels/") else file.read_text()
            for name, file in files.items() if file.is_file()
        }

    def releases(self):
        folder = self.world.feed / "releases"
        return sorted(e.name for e in folder.iterdir()) if folder.is_dir() else []

    def whole(self):
        now = self.now = self.observe()
        after = getattr(self, "after", self.before)
        for name in self.MUTABLE:
            if now.get(name) not in (self.before.get(name), after.get(name)):
                yield f"{name} is neither the old nor the new one: {now.get(name)!r:.300}"
        shown = [self.world.feed / "manifest.json"] if "manifest.json" in now else []
        for name in self.releases():
            if name.startswith(".publish-"):
                continue
            shown.append(self.world.feed / "releases" / name / "manifest.json")
            found = state(self.world.feed / "releases" / name)
            wanted = {
                path.removeprefix(f"feed/releases/{name}/"): kind for path, kind in self.state_after.items()
                if path.startswith(f"feed/releases/{name}/")}
            if found != wanted:
                yield f"releases/{name} is incomplete: {difference(found, wanted)}"
        for manifest in shown:
            verified = self.world.run(["verify", str(manifest), "--trust", str(self.world.trust), "--json"])
            if verified.status != 0:
                name = manifest.relative_to(self.world.feed)
                yield f"{name} does not verify: {verified.out[:300]}{verified.err[:300]}"
        known = {"manifest.json", "manifest.json.new", "releases", "channels", "trust", "trust.json", "trust.json.new"}
        if self.world.feed.is_dir():
            for name in sorted({e.name for e in self.world.feed.iterdir()} - known):
                yield f"the feed has an unexpected file {name}"

    def stopped(self):
        return []

    failed = stopped

    def done(self, answer):
        found, wanted = state(self.world.place), self.state_after
        # The channel is published. The command warns that the next change cannot be compared with it.
        if "could not be recorded on this machine" in answer.err:
            found, wanted = ({name: kind for name, kind in one.items() if not name.startswith("publisher/")} for one in (found, wanted))
        if found != wanted:
            yield f"exit 0, but the feed differs: {difference(found, wanted)}"


class Addition(Publication):
    """release delta: the release is unchanged, and its list of deltas is the old or the new one."""

    LIST = "/deltas.json"

    def learn_before(self):
        super().learn_before()
        self.files_before = state(self.world.place)

    def whole(self):
        self.now = self.observe()
        after = getattr(self, "state_after", self.files_before)
        now = state(self.world.place)
        for path in sorted({*self.files_before, *(path for path in now if path.endswith(self.LIST))}):
            allowed = (self.files_before.get(path), after.get(path)) if path.endswith(self.LIST) else (self.files_before.get(path),)
            if now.get(path) not in allowed:
                yield f"{path} has changed"
        verified = self.world.run(["verify", str(self.world.feed / "manifest.json"), "--trust", str(self.world.trust), "--json"])
        if verified.status != 0:
            yield f"manifest.json does not verify: {verified.out[:300]}{verified.err[:300]}"


class Sweep(Addition):
    """feed prune: kept files are unchanged, only records of removed releases are new, and the next run removes the rest."""

    def whole(self):
        self.now = self.observe()
        after = getattr(self, "state_after", self.files_before)
        # A release that is being removed has a name that no device requests.
        now = {path: kind for path, kind in state(self.world.place).items() if "/releases/.publish-" not in path}
        for path in sorted({*now, *after}):
            if path.startswith("feed/retired"):
                if path in after and now.get(path, after[path]) != after[path]:
                    yield f"{path} is incomplete"
                continue
            if now.get(path) != self.files_before.get(path) and path in after:
                yield f"{path} has changed"
            if path not in self.files_before:
                yield f"{path} is new"


class Drawing(Judge):
    """fleet page: the file is the complete old or new page, and the next run writes one."""

    def observe(self):
        file = self.world.place / "page/page.html"
        return file.read_text() if file.is_file() else None

    def whole(self):
        self.now = self.observe()
        is_whole = self.now is not None and self.now.startswith("<!doctype html>") and self.now.endswith("</html>\n")
        if self.now != self.before and not is_whole:
            yield f"the page is neither the old nor a new one: {self.now!r:.300}"

    def stopped(self):
        return []

    failed = stopped

    def done(self, answer):
        if self.now == self.before:
            yield "exit 0, but the page has not changed"

    def heal(self):
        again = self.world.run(self.arguments)
        if again.status != 0:
            yield f"the second run ends with exit {again.status}: {again.out[:300]}{again.err[:300]}"
        yield from self.whole()
        yield from self.done(again)


class Founding(Judge):
    """init and keys generate: each file is complete or missing, the keys of a project exist, and a second run completes the rest."""

    PROJECT, KEY, PUBLIC = FILES = ("clientctl.json", "release.key.pem", "release.pub.pem")

    def observe(self):
        return sorted(entry.name for entry in self.world.working_folder.iterdir())

    def whole(self):
        self.now = self.observe()
        project = self.world.working_folder / self.PROJECT
        if project.is_file():
            if json.loads(project.read_text()).get("key") != self.KEY:
                yield "the project file is incomplete"
            if not {self.KEY, self.PUBLIC} <= set(self.now):
                yield "the project has no key"
        ids = set()
        for name in {self.KEY, self.PUBLIC} & set(self.now):
            shown = self.world.run(["keys", "show", str(self.world.working_folder / name), "--json"])
            ids.add(shown.json.get("keyId") if shown.status == 0 else f"of {name}: {shown.out[:200]}")
        if len(ids) > 1 or any(not re.fullmatch("[0-9a-f]{64}", str(key)) for key in ids):
            yield f"the keys are damaged or different: {ids}"

    def stopped(self):
        return []

    failed = stopped

    def status(self, kind, answer):
        # The interrupted run had written everything, but a power cut can lose the unsynced project file.
        if not (kind == "again" and self.has_ended(answer)):
            yield from super().status(kind, answer)

    @staticmethod
    def has_ended(answer):
        return answer.status == 78 and "already exists" in answer.out

    def done(self, answer):
        if self.now != self.after:
            yield f"exit 0, but the files are {', '.join(self.now)}"

    def heal(self):
        again = self.world.run(self.arguments)
        if again.status != 0 and not self.has_ended(again):
            yield f"the second run ended with exit {again.status}: {again.out[:300]}{again.err[:300]}"
        yield from self.whole()
        yield from self.done(again)


def plant_damage(world):
    """Truncates one visible file, so that --prove can check the judges. Returns false if there is none."""
    for pattern in ("feed/releases/v*/client-*", "store/clients/v*/assets/file-1.css", "store/meteor/*/**/*.css", "project/*.key.pem"):
        for path in sorted(pathlib.Path(world.place).glob(pattern)):
            content = path.read_bytes()
            # Writes a new file, because other clients may link to the bytes.
            path.unlink()
            path.write_bytes(content[: len(content) // 2])
            return True
    return False


def reset(world, saved):
    """Restores the place from `saved`."""
    for entry in world.place.iterdir():
        shutil.rmtree(entry)
    copy(saved, world.place)


def copy(source, target):
    """Copies the content of a folder with its hard links."""
    subprocess.run(["cp", "-a", f"{source}/.", f"{target}/"], check=True)
