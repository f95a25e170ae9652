"""docs/install.md names existing versions and extras. tests/scenarios/installs/ runs its commands."""

import tomllib

from cqrs_cli.kafka.embedded.release import EMBEDDED
from tests.support import ROOT
from tests.support.page import Page
from tests.support.releases import OLDEST

PAGE = Page("docs/install.md")


def test_documented_kafka_is_the_tested_kafka() -> None:
    assert f"| {EMBEDDED.megabytes} MB from Maven Central" in PAGE.text
    oldest, newest = (release.version.rpartition(".")[0] for release in (OLDEST, EMBEDDED))
    assert (
        f"Apache Kafka {oldest} to {newest} in KRaft mode: all tests run on {EMBEDDED.version}" in PAGE.text
    )
    assert f"on {OLDEST.version}, too" in PAGE.text


def test_extras_are_documented() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {row.strip("`") for row in PAGE.rows("extra")} == extras.keys() - {
        "dev",
        "audit",
        "mutants",
        "release",
        "docs",
    }
