"""Devices with hostile names, and what the page, the table, the JSON and a terminal show of them."""

import html.parser
import json
import os
import pty
import subprocess
import unicodedata

from host import Device, row

# Names that a device may have, because they have at most 64 characters.
ACCEPTED = [
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' onmouseover='alert(1)", "</table></main><h1>gone</h1>",
    "<!-- ", "]]>", "<svg/onload=alert(1)>", "&lt;b&gt;&#0;&amp;", "<style>*{display:none}</style>", "<base href=//evil.example>",
    "javascript:alert(1)", "\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "\x1b]8;;https://evil.example\x1b\\link", "\x9b31m", "a\nb  1.0.0  good",
    "a\r\x1b[Kall good", "a\tb", "a\x00b", "a\x08\x08\x7f", "\u202egpj.exe", "\u2066x\u2069", "\u200e\u200f\u061c", "a\u200bb", "\u200d\ufeff\u2060",
    "\u2028line\u2029paragraph", "\u0301" * 64, "Z\u0351\u0310\u0324" * 16, "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea" * 4,
    "\U000e0041\U000e0042", "\ufffe\uffff\U0010ffff", "\ue000\U000f0000", "'; DROP TABLE devices; --", "%' OR '1'='1", "=cmd|'/c calc'!A0", "+1+1",
    "@SUM(A1)", "../../etc/passwd", "..\\..\\x", "/dev/null\u0000.png", "--roster", "$(reboot)`reboot`", "%s%n%x", "{{7*7}}${7*7}", "\\u0000\\ud800",
    "{\"name\":\"x\"}", "null", " ", "", "n" * 64, "\u65e5\u672c\u8a9e\u306e\u753b\u9762", "cafe\u0301", "caf\u00e9", "\u2800\u3164\u115f",
]

# Names that the host refuses, as the bytes of the member in JSON.
REFUSED = {
    "65 characters": b'"' + b"n" * 65 + b'"', "4 KiB": b'"' + b"n" * 4096 + b'"', "invalid UTF-8": b'"\xff\xfe"', "overlong UTF-8": b'"\xc0\xaf"',
    "UTF-8 of a surrogate": b'"\xed\xa0\x80"', "half of a surrogate pair": rb'"\ud800"', "reversed surrogates": rb'"\udc00\ud800"',
    "raw control character": b'"a\x1bb"', "raw line break": b'"a\nb"', "unknown escape": rb'"\x41"', "two names": b'"a","name":"b"',
    "object": b'{"a":1}', "number": b"1", "null": b"null",
}

TAGS = {"html", "head", "meta", "title", "style", "body", "header", "h1", "p", "main", "ul", "li", "a", "b", "form", "label", "input", "button",
        "table", "thead", "tbody", "tr", "th", "td", "small", "bdi", "time", "code"}


class Page(html.parser.HTMLParser):
    """The names on the page, and elements and attributes that the page does not have without hostile names."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.names, self.foreign, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, fields):
        self.foreign += [f"<{tag}>"] if tag not in TAGS else []
        self.foreign += [name for name, value in fields if name.startswith("on") or (value or "").startswith(("javascript:", "//"))]
        if tag == "bdi":
            self.inside = True
            self.names.append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "bdi"

    def handle_data(self, text):
        if self.inside:
            self.names[-1] += text

    def handle_comment(self, text):
        self.foreign.append("comment")


def hidden(text):
    """Returns the characters of `text` that a screen does not show, or that change other characters."""
    return {f"U+{ord(one):04X}" for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp") and one != "\n"}


def terminal(words, clean):
    """Returns what a program writes to a terminal."""
    parent, child = pty.openpty()
    process = subprocess.Popen(words, stdout=child, stderr=child, stdin=child, env=clean | {"TERM": "xterm-256color", "COLUMNS": "200"})
    os.close(child)
    text = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    process.wait()
    os.close(parent)
    return text.decode()


def names(program, host, database):
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    devices = [Device(0xAB0000 + number, name) for number, name in enumerate(ACCEPTED)]
    statuses = [host.post(device) for device in devices]
    row(f"{len(ACCEPTED)} hostile names", f"{statuses.count(200)} accepted", f"{len(ACCEPTED)}", statuses.count(200) == len(ACCEPTED))
    refused = {}
    for number, (what, name) in enumerate(REFUSED.items()):
        device = Device(0xCD0000 + number)
        refused[what] = host.post(device, body=device.body().replace(json.dumps(device.name).encode(), name))
    row(f"{len(REFUSED)} names that no device has", f"{sorted(set(refused.values()))}", "400 or 413", set(refused.values()) <= {400, 413})

    text = host.get("/roster")[1].decode()
    page = Page(text)
    body = text.split("</style>", 1)[1]
    wrong = sorted(hidden(body)) + page.foreign
    row("the page with these names", f"{len(page.names)} rows, {len(wrong)} hidden characters or foreign elements", f"{len(devices)}, 0",
        len(page.names) == len(devices) and not wrong)

    words = [program, "fleet", "list", "--roster", database]
    listed = json.loads(subprocess.run([*words, "--json"], capture_output=True, env=clean, check=True).stdout)["devices"]
    same = {one["device"]: one["name"] for one in listed} == {device.id: device.name for device in devices}
    answer = json.loads(host.get("/roster.json")[1])["devices"]
    same = same and {one["device"]: one["name"] for one in answer} == {device.id: device.name for device in devices}
    row("the JSON with these names", f"{len(listed)} devices, all names equal: {same}", f"{len(devices)}, True", same)

    table = subprocess.run(words, capture_output=True, env=clean, check=True).stdout.decode()
    lines = table.splitlines()
    row("the table with these names", f"{table.count(chr(10))} lines, {len(hidden(table))} hidden characters", f"{len(devices) + 2}, 0",
        table.count("\n") == len(lines) == len(devices) + 2 and not hidden(table))
    shown = terminal(words, clean).replace("\r\n", "\n")
    row("the terminal with these names", f"{shown.count(chr(10))} lines, {len(hidden(shown))} hidden characters", f"{len(devices) + 2}, 0",
        shown.count("\n") == len(devices) + 2 and not hidden(shown))

    bad = []
    for device in devices:
        # A word of the command line cannot contain a zero byte, and an empty one names no device.
        asked = device.name if device.name and "\0" not in device.name and not device.name.startswith("-") else f"device:{device.id}"
        one = terminal([program, "fleet", "show", asked, "--roster", database], clean).replace("\r\n", "\n")
        if f"(device:{device.id})" not in one.split("\n")[0] or hidden(one):
            bad.append(device.name)
            print("   ", ascii(device.name), ascii(one[:300]))
    row("fleet show of each in a terminal", f"{len(devices) - len(bad)} of {len(devices)} found and shown on one line", f"{len(devices)}", not bad)
