#!/usr/bin/env python3
"""Writes a bill of materials (CycloneDX 1.6) of a file that contains the program: FILE.cdx.json, without the ending .deb.

    bill.py PROGRAM FILE [MACHINE]

The bill depends only on the program, the commit and SOURCE_DATE_EPOCH. The packages come from Package.resolved and the program.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
APACHE = "Apache-2.0"
LICENSES = {"libarchive-dev": "BSD-2-Clause", "libssl-dev": APACHE, "libzstd-dev": "BSD-3-Clause", "zlib1g-dev": "Zlib"}
# Python's names of Debian's architectures.
PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def native():
    return output("dpkg", "--print-architecture")


def versions(program, machine):
    """Returns the version of a program and of each library inside. Another machine's program runs by qemu-user."""
    emulator = [] if machine == native() else [f"qemu-{PLATFORMS[machine]}-static", "-L", ROOT / f".build-release/{machine}/sysroot"]
    answer = json.loads(output(*emulator, program, "--version", "--json"))
    return answer["version"], answer["libraries"]


def packages():
    """Returns the name, version, address for package tools and commit of each Swift package inside."""
    for pin in json.loads((ROOT / "Package.resolved").read_text(encoding="utf-8"))["pins"]:
        place, state = pin["location"].removeprefix("https://").removesuffix(".git"), pin["state"]
        yield pin["identity"], state["version"], f"pkg:swift/{place}@{state['version']}", state["revision"]


def component(name, version, purl, license_name):
    kind = "expression" if " " in license_name else "license"
    value = license_name if kind == "expression" else {"id": license_name}
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "licenses": [{kind: value}]}


def bill_of_materials(program, file, machine, version, libraries):
    # Debian's Swift leaves its version in the paths of its runtime.
    debian = re.search(rb"/swiftlang-([0-9.]+)/", program.read_bytes())
    swift = debian[1].decode() if debian else re.search(r"Swift version ([0-9.]+)", output("swift", "--version"))[1]
    parts = [component("swift", swift, f"pkg:generic/swift@{swift}", APACHE)]
    parts += [component(name, number, purl, APACHE) for name, number, purl, _ in packages()]
    for name, number in libraries.items():
        parts.append(component(name, number, f"pkg:deb/debian/{name}@{number.replace('+', '%2B')}?arch={machine}",
                               LICENSES.get(name, "GPL-3.0-or-later WITH GCC-exception-3.1")))
    bill = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))),
            "component": {
                "type": "application", "bom-ref": "clientctl", "name": "clientctl", "version": version, "licenses": [{"license": {"id": APACHE}}],
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
                "properties": [{"name": "swap-clients:commit", "value": output("git", "rev-parse", "HEAD")}],
            },
        },
        "components": parts,
        "dependencies": [{"ref": "clientctl", "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return json.dumps(bill, indent=2) + "\n"


def main(program, file, machine=None):
    machine = str(machine or native())
    bill = bill_of_materials(program, file, machine, *versions(program, machine))
    pathlib.Path(f"{str(file).removesuffix('.deb')}.cdx.json").write_text(bill, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*map(pathlib.Path, sys.argv[1:]))
