"""Client properties: their merging, their file, and the secrets among them."""

from pathlib import Path

import pytest

from cqrs_cli.doctor.settings import setting_rows
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.settings.settings import load_settings, origins
from tests.settings.folders import settings_error, write_project


def test_client_properties_merge_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(
        tmp_path,
        'command_config = "client.properties"\n[properties]\nclient.id = "toml"\nlinger.ms = 5\nclient.rack = "r"\n',
    )
    (tmp_path / "client.properties").write_text("security.protocol=SSL\nclient.id=file\nclient.rack=file\n")
    monkeypatch.setenv("CQRS_PROPERTIES", "client.id=env\nlinger.ms=6")
    settings = load_settings({"properties": ["client.id=flag"]}, tmp_path)
    assert settings.client_properties() == {
        "security.protocol": "SSL",
        "client.id": "flag",
        "linger.ms": "6",
        "client.rack": "r",
    }


@pytest.mark.parametrize(
    "name", ["sasl.jaas.config", "sasl.password", "ssl.key.password", "ssl.keystore.key"]
)
def test_secret_flag_is_not_repeated(tmp_path: Path, name: str) -> None:
    error = settings_error(tmp_path, properties=[f"{name}=hunter2"])
    assert isinstance(error, UsageError)
    assert "--command-config" in error.hint
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    "text", ["client.id", "=x", "sasl.password hunter2", "sasl.password:hunter2", "x hunter2"]
)
def test_malformed_property_is_a_usage_error(tmp_path: Path, text: str) -> None:
    error = settings_error(tmp_path, properties=[text])
    assert isinstance(error, UsageError)
    assert "hunter2" not in str(error)


def test_secret_in_toml_is_refused(tmp_path: Path) -> None:
    error = settings_error(write_project(tmp_path, '[properties]\nsasl.password = "hunter2"'))
    assert isinstance(error, ConfigurationError)
    assert "command_config" in error.message
    assert "hunter2" not in str(error)


def test_command_config_names_bootstrap_server(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("bootstrap.servers=kafka-1:9092\n")
    flags = {"command_config": "client.properties"}
    settings = load_settings(flags, tmp_path)
    assert settings.bootstrap_server == "kafka-1:9092"
    assert origins(settings)["bootstrap_server"] == str(tmp_path / "client.properties")
    assert settings.client_properties() == {}
    assert load_settings({**flags, "bootstrap_server": "other:1"}, tmp_path).bootstrap_server == "other:1"


def test_bad_server_in_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("bootstrap.servers=http://kafka\n")
    error = settings_error(tmp_path, command_config="client.properties")
    assert error.message.startswith(f"{tmp_path / 'client.properties'}: bootstrap.servers: not HOST:PORT")


def test_unreadable_command_config_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    assert str(file) in settings_error(tmp_path, command_config=file).message
    file.write_bytes(b"sasl.password=hunter2\xff")
    error = settings_error(tmp_path, command_config=file)
    assert error.message == f"{file} is not a properties file: it is not UTF-8"


def test_shown_settings_contain_no_secret(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("sasl.password=hunter2\nclient.id=me\n")
    settings = load_settings({"command_config": "client.properties"}, tmp_path)
    rows = {row.name: row for row in setting_rows(settings)}
    assert rows["-X client.id"].value == "me"
    assert rows["-X sasl.password"].origin == str(tmp_path / "client.properties")
    assert "hunter2" not in repr(rows) + repr(settings)
