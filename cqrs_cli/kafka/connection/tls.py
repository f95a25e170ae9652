"""TLS for kafka-python: it needs an `ssl.SSLContext`, whereas librdkafka takes paths and PEM text."""

import os
import ssl
import tempfile
from pathlib import Path

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.credentials import Tls


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Return an SSL context with these authorities, certificate and key. Raises `ConfigurationError` for a PKCS12 file,
    and for files that Python cannot read.
    """
    if tls.pkcs12_file:
        raise ConfigurationError(
            f"ssl.keystore.location {tls.pkcs12_file}: topic administration needs it as PEM",
            f"convert it: openssl pkcs12 -in {tls.pkcs12_file} -out keys.pem, and set ssl.key.password",
        )
    try:
        ssl_context = ssl.create_default_context(cafile=tls.ca_file, cadata=tls.ca_pem)
        ssl_context.check_hostname = tls.check_hostname
        _load_certificate(ssl_context, tls)
    except (OSError, ValueError) as error:
        # These messages name the failing step, never key material.
        reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else error
        raise ConfigurationError(
            f"the ssl.* client properties cannot be used: {reason}",
            "check that the files exist and contain PEM, and that ssl.key.password is their password",
        ) from None
    return ssl_context


def _load_certificate(ssl_context: ssl.SSLContext, tls: Tls) -> None:
    """Load the client's certificate and key, if there are any."""
    password = tls.key_password or ""  # never None: OpenSSL would ask on the terminal
    if tls.certificate_file:
        ssl_context.load_cert_chain(tls.certificate_file, tls.key_file, password)
    elif tls.certificate_pem and tls.key_pem:
        # OpenSSL reads files only. No other user may read this file, and it is removed as soon as it is loaded.
        descriptor, path = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{tls.key_pem}\n{tls.certificate_pem}\n")
            ssl_context.load_cert_chain(path, None, password)
        finally:
            Path(path).unlink()
