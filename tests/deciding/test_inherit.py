"""A child writes the deferred commands that it inherits in portions that a transaction can hold."""

import pytest

from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.deciding.inherit import portions


def waiting(*sizes: int) -> list[Deferral]:
    """Deferred commands of so many bytes."""
    return [
        Deferral("T", at, "a", f"{at}", 1, 2, 3, 5, 1, "LATER", b"x" * size) for at, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        ((), [0]),
        ((1, 1), [2]),
        ((1, 1, 1), [3]),
        ((1, 1, 1, 1), [3, 1]),
        ((9, 1, 30, 1, 1), [2, 1, 2]),
        ((10, 10), [1, 1]),
    ],
)
def test_portions_have_limits(sizes: tuple[int, ...], cut: list[int]) -> None:
    """Three commands or ten bytes, and one that is larger alone."""
    entries = waiting(*sizes)
    found = list(portions(entries, 3, 10))
    assert [len(one) for one in found] == cut
    assert [entry for one in found for entry in one] == entries
