"""The pause between two batches, by the size of a batch and the duration of its commit."""

from cqrs_cli.ownership.timing import Timing


def test_slow_commits_space_small_batches() -> None:
    timing = Timing(batch_spacing=0.008, backlog_size=1000)
    assert timing.spacing_after(3, commit_seconds=0.004) == 0.004
    assert timing.spacing_after(3, commit_seconds=0.1) == 0.008


def test_single_commands_and_backlogs_have_no_spacing() -> None:
    timing = Timing(batch_spacing=0.008, backlog_size=1000)
    assert [timing.spacing_after(size, commit_seconds=0.004) for size in (1, 1000)] == [0, 0]
