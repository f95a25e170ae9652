from pathlib import Path

import pytest

from cqrs_cli.proof.certificate import Certificate, TopicCertificate, write_certificate
from tests.cli.conftest import Cqrs


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--certificate", "new", "--state"], "with a certificate nothing is proved; leave --state"),
        (["--certificate", "new", "--since", "x"], "with a certificate nothing is proved; leave --state"),
        (["--since", "x", "--state"], "--state folds all events, --since reads the new ones only"),
        (["--certificate", "cqrs.toml"], "cqrs.toml exists; name a new file after --certificate"),
        (["--against", "nowhere"], "cannot read nowhere: No such file"),
        (["--against", "cqrs.toml"], "cqrs.toml is not a certificate"),
        (
            ["--against", "other"],
            "other is a certificate of counter.events, not of the topics of bank_account",
        ),
    ],
)
def test_a_wrong_certificate_ends_with_2(
    cqrs: Cqrs, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    topics = {"counter.events": TopicCertificate("id", [])}
    other = Certificate(aggregate="counter", cluster="c", made="then", topics=topics)
    (tmp_path / "other").write_bytes(write_certificate(other))
    said = cqrs("verify", "bank_account", *arguments)
    assert (said.status, said.out) == (2, "")
    assert complaint in said.err


def test_an_unwritable_certificate_ends_with_3(cqrs: Cqrs) -> None:
    said = cqrs("verify", "bank_account", "--certificate", "nowhere/then.json")
    assert (said.status, said.out) == (3, "")
    assert "cannot write nowhere/then.json" in said.err
