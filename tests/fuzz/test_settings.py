"""Any settings or properties file gives settings, or a one-line error that contains no secret."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.doctor.settings import setting_rows
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.java_properties import parse_properties
from cqrs_cli.settings.settings import Settings, load_settings
from tests.fuzz.damage import damaged_bytes, damaged_texts

TOML = b"""\
bootstrap_server = "kafka-1:9092,[::1]:9092"
topic_prefix = "shop."
partitions = 8
partitioner = "none"
aggregates = "domain.aggregates"
state_dir = "~/state"
dedup_window = "1h30m"
commands_retention = "7d"
outcomes-retention = "unlimited"
master = "local[2]"
[properties]
client.id = "me"
linger.ms = 5
"""
LINES = [line + b"\n" for line in TOML.splitlines()]

PROPERTIES = b"""\
# a comment
security.protocol=SASL_SSL
sasl.mechanism : SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="me" password="hUnt3r/2+";
ssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----
ssl.key.password=\\u0068Unt3r/2+
client.id = b\\u00fc
request.timeout.ms = 5000
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings")


def load_or_none(folder: Path, **flags: object) -> Settings | None:
    """Return the settings, or None after an error of one line."""
    try:
        settings = load_settings(flags, folder)
        connection = Connection("127.0.0.1:9092", settings.client_properties())
        connection.check_properties()
        connection.kafka_python()
        setting_rows(settings)
    except (ConfigurationError, UsageError) as error:
        assert error.message and error.hint
        assert "hUnt3r/2+" not in str(error)
        return None
    assert settings.state_dir.is_absolute()
    return settings


@given(damaged_bytes([TOML, *LINES]))
def test_any_settings_file_loads_or_fails(folder: Path, text: bytes) -> None:
    (folder / "cqrs.toml").write_bytes(text)
    load_or_none(folder)
    (folder / "cqrs.toml").unlink()


@given(damaged_bytes([b"[tool.cqrs]\n" + TOML, b"[tool.other]\na = 1\n"]))
def test_any_pyproject_loads_or_fails(folder: Path, text: bytes) -> None:
    (folder / "pyproject.toml").write_bytes(text)
    load_or_none(folder)
    (folder / "pyproject.toml").unlink()


@given(
    st.sampled_from([name for name in Settings.model_fields if name != "root"]),
    damaged_texts([line.partition(b" = ")[2].strip(b'"\\n') for line in LINES]),
)
def test_any_flag_loads_or_fails(folder: Path, name: str, text: str) -> None:
    text = text.replace("\0", "")  # no environment contains NUL
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, f"CQRS_{name.upper()}", text)
        load_or_none(folder)
    load_or_none(folder, **{name: [text] if name == "properties" else text})


@pytest.mark.covers("no-foreign-code")
@given(damaged_bytes([PROPERTIES]))
def test_any_properties_file_loads_or_fails(folder: Path, text: bytes) -> None:
    file = folder / "client.properties"
    file.write_bytes(text)
    settings = load_or_none(folder, command_config=file)
    if settings is not None:
        assert "hUnt3r/2+" not in repr(
            [row for row in setting_rows(settings) if not row.name.startswith("-X client")]
        )


@given(damaged_texts([PROPERTIES, *PROPERTIES.splitlines()]))
def test_bad_properties_name_a_line(text: str) -> None:
    try:
        entries = parse_properties(text)
    except ValueError as error:
        assert str(error).startswith("line ")
        assert "hUnt3r/2+" not in str(error)
    else:
        assert all(isinstance(value, str) for value in entries.values())


@pytest.mark.parametrize(
    "text",
    [
        "properties = " + "[" * 100_000,
        "properties = " + "{a=" * 5_000,
        "properties." + "a." * 5_000 + "b = 1",
        "partitions = " + "9" * 10_000,
        "partitions = 1e400",
        "partitions = nan",
        "partitions = 4\npartitions = 5",
        'state_dir = "\\u0000"',
        'state_dir = "~nobody-of-this-name/x"',
        'command_config = "\\u0000"',
        'bootstrap_server = "kafka:٣"',
        'master = "local\\u0000"',
        'dedup_window = "999999999d"',
        "dedup_window = 1979-05-27",
        '[properties]\nplugin.library.paths = "/tmp/evil.so"',
        '[properties]\nssl.engine.location = "/tmp/evil.so"',
        '[properties]\nssl.providers = "/tmp/evil"',
        '[properties]\nclient.id = "a\\u0000b"',
        '[properties]\nlogger = "evil"',
        '[properties]\n"default.topic.config" = "evil"',
        '[properties]\nerror_cb = "evil"',
    ],
)
def test_extreme_settings_are_rejected(folder: Path, text: str) -> None:
    (folder / "cqrs.toml").write_text(text)
    assert load_or_none(folder) is None
    (folder / "cqrs.toml").unlink()


def test_java_escapes_are_utf_16() -> None:
    assert parse_properties("a=\\ud83d\\ude00") == {"a": "\N{GRINNING FACE}"}
    with pytest.raises(ValueError, match=r"^line 2 contains half a surrogate pair$"):
        parse_properties("a=1\nb=\\ud83d")


def test_only_java_line_ends_count() -> None:
    assert parse_properties("a=x\x85y\u2028z\x0b\r\nb=1\rc=2") == {
        "a": "x\x85y\u2028z\x0b",
        "b": "1",
        "c": "2",
    }
