from pathlib import Path

import pytest

from cqrs_cli.demo import project
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.settings.settings import load_settings
from tests.support import ROOT


@pytest.fixture
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose cqrs.toml names a broker that is in use. The environment sets a number of partitions."""
    (tmp_path / "cqrs.toml").write_text('bootstrap_server = "production:9092"\ntopic_prefix = "live."\n')
    monkeypatch.setenv("CQRS_PARTITIONS", "64")
    return tmp_path


def test_configured_broker_is_ignored(project_folder: Path) -> None:
    settings = project.demo_settings(load_settings({}, project_folder), {})
    assert (settings.bootstrap_server, settings.topic_prefix, settings.partitions) == (None, "", 4)
    assert settings.root == project_folder / ".cqrs/demo"
    assert settings.state_dir == project_folder / ".cqrs/demo/.cqrs/state"


def test_broker_from_flags_gets_demo_topics(project_folder: Path) -> None:
    flags = {"bootstrap_server": "here:9092", "properties": ["client.id=me"]}
    settings = project.demo_settings(load_settings(flags, project_folder), flags)
    assert (settings.bootstrap_server, settings.topic_prefix) == ("here:9092", "demo.")
    assert settings.properties == {"client.id": "me"}


def test_prefix_from_flags_is_used(project_folder: Path) -> None:
    flags = {"topic_prefix": "tour."}
    assert project.demo_settings(load_settings(flags, project_folder), flags).topic_prefix == "tour."


def test_written_project_has_the_settings(project_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CQRS_PARTITIONS")
    flags = {"bootstrap_server": "here:9092", "properties": ['client.id=a"b']}
    settings = project.demo_settings(load_settings(flags, project_folder), flags)
    project.write_project(settings)
    assert load_settings({}, settings.root).model_dump() == settings.model_dump()


def test_demo_has_the_examples_of_the_repository(project_folder: Path) -> None:
    settings = project.demo_settings(load_settings({}, project_folder), {})
    project.write_project(settings)
    code = ["aggregates/bank_account.py", "aggregates/order.py", "aggregates/payment.py"]
    for name in [*code, "projections/recent_orders.py"]:
        assert (settings.root / name).read_bytes() == (ROOT / name).read_bytes()
        assert not (settings.root / name).is_symlink()


def test_payment_timeout_is_short(project_folder: Path) -> None:
    """The demo's process manager differs from the example only in its timeout."""
    settings = project.demo_settings(load_settings({}, project_folder), {})
    project.write_project(settings)
    example = (ROOT / "processes/checkout.py").read_text()
    demo_code = (settings.root / "processes/checkout.py").read_text()
    assert example.count("timedelta(days=3)") == 1
    assert demo_code == example.replace("timedelta(days=3)", f"timedelta(seconds={project.PAYMENT_TIMEOUT})")


def test_unwritable_folders_are_named(project_folder: Path) -> None:
    (project_folder / ".cqrs").write_text("a file, not a folder")
    with pytest.raises(ConfigurationError, match="cannot write"):
        project.write_project(project.demo_settings(load_settings({}, project_folder), {}))
