"""`cqrs` in process, on the broker that wants TLS, logins and ACLs."""

from tests.cli.conftest import cqrs

__all__ = ["cqrs"]
