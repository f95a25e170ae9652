"""Expected versions: what a client believes of an aggregate, checked before anything is decided.

any · none · 0 · exists · N · >=N      N: a plain decimal without sign or leading zero, at most 2^53
"""

import re
from typing import NamedTuple

from cqrs_cli.core.messages.reasons import Reason

MAX_VERSION = 2**53  # the largest integer that every JSON reader keeps exactly (RFC 8259, section 6)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}")


class Expected(NamedTuple):
    """A parsed expected version: `kind` is any, none, exists, exactly or at_least; `number` counts for the last two."""

    kind: str
    number: int = 0

    def refusal(self, version: int) -> tuple[Reason, str] | None:
        """The reason why an aggregate at `version` (0: does not exist) does not satisfy this; None if it does."""
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


ANY = Expected("any")
_WORDS = {"any": ANY, "none": Expected("none"), "exists": Expected("exists")}


def parse_expected(text: str) -> Expected:
    """The expected version that `text` spells; raises `ValueError` for anything else, never meaning `any` by it."""
    if (word := _WORDS.get(text)) is not None:
        return word
    kind, digits = ("at_least", text[2:]) if text.startswith(">=") else ("exactly", text)
    if _NUMBER.fullmatch(digits) and int(digits) <= MAX_VERSION:
        return Expected(kind, int(digits))
    raise ValueError(f"not an expected version: {text[:40]!r} (any, none, exists, N or >=N)")
