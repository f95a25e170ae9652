"""Makes the packaged Java trust the certificate authorities of this machine.

A Java of the machine trusts them already. The packaged Java has its own list, which lacks a company's own authority.
"""

import hashlib
import ssl
import struct
from pathlib import Path

from cqrs_cli.system.java import is_packaged

#: Java needs no password to read a JKS store, and then does not check its digest; keytool requires a password.
_PASSWORD = "changeit"


def options(java: Path, folder: Path) -> list[str]:
    """Return options for a `java` that connects by TLS. Writes the trust store that they name into `folder`."""
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True) if is_packaged(java) else []
    if not authorities:
        return []
    store = folder / "authorities.jks"
    store.write_bytes(jks(authorities))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def jks(certificates: list[bytes]) -> bytes:
    """Return a Java key store, version 2, that trusts these DER certificates."""
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
