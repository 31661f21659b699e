#!/usr/bin/env python3
"""Writes the provenance of the files of a release: a statement of in-toto with the predicate of SLSA, in a signed DSSE envelope.

    provenance.py FOLDER KEY.pem NAME [OPTION VALUE]...

  FOLDER         has the files, which the statement names with their digests, and gets the file NAME
  KEY.pem        the Ed25519 key that signs
  OPTION VALUE   an option of Scripts/package that changes the files; of a file, only its name and digest are written

The dependencies are the commit, those files, the Swift packages, and the parts that the bills of materials in FOLDER list.
The same files and key give the same bytes.
"""

import base64
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from bill import output, packages

TYPE = "application/vnd.in-toto+json"
# The project has no address, and nobody can register the domain invalid.
PLACE = "https://swap-clients.invalid"


def described(path, name):
    return {"name": str(name), "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}


def source():
    """Returns the commit, with the address of its repository if that is public."""
    commit = output("git", "rev-parse", "HEAD")
    address = output("git", "config", "--default", "", "--get", "remote.origin.url")
    public = {"uri": f"git+{address}@{commit}"} if address.startswith("https://") and "@" not in address else {}
    return {"name": "swap-clients", **public, "digest": {"gitCommit": commit}}


def statement(folder, words, key):
    given = {word: described(pathlib.Path(word), pathlib.Path(word).name) for word in words if os.path.isfile(word)}
    parts = {purl: {"name": name, "uri": purl, "digest": {"gitCommit": revision}} for name, _, purl, revision in packages()}
    for bill in folder.glob("*.cdx.json"):
        for part in json.loads(bill.read_text(encoding="utf-8"))["components"]:
            parts.setdefault(part["purl"], {"name": part["name"], "uri": part["purl"]})
    definition = {
        "buildType": f"{PLACE}/Scripts/package/v1",
        "externalParameters": {"script": "Scripts/package", "arguments": [given.get(word, {"name": word})["name"] for word in words]},
        "internalParameters": {"SOURCE_DATE_EPOCH": os.environ["SOURCE_DATE_EPOCH"], "machine": platform.machine(),
                               "system": platform.freedesktop_os_release()["PRETTY_NAME"]},
        "resolvedDependencies": [source(), *given.values(), *(parts[purl] for purl in sorted(parts))],
    }
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [described(path, path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()],
        "predicateType": "https://slsa.dev/provenance/v1",
        # No service builds the files, so the id of the key names the builder.
        "predicate": {"buildDefinition": definition, "runDetails": {"builder": {"id": f"{PLACE}/key/{key}"}}},
    }


def main(folder, key, name, *words):
    folder = pathlib.Path(folder)
    public = subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER"], check=True, stdout=subprocess.PIPE).stdout
    payload = json.dumps(statement(folder, words, hashlib.sha256(public).hexdigest()), separators=(",", ":")).encode()
    with tempfile.NamedTemporaryFile() as signed:
        signed.write(b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload))
        signed.flush()
        signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", signed.name], check=True,
                                   stdout=subprocess.PIPE).stdout
    # In its bundles, cosign accepts only signatures without the id of the key.
    signatures = [{"keyid": "", "sig": base64.b64encode(signature).decode()}]
    envelope = {"payloadType": TYPE, "payload": base64.b64encode(payload).decode(), "signatures": signatures}
    (folder / name).write_text(json.dumps(envelope, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
