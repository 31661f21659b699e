"""Shared by the benchmarks: a work folder, a real client, the costs of commands, and a table with targets."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "Scripts/lib"))

from published import Parser, released

MB = 1_000_000
# The runs of commands that take milliseconds.
SHORT_RUNS = 20


class Cost(NamedTuple):
    """The seconds of a command, the processor seconds of all its processes, and the peak memory of the largest one in bytes."""

    wall: float
    cpu: float
    memory: int


def parser(usage):
    """Returns a parser with the options of all benchmarks."""
    made = Parser(usage=usage)
    made.add_argument("--quick", action="store_true")
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--client", default="home-assistant", choices=("home-assistant", "jupyterlab", "streamlit"))
    for name in ("--clients", "--work", "--clientctl", "--old", "--json"):
        made.add_argument(name)
    return made


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(*command):
    """Runs a command that must succeed, and returns its output."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"bench: {' '.join(map(str, command))} failed: {done.stdout}")
    return done.stdout


def seconds(value):
    return f"{value * 1000:.1f} ms" if value < 0.2 else f"{value:.2f} s"


def megabytes(value):
    return f"{value / MB:.1f} MB"


def rate(value):
    return f"{value:,.0f} /s"


class Bench:
    """The programs `new` and, if given, `old`; their costs and those of the `stock` tools; and the rows of the table."""

    def __init__(self, options, *tools):
        run(ROOT / "Scripts/bootstrap", *tools)
        self.options = options
        self.programs = {"new": released(options.clientctl)}
        if options.old:
            self.programs["old"] = os.path.realpath(options.old)
        self.sides = [*self.programs, "stock"]
        self.costs, self.stages, self.rows = {}, {}, []
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="swap-clients-bench.", dir=options.work))
        # ext4 skips recently deleted inodes one by one for every new file, so an installation after the removal of a tree takes ten
        # times as long. Every run therefore gets a new folder here, nothing is removed before the end, and the attribute T places
        # these folders in different parts of the disk.
        self.spot = self.work / "runs"
        self.spot.mkdir()
        subprocess.run(["chattr", "+T", self.spot], stderr=subprocess.DEVNULL)

    def __enter__(self):
        say("getting the client")
        shown = run(ROOT / "Scripts/lib/real-clients", "--only", self.options.client, *filter(None, [self.options.clients]))
        words = dict(word.split("=", 1) for word in shown.splitlines()[-1].split()[1:])
        self.kind, self.before, self.after = words["kind"], pathlib.Path(words["old"]), pathlib.Path(words["new"])
        run(self.programs["new"], "keys", "generate", "--out", self.work / "bench")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.work, ignore_errors=True)

    # Measuring

    def turns(self, round):
        """Returns the sides in the order of a round: the last one finds a busier disk or a warmer cache."""
        first = round % len(self.sides)
        return self.sides[first:] + self.sides[:first]

    def measure(self, row, side, *command):
        """Runs a command, records its cost, and returns its output."""
        names = {1: self.work / "stdout", 2: self.work / "stderr"}
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        files = [(os.POSIX_SPAWN_OPEN, number, name, flags, 0o644) for number, name in names.items()]
        words = list(map(str, command))
        start = time.perf_counter()
        # posix_spawn starts within 1 ms, a fork in 3 ms. wait4 counts this child and its children only.
        child = os.posix_spawnp(words[0], words, os.environ, file_actions=files)
        _, status, used = os.wait4(child, 0)
        wall = time.perf_counter() - start
        output = names[1].read_text()
        if status:
            sys.exit(f"bench: {' '.join(words)} failed: {output}{names[2].read_text()}")
        self.record(row, side, Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024))
        if output.startswith("{") and (timings := json.loads(output).get("timings")):
            self.stages.setdefault((row, side), []).append(timings)
        return output

    def record(self, row, side, cost):
        self.costs.setdefault((row, side), []).append(cost)

    def publish(self, program, folder, version, feed, *more):
        """Returns the command that publishes a folder. The index pages of some clients are templates for their own servers."""
        return [program, "publish", folder, "--version", version, "--feed", feed, "--key", self.work / "bench.key.pem",
                "--min-shell", "1.0.0", "--app-id", "org.example.bench", "--allow", "missingScript", "--json", *more]

    # The table

    def median(self, row, side, what):
        """Returns None if the row was not measured on this side."""
        found = [getattr(cost, what) for cost in self.costs.get((row, side), [])]
        return statistics.median(found) if found else None

    def bounds(self, row):
        """Returns the longest stages that clientctl states, in per cent of their sum."""
        timings = self.stages.get((row, "new"), [])
        parts = {name: statistics.median(timing.get(name) or 0 for timing in timings) for name in (timings[0] if timings else {})}
        total = sum(parts.values()) or 1
        longest = sorted(parts, key=parts.get, reverse=True)[:4]
        return ", ".join(f"{name} {100 * parts[name] / total:.0f} %" for name in longest if parts[name] > 0)

    def row(self, title, show, values, target="", holds=None, note=""):
        """Adds a row; `values` are those of the programs and of the stock tools, by side."""
        new, stock = values.get("new"), values.get("stock")
        ratio = f"{new / stock:.2f}" if new and stock else ""
        shown = [show(values[side]) if values.get(side) is not None else "" for side in self.sides]
        verdict = "" if holds is None else "met" if holds else "**missed**"
        self.rows.append([title, *shown, ratio, target, verdict, note])

    def compare(self, title, row, what, most=None):
        """Adds a row that compares with the stock tools. `most` is the highest ratio."""
        values = {side: self.median(row, side, what) for side in self.sides}
        holds = None if most is None else values["new"] <= most * values["stock"]
        self.row(title, megabytes if what == "memory" else seconds, values, f"≤ {most:.2f}" if most else "", holds,
                 self.bounds(row) if what == "wall" else "")

    def limit(self, title, row, what, most, note=""):
        """Adds a row with a limit in seconds or bytes."""
        show = megabytes if what == "memory" else seconds
        values = {side: self.median(row, side, what) for side in self.sides}
        self.row(title, show, values, f"≤ {show(most)}", values["new"] <= most, note)

    def print(self, title, text):
        files = [path.stat().st_size for path in self.before.rglob("*") if path.is_file()]
        disk = run("df", "--output=fstype", self.work).split()[-1]
        print(f"### {title}\n")
        if self.kind != "real":
            print("**A generated client replaces the real one, so these results are not comparable.**\n")
        print(f"{self.before.name} and {self.after.name}: {len(files):,} files, {megabytes(sum(files))}. {os.cpu_count()} cores, {disk}; "
              f"medians of {self.options.runs}, interleaved. {text}\n")
        head = ["row", *self.sides, "ratio", "target", "verdict", "what bounds it"]
        for cells in (head, ["---"] * len(head), *self.rows):
            print(f"| {' | '.join(cells)} |")
        missed = sum("**missed**" in cells for cells in self.rows)
        print(f"\n{missed} targets missed." if missed else "\nEvery target met.")
        if self.options.json:
            every = {f"{row}, {side}": costs for (row, side), costs in self.costs.items()}
            pathlib.Path(self.options.json).write_text(json.dumps(every, indent=1))
