"""Makes the packaged Java trust the certificate authorities of this machine.

A Java of the machine has them already. The packaged one has a list of its own, which lacks a company's own authority.
"""

import hashlib
import ssl
import struct
from pathlib import Path

from cqrs_cli.system.java import is_packaged

#: Java asks for no password to read a JKS store, and then leaves its digest unchecked; keytool wants one.
_PASSWORD = "changeit"


def options(java: Path, folder: Path) -> list[str]:
    """Options for a `java` that connects by TLS. The store that they name is written into `folder`."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True) if is_packaged(java) else []
    if not authorities:
        return []
    store = folder / "authorities.jks"
    store.write_bytes(jks(authorities))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def jks(certificates: list[bytes]) -> bytes:
    """A Java key store, version 2, that trusts these DER certificates."""
    entries = [
        struct.pack(">I", 2) + _text(f"ca-{number}") + bytes(8) + _text("X.509") + _sized(certificate)
        for number, certificate in enumerate(certificates)
    ]
    store = struct.pack(">III", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store, usedforsecurity=False)
    return store + digest.digest()


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def _sized(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value
