"""Runs the code blocks of pages, and compares the members in the reference with the schemas of outputs."""

import json
import pathlib
import re
import subprocess
import sys

from common import GUIDE, SCHEMAS, SECONDS, alone, fail, program, read, workplace

# Pages whose blocks run one after the other in a separate folder. PREPARED runs before all but the first sequence.
SEQUENCES = (
    ("start/first-release", "start/first-browser", "start/first-rollback", "start/first-device"),
    ("guides/rollouts", "guides/recall", "guides/groups", "guides/channel-upkeep"), ("guides/keys",), ("guides/meteor",), ("guides/stock-tools",), ("guides/destinations/host",), ("guides/roster",), ("guides/ship-shell",),
)
PREPARED = """
mkdir dist
echo '<!doctype html><html lang="en"><title>Kiosk 1.0</title><script>WebAppLocalServer.startupDidComplete()</script></html>' >dist/index.html
clientctl keys generate --out release
clientctl publish dist --version 1.0.0 --feed feed --key release.key.pem --app-id com.example.kiosk
sed -i 's/1.0/1.5/' dist/index.html
"""

FENCE = re.compile(r"^```(\S*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Returns (line, commands, expected output or None) of each `sh` block without a title."""
    text = read(page)
    found = []
    for match in FENCE.finditer(text):
        kind, rest, body = match.groups()
        if kind == "sh" and not rest.strip():
            found.append([text.count("\n", 0, match.start()) + 1, body, None])
        elif kind == "output":
            if not found or found[-1][2] is not None:
                fail(f"{page.name}: an output block without a code block before it")
            if "…" in body:
                fail(f"{page.name}: an output block with …: show the whole output")
            found[-1][2] = body
    return found


# Values in outputs that differ from run to run.
VARYING = re.compile("|".join((
    r"(?P<digest>\b(?:[0-9a-f]{64}|[0-9a-f]{16})\b)", r"(?P<time>\d{4}-\d\d-\d\dT[\d:]{8}Z)", r"(?P<size>\d[\d.]* (?:bytes|[kMG]B)\b)",
    r"(?P<percentage>\b\d+ %)", r"(?P<age>\b\d+(?:s| seconds?)\b *)",
    r"(?P<day>\d{4}-\d\d-\d\d\b)",
)))
ANY = {"digest": "[0-9a-f]+", "time": r"[\d-]+T[\d:]+Z", "size": r"[\d.]+ (?:bytes|[kMG]B)", "percentage": r"\d+ %", "age": r"\d+(?:s| seconds?) *",
       "day": r"\d{4}-\d\d-\d\d"}


def line_pattern(line):
    """Returns a pattern for a line. A digest, time, size, percentage or age stands for any other one."""
    out, end = [], 0
    for value in VARYING.finditer(line):
        out += [re.escape(line[end:value.start()]), ANY[value.lastgroup]]
        end = value.end()
    return "".join([*out, re.escape(line[end:])])


def pattern(expected):
    """Returns a pattern for an output."""
    return re.compile("\n".join(map(line_pattern, expected.split("\n"))) + r"\Z")


def run_pages(pages, clientctl, root=None):
    """Runs the blocks of a sequence of pages, in `root` if given. Returns the numbers of blocks and of compared outputs."""
    with workplace(clientctl, root) as (place, inside, environment):
        steps, lines = [], ["trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", "set -eu"]
        found = [(f"Guide/{page}.md:{line}", commands, expected)
                 for page in pages for line, commands, expected in blocks(GUIDE / f"{page}.md")]
        if pages != SEQUENCES[0]:
            found.insert(0, ("the preparation", PREPARED, None))
        for number, (where, commands, expected) in enumerate(found):
            (place / f"{number}.sh").write_text(commands, encoding="utf-8")
            lines.append(f". {inside}/{number}.sh >{inside}/{number}.out 2>&1 </dev/null; touch {inside}/{number}.done")
            steps.append((where, expected))
        lines.insert(0, f"cd {inside}/work")
        enter = ["chroot", root] if root else []
        try:
            subprocess.run([*enter, "bash", "-c", "\n".join(lines)], env=environment, timeout=SECONDS,
                           stdin=subprocess.DEVNULL, preexec_fn=alone, check=False)
        except subprocess.TimeoutExpired:
            print(f"guide: the blocks took more than {SECONDS} s", file=sys.stderr)
        for number, (where, expected) in enumerate(steps):
            out = place / f"{number}.out"
            printed = read(out) if out.exists() else ""
            if not (place / f"{number}.done").exists():
                fail(f"{where}: the block failed:\n{printed}")
            if printed and not printed.endswith("\n"):
                printed += "\n"
            if expected is not None and not pattern(expected).match(printed):
                fail(f"{where}: expected\n{expected}but it printed\n{printed}")
        return len(steps), sum(expected is not None for _, expected in steps)


def documented():
    """Returns the members in the reference by command."""
    found = {}
    for commands, members in re.findall(r"^\| (`[^|]*) \| ([^|]*) \|$", read(GUIDE / "reference/command-line.md"), re.MULTILINE):
        names = set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", members)))
        first = None
        for command in re.findall(r"`([a-z -]+)`", commands):
            # In `trust init`, `add-key`, the first word applies to all.
            first = first or command.split(" ")[0]
            name = command if " " in command or first == command or first not in ("trust", "keys", "release") else f"{first} {command}"
            found.setdefault(name, set()).update(names)
    return found


# Edits of channels have the members of `release rollout`. The guide of the roster has the members of the other ones.
EDITS = re.compile(r"(release|channel) (?!delta|list|log|delete)")
ELSEWHERE = ("error", "fleet list", "fleet show", "fleet forget")
# The text before the table has the members of many commands.
SHARED = {"settings"}


def members(schema):
    """Returns the members that a JSON Schema allows at the top."""
    if "$ref" in schema:
        return members(json.loads(read(SCHEMAS / schema["$ref"])))
    return set(schema.get("properties", ())).union(*map(members, schema.get("anyOf", ())))


def check_members():
    """Checks that the reference contains every member of the schemas. The tests compare the outputs of commands with the schemas."""
    known = documented()
    names = {command.replace(" --", "-").replace(" ", "-"): command for command in known}
    schemas = sorted(SCHEMAS.glob("*.schema.json"))
    for path in schemas:
        name = path.name.removesuffix(".schema.json")
        command = names.get(name, name.replace("-", " ", 1))
        listed = known.get(command, set()) | (known["release rollout"] if EDITS.match(command) else set())
        if command not in ELSEWHERE and (missing := sorted(members(json.loads(read(path))) - listed - SHARED)):
            fail(f"Guide/reference/command-line.md does not contain {', '.join(missing)} of {command}")
    return len(schemas)


def run(arguments):
    if arguments.root:
        ran, compared = run_pages(SEQUENCES[0], None, str(pathlib.Path(arguments.root).resolve()))
        print(f"guide: {ran} blocks of the first pages ran in {arguments.root}, {compared} outputs compared")
        return
    clientctl = program(arguments.clientctl)
    print(f"guide: the reference has all members of {check_members()} schemas")
    counts = [run_pages(pages, clientctl) for pages in SEQUENCES]
    print(f"guide: {sum(ran for ran, _ in counts)} blocks ran, {sum(compared for _, compared in counts)} outputs compared")
