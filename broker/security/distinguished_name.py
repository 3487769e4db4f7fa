"""Formats a certificate's subject name as Java does, for ACLs and mapping rules.

Upstream: X500Principal.getName. Python's ssl module decodes the attributes, but Java names only the
attributes of RFC 2253, and writes other attributes, such as an e-mail address, as the hexadecimal
digits of their encoding.
"""

import re
from collections.abc import Iterator
from typing import Final

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# DER tag of the optional version of a certificate.
VERSION: Final = 0xA0


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) that OpenSSL has verified, with the most specific
    part first: `CN=alice,O=Example`."""
    (_, body), *_ = _values(certificate)
    (_, content), *_ = _values(body)
    fields = [value for tag, value in _values(content) if tag != VERSION]
    subject = fields[4]  # after serial number, algorithm, issuer and validity
    parts = ["+".join(map(_attribute, _contents(value))) for value in _contents(subject)]
    return ",".join(reversed(parts))


def _attribute(encoded: bytes) -> str:
    (_, oid), (_, text) = _values(encoded)
    dotted = _dotted(oid)
    if dotted in KEYWORDS:
        return f"{KEYWORDS[dotted]}={_escaped(text.decode(errors='replace'))}"
    # The bytes after the identifier (of less than 128 bytes): tag, size and content of the value.
    return f"{dotted}=#{encoded[2 + len(oid) :].hex()}"


def _dotted(oid: bytes) -> str:
    """Return an object identifier in dotted notation."""
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(value: str) -> str:
    escaped = re.sub(r'([,+"\\<>;=#])', r"\\\1", value).replace("\0", r"\00")
    # Leading and trailing spaces and carriage returns are escaped (upstream: Java's
    # AVA.toRFC2253String).
    inner = escaped.strip(" \r")
    start = escaped.index(inner)
    outer = escaped[:start], escaped[start + len(inner) :]
    leading, trailing = ("".join("\\" + each for each in part) for part in outer)
    return leading + inner + trailing


def _contents(encoded: bytes) -> Iterator[bytes]:
    return (content for _, content in _values(encoded))


def _values(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each DER value."""
    position = 0
    while position < len(encoded):
        tag, size = encoded[position], encoded[position + 1]
        position += 2
        if size >= 0x80:  # the number of size bytes
            count = size & 0x7F
            size = int.from_bytes(encoded[position : position + count], "big")
            position += count
        yield tag, encoded[position : position + size]
        position += size
