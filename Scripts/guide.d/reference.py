"""The generated pages: the commands with samples of their output, the exit statuses, and the messages of failure codes."""

import base64
import contextlib
import datetime
import difflib
import hashlib
import json
import os
import re
import signal
import subprocess
import time

from common import GUIDE, ROOT, SCHEMAS, SECONDS, alone, codes, fail, program, read, workplace, wrapped
from failures import ALWAYS, FAILURES, own_statuses

EXITS = ROOT / "Sources/Commands/clientctl/Program/ExitTable.swift"
NOTE = "<!-- made by Scripts/guide reference: do not edit -->\n"


def cell(text):
    return re.sub(r"\s+", " ", text or "").replace("|", "\\|").replace("<", "&lt;").strip()


def prose(text):
    """Returns a help text as Markdown: indented lines are commands, the rest is paragraphs."""
    out, block = [], []

    def close():
        if block:
            out.extend(["", "```sh", *(line[2:] for line in block), "```", ""])
            block.clear()

    for line in (text or "").split("\n"):
        if line.startswith("  "):
            block.append(line)
        else:
            close()
            out.append(line.replace("<", "&lt;"))
    close()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def flag(argument):
    value = f" <{argument['valueName']}>" if argument["kind"] == "option" else ""
    if argument["kind"] == "positional":
        return f"`<{argument['valueName']}>`"
    return ", ".join(f"`{'--' if name['kind'] == 'long' else '-'}{name['name']}{value}`"
                     for name in argument["names"])


def flag_row(argument):
    """Returns a row: the flag, whether it is required, its default, its meaning."""
    text = cell(argument.get("abstract"))
    required = re.match(r"\(required(?:,? ([^)]*))?\) ", text)
    text = text[required.end():] if required else text
    default = re.search(r" \(default: (.*)\)\.?$", text)
    text = text[:default.start()].rstrip(".") + "." if default else text
    always = argument["kind"] == "positional" and not argument.get("isOptional", True)
    return f"| {flag(argument)} | {required[1] or 'yes' if required else 'yes' if always else ''} | {default[1] if default else ''} | {text} |"


FLAGS = "| flag | required | default | what it does |\n| --- | --- | --- | --- |"


def leaves(command, path=""):
    """Returns (path, command) of each command without subcommands."""
    path = f"{path} {command['commandName']}".strip()
    children = [child for child in command.get("subcommands", []) if child["commandName"] != "help" and child.get("shouldDisplay", True)]
    return [leaf for child in children for leaf in leaves(child, path)] if children else [(path, command)]


def shown_flags(command):
    return [argument for argument in command["arguments"] if argument.get("shouldDisplay", True)]


def shared_flags(commands):
    """Returns the rows of optional flags that ten commands or more have with the same text."""
    rows = [row for _, command in commands for row in map(flag_row, shown_flags(command))]
    return [row for row in dict.fromkeys(rows) if rows.count(row) >= 10 and row.split(" | ")[1] == ""]


# The samples of output

SAMPLES = ROOT / "Scripts/guide.d/samples.sh"
# The time that samples show as that of their run.
SHOWN_TIME = datetime.datetime(2026, 12, 1, 8, tzinfo=datetime.timezone.utc)
# Digests, key IDs, device IDs, signatures and times.
VALUES = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}Z|\b(?:[0-9a-f]{64}|[0-9a-f]{16})\b|[\w+/]{86}==")
# Patterns of other texts that depend on the machine or on the time, and what a sample shows.
MACHINE = (
    (r"\b\d+ seconds? ago", "1 second ago"), (r"behind since [\d-]+", "behind since 2026-12-01"),
    (r"(good|trial)   \d+s ", r"\1   1s "), (r"[\d.]+ [GT]B are free", "62.2 GB are free"),
    (r"\b\d+ more files", "15921308 more files"), (r"version \d+ of Landlock", "version 7 of Landlock"),
)


class Shown:
    """Replaces the values in outputs that differ from run to run. Equal values get equal replacements."""

    def __init__(self, folder, began):
        self.folder, self.began, self.known = str(folder), began, {}

    def replacement(self, match):
        value = match[0]
        if value.endswith("Z"):
            later = datetime.datetime.fromisoformat(value).timestamp() - self.began
            return (SHOWN_TIME + datetime.timedelta(hours=round(later / 3600))).strftime("%Y-%m-%dT%H:%M:%SZ")
        whole = next((known for known in self.known if known.startswith(value)), value)
        digest = self.known.setdefault(whole, hashlib.sha512(str(len(self.known)).encode()).digest())
        return base64.b64encode(digest).decode() if value.endswith("==") else digest.hex()[:len(value)]

    def text(self, printed):
        printed = VALUES.sub(self.replacement, printed.replace(self.folder, "/srv/kiosk"))
        for pattern, value in MACHINE:
            printed = re.sub(pattern, value, printed)
        return printed


def samples(clientctl):
    """Runs SAMPLES. Returns (command, output) of each shown line, in order."""
    began = int(time.time())
    with workplace(clientctl) as (place, _, environment):
        commands, script = [], ["trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", "set -eu"]
        for line in read(SAMPLES).split("\n"):
            if line.startswith("clientctl "):
                command = line.removesuffix(" &")
                script.append(f"printed={place}/{len(commands)}.out")
                script.append(f"{command} >$printed 2>&1 " + ("&" if line != command else '|| { cat "$printed"; exit 1; }'))
                commands.append(command)
            else:
                script.append(line)
        (place / "script").write_text("\n".join(script), encoding="utf-8")
        ran = subprocess.Popen(
            ["bash", place / "script"], cwd=place / "work", env=environment | {"began": str(began)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, preexec_fn=alone)
        try:
            said = ran.communicate(timeout=3 * SECONDS)[0]
        except subprocess.TimeoutExpired:
            fail(f"{SAMPLES.relative_to(ROOT)} took more than {3 * SECONDS} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ran.pid, signal.SIGTERM)
        if ran.returncode:
            fail(f"{SAMPLES.relative_to(ROOT)} failed:\n{said}")
        shown = Shown(place / "work", began)
        return [(command.replace("$token", "TOKEN"), shown.text(read(place / f"{number}.out")))
                for number, command in enumerate(commands)]


def sample_section(path, found):
    """Returns the samples of a command as Markdown."""
    out = []
    for command, printed in found:
        if f"{command} ".startswith(f"clientctl {path} "):
            out += [f"```sh\n{' {}{}  '.format(chr(92), chr(10)).join(wrapped(command))}\n```\n", f"```output\n{printed.rstrip()}\n```\n"]
    return ["Sample output:\n", *out] if out else []


def command_section(path, command, shared, found):
    out = [f"{cell(command['abstract'])}\n"]
    if text := prose(command.get("discussion")):
        out.append(f"{text}\n")
    rows = list(map(flag_row, shown_flags(command)))
    titled = {row: argument.get("sectionTitle", "") for row, argument in zip(rows, shown_flags(command))}
    own = [row for row in rows if row not in shared]
    for title in dict.fromkeys(["", *map(titled.get, own)]):
        part = sorted((row for row in own if titled[row] == title), key=lambda row: row.split(" | ")[1] != "yes")
        if part:
            out += [*([f"**{title}**\n"] if title else []), FLAGS, *part, ""]
    if also := [row.split(" | ")[0].removeprefix("| ").split(" <")[0].rstrip("`") + "`" for row in rows if row in shared]:
        out.append(f"[Shared flags](../commands.md#shared-flags): {', '.join(also)}\n")
    out += sample_section(path, found)
    schema = f"{path.replace(' ', '-')}.schema.json"
    if (SCHEMAS / schema).exists():
        out.append(f"With `--json`, the output matches this [schema](../json/{schema}).\n")
    own = [(status, f"{status} ({meaning})") for status, meaning in own_statuses(path, [(status, ", ".join(texts)) for status, texts in uncoded()])]
    coded = [(status, f"{status} [`{code}`](../errors/{code}.md)") for code, status in codes() if code in FAILURES[path]]
    ended = ", ".join(text for _, text in sorted([(0, "0"), *own, *coded], key=lambda row: row[0]))
    out.append(f"Exit statuses: {ended}, and [those of every command](../exit-statuses.md).\n")
    return out


def commands_pages(clientctl):
    """Returns the overview of the commands and a page for each top-level command, by file name."""
    shown = subprocess.run([clientctl, "--experimental-dump-help"], check=True, capture_output=True, text=True)
    root = json.loads(shown.stdout)["command"]
    help = subprocess.run([clientctl, "--help"], check=True, capture_output=True, text=True).stdout
    groups = {name: group.capitalize() for group, names in re.findall(r"^(?:(\w+) )?SUBCOMMANDS:\n((?:  .*\n)+)", help, re.MULTILINE)
              for name in re.findall(r"^  (\S+)", names, re.MULTILINE)}
    tops = {command["commandName"]: command for command in root["subcommands"]
            if command["commandName"] != "help" and command.get("shouldDisplay", True)}
    printed = samples(clientctl)
    if wrong := {path for command in tops.values() for path, _ in leaves(command)} ^ set(FAILURES):
        fail(f"correct the commands of FAILURES in Scripts/lib/failures.py: {', '.join(sorted(wrong))}")
    if wrong := {code for found in FAILURES.values() for code in found} - {code for code, _ in codes()}:
        fail(f"Scripts/lib/failures.py has unknown codes: {', '.join(sorted(wrong))}")
    shared = shared_flags([leaf for command in tops.values() for leaf in leaves(command)])
    index = ["# Commands\n", NOTE,
             "Every command has `--help` with examples, and `--json` for one JSON object on standard output. "
             "Every flag also works from the environment and from a file: see [Settings](command-line.md#settings).\n"]
    pages = {}
    for group in sorted(set(groups.values()), key=lambda group: (group == "", list(groups.values()).index(group))):
        index.append(f"## {group or 'Other'}\n\n| command | what it does |\n| --- | --- |")
        for name in (name for name in tops if groups.get(name) == group):
            page = [f"# clientctl {name}\n", NOTE]
            found = leaves(tops[name])
            if found[0][0] == name:
                page += command_section(name, tops[name], shared, printed)
                index.append(f"| [`{name}`](commands/{name}.md) | {cell(tops[name]['abstract'])} |")
            else:
                page.append(f"{cell(tops[name]['abstract'])}\n")
                if text := prose(tops[name].get("discussion")):
                    page.append(f"{text}\n")
                for path, command in found:
                    page += [f"## {path}\n", *command_section(path, command, shared, printed)]
                    index.append(f"| [`{path}`](commands/{name}.md#{path.replace(' ', '-')}) | {cell(command['abstract'])} |")
            pages[f"reference/commands/{name}.md"] = "\n".join(page)
        index.append("")
    index += ["## Shared flags\n", "Many commands have these flags, with the same meaning.\n", FLAGS, *shared]
    return {"reference/commands.md": "\n".join(index), **pages}


def navigation(pages):
    """Returns mkdocs.yml with an entry for each page of a command."""
    entries = "".join(f"          - {name}\n" for name in ["reference/commands.md", *sorted(pages)])
    return re.sub(r"(?<=      - Commands:\n)(?:          - .*\n)+", entries, read(ROOT / "mkdocs.yml"))


def uncoded():
    """Returns the statuses without failure codes, each with its texts."""
    text = read(EXITS)
    numbers = dict(re.findall(r"static let (\w+): Int32 = (\d+)", text))
    table = re.search(r"codes: \[Int32: \[String\]\] = \[(.*?)\n        \]", text, re.DOTALL) or fail(f"{EXITS} does not contain the table of exit statuses")
    for status, words in re.findall(r"(\w+): \[\s*((?:\"[^\"]*\"(?:,\s*)?)+)\]", table[1]):
        yield int(numbers.get(status, status)), re.findall(r'"([^"]*)"', words)


def others():
    """Returns the statuses without failure codes, each with a sentence."""
    for status, texts in uncoded():
        yield status, "; ".join(re.sub(r"([a-z ]+)(?=(?:, [a-z ]+)*: )", lambda name: f"`{name[1].strip()}`" if name.start() == 0 else f" `{name[1].strip()}`", text) for text in texts) + "."


def statuses_page():
    out = ["# Exit statuses\n", NOTE,
           "A command ends with one of these statuses. With `--json`, `error.code` has the word. "
           "The words and numbers do not change, so that you can count them over a fleet.\n",
           f"Every command can end with {', '.join(f'{status} (`{code}`)' for code, status in codes() if code in ALWAYS)}. "
           "The page of a command lists its other statuses.\n",
           "| status | code | what happened |\n| --- | --- | --- |"]
    rows = [(status, "–", sentence[0].upper() + sentence[1:]) for status, sentence in others()]
    for code, status in codes():
        page = read(GUIDE / f"reference/errors/{code}.md")
        happened = page.split("## What happened\n\n", 1)[1].split("\n", 1)[0]
        first = re.match(r".*?[.](?= [A-Z`]|$)", happened)[0]
        rows.append((status, f"[`{code}`](errors/{code}.md)", first))
    out += [f"| {status} | {code} | {first} |" for status, code, first in sorted(rows, key=lambda row: row[0])]
    return "\n".join(out) + "\n"


# The messages of failures


def string_at(text, start):
    """Returns the Swift string at a quote, with `…` for each interpolation, and the position after it."""
    out, index = "", start + 1
    while text[index] != '"':
        if text.startswith("\\(", index):
            out, index = out + "…", after_parenthesis(text, index + 2)
        elif text[index] == "\\":
            out, index = out + {"n": " "}.get(text[index + 1], text[index + 1]), index + 2
        else:
            out, index = out + text[index], index + 1
    return out, index + 1


def after_parenthesis(text, index):
    """Returns the position after the parenthesis that closes the one before `index`."""
    depth = 1
    while depth:
        if text[index] == '"':
            index = string_at(text, index)[1]
            continue
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        index += 1
    return index


def printed_messages():
    """Returns the messages of each failure code in Sources, with `…` for values."""
    found = {code: set() for code, _ in codes()}
    for path in sorted((ROOT / "Sources").rglob("*.swift")):
        text = re.sub(r"^ *//.*$", "", read(path), flags=re.MULTILINE)
        for call in re.finditer(r"\bUpdateFailure\(\s*\.(\w+),|\b(ValidationError)\(", text):
            code = call[1] or "usage"
            body = text[call.end():after_parenthesis(text, call.end()) - 1]
            # The strings of the last argument; a condition has several.
            texts, last, index = [], "", 0
            while index < len(body):
                if body[index] == '"' and not body.startswith('"""', index):
                    part, index = string_at(body, index)
                    last += part
                    continue
                if body[index] == "(":
                    index, last = after_parenthesis(body, index + 1), last + "…" * bool(last)
                    continue
                if body[index] not in "+ \n":
                    texts, last = ([] if body[index] == "," else [*texts, last]), ""
                index += 1
            for shown in [*texts, last]:
                shown = re.sub(r"…+", "…", " ".join(shown.split()))
                if code in found and len(shown.replace("…", "").strip()) > 11:
                    found[code].add(shown)
    return found


MESSAGES = "\n## All messages\n"


def messages_pages():
    """Returns the pages of failure codes, each with all its messages at its end."""
    pages = {}
    for code, found in printed_messages().items():
        name = f"reference/errors/{code}.md"
        head = read(GUIDE / name).partition(MESSAGES)[0].rstrip("\n")
        shown = "\n".join(sorted(found, key=lambda text: text.lstrip("…\"` ").lower()))
        pages[name] = f"{head}\n{MESSAGES}\n{NOTE}\n`…` stands for a value.\n\n```text\n{shown}\n```\n" if found else head
    return pages


def reference(arguments):
    pages = commands_pages(program(arguments.clientctl))
    pages["../mkdocs.yml"] = navigation([name for name in pages if name.startswith("reference/commands/")])
    pages["reference/exit-statuses.md"] = statuses_page()
    pages |= messages_pages()
    for path in set((GUIDE / "reference/commands").glob("*.md")) - {GUIDE / name for name in pages}:
        if arguments.check:
            fail(f"{path.relative_to(ROOT)} describes a command that does not exist: run Scripts/guide reference")
        path.unlink()
    (GUIDE / "reference/commands").mkdir(exist_ok=True)
    stale = []
    for name, text in pages.items():
        path = GUIDE / name
        text = text.rstrip("\n") + "\n"
        old = read(path) if path.exists() else ""
        if old == text:
            continue
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
            print(f"guide: wrote {path.resolve().relative_to(ROOT)}")
            continue
        stale.append(name)
        print("\n".join(list(difflib.unified_diff(old.split("\n"), text.split("\n"), name, "now", lineterm=""))[:20]))
    if stale:
        fail(f"{', '.join(stale)}: run Scripts/guide reference")
    print(f"guide: {len(pages)} generated pages, {len(codes())} failure codes")
