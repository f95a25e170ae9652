"""Java `.properties`, the format of Kafka's client configuration, and the names in it that are secrets."""

import re

from javaproperties import InvalidUEscapeError, KeyValue, parse

MASK = "********"

#: Matches the name of a property with a secret value.
_SECRET_NAME = re.compile(
    r"jaas\.config|password|passphrase|secret|private\.key(?!\.file)|user\.info|oauthbearer\.config"
    r"|^ssl\.keystore\.key$|^ssl\.key(\.pem)?$",
    re.IGNORECASE,
)
#: The form of the names of Kafka and librdkafka. Other text may be part of a secret, such as a key on several lines.
_PROPERTY_NAME = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)*")

#: Names whose values may be shown. A known prefix is sufficient, except for `sasl` and `ssl`: they also have secrets,
#: so a known ending is needed. A misspelt `sasl.pasword` does not match.
_PUBLIC_NAME = re.compile(
    r"(?:sasl|ssl)\.(?:.+\.)?(?:algorithm|ca|certificates?|chain|file|id|keytab|locations?|mechanisms?|method|ms|name"
    r"|pem|principal|protocols?|scope|seconds|suites|type|url|username|verification)"
    r"|(?:allow|api|auto|batch|broker|check|client|compression|connections|delivery|enable|fetch|heartbeat|linger|log"
    r"|max|message|metadata|partition|queue|queued|queuing|receive|reconnect|request|retry|security|send|session"
    r"|socket|statistics|sticky|topic|transaction)\.[a-z.]+|acks|debug|retries"
)
#: Java's line ends. `str.splitlines` would split at further characters, which may be in a password.
_LINE_END = re.compile(r"\r\n|\r|\n")


def is_secret(name: str) -> bool:
    """True if the value of this client property must be neither shown nor given on a command line."""
    return _SECRET_NAME.search(name) is not None


def is_property_name(name: str) -> bool:
    """True if a client property could have this name. Never show another name: it may be part of a secret."""
    return len(name) <= 80 and _PROPERTY_NAME.fullmatch(name) is not None


def mask_secrets(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties with masked values of secrets, and of unknown names, which may be misspelt names of
    secrets.

    A value that contains the name of a secret is masked, too, because it may contain the next entry of the file, if a
    line end is missing.
    """
    return {
        name: value if _PUBLIC_NAME.fullmatch(name) and not is_secret(name) and not is_secret(value) else MASK
        for name, value in properties.items()
    }


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a Java properties file; raises `ValueError` with the line number, and without its text.

    An entry without a separator is an error, because it may be part of a secret. Java reads it as a name with an empty
    value.
    """
    entries: dict[str, str] = {}
    line_number = 1
    elements = parse(text)
    while True:
        try:
            element = next(elements, None)
        except InvalidUEscapeError:
            raise ValueError(f"line {line_number} contains \\u without four hexadecimal digits") from None
        if element is None:
            return entries
        if isinstance(element, KeyValue):
            if not _has_separator(element):
                raise ValueError(f"line {line_number} is not key=value")
            if _has_half_surrogate(element.key + element.value):
                raise ValueError(f"line {line_number} contains half a surrogate pair")
            entries[element.key] = element.value
        line_number += len(_LINE_END.findall(element.source))


def _has_separator(entry: KeyValue) -> bool:
    """True if the entry has a separator (`=`, `:` or a blank): then text that is appended does not change the name."""
    (extended_entry,) = parse(entry.source_stripped + "x")
    return isinstance(extended_entry, KeyValue) and extended_entry.key == entry.key


def _has_half_surrogate(text: str) -> bool:
    """True if the text contains half a surrogate pair, which no encoding can write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
