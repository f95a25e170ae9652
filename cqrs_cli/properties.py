"""Java `.properties`, the language in which Kafka's clients are configured, and which of them are secrets."""

import re

MASK = "********"

_SECRET = re.compile(
    r"jaas\.config|password|passphrase|secret|private\.key(?!\.file)|user\.info|oauthbearer\.config"
    r"|^ssl\.keystore\.key$|^ssl\.key(\.pem)?$",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENTRY = re.compile(r"(?P<name>(?:[^\\:=\s]|\\.)+)\s*[:=]?\s*(?P<value>.*)", re.DOTALL)


def is_secret(name: str) -> bool:
    """Whether the value of this client property must be neither shown nor given on a command line."""
    return _SECRET.search(name) is not None


def masked(properties: dict[str, str]) -> dict[str, str]:
    """The same properties with the secrets' values hidden."""
    return {name: MASK if is_secret(name) else value for name, value in properties.items()}


def parse_properties(text: str) -> dict[str, str]:
    """The entries of a Java properties file; raises `ValueError` with the line number for one without a value.

    Comments begin with `#` or `!`; `=`, `:` or blanks separate; a backslash continues a line or escapes.
    """
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        if entry is None or len(entry["name"]) == len(line):
            raise ValueError(f"line {number} is not key=value")
        entries[_unescape(entry["name"])] = _unescape(entry["value"])
    return entries


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their continuations joined, without comments and blank ones, numbered by where they begin."""
    lines: list[tuple[int, str]] = []
    continued = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip()
        if continued:
            start, before = lines.pop()
            lines.append((start, before + line))
        elif line and line[0] not in "#!":
            lines.append((number, line))
        else:
            continue
        start, joined = lines[-1]
        continued = (len(joined) - len(joined.rstrip("\\"))) % 2 == 1
        if continued:
            lines[-1] = (start, joined[:-1])
    return lines


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)
