"""Polling for `top` and `status --watch`."""

from cqrs_cli.cli.live.loop import snapshots
from cqrs_cli.errors import UnavailableError
from cqrs_cli.status.rates import StatusSnapshot
from tests.support.statuses import status_snapshot


def test_an_outage_is_reported_once() -> None:
    answers, errors = iter([False, False, True, False]), list[str]()

    def poll() -> StatusSnapshot:
        if next(answers):
            return status_snapshot()
        raise UnavailableError("no broker", "start one")

    ends = iter([False, False, False, True])
    assert len(list(snapshots(poll, 0.0, errors.append, lambda _: next(ends)))) == 1
    assert errors == ["no broker"] * 2
