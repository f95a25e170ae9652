"""Settings: who wins, where each came from, and what is said of a bad one."""

import runpy
from datetime import timedelta
from pathlib import Path

import pytest

from cqrs_cli.doctor.settings import setting_rows
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.settings.settings import Settings, load_settings, origins
from tests.support import ROOT


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"CQRS_{name.upper()}", raising=False)


def project(folder: Path, cqrs: str | None = None, pyproject: str | None = None) -> Path:
    if cqrs is not None:
        (folder / "cqrs.toml").write_text(cqrs)
    if pyproject is not None:
        (folder / "pyproject.toml").write_text(pyproject)
    return folder


def refused(folder: Path, **flags: object) -> CqrsError:
    with pytest.raises(CqrsError) as caught:
        load_settings(flags, folder)
    return caught.value


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    settings = load_settings({}, tmp_path)
    assert (settings.root, settings.bootstrap_server, settings.partitions) == (tmp_path, None, 4)
    assert settings.state_dir == tmp_path / ".cqrs/state"
    assert (settings.dedup_window, settings.outcomes_retention) == (timedelta(hours=24), None)
    assert set(origins(settings).values()) == {"default"}


def test_flag_beats_environment_beats_cqrs_toml_beats_pyproject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(
        tmp_path,
        'partitions = 3\nmaster = "c"\naggregates = "c"\n',
        '[tool.cqrs]\npartitions = 2\nmaster = "p"\naggregates = "p"\npartitioner = "off"\n',
    )
    monkeypatch.setenv("CQRS_PARTITIONS", "5")
    monkeypatch.setenv("CQRS_MASTER", "e")
    settings = load_settings({"partitions": 7, "master": None}, tmp_path)
    assert (settings.partitions, settings.master, settings.aggregates, settings.partitioner) == (
        7,
        "e",
        "c",
        "off",
    )
    told = origins(settings)
    assert told["partitions"] == "flag --partitions"
    assert told["master"] == "environment CQRS_MASTER"
    assert told["aggregates"] == str(tmp_path / "cqrs.toml")
    assert told["partitioner"] == f"{tmp_path / 'pyproject.toml'} [tool.cqrs]"
    assert told["topic_prefix"] == "default"


def test_the_root_is_the_nearest_folder_that_says_so(tmp_path: Path) -> None:
    project(tmp_path, "partitions = 9")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    project(inner, pyproject="[project]\nname = 'no cqrs in here'\n")
    assert load_settings({}, inner).root == tmp_path
    project(tmp_path / "a", pyproject="[tool.cqrs]\n")
    assert load_settings({}, inner).root == tmp_path / "a"
    assert load_settings({}, inner).partitions == 4


def test_somebody_elses_broken_pyproject_is_passed_by(tmp_path: Path) -> None:
    assert load_settings({}, project(tmp_path, pyproject="not toml")).root == tmp_path


def test_an_empty_variable_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_BOOTSTRAP_SERVER", "")
    assert load_settings({}, tmp_path).bootstrap_server is None


def test_the_root_cannot_be_set_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_ROOT", "/elsewhere")
    assert load_settings({}, tmp_path).root == tmp_path
    assert "unknown setting 'root'" in refused(project(tmp_path, 'root = "/elsewhere"')).message


def test_an_unknown_key_is_refused_with_file_and_close_match(tmp_path: Path) -> None:
    error = refused(project(tmp_path, "partition = 3"))
    assert isinstance(error, ConfigurationError)
    assert error.message == f"{tmp_path / 'cqrs.toml'}: unknown setting 'partition'"
    assert error.hint == "did you mean partitions?"


def test_keys_may_be_spelled_as_the_flags_are(tmp_path: Path) -> None:
    assert load_settings({}, project(tmp_path, 'topic-prefix = "x."')).topic_prefix == "x."


@pytest.mark.parametrize(
    "line",
    [
        "partitions = 0",
        'partitions = "many"',
        'dedup_window = "24"',
        'dedup_window = "0s"',
        "dedup_window = 24",
        'commands_retention = "unlimited"',
        'topic_prefix = "a b"',
        'partitioner = "random"',
        'bootstrap_server = "http://kafka:9092"',
        'bootstrap_server = "kafka:99999"',
        'bootstrap_server = "kafka"',
        'bootstrap_server = "[::1]"',
        'aggregates = "../elsewhere"',
        'properties = "client.id=me"',
    ],
)
def test_a_bad_value_names_its_place_and_setting(tmp_path: Path, line: str) -> None:
    error = refused(project(tmp_path, line))
    assert isinstance(error, ConfigurationError)
    assert error.message.startswith(f"{tmp_path / 'cqrs.toml'}: {line.split(' ')[0]}: ")


def test_a_bad_value_says_what_may_be_done(tmp_path: Path) -> None:
    error = refused(project(tmp_path, "partitions = 0"))
    assert error.hint == "change it there, or leave it out: the default is 4"
    assert refused(project(tmp_path, 'dedup_window = "0s"')).hint.endswith("the default is 1d")


def test_a_bad_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_DEDUP_WINDOW", "soon")
    assert refused(tmp_path).message.startswith(
        "environment CQRS_DEDUP_WINDOW: dedup_window: not a duration: 'soon'"
    )


def test_a_bad_flag_is_wrong_usage(tmp_path: Path) -> None:
    error = refused(tmp_path, topic_prefix="ä")
    assert isinstance(error, UsageError)
    assert error.message.startswith("flag --topic-prefix: ")


def test_broken_toml_is_named(tmp_path: Path) -> None:
    error = refused(project(tmp_path, "partitions ="))
    assert error.message.startswith(f"{tmp_path / 'cqrs.toml'} cannot be read: ")


def test_outcomes_are_kept_for_the_commands_and_two_windows(tmp_path: Path) -> None:
    project(tmp_path, 'commands_retention = "7d"\ndedup_window = "24h"\noutcomes_retention = "9d"')
    assert load_settings({}, tmp_path).outcomes_retention == timedelta(days=9)
    project(tmp_path, 'outcomes_retention = "8d"')
    assert (
        "8d is shorter than commands_retention and two dedup windows together, 9d"
        in refused(tmp_path).message
    )
    project(tmp_path, 'outcomes_retention = "unlimited"')
    assert load_settings({}, tmp_path).outcomes_retention is None


def test_paths_are_relative_to_where_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, 'state_dir = "shards"')
    inner = tmp_path / "inner"
    inner.mkdir()
    assert load_settings({}, inner).state_dir == tmp_path / "shards"
    assert load_settings({"state_dir": Path("here")}, inner).state_dir == inner / "here"
    monkeypatch.setenv("CQRS_STATE_DIR", "there")
    assert load_settings({}, inner).state_dir == inner / "there"


def test_client_properties_are_merged_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(
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
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(tmp_path: Path, name: str) -> None:
    error = refused(tmp_path, properties=[f"{name}=hunter2"])
    assert isinstance(error, UsageError)
    assert "--command-config" in error.hint
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    "text", ["client.id", "=x", "sasl.password hunter2", "sasl.password:hunter2", "x hunter2"]
)
def test_a_malformed_property_is_wrong_usage(tmp_path: Path, text: str) -> None:
    error = refused(tmp_path, properties=[text])
    assert isinstance(error, UsageError)
    assert "hunter2" not in str(error)


def test_a_secret_in_cqrs_toml_is_refused(tmp_path: Path) -> None:
    error = refused(project(tmp_path, '[properties]\nsasl.password = "hunter2"'))
    assert isinstance(error, ConfigurationError)
    assert "command_config" in error.message
    assert "hunter2" not in str(error)


def test_the_bootstrap_server_of_the_command_config_is_used_unless_another_is_named(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("bootstrap.servers=kafka-1:9092\n")
    flags = {"command_config": "client.properties"}
    settings = load_settings(flags, tmp_path)
    assert settings.bootstrap_server == "kafka-1:9092"
    assert origins(settings)["bootstrap_server"] == str(tmp_path / "client.properties")
    assert settings.client_properties() == {}
    assert load_settings({**flags, "bootstrap_server": "other:1"}, tmp_path).bootstrap_server == "other:1"


def test_a_bad_bootstrap_server_in_the_command_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("bootstrap.servers=http://kafka\n")
    error = refused(tmp_path, command_config="client.properties")
    assert error.message.startswith(f"{tmp_path / 'client.properties'}: bootstrap.servers: not HOST:PORT")


def test_a_command_config_that_is_missing_or_odd_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    assert str(file) in refused(tmp_path, command_config=file).message
    file.write_bytes(b"sasl.password=hunter2\xff")
    error = refused(tmp_path, command_config=file)
    assert error.message == f"{file} is not a properties file: it is not UTF-8"


def test_what_is_shown_holds_no_secret(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("sasl.password=hunter2\nclient.id=me\n")
    settings = load_settings({"command_config": "client.properties"}, tmp_path)
    rows = {row.name: row for row in setting_rows(settings)}
    assert rows["-X client.id"].value == "me"
    assert rows["-X sasl.password"].origin == str(tmp_path / "client.properties")
    assert "hunter2" not in repr(rows) + repr(settings)


def test_the_settings_page_is_up_to_date() -> None:
    generator = runpy.run_path(str(ROOT / "docs/generate_settings.py"))
    written = generator["TARGET"].read_text(encoding="utf-8")
    assert written == generator["reference"](), "run: python docs/generate_settings.py"


def test_every_setting_is_described() -> None:
    assert [n for n, field in Settings.model_fields.items() if n != "root" and not field.description] == []
