#!/usr/bin/env python3
"""Writes what belongs to the portable program into a folder: a Python wheel, a bill of materials, the licenses of what is inside.

    wheel.py PROGRAM OUT [MACHINE]

The files depend only on the program, the commit and SOURCE_DATE_EPOCH. The packages come from Package.resolved and the program.
A program for ARM64 runs by qemu-user on x86-64, with the C library that Scripts/release --arch arm64 leaves.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
APACHE = "Apache-2.0"
LICENSES = {"libarchive-dev": "BSD-2-Clause", "libssl-dev": APACHE, "libzstd-dev": "BSD-3-Clause", "zlib1g-dev": "Zlib"}
MAIN = '''"""Replaces this process with clientctl, which pip has put into the folder of scripts."""

import importlib.metadata
import os
import sys

program = next(str(file.locate()) for file in importlib.metadata.files("swap-clients") if file.name == "clientctl")
os.execv(program, ["clientctl", *sys.argv[1:]])
'''


# Python's names of Debian's architectures.
PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def component(name, version, purl, license_name):
    kind = "expression" if " " in license_name else "license"
    value = license_name if kind == "expression" else {"id": license_name}
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "licenses": [{kind: value}]}


def bill_of_materials(program, machine, version, libraries, moment):
    # Debian's Swift leaves its version in the paths of its runtime.
    debian = re.search(rb"/swiftlang-([0-9.]+)/", program.read_bytes())
    swift = debian[1].decode() if debian else re.search(r"Swift version ([0-9.]+)", output("swift", "--version"))[1]
    pins = json.loads((ROOT / "Package.resolved").read_text(encoding="utf-8"))["pins"]
    parts = [component("swift", swift, f"pkg:generic/swift@{swift}", APACHE)]
    for pin in pins:
        place = pin["location"].removeprefix("https://").removesuffix(".git")
        parts.append(component(pin["identity"], pin["state"]["version"], f"pkg:swift/{place}@{pin['state']['version']}", APACHE))
    for name, number in libraries.items():
        parts.append(component(name, number, f"pkg:deb/debian/{name}@{number.replace('+', '%2B')}?arch={machine}",
                               LICENSES.get(name, "GPL-3.0-or-later WITH GCC-exception-3.1")))
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)),
            "component": {
                "type": "application", "bom-ref": "clientctl", "name": "clientctl", "version": version, "licenses": [{"license": {"id": APACHE}}],
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(program.read_bytes()).hexdigest()}],
                "properties": [{"name": "swap-clients:commit", "value": output("git", "rev-parse", "HEAD")}],
            },
        },
        "components": parts,
        "dependencies": [{"ref": "clientctl", "dependsOn": [part["bom-ref"] for part in parts]}],
    }


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
    native = output("dpkg", "--print-architecture")
    machine = sys.argv[3] if len(sys.argv) > 3 else native
    platform = PLATFORMS[machine]
    emulator = [] if machine == native else [f"qemu-{platform}-static", "-L", ROOT / f".build-release/{machine}/sysroot"]
    answer = json.loads(output(*emulator, program, "--version", "--json"))
    version, libraries = answer["version"], answer["libraries"]
    if not libraries:
        sys.exit(f"wheel: {program} is not portable; build it with Scripts/release --portable")
    if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version):
        sys.exit(f"wheel: Python has no version {version}; a wheel needs three numbers")
    bill = json.dumps(bill_of_materials(program, machine, version, libraries, moment), indent=2) + "\n"
    (out / f"clientctl-{version}-linux-{machine}.cdx.json").write_text(bill, encoding="utf-8")
    (out / f"clientctl-{version}-licenses.txt").write_text(licenses(libraries), encoding="utf-8")
    write_wheel(out, platform, version, {"clientctl": program.read_bytes(), "licenses": licenses(libraries).encode(), "bill": bill.encode()}, moment)


main()
