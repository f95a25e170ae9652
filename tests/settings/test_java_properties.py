"""Java properties are read as Java reads them, and secrets are recognized."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.settings.java_properties import MASK, is_secret, mask_secrets, parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", {}),
        ("# a comment\n! another\n\n  a=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a = b = c", {"a": "b = c"}),
        ("a:1\nb 2", {"a": "1", "b": "2"}),
        ("a=", {"a": ""}),
        ("a=one \\\n   two", {"a": "one two"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b=\\u00e9\\t.", {"a b": "é\t."}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
    ],
)
def test_properties_are_read_like_java(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


def test_continued_jaas_entry_is_joined() -> None:
    text = 'sasl.jaas.config=x.PlainLoginModule required \\\n  username="u" \\\n  password="p=#1";\nclient.id=me\n'
    assert (
        parse_properties(text)["sasl.jaas.config"]
        == 'x.PlainLoginModule required username="u" password="p=#1";'
    )
    assert parse_properties(text)["client.id"] == "me"


def test_entry_without_value_names_line() -> None:
    with pytest.raises(ValueError, match=r"^line 3 is not key=value$"):
        parse_properties("a=1\n\nhunter2")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a=1\n\nb=hunter2\\u12", r"^line 3 contains \\u without four hexadecimal digits$"),
        ("a=1\r\nb=\\\n  hunter2\nhunter2\\\n  hunter3", "^line 4 is not key=value$"),
        ("a=1\nb=hunter2\\ud800", "^line 2 contains half a surrogate pair$"),
    ],
)
def test_broken_entry_is_not_quoted(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_properties(text)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z.]{0,20}", fullmatch=True), st.from_regex(r"[!-~]{0,20}", fullmatch=True)
    )
)
def test_plain_entries_are_read_back(entries: dict[str, str]) -> None:
    lines = (
        f"{name}={value}".replace("\\", "\\\\")
        for name, value in entries.items()
        if value[:1] not in (":", "=")
    )
    assert parse_properties("\n".join(lines)).items() <= entries.items()


SECRET = """sasl.jaas.config sasl.password ssl.key.password ssl.keystore.password ssl.truststore.password
ssl.keystore.key ssl.key.pem sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.config sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
SASL.PASSWORD
listener.name.x.sasl.jaas.config"""
PUBLIC = """sasl.username client.id ssl.key.location ssl.keystore.location ssl.truststore.location ssl.ca.location
ssl.keystore.certificate.chain ssl.truststore.certificates sasl.mechanism ssl.keystore.type
sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.assertion.private.key.file"""


@pytest.mark.parametrize("name", SECRET.split())
def test_secrets_are_recognised(name: str) -> None:
    assert is_secret(name)
    assert mask_secrets({name: "hunter2"}) == {name: MASK}


@pytest.mark.parametrize("name", PUBLIC.split())
def test_public_values_are_shown(name: str) -> None:
    assert mask_secrets({name: "open"}) == {name: "open"}


def test_secret_after_lost_newline_is_masked() -> None:
    entries = parse_properties(
        "ssl.truststore.certificates=-----END CERTIFICATE-----ssl.key.password=hunter2"
    )
    assert mask_secrets(entries) == {"ssl.truststore.certificates": MASK}
