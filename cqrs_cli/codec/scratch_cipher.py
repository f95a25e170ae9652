"""The encryption of temporary files with personal data: others could read the files, but not the key."""

import os

from cqrs_cli.core.personal.encryption import SECRET_BYTES, aes_siv


class ScratchCipher:
    """Encrypts with a random key that only this object holds, in memory."""

    def __init__(self) -> None:
        self._cipher = aes_siv(os.urandom(SECRET_BYTES))

    def encrypt(self, data: bytes) -> bytes:
        """Return the data encrypted."""
        return self._cipher.encrypt(data, None)

    def decrypt(self, data: bytes) -> bytes:
        """Return the data that `encrypt` encrypted."""
        return self._cipher.decrypt(data, None)
