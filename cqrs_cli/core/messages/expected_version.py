"""Expected versions: the version of the aggregate that the sender of a command assumes, checked before `decide`.

any · none · 0 · exists · N · >=N      N: a plain decimal without sign or leading zero, at most 2^53
"""

import re
from typing import NamedTuple

from cqrs_cli.core.messages.reasons import Reason

MAX_VERSION = 2**53  # every JSON reader keeps integers up to here exactly (RFC 8259, section 6)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}")


class VersionCondition(NamedTuple):
    """A parsed expected version: `>=7` is `VersionCondition("at_least", 7)`.

    `kind` is any, none, exists, exactly or at_least; only exactly and at_least have a `number`.
    """

    kind: str
    number: int = 0

    def mismatch(self, version: int) -> tuple[Reason, str] | None:
        """Return the reason and message if an aggregate at `version` does not match, else None.

        Version 0 means that the aggregate does not exist.
        """
        match self.kind:
            case "none" if version:
                return Reason.ALREADY_EXISTS, f"expected none, is {version}"
            case "exists" if not version:
                return Reason.NOT_FOUND, "expected exists, is 0"
            case "exactly" if version != self.number:
                return Reason.VERSION_CONFLICT, f"expected version {self.number}, is {version}"
            case "at_least" if version < self.number:
                return Reason.VERSION_CONFLICT, f"expected version >={self.number}, is {version}"
        return None


ANY = VersionCondition("any")
_KEYWORDS = {"any": ANY, "none": VersionCondition("none"), "exists": VersionCondition("exists")}


def parse_expected(text: str) -> VersionCondition:
    """Return the parsed expected version; raises `ValueError` for invalid text, which is never treated as `any`."""
    if (condition := _KEYWORDS.get(text)) is not None:
        return condition
    kind, digits = ("at_least", text[2:]) if text.startswith(">=") else ("exactly", text)
    if _NUMBER.fullmatch(digits) and int(digits) <= MAX_VERSION:
        return VersionCondition(kind, int(digits))
    raise ValueError(f"not an expected version: {text[:40]!r} (any, none, exists, N or >=N)")
