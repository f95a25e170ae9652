"""Certificates of test authorities, made with `openssl`."""

import subprocess
from pathlib import Path


class Authority:
    """A certificate authority. `certificate` is the file for truststores."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.certificate, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        self._openssl(
            f"req -x509 {_NEW} -subj /CN={name} -days 2 -keyout {self._key} -out {self.certificate}"
        )

    def issue(self, name: str, alternative_names: str = "DNS:nobody.invalid", days: int = 2) -> Path:
        """Return a file with a key and a certificate for `CN=name` and these alternative names.

        With `days=-1` the certificate has expired.
        """
        key, request, extensions = (self.folder / f"{name}.{end}" for end in ("key", "csr", "ext"))
        certificate = self.folder / f"{name}.crt"
        extensions.write_text(f"subjectAltName={alternative_names}\n")
        self._openssl(f"req -new {_NEW} -subj /CN={name} -keyout {key} -out {request}")
        options = f"-CA {self.certificate} -CAkey {self._key} -extfile {extensions} -days {days}"
        self._openssl(f"x509 -req -in {request} {options} -out {certificate}")
        pem_file = self.folder / f"{name}.both.pem"
        pem_file.write_text(key.read_text() + certificate.read_text())
        return pem_file

    def _openssl(self, arguments: str) -> None:
        subprocess.run(["openssl", *arguments.split()], cwd=self.folder, check=True, capture_output=True)


_NEW = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
