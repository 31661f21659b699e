#!/usr/bin/env python3
"""Opens an encrypted phone bundle as the documentation of version 2 of Capgo's encryption describes, apart from publish.

open-phone.py RSA-PUBLIC-KEY.pem ENCRYPTED CHECKSUM SESSION-KEY OUT.zip

The session key is base64(iv) ":" base64(RSA(AES key)), the checksum hexadecimal RSA(SHA-256 of the zip), and RSA the private
operation of PKCS#1 v1.5. It exits with 1 and names the refused part if anything does not match."""
import base64
import binascii
import hashlib
import io
import subprocess
import sys
import zipfile


def refuse(problem):
    sys.exit(f"refused: {problem}")


def integers(der):
    """Returns the modulus and the exponent of an RSAPublicKey (RFC 8017, appendix A.1.1)."""
    def length(at):
        count = der[at]
        if count < 0x80:
            return count, at + 1
        size = count & 0x7F
        return int.from_bytes(der[at + 1:at + 1 + size], "big"), at + 1 + size
    at, found = length(1)[1], []
    while at < len(der):
        size, start = length(at + 1)
        found.append(int.from_bytes(der[start:start + size], "big"))
        at = start + size
    return found


def recover(sealed, key):
    """Returns the bytes in a block of type 1 (RFC 8017, section 9.2), which only the private key can make."""
    modulus, exponent = key
    if len(sealed) != 256:
        refuse("not 256 bytes")
    block = pow(int.from_bytes(sealed, "big"), exponent, modulus).to_bytes(256, "big")
    end = block.find(b"\0", 2)
    if block[:2] != b"\0\1" or end < 10 or block[2:end].strip(b"\xff"):
        refuse("made by another key")
    return block[end + 1:]


pem, path, checksum, session, out = sys.argv[1:]
lines = open(pem).read().split("\n")
if lines[0] != "-----BEGIN RSA PUBLIC KEY-----":
    refuse("the key is not in PKCS#1")
key = integers(base64.b64decode("".join(lines[1:]).split("-----")[0]))
iv, sealed = (base64.b64decode(part, validate=True) for part in session.split(":"))
aes = recover(sealed, key)
if len(aes) != 16 or len(iv) != 16:
    refuse("the key of AES or the iv does not have 16 bytes")
opened = subprocess.run(["openssl", "enc", "-d", "-aes-128-cbc", "-K", aes.hex(), "-iv", iv.hex(), "-in", path],
                        capture_output=True)
if opened.returncode != 0:
    refuse("the padding of the file is wrong")
if hashlib.sha256(opened.stdout).digest() != recover(binascii.unhexlify(checksum), key):
    refuse("the checksum is of another zip")
if zipfile.ZipFile(io.BytesIO(opened.stdout)).testzip() is not None:
    refuse("the zip is damaged")
open(out, "wb").write(opened.stdout)
