"""`cqrs certificate`: hash the topics of an aggregate, and compare them with an earlier certificate."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cqrs_cli.cli.app import app
from cqrs_cli.cli.command import command
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.options import AggregateName, option
from cqrs_cli.cli.output import job_progress_text
from cqrs_cli.cli.spark_session import SparkOptions, spark_session
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.formatting import counted
from cqrs_cli.storage.private import atomic_write

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.certify import CertificateResult
    from cqrs_cli.proof.certificate import Certificate

#: The file mode of a certificate before the umask. Others may read it, because a certificate has hashes only.
_FILE_MODE = 0o666


@command(
    app,
    examples=[
        "cqrs certificate bank_account --out november.json",
        "cqrs certificate bank_account --check november.json",
    ],
    extras=["spark"],
)
def certificate(
    cli: Cli,
    aggregate: AggregateName,
    out: Annotated[Path | None, option("--out FILE", "Write a certificate to this new file.")] = None,
    check: Annotated[Path | None, option("--check FILE", "Compare the topics with this certificate.")] = None,
    *,
    spark: SparkOptions,
) -> None:
    """Hash the records of an aggregate's topics, on Spark, to detect later changes.

    --out writes a certificate: the topics' ids, the ends of the partitions, and a SHA-256 for each range of 10,000
    offsets.

    --check compares the topics with an earlier certificate. It names each range of offsets whose records were altered,
    truncated or replaced, and exits with 5. Records that retention has deleted are no change, except events.
    """
    properties = spark.apply(cli)
    if out is None and check is None:
        raise UsageError(
            "neither --out nor --check is given", "write hashes: --out FILE; compare them: --check FILE"
        )
    earlier_certificate = None if check is None else read_earlier_certificate(cli, aggregate, check)
    if out is not None:
        _check_target(out)
    result = _certify(cli, aggregate, properties, earlier_certificate, check, out)
    if result.changes:
        message = f"{counted(len(result.changes), 'change')} in the topics of {aggregate} since {check}"
        raise result.changes[0].error(message, aggregate)


def _certify(
    cli: Cli,
    aggregate: str,
    properties: Mapping[str, str],
    earlier_certificate: "Certificate | None" = None,
    earlier_file: Path | None = None,
    target: Path | None = None,
) -> "CertificateResult":
    """Hash the topics, write the certificate to `target`, and print the changes since the
    earlier certificate.
    """
    from cqrs_cli.cli.render.certificate import certificate_result
    from cqrs_cli.jobs.verify.certify import certify_topics, plan_certify
    from cqrs_cli.proof.certificate import write_certificate

    plan = plan_certify(cli.connection(), cli.topics(aggregate), earlier_certificate)
    title = f"hashing {aggregate}"
    with (
        spark_session(cli, "certificate", [aggregate], properties) as (context, _),
        cli.show_spinner(title) as show_text,
    ):
        result = certify_topics(
            context,
            plan,
            earlier_certificate,
            lambda progress: show_text(job_progress_text(title, progress, "records", cli.is_live)),
        )
    if target is not None:
        _write_file(target, write_certificate(result.certificate))
    cli.print_result(*certificate_result(aggregate, result, target, earlier_file))
    cli.flush()
    return result


def read_earlier_certificate(cli: Cli, aggregate: str, file: Path) -> "Certificate":
    """Read an earlier certificate of the same topics; raises `UsageError` for any other file."""
    from cqrs_cli.kafka.topics.topics import KINDS
    from cqrs_cli.proof.certificate import read_certificate

    try:
        certificate = read_certificate(file.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "name a certificate") from None
    except ValueError as error:
        remedy = f"create a certificate: cqrs certificate {aggregate} --out FILE"
        raise UsageError(f"{file} is not a certificate: {error}", remedy) from None
    topics = {cli.topics(aggregate).name(kind) for kind in KINDS}
    if topics != certificate.topics.keys():
        raise UsageError(
            f"{file} is a certificate of {', '.join(sorted(certificate.topics))}, not of the topics of {aggregate}",
            "name another file, aggregate or --topic-prefix",
        )
    return certificate


def _check_target(file: Path) -> None:
    """Raise an error if the file cannot be written, before Spark is started."""
    if file.exists():
        raise UsageError(f"{file} exists", "name a new file")
    if not os.access(file.absolute().parent, os.W_OK):
        raise ConfigurationError(
            f"cannot write {file}: its folder is missing or not writable", "name another file"
        )


def _write_file(file: Path, content: bytes) -> None:
    """Write the file whole or not at all."""
    try:
        with atomic_write(file, rights=_FILE_MODE) as stream:
            stream.write(content)
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror}", "name another file") from error
