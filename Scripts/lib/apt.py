"""Writes a repository for apt from the Debian packages in a folder: static files for any web server, signed with a key of gpg.

  python3 Scripts/lib/apt.py FOLDER KEY

  FOLDER   has the packages; the repository is FOLDER/apt, and its public key FOLDER/apt/clientctl.gpg
  KEY      the fingerprint of a secret key of gpg

Packages of all architectures are listed for amd64 and arm64. With by-hash, a device that updates while the files are uploaded reads
either the old or the new ones.
"""

import email.utils
import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

SUITE = "stable"
ARCHITECTURES = ("amd64", "arm64")


def paragraph(package, place):
    """Returns the lines about a package in the index."""
    control = subprocess.run(["dpkg-deb", "--field", str(package)], check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip("\n")
    data = package.read_bytes()
    return f"{control}\nFilename: {place}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


def main(folder, key):
    root = pathlib.Path(folder) / "apt"
    shutil.rmtree(root, ignore_errors=True)
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    suite = root / "dists" / SUITE
    paragraphs = {architecture: [] for architecture in ARCHITECTURES}
    for package in sorted(pathlib.Path(folder).glob("*.deb")):
        place = f"pool/{package.name}"
        (root / "pool").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(package, root / place)
        architecture = package.stem.rsplit("_", 1)[1]
        for name in ARCHITECTURES if architecture == "all" else [architecture]:
            paragraphs[name].append(paragraph(package, place))
    sums = []
    for architecture in ARCHITECTURES:
        index = "\n".join(paragraphs[architecture]).encode()
        below = f"main/binary-{architecture}"
        hashes = suite / below / "by-hash/SHA256"
        hashes.mkdir(parents=True)
        for name, data in (("Packages", index), ("Packages.gz", gzip.compress(index, mtime=moment))):
            digest = hashlib.sha256(data).hexdigest()
            (suite / below / name).write_bytes(data)
            (hashes / digest).write_bytes(data)
            sums.append(f" {digest} {len(data)} {below}/{name}")
    release = (
        f"Origin: clientctl\nLabel: clientctl\nSuite: {SUITE}\nCodename: {SUITE}\nDate: {email.utils.formatdate(moment, usegmt=True)}\n"
        f"Architectures: {' '.join(ARCHITECTURES)}\nComponents: main\nAcquire-By-Hash: yes\nSHA256:\n" + "\n".join(sums) + "\n")
    # The signature has the time of the release, so that it has the same bytes again. apt refuses one that is older than its key.
    keys = subprocess.run(["gpg", "--batch", "--with-colons", "--list-keys", key], check=True, stdout=subprocess.PIPE, text=True).stdout
    created = [int(line.split(":")[5]) for line in keys.splitlines() if line.startswith(("pub:", "sub:"))]
    signed = subprocess.run(["gpg", "--batch", "--yes", "--local-user", key, "--faked-system-time", f"{max(moment, *created)}!",
                             "--clearsign"], check=True, input=release.encode(), stdout=subprocess.PIPE).stdout
    (suite / "InRelease").write_bytes(signed)
    public = subprocess.run(["gpg", "--batch", "--export", key], check=True, stdout=subprocess.PIPE).stdout
    (root / "clientctl.gpg").write_bytes(public)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
