"""`cqrs verify --certificate` and `--against`: the topics read and hashed, and compared with an earlier time."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import ConfigurationError, ContradictionError, UsageError
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.verify.certify import Certified
    from cqrs_cli.proof.certificate import Certificate

#: Changes that are listed for people.
MOST_CHANGES = 10


def certify(
    cli: Cli, aggregate: str, target: Path | None, against: Path | None, spark: Mapping[str, str]
) -> None:
    """Hash the topics of an aggregate.

    Raises `ContradictionError` if they have changed since the certificate `against`; the new one is written even then.
    """
    from cqrs_cli.jobs.engine.session import project_session
    from cqrs_cli.jobs.engine.slots import slots
    from cqrs_cli.jobs.verify.certify import certify_topics, plan_certify
    from cqrs_cli.proof.certificate import write_certificate

    earlier = None if against is None else read_earlier(cli, aggregate, against)
    if target is not None:
        _check_target(target)
    plan = plan_certify(cli.connection(), cli.topics(aggregate), earlier)
    with ExitStack() as stack:
        say = stack.enter_context(cli.working("starting Spark"))
        context = stack.enter_context(project_session(cli.settings, "verify", aggregate, spark))
        slots(context, note=cli.note)  # else a cluster without workers would let the job wait for ever
        done = certify_topics(context, plan, earlier, lambda part: say(f"hashing {aggregate}: {part:.0%}"))
    if target is not None:
        _write(target, write_certificate(done.certificate))
    lines = certified_lines(aggregate, done, target, against)
    cli.result(certified_document(aggregate, done, target, against), "\n".join(lines))
    cli.flush()
    if done.changes:
        from cqrs_cli.kafka.fault import tail_command

        first = done.changes[0]
        raise ContradictionError(
            f"{counted(len(done.changes), 'change')} in the topics of {aggregate} since {against}",
            f"look at the first: {tail_command(aggregate, first.kind, first.partition, first.offset)}",
        )


def read_earlier(cli: Cli, aggregate: str, file: Path) -> "Certificate":
    """An earlier certificate of the same topics; raises `UsageError` for any other file."""
    from cqrs_cli.kafka.topics.topics import KINDS
    from cqrs_cli.proof.certificate import read_certificate

    try:
        found = read_certificate(file.read_bytes())
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", "name a certificate after --against"
        ) from None
    except ValueError as error:
        raise UsageError(f"{file} is not a certificate: {error}", "make one: --certificate FILE") from None
    wanted = {cli.topics(aggregate).name(kind) for kind in KINDS}
    if wanted != found.topics.keys():
        raise UsageError(
            f"{file} is a certificate of {', '.join(sorted(found.topics))}, not of the topics of {aggregate}",
            "name another file, aggregate or --topic-prefix",
        )
    return found


def _check_target(file: Path) -> None:
    """Raise the error that writing would end with, before Spark is started."""
    if file.exists():
        raise UsageError(f"{file} exists", "name a new file after --certificate")
    if not os.access(file.absolute().parent, os.W_OK):
        raise ConfigurationError(f"cannot write {file}: no folder to write to", "name another file")


def _write(file: Path, text: bytes) -> None:
    """Write the file whole or not at all."""
    partial = file.with_name(f".{file.name}.partial")
    try:
        partial.write_bytes(text)
        partial.rename(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ConfigurationError(f"cannot write {file}: {error.strerror}", "name another file") from error


def certified_document(
    aggregate: str, done: "Certified", target: Path | None, against: Path | None
) -> dict[str, Any]:
    """The records that were hashed and those that have changed, as JSON."""
    document: dict[str, Any] = {
        "aggregate": aggregate,
        "records": done.records,
        "seconds": round(done.seconds, 3),
    }
    if target is not None:
        document["certificate"] = str(target)
    if against is not None:
        changes = [
            {"topic": one.topic, "partition": one.partition, "offset": one.offset, "what": one.what}
            for one in done.changes
        ]
        document |= {
            "against": str(against),
            "checked": done.checked,
            "deleted": done.deleted,
            "changes": changes,
        }
    return document


def certified_lines(
    aggregate: str, done: "Certified", target: Path | None, against: Path | None
) -> list[str]:
    """The same in lines for people."""
    lines = [str(one) for one in done.changes[:MOST_CHANGES]]
    if (more := len(done.changes) - len(lines)) > 0:
        lines.append(f"and {more:,} more: see -o json")
    speed = counted(round(done.records / max(done.seconds, 0.001)), "record")
    lines.append(
        f"{aggregate}: {counted(done.records, 'record')} hashed in {done.seconds:.1f} s ({speed} a second)"
    )
    if target is not None:
        lines.append(f"certificate written to {target}")
    if against is not None:
        for topic, count in done.deleted.items():
            lines.append(
                f"{topic}: {counted(count, 'record')} of stretches that retention has begun to delete"
            )
        found = counted(len(done.changes), "change") if done.changes else "no change"
        lines.append(f"{found} since {against}: {counted(done.checked, 'record')} as they were")
    return lines
