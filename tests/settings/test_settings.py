"""Settings: the order of their sources, their origins, and the errors for invalid values."""

import runpy
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.settings.settings import Settings, load_settings, origins
from tests.settings.folders import settings_error, write_project
from tests.support import ROOT


def test_defaults_apply_without_settings(tmp_path: Path) -> None:
    settings = load_settings({}, tmp_path)
    assert (settings.root, settings.bootstrap_server, settings.partitions) == (tmp_path, None, 4)
    assert settings.state_dir == tmp_path / ".cqrs/state"
    assert (settings.dedup_window, settings.outcomes_retention) == (timedelta(hours=24), None)
    assert set(origins(settings).values()) == {"default"}


def test_sources_override_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(
        tmp_path,
        'partitions = 3\nmaster = "c"\naggregates = "c"\n',
        '[tool.cqrs]\npartitions = 2\nmaster = "p"\naggregates = "p"\npartitioner = "none"\n',
    )
    monkeypatch.setenv("CQRS_PARTITIONS", "5")
    monkeypatch.setenv("CQRS_MASTER", "e")
    settings = load_settings({"partitions": 7, "master": None}, tmp_path)
    assert (settings.partitions, settings.master, settings.aggregates, settings.partitioner) == (
        7,
        "e",
        "c",
        "none",
    )
    origin_of = origins(settings)
    assert origin_of["partitions"] == "flag --partitions"
    assert origin_of["master"] == "environment CQRS_MASTER"
    assert origin_of["aggregates"] == str(tmp_path / "cqrs.toml")
    assert origin_of["partitioner"] == f"{tmp_path / 'pyproject.toml'} [tool.cqrs]"
    assert origin_of["topic_prefix"] == "default"


def test_root_is_nearest_configured_folder(tmp_path: Path) -> None:
    write_project(tmp_path, "partitions = 9")
    subfolder = tmp_path / "a" / "b"
    subfolder.mkdir(parents=True)
    write_project(subfolder, pyproject="[project]\nname = 'no cqrs in here'\n")
    assert load_settings({}, subfolder).root == tmp_path
    write_project(tmp_path / "a", pyproject="[tool.cqrs]\n")
    assert load_settings({}, subfolder).root == tmp_path / "a"
    assert load_settings({}, subfolder).partitions == 4


def test_foreign_broken_pyproject_is_ignored(tmp_path: Path) -> None:
    assert load_settings({}, write_project(tmp_path, pyproject="not toml")).root == tmp_path


def test_an_empty_variable_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_BOOTSTRAP_SERVER", "")
    assert load_settings({}, tmp_path).bootstrap_server is None


def test_root_cannot_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_ROOT", "/elsewhere")
    assert load_settings({}, tmp_path).root == tmp_path
    assert "unknown setting 'root'" in settings_error(write_project(tmp_path, 'root = "/elsewhere"')).message


def test_unknown_key_suggests_close_match(tmp_path: Path) -> None:
    error = settings_error(write_project(tmp_path, "partition = 3"))
    assert isinstance(error, ConfigurationError)
    assert error.message == f"{tmp_path / 'cqrs.toml'}: unknown setting 'partition'"
    assert error.hint == "did you mean partitions?"


def test_keys_may_use_dashes(tmp_path: Path) -> None:
    assert load_settings({}, write_project(tmp_path, 'topic-prefix = "x."')).topic_prefix == "x."


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
        'checkpoint_location = "s3://me:secret@bucket/folder"',
        'checkpoint_location = ""',
        'checkpoint_every = "500ms"',
        "checkpoints_kept = 0",
    ],
)
def test_bad_value_names_its_origin(tmp_path: Path, line: str) -> None:
    error = settings_error(write_project(tmp_path, line))
    assert isinstance(error, ConfigurationError)
    assert error.message.startswith(f"{tmp_path / 'cqrs.toml'}: {line.split(' ')[0]}: ")


def test_bad_value_names_its_fix(tmp_path: Path) -> None:
    error = settings_error(write_project(tmp_path, "partitions = 0"))
    assert error.hint == "change it there, or leave it out: the default is 4"
    assert settings_error(write_project(tmp_path, 'dedup_window = "0s"')).hint.endswith("the default is 1d")


def test_a_bad_keyring_names_its_forms(tmp_path: Path) -> None:
    error = settings_error(write_project(tmp_path, 'keyring = "keys.json"'))
    assert error.message.endswith("keyring: not file:PATH, env:NAME or exec:COMMAND")


def test_unreadable_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)
    error = settings_error(folder)
    assert isinstance(error, ConfigurationError)
    assert error.message == f"{folder / 'cqrs.toml'} cannot be read: File name too long"


def test_deleted_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(ConfigurationError, match="the current folder was deleted"):
        load_settings({})


def test_bad_environment_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CQRS_DEDUP_WINDOW", "soon")
    assert settings_error(tmp_path).message.startswith(
        "environment CQRS_DEDUP_WINDOW: dedup_window: not a duration: 'soon'"
    )


def test_bad_flag_is_a_usage_error(tmp_path: Path) -> None:
    error = settings_error(tmp_path, topic_prefix="ä")
    assert isinstance(error, UsageError)
    assert error.message.startswith("flag --topic-prefix: ")


def test_broken_toml_is_named(tmp_path: Path) -> None:
    error = settings_error(write_project(tmp_path, "partitions ="))
    assert error.message.startswith(f"{tmp_path / 'cqrs.toml'} cannot be read: ")


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no /proc")
def test_unreadable_file_names_the_remedy(tmp_path: Path) -> None:
    """The tests may run as root, who may read every other file."""
    (tmp_path / "cqrs.toml").symlink_to("/proc/self/mem")
    error = settings_error(tmp_path)
    assert error.message == f"{tmp_path / 'cqrs.toml'} cannot be read: Input/output error"
    assert error.hint == "run it as a user who may read the project's folder"


def test_outcomes_outlive_commands_and_two_windows(tmp_path: Path) -> None:
    write_project(tmp_path, 'commands_retention = "7d"\ndedup_window = "24h"\noutcomes_retention = "9d"')
    assert load_settings({}, tmp_path).outcomes_retention == timedelta(days=9)
    write_project(tmp_path, 'outcomes_retention = "8d"')
    assert (
        "8d is shorter than commands_retention and two dedup windows together, 9d"
        in settings_error(tmp_path).message
    )
    write_project(tmp_path, 'outcomes_retention = "unlimited"')
    assert load_settings({}, tmp_path).outcomes_retention is None


def test_memory_has_no_checkpoints(tmp_path: Path) -> None:
    assert (
        "no shards to copy"
        in settings_error(write_project(tmp_path, 'store = "memory"\ncheckpoint_location = "c"')).message
    )


def test_checkpoints_are_path_or_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subfolder = write_project(tmp_path, 'checkpoint_location = "copies"') / "inner"
    subfolder.mkdir()
    assert load_settings({}, subfolder).checkpoint_location == str(tmp_path / "copies")
    monkeypatch.setenv("CQRS_CHECKPOINT_LOCATION", "s3://bucket/folder")
    assert load_settings({}, subfolder).checkpoint_location == "s3://bucket/folder"


def test_paths_are_relative_to_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tmp_path, 'state_dir = "shards"')
    subfolder = tmp_path / "inner"
    subfolder.mkdir()
    assert load_settings({}, subfolder).state_dir == tmp_path / "shards"
    assert load_settings({"state_dir": Path("here")}, subfolder).state_dir == subfolder / "here"
    monkeypatch.setenv("CQRS_STATE_DIR", "there")
    assert load_settings({}, subfolder).state_dir == subfolder / "there"


@pytest.mark.parametrize(("setting", "uri"), [("large", "{}/large"), ("s3://large/one", "s3://large/one")])
def test_payload_store_is_relative_too(tmp_path: Path, setting: str, uri: str) -> None:
    write_project(tmp_path, f'payload_store = "{setting}"\npayload_threshold = "1KiB"')
    (subfolder := tmp_path / "inner").mkdir()
    payload_store = load_settings({}, subfolder).payloads()
    assert payload_store is not None
    assert (payload_store.uri, payload_store.threshold) == (uri.format(tmp_path), 1024)


def test_payload_store_holds_no_password(tmp_path: Path) -> None:
    write_project(tmp_path, 'payload_store = "s3://me:word@large"')
    with pytest.raises(ConfigurationError, match=r"payload_store.*password"):
        load_settings({}, tmp_path)


def test_settings_page_is_current() -> None:
    generator = runpy.run_path(str(ROOT / "docs/generate_settings.py"))
    page = generator["TARGET"].read_text(encoding="utf-8")
    assert page == generator["reference"](), "run: python docs/generate_settings.py"


def test_every_setting_is_described() -> None:
    assert [n for n, field in Settings.model_fields.items() if n != "root" and not field.description] == []
