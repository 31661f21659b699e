#!/usr/bin/env python3
"""Writes what belongs to the portable program into a folder: a Python wheel, a bill of materials, the licenses of what is inside.

    wheel.py PROGRAM OUT [MACHINE]

The files depend only on the program, the commit and SOURCE_DATE_EPOCH. The packages come from Package.resolved and the program.
A program for ARM64 runs by qemu-user on x86-64, with the C library that Scripts/release --arch arm64 leaves.
"""

import base64
import hashlib
import os
import pathlib
import re
import stat
import sys
import time
import zipfile

sys.dont_write_bytecode = True

from bill import APACHE, PLATFORMS, ROOT, bill_of_materials, native, versions

MAIN = '''"""Replaces this process with clientctl, which pip has put into the folder of scripts."""

import importlib.metadata
import os
import sys

program = next(str(file.locate()) for file in importlib.metadata.files("swap-clients") if file.name == "clientctl")
os.execv(program, ["clientctl", *sys.argv[1:]])
'''


def licenses(libraries):
    files = [ROOT / "LICENSE", *sorted((ROOT / ".build-release/checkouts").glob("*/LICENSE.txt")),
             *sorted((ROOT / ".build-release/checkouts").glob("*/NOTICE.txt")),
             *(pathlib.Path("/usr/share/doc", name, "copyright") for name in libraries)]
    return "\n".join(f"==> {file.parent.name}\n\n{file.read_text(encoding='utf-8')}" for file in files).replace(
        f"==> {ROOT.name}\n", "==> swap-clients\n", 1)


def write_wheel(out, platform, version, entries, moment):
    tag = f"py3-none-manylinux_2_34_{platform}"
    about = f"swap_clients-{version}.dist-info"
    entries = {
        "swap_clients/__main__.py": MAIN.encode(),
        f"swap_clients-{version}.data/scripts/clientctl": entries["clientctl"],
        f"{about}/METADATA": (f"Metadata-Version: 2.4\nName: swap-clients\nVersion: {version}\n"
                              "Summary: clientctl publishes signed web clients and updates them on devices\n"
                              f"License-Expression: {APACHE}\nLicense-File: LICENSES\nRequires-Python: >=3.8\n").encode(),
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: swap-clients\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{about}/licenses/LICENSES": entries["licenses"],
        f"{about}/sboms/clientctl.cdx.json": entries["bill"],
    }

    def digest(content):
        return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()

    record = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, content in entries.items())
    entries[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    with zipfile.ZipFile(out / f"swap_clients-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(name, time.gmtime(moment)[:6])
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            # pip keeps the permission to execute only of regular files of Unix.
            entry.external_attr = (stat.S_IFREG | (0o755 if "/scripts/" in name else 0o644)) << 16
            wheel.writestr(entry, content)


def main():
    program, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    moment = int(os.environ["SOURCE_DATE_EPOCH"])
    machine = sys.argv[3] if len(sys.argv) > 3 else native()
    version, libraries = versions(program, machine)
    if not libraries:
        sys.exit(f"wheel: {program} is not portable; build it with Scripts/release --portable")
    if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+(-rc\.[0-9]+)?", version):
        sys.exit(f"wheel: Python has no version {version}; a wheel needs three numbers, and may be a candidate such as -rc.1")
    bill = bill_of_materials(program, program, machine, version, libraries)
    (out / f"clientctl-{version}-linux-{machine}.cdx.json").write_text(bill, encoding="utf-8")
    (out / f"clientctl-{version}-licenses.txt").write_text(licenses(libraries), encoding="utf-8")
    entries = {"clientctl": program.read_bytes(), "licenses": licenses(libraries).encode(), "bill": bill.encode()}
    write_wheel(out, PLATFORMS[machine], version.replace("-rc.", "rc"), entries, moment)


main()
