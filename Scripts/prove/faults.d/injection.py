"""Kills a run at one system call or fails the call: by strace, or by a preloaded shim for half of a write, which strace cannot
do."""

import os
import re
import subprocess
from typing import NamedTuple

from published import Answer, dies_with_parent
from unconfined import unconfined

CALLS = (
    "open,creat,openat,openat2,write,pwrite64,writev,copy_file_range,sendfile,mkdir,mkdirat,rename,renameat,renameat2,"
    "link,linkat,unlink,unlinkat,rmdir,fsync,fdatasync,syncfs,sync_file_range,ftruncate,fallocate,fchmod"
)
ERRORS = ("ENOSPC", "EIO", "EROFS", "EDQUOT")
WRITES = ("short", "torn")
# Calls that need no disk space, so they do not fail on a full disk.
ROOMLESS = ("unlink", "unlinkat", "rmdir")
LINE = re.compile(r"^(\d+) +(\w+)\((.*)$")


class Point(NamedTuple):
    """One call of one run. `call` is "end" for a power cut after an undisturbed run."""

    situation: str
    kind: str
    call: str
    number: int

    def __str__(self):
        return f"{self.situation} {self.kind} {self.call} {self.number}"


class Injector:
    """Runs clientctl under strace or the shim."""

    def __init__(self, world, folder, calls):
        self.world = world
        self.calls = calls
        self.trace = world.work / "trace"
        self.log = world.work / "writes"
        self.shim = self.compile(folder / "shim.c")

    def compile(self, source):
        """Returns the path of the shim, or None without a compiler."""
        target = self.world.work / "shim.so"
        for compiler in ("cc", "clang", "gcc"):
            try:
                subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(target), str(source)], check=True,
                               capture_output=True)
                return target
            except (OSError, subprocess.CalledProcessError):
                continue
        return None

    def run(self, command, environment=None):
        def prepare():
            dies_with_parent()
            # The shim writes its log to a folder that clientctl may not write to.
            if environment:
                unconfined()

        done = subprocess.run(
            command, cwd=self.world.working_folder, env=environment or self.world.environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=120, preexec_fn=prepare)
        return Answer(done.returncode, done.stdout, done.stderr)

    def strace(self, arguments, *options):
        self.trace.unlink(missing_ok=True)
        # --seccomp-bpf is faster, but loses signals at the begin of a call.
        faster = [] if any("signal=" in option for option in options) else ["--seccomp-bpf"]
        return self.run(
            ["strace", "-f", "-qq", *faster, "-y", "-s", "64", "-o", str(self.trace), "-e",
             f"trace={self.calls},exit_group", *options, self.world.clientctl, *arguments])

    # Points

    def calls_of(self, arguments):
        """Runs the command and returns (call, N) without duplicates, if the Nth call of a thread changes a file below the place.

        Calls are counted per thread, as in strace."""
        answer = self.strace(arguments)
        counts, points, here = {}, [], str(self.world.place)
        for line in self.trace.read_text(errors="replace").splitlines():
            found = LINE.match(line)
            if not found:
                continue
            thread, call, rest = found.groups()
            counts[thread, call] = counts.get((thread, call), 0) + 1
            if call in ("open", "openat", "openat2") and "O_CREAT" not in rest or here not in rest:
                continue
            point = (call, counts[thread, call])
            if call != "exit_group" and point not in points:
                points.append(point)
        return answer, points

    def shim_environment(self, **more):
        return self.world.environment | {"LD_PRELOAD": str(self.shim), "FAULTS_PLACE": str(self.world.place)} | more

    def writes_of(self, arguments):
        """Runs the command and returns (call, N) for the Nth write of at least two bytes."""
        self.log.unlink(missing_ok=True)
        answer = self.run([self.world.clientctl, *arguments], self.shim_environment(FAULTS_LOG=str(self.log)))
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return answer, sorted((line.split()[1], int(line.split()[0])) for line in lines)

    # One point

    def strike(self, point, arguments, nosync=False):
        """Runs the command with the fault. Returns its result (status 137 for a kill), and whether the call was reached. The result is
        None if the fault hit only calls for other files or the output, because the threads divided their work differently."""
        if point.kind in WRITES:
            return self.halve(point, arguments)
        more = []
        if nosync:
            more = ["-E", f"LD_PRELOAD={self.shim}", "-E", "FAULTS_NOSYNC=1"]
        if point.call == "end":
            answer = self.strace(arguments, *more)
            return self.own_status(answer), True
        what = f"error={point.kind}" if point.kind in ERRORS else "signal=SIGKILL"
        answer = self.strace(arguments, "-e", f"inject={point.call}:{what}:when={point.number}", *more)
        text = self.trace.read_text(errors="replace")
        if "+++ killed by SIGKILL" in text or answer.status in (-9, 137):
            return answer._replace(status=137), point.kind not in ERRORS
        struck = [line for line in text.splitlines() if "(INJECTED)" in line]
        here = any(str(self.world.place) in line for line in struck)
        if struck and not here or any(" write(1<pipe:" in line for line in struck):
            return None, False
        return self.own_status(answer), bool(struck)

    def own_status(self, answer):
        """Returns the result with the program's own exit status, which strace sometimes loses under load."""
        found = re.findall(r"exit_group\((\d+)\)", self.trace.read_text(errors="replace"))
        return answer._replace(status=int(found[-1])) if found else answer

    def halve(self, point, arguments):
        self.log.unlink(missing_ok=True)
        more = {"FAULTS_AT": str(point.number), "FAULTS_LOG": str(self.log)}
        if point.kind == "torn":
            more["FAULTS_FULL"] = "1"
        answer = self.run([self.world.clientctl, *arguments], self.shim_environment(**more))
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return answer, any(line.startswith(f"{point.number} ") for line in lines)
