"""The encryption of temporary files with personal data: other programs may read the files, but not the key."""

import os

from cqrs_cli.core.personal.encryption import SECRET_BYTES, aes_siv


class ScratchCipher:
    """Encrypts and decrypts with a random key, which exists only in the memory of this object."""

    def __init__(self) -> None:
        self._cipher = aes_siv(os.urandom(SECRET_BYTES))

    def encrypt(self, data: bytes) -> bytes:
        """Return the data encrypted."""
        return self._cipher.encrypt(data, None)

    def decrypt(self, data: bytes) -> bytes:
        """Return the data that `encrypt` encrypted."""
        return self._cipher.decrypt(data, None)
