#!/usr/bin/env python3
"""apply-delta.py DELTA OLD NEW: makes the folder NEW out of the folder OLD and a delta, by Guide/reference/deltas.md alone.

zstd comes from the module zstandard, or from the program zstd."""

import os
import subprocess
import sys
import tempfile


def decompress(frame, prefix):
    """The content of a zstd frame that continues `prefix`."""
    try:
        import zstandard
        raw = zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if prefix else None
        return zstandard.ZstdDecompressor(dict_data=raw, max_window_size=1 << 27).decompress(frame)
    except ImportError:
        pass
    with tempfile.NamedTemporaryFile() as old:
        old.write(prefix)
        old.flush()
        options = [f"--patch-from={old.name}"] if prefix else []
        return subprocess.run(["zstd", "-dcq", "--long=27", *options], input=frame, stdout=subprocess.PIPE, check=True).stdout


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        assert self.at + count <= len(self.data), "cut short"
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self):
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number


def distance(number):
    return number // 2 if number % 2 == 0 else -(number // 2) - 1


def files_below(folder):
    paths = [os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names]
    return sorted(paths, key=os.fsencode)


def read(folder, path):
    with open(os.path.join(folder, path), "rb") as file:
        return file.read()


def write(folder, path, content):
    place = os.path.realpath(os.path.join(folder, path))
    assert place.startswith(os.path.realpath(folder) + os.sep), f"{path} leads out"
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "xb") as file:
        file.write(content)


def apply(delta, old, new):
    file = Cursor(delta)
    assert file.take(8) == b"SWAPDLT\x01", "no delta of version 1"
    frame_bytes, plain_bytes = (int.from_bytes(file.take(4), "little") for _ in range(2))
    index = Cursor(decompress(file.take(frame_bytes), b""))
    assert len(index.data) == plain_bytes
    index.take(64)  # the digests of both trees' canonical tars
    base_files, new_files, group_count = index.number(), index.number(), index.number()
    olds = files_below(old)
    assert len(olds) == base_files, "another base"
    groups = []
    for _ in range(group_count):
        group_bytes, group_plain, count = index.number(), index.number(), index.number()
        partners, expected = [], 0
        for _ in range(count):
            partners.append(expected + distance(index.number()))
            expected = partners[-1] + 1
        groups.append((group_bytes, group_plain, partners))
    steps, changed = index.data[index.at:], b""
    for group_bytes, group_plain, partners in groups:
        plain = decompress(file.take(group_bytes), steps + b"".join(read(old, olds[number]) for number in partners))
        assert len(plain) == group_plain
        changed += plain
    grouped, stored, passed, last, made = Cursor(changed), file, 0, b"", 0

    def path():
        nonlocal last
        last = last[:index.number()] + index.take(index.number())
        return os.fsdecode(last)

    while index.at < len(index.data):
        step = index.number()
        kind, argument = step & 7, step >> 3
        if kind == 0:
            for name in olds[passed:passed + argument]:
                write(new, name, read(old, name))
            passed, made = passed + argument, made + argument
        elif kind == 1:
            passed += argument
        elif kind == 4:
            write(new, path(), read(old, olds[passed + distance(argument)]))
            made += 1
        else:
            name, size = (path(), argument) if kind in (3, 6) else (olds[passed], len(read(old, olds[passed])) + distance(argument))
            passed += kind in (2, 5)
            write(new, name, (stored if kind in (5, 6) else grouped).take(size))
            made += 1
    assert made == new_files and file.at == len(delta) and grouped.at == len(changed)


with open(sys.argv[1], "rb") as source:
    apply(source.read(), sys.argv[2], sys.argv[3])
