"""Java `.properties`, the format of Kafka's client configuration, and the names in it that are secrets."""

import re

MASK = "********"

_SECRET = re.compile(
    r"jaas\.config|password|passphrase|secret|private\.key(?!\.file)|user\.info|oauthbearer\.config"
    r"|^ssl\.keystore\.key$|^ssl\.key(\.pem)?$",
    re.IGNORECASE,
)
#: The spelling of Kafka's and librdkafka's names. Other text may be a piece of a secret, such as a key broken over
#: several lines.
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)*")

#: Names whose values may be shown: known families, and known endings in those that hold secrets. A misspelt
#: `sasl.pasword` is not among them.
_OPEN = re.compile(
    r"(?:sasl|ssl)\.(?:.+\.)?(?:algorithm|ca|certificates?|chain|file|id|keytab|locations?|mechanisms?|method|ms|name"
    r"|pem|principal|protocols?|scope|seconds|suites|type|url|username|verification)"
    r"|(?:allow|api|auto|batch|broker|check|client|compression|connections|delivery|enable|fetch|heartbeat|linger|log"
    r"|max|message|metadata|partition|queue|queued|queuing|receive|reconnect|request|retry|security|send|session"
    r"|socket|statistics|sticky|topic|transaction)\.[a-z.]+|acks|debug|retries"
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\r|\n")  # Java's; str.splitlines knows more, which may stand in a password
_ENTRY = re.compile(r"(?P<name>(?:[^\\:=\s]|\\.)+)\s*[:=]?\s*(?P<value>.*)", re.DOTALL)


def is_secret(name: str) -> bool:
    """True if the value of this client property must be neither shown nor given on a command line."""
    return _SECRET.search(name) is not None


def is_name(name: str) -> bool:
    """True if a client property could have this name. Never repeat one that could not: it may be part of a secret."""
    return len(name) <= 80 and _NAME.fullmatch(name) is not None


def masked(properties: dict[str, str]) -> dict[str, str]:
    """The same properties with the values of secrets hidden, and of names that may be misspelt ones.

    A value with a secret's name in it is hidden, too: where a line end is missing it holds the next entry.
    """
    return {
        name: value if _OPEN.fullmatch(name) and not is_secret(name) and not is_secret(value) else MASK
        for name, value in properties.items()
    }


def parse_properties(text: str) -> dict[str, str]:
    """The entries of a Java properties file; raises `ValueError` with the line number for one without a value.

    Comments begin with `#` or `!`; `=`, `:` or blanks separate; a backslash continues a line or escapes.
    """
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        if entry is None or len(entry["name"]) == len(line):
            raise ValueError(f"line {number} is not key=value")
        try:
            entries[_unescape(entry["name"])] = _unescape(entry["value"])
        except ValueError as error:
            raise ValueError(f"line {number} holds {error}") from None
    return entries


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their continuations joined, without comments and blank ones, numbered by where they begin."""
    lines: list[tuple[int, str]] = []
    continued = False
    for number, raw in enumerate(_LINE_END.split(text), 1):
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

    try:
        # Java's escapes are UTF-16: two of them may make one character, and half a one is none.
        return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("half a surrogate pair") from None
