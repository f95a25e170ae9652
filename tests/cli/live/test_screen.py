"""The picture of `cqrs top`."""

import io

from rich.console import Console

from cqrs_cli.cli.live.model import Look, PartitionLook, View
from cqrs_cli.cli.live.screen import picture

COUNTS = {"accepted": 100}
BEFORE = Look(0.0, 0, {("bank", n): PartitionLook(10, 10, "a", counts=COUNTS) for n in range(20)})


def drawn(now: Look, view: View = View(), height: int = 40, trouble: str = "") -> list[str]:  # noqa: B008 (frozen)
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        console.print(picture(BEFORE, now, view, [("bank", "EMPTY", 1200)], trouble, height))
    return captured.get().splitlines()


def look(**members: object) -> Look:
    parts = dict(BEFORE.partitions)
    parts["bank", 3] = PartitionLook(10, 4, "a", counts={"accepted": 2100}, oldest=88_000, latency=12)
    return Look(2.0, 90_000, parts, **members)  # type: ignore[arg-type]


def test_a_row_has_its_numbers() -> None:
    lines = drawn(look())
    (line,) = (line.split() for line in lines if line.startswith("bank 3"))
    assert line == ["bank", "3", "0", "1,000", "0", "6", "2.0", "s", "12", "ms", "a"]
    (total,) = (line.split() for line in lines if line.startswith("all"))
    assert total == ["all", "0", "1,000", "0", "6", "2.0", "s", "12", "ms", "a"]
    assert "refused in the last minute: bank EMPTY 1,200" in "".join(lines)


def test_the_screen_is_never_overfull() -> None:
    for height in (8, 12, 20, 40):
        assert len(drawn(look(notes=("n",) * 3), height=height)) <= max(height, 12)
    assert any("and 14 more: a shows aggregates" in line for line in drawn(look(), height=13))


def test_notes_and_trouble_are_shown() -> None:
    part = PartitionLook(10, 10, "a", notes=("command 7 is on\x1b trial",))
    lines = drawn(Look(2.0, 90_000, {("bank", 3): part}), trouble="no answer")
    assert "no answer; still trying" in lines
    assert "bank 3: command 7 is on\\x1b trial" in lines


def test_the_head_says_what_keys_chose() -> None:
    assert "sorted by lag  paused" in drawn(look(), View("lag", paused=True))[0]
