"""Swift sources as text: code without comments and strings, and the ranges of functions.

Instead of parsing, it blanks comments and strings, which keeps offsets and lines, and matches braces.
"""

import json
import os
import re
import subprocess
from collections import namedtuple

# A function, an initialiser or a computed property. `start` is its first word, `body` its opening brace.
Function = namedtuple("Function", "kind name signature start body end")

TOKEN = re.compile(r'//|/\*|#*"""|#*"')
# The beginnings of a line after a function without a body.
NEXT = re.compile(
    r"[@}#]|(?:public|package|internal|private|fileprivate|static|class|mutating|nonisolated|func|var|let|init|case|struct|enum|"
    r"actor|protocol|extension|associatedtype|typealias|subscript|deinit|consuming|borrowing|override|final|import)\b|$")
DECLARED = re.compile(
    r"(?<![\w.`])(?:func\s+(?P<func>\w+|`\w+`|[-+*/<>=!|&^~]+)\s*[(<]|(?P<init>init)[?!]?\s*[(<]|(?P<deinit>deinit)\s*\{|"
    r"(?P<subscript>subscript)\s*[(<]|var\s+(?P<var>\w+)\s*:)")


def _string_end(text, at):
    """Returns the end of the string literal at `at`, whose interpolations may contain strings."""
    hashes = 0
    while text[at + hashes] == "#":
        hashes += 1
    quotes = 3 if text.startswith('"""', at + hashes) else 1
    close, escape = '"' * quotes + "#" * hashes, "\\" + "#" * hashes
    at += hashes + quotes
    while at < len(text):
        if text.startswith(close, at):
            return at + len(close)
        if text.startswith(escape + "(", at):
            at = _interpolation_end(text, at + len(escape))
        elif text.startswith(escape, at):
            at += len(escape) + 1
        elif quotes == 1 and text[at] == "\n":
            return at
        else:
            at += 1
    return at


def _interpolation_end(text, at):
    depth = 0
    while at < len(text):
        if text[at] == '"':
            at = _string_end(text, at)
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return at
    return at


def code(text):
    """Returns the text with comments and the contents of strings replaced by spaces."""
    parts, at = [], 0
    while found := TOKEN.search(text, at):
        start = found.start()
        parts.append(text[at:start])
        if found[0] == "//":
            at = text.find("\n", start)
            at = len(text) if at < 0 else at
            hidden = text[start:at]
        elif found[0] == "/*":
            at = text.find("*/", start)
            at = len(text) if at < 0 else at + 2
            hidden = text[start:at]
        else:
            at = _string_end(text, start)
            hidden = text[start:at]
        blank = re.sub(r"[^\n]", " ", hidden)
        parts.append(blank if found[0] in ("//", "/*") else '"' + blank[1:-1] + '"' if len(blank) > 1 else blank)
    parts.append(text[at:])
    return "".join(parts)


def closing(source, at):
    """Returns the offset after the bracket that closes the one at `at`; None if it is not closed."""
    depth = 0
    for place in range(at, len(source)):
        if source[place] in "([{":
            depth += 1
        elif source[place] in ")]}":
            depth -= 1
            if depth == 0:
                return place + 1
    return None


def _body(source, at, kind):
    """Returns the opening brace of the declaration whose parameters or type begin at `at`; None without a body."""
    while at < len(source):
        letter = source[at]
        if letter in "([":
            at = closing(source, at) or len(source)
            continue
        if letter == "{":
            return at
        if letter in "}=" and not (letter == "=" and source[at - 1:at + 2].strip("= ") in ("", ">")):
            return None
        if letter == "\n" and (kind == "var" or NEXT.match(source[at:at + 200].lstrip(" \n"))):
            return None
        at += 1
    return None


def functions(source):
    """Returns the functions of a blanked source, outer ones first."""
    found = []
    for match in DECLARED.finditer(source):
        kind = match.lastgroup
        opening = _body(source, match.end() - 1 if kind != "var" else match.end(), kind)
        if opening is None or (end := closing(source, opening)) is None:
            continue
        # `var x: T = y { didSet … }` and assigned closures are not computed properties: `=` ends the search.
        name = match[kind].strip("`")
        found.append(Function(kind, name, source[match.start():opening].strip(), match.start(), opening, end))
    return found


def files(root, *tops):
    """Returns the Swift files below the given folders by their paths from the root."""
    for top in tops:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(".swift"):
                    yield os.path.relpath(os.path.join(folder, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def targets(root):
    """Returns the folder of each target in Package.swift by name."""
    dump = subprocess.run(["swift", "package", "--package-path", root, "dump-package"], capture_output=True, text=True)
    if dump.returncode != 0:
        raise RuntimeError("`swift package dump-package` failed: " + dump.stderr.strip().split("\n")[-1])
    kinds = {"test": "Tests", "plugin": "Plugins"}
    return {
        target["name"]: target.get("path") or f"{kinds.get(target['type'], 'Sources')}/{target['name']}"
        for target in json.loads(dump.stdout)["targets"]}


def target_of(path, folders):
    """Returns the target of a file."""
    inside = [(len(folder), name) for name, folder in folders.items() if path.startswith(folder + "/")]
    return max(inside)[1] if inside else None
