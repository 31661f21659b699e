"""Runs the code blocks of pages, and compares the JSON output of commands with the reference."""

import json
import pathlib
import re
import subprocess
import sys

from common import GUIDE, SCHEMAS, SECONDS, alone, fail, program, read, workplace

# Pages whose blocks run one after the other in a separate folder. PREPARED runs before all but the first sequence.
SEQUENCES = (
    ("start/first-release", "start/first-browser", "start/first-rollback", "start/first-device"),
    ("guides/rollouts", "guides/recall", "guides/groups", "guides/channel-upkeep"), ("guides/keys",), ("guides/meteor",), ("guides/stock-tools",), ("guides/destinations/host",), ("guides/roster",),
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
    r"(?P<percentage>\b\d+ %)", r"(?P<age>\b\d+s\b *)",
)))
ANY = {"digest": "[0-9a-f]+", "time": r"[\d-]+T[\d:]+Z", "size": r"[\d.]+ (?:bytes|[kMG]B)", "percentage": r"\d+ %", "age": r"\d+s *"}


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


# Commands whose JSON output is compared with the table of members, in order, after PREPARED.
OUTPUTS = """
keys generate --out channel
keys show release.pub.pem
completion bash
keys passwd channel.key.pem --no-passphrase
publish dist --version 1.0.1 --feed feed --key release.key.pem --app-id com.example.kiosk --channel stable --channel-key channel.key.pem --create
channel list --feed feed --channel stable
release rollout 99.9% --version 1.0.1 --feed feed --channel stable --channel-key channel.key.pem
release rollout --ramp 1%,10%,100% --every 1d --start 2026-12-01T08:00:00Z --version 1.0.1 --feed feed --channel stable --channel-key channel.key.pem
inspect feed/channels/stable.json
channel list --feed feed --channel stable
channel set --busy 2m --feed feed --channel stable --channel-key channel.key.pem
release set --urgent --version 1.0.1 --feed feed --channel stable --channel-key channel.key.pem
release target qa --version 1.0.1 --feed feed --channel stable --channel-key channel.key.pem
release rollout 99.9% --version 1.0.1 --feed feed --channel stable --channel-key channel.key.pem
trust init --out trust.json --root-key release.pub.pem --release-key release.pub.pem --channel-key channel.pub.pem
trust sign trust.json --key release.key.pem
trust publish trust.json --feed feed
verify feed/manifest.json --trust release.pub.pem
verify feed/channels/stable.json --trust trust.json
inspect feed/manifest.json
inspect feed/releases/v1.0.0/client-v1.0.0.tar.zst
check --manifest feed/manifest.json --trust release.pub.pem --store store
list --store store
status --store store
install --manifest feed/releases/v1.0.0/manifest.json --trust release.pub.pem --store store
install --manifest feed/manifest.json --trust release.pub.pem --store store
list --store store
status --store store
doctor --store store --manifest feed/manifest.json --trust release.pub.pem
launch --store store --seed dist
events --store store
confirm --store store --version 1.0.1 --token TOKEN
launch --store store --seed dist
fail --store store --version 1.0.1 --token TOKEN --reason broken
status --store store
check --manifest feed/manifest.json --trust release.pub.pem --store other --seed dist
install --channel feed/channels/stable.json --trust trust.json --store other --seed dist --device-id one
check --channel feed/channels/stable.json --trust trust.json --store third --device-id one --explain
status --store other
list --store other
rollback --store store --version 1.0.0
status --store store
unblock --store store --version 1.0.1
rollback --store store --version embedded
prune --store store
verify --store store
report --store store --off
publish dist --version 1.0.2 --feed feed --key release.key.pem --max-shell 2.0.0 --app-id com.example.kiosk --channel stable --channel-key channel.key.pem --dry-run
channel set --poll 5m --jitter 1m --feed feed --channel stable --channel-key channel.key.pem
release pause --version 1.0.1 --feed feed --channel stable --channel-key channel.key.pem --dry-run
release recall --version 1.0.1 --reason broken --feed feed --channel stable --channel-key channel.key.pem
channel list --feed feed --channel stable
channel log --feed feed --channel stable
fleet page --out page.html --feed feed --trust trust.json
feed copy feed copied
feed export --feed feed --to kit --trust trust.json
feed prune --feed feed --min-age 0s --keep 1 --dry-run
feed offer 1.0.0 --feed feed
channel restore --copy 1 --feed feed --channel stable --channel-key channel.key.pem
inspect feed/channels/stable.json
inspect trust.json
screen lock --store store
screen unlock --store store
init --yes
"""


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


KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "null": type(None)}


def mismatch(value, schema, path):
    """Returns how `value` differs from a JSON Schema, or None if it conforms. Members that are not in the schema count."""
    if "$ref" in schema:
        return mismatch(value, json.loads(read(SCHEMAS / schema["$ref"])), path)
    if "anyOf" in schema:
        problems = [mismatch(value, choice, path) for choice in schema["anyOf"]]
        if all(problems):
            return ", or ".join(problems)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(isinstance(value, KINDS[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds):
        return f"{path} is {json.dumps(value)[:60]}, not {' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path} is {value}, not one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, list):
        return next(filter(None, (mismatch(item, schema.get("items", {}), f"{path}[]") for item in value)), None)
    if not isinstance(value, dict) or "properties" not in schema:
        return None
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        return f"{path} has no {', '.join(missing)}"
    if schema.get("additionalProperties", False) is False and (more := sorted(set(value) - set(schema["properties"]))):
        return f"{path} has the unknown members {', '.join(more)}"
    return next(filter(None, (mismatch(value[name], member, f"{path}.{name}")
                              for name, member in schema["properties"].items() if name in value)), None)


def check_schema(name, line, answer):
    schema = json.loads(read(SCHEMAS / f"{name.replace(' --', '-').replace(' ', '-')}.schema.json"))
    if problem := mismatch(answer, schema, "$"):
        fail(f"clientctl {line} --json does not match the schema of {name}: {problem}")


def check_outputs(clientctl):
    """Runs the commands of OUTPUTS and checks that the reference contains every printed member."""
    known = documented()
    count = 0
    with workplace(clientctl) as (place, _, environment):
        where = {"cwd": place / "work", "env": environment}
        subprocess.run(["bash", "-euc", PREPARED], check=True, capture_output=True, **where)
        token = ""
        for line in filter(None, OUTPUTS.split("\n")):
            words = ["clientctl", *line.replace("TOKEN", token).split(), "--json"]
            if line.startswith("events "):
                # It ends when `head` closes the pipe.
                words = ["sh", "-c", '"$@" | head -n 1', "sh", *words]
            done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, **where)
            name = next((name for name in sorted(known, key=len, reverse=True) if f"{line} ".startswith(f"{name} ")), None)
            if name == "verify" and "--store" in words:
                name = "verify --store"
            if name is None and line.startswith(("release ", "channel ")):
                name = "release rollout"
            if done.returncode not in (0, 3) or name is None:
                fail(f"clientctl {line} ended with status {done.returncode} (documented as {name}): {done.stderr}{done.stdout}")
            answer = json.loads(done.stdout)
            token = answer.get("token", token)
            check_schema(name, line, answer)
            if missing := sorted(set(answer) - known[name]):
                fail(f"clientctl {line} --json prints {', '.join(missing)}, which Guide/reference/command-line.md does not contain")
            count += 1
    return count


def run(arguments):
    if arguments.root:
        ran, compared = run_pages(SEQUENCES[0], None, str(pathlib.Path(arguments.root).resolve()))
        print(f"guide: {ran} blocks of the first pages ran in {arguments.root}, {compared} outputs compared")
        return
    clientctl = program(arguments.clientctl)
    print(f"guide: the JSON output of {check_outputs(clientctl)} commands matches the reference")
    counts = [run_pages(pages, clientctl) for pages in SEQUENCES]
    print(f"guide: {sum(ran for ran, _ in counts)} blocks ran, {sum(compared for _, compared in counts)} outputs compared")
