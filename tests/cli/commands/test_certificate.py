from pathlib import Path

import pytest

from cqrs_cli.kafka.topics.topics import KINDS
from cqrs_cli.proof.certificate import Certificate, TopicCertificate, write_certificate
from tests.cli.conftest import Cqrs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bank_account", "--out", "cqrs.toml"], "cqrs.toml exists; name a new file"),
        (["bank_account"], "write hashes: --out FILE; compare them: --check FILE"),
        (["bank_account", "--check", "nowhere"], "cannot read nowhere: No such file"),
        (
            ["bank_account", "--check", "cqrs.toml"],
            "create a certificate: cqrs certificate bank_account --out FILE",
        ),
        (
            ["bank_account", "--check", "other"],
            "is a certificate of counter.events, not of the topics of bank",
        ),
        (["counter", "--check", "own", "--out", "cqrs.toml"], "cqrs.toml exists; name a new file"),
    ],
)
def test_a_wrong_certificate_ends_with_2(
    cqrs: Cqrs, tmp_path: Path, arguments: list[str], message: str
) -> None:
    for name, kinds in {"other": ["events"], "own": KINDS}.items():
        topics = {f"counter.{kind}": TopicCertificate("id", []) for kind in kinds}
        certificate = Certificate(aggregate="counter", cluster="c", made="then", topics=topics)
        (tmp_path / name).write_bytes(write_certificate(certificate))
    result = cqrs("certificate", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err


def test_an_unwritable_certificate_ends_with_3(cqrs: Cqrs) -> None:
    result = cqrs("certificate", "bank_account", "--out", "nowhere/then.json")
    assert (result.status, result.out) == (3, "")
    assert "cannot write nowhere/then.json" in result.err
