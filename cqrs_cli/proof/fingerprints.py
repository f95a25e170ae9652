"""Fingerprints of commands, computed again.

A mark that is put on a field changes what the fingerprint leaves out, and outcomes keep the fingerprint that they were
written with. So a proof admits what any earlier code has left out: some of the members that are personal today, or any
members of a type that the code of today does not know.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import TypeAlias

from msgspec import Raw

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.checks import fingerprint_of, left_out_of
from cqrs_cli.core.messages.fingerprint import Fingerprint, fingerprint, without_fields
from cqrs_cli.core.messages.json import read_members

#: Tells whether a fingerprint may be the one of a command's type, data and expected version.
FitsCommand: TypeAlias = Callable[[int | None, str, Raw | bytes, str | None], bool]

#: The most members of which some may have been left out: 1,024 fingerprints. Of more, any fingerprint fits.
MOST_LEFT_OUT = 10

#: Stands for a personal member that a command does not have: then the data that are left are written anew.
_NOT_GIVEN = "\0"


def fits_whole(mark: int | None, kind: str, data: Raw | bytes, expected: str | None) -> bool:
    """The test where nothing is personal, and nothing was: there is one fingerprint."""
    return mark == fingerprint(kind, data, expected)


def fits_of(aggregate: Aggregate | None) -> FitsCommand:
    """The test of an aggregate's commands; without its code (None) nothing counts as personal."""
    if aggregate is None or not aggregate.has_personal_fields:
        return fits_whole
    return _fits(fingerprint_of(aggregate), left_out_of(aggregate))


def _fits(today: Fingerprint, left_out: Mapping[str, frozenset[str]]) -> FitsCommand:
    def fits(mark: int | None, kind: str, data: Raw | bytes, expected: str | None) -> bool:
        if mark == today(kind, data, expected):
            return True
        there = _names_of(data)
        personal = left_out.get(kind, there | {_NOT_GIVEN})
        if len(there & personal) > MOST_LEFT_OUT:
            return True
        return any(
            mark == one(kind, data, expected) for one in _earlier(kind, there & personal, personal - there)
        )

    return fits


#: The test of commands of which any member may be personal: the code is not there to tell.
fits_partly = _fits(fingerprint, {})


def _earlier(kind: str, given: Iterable[str], not_given: frozenset[str]) -> Iterator[Fingerprint]:
    """The fingerprints of code with fewer marks, of code without marks, and of code that did not know the type."""
    yield fingerprint
    yield without_fields({})
    names = sorted(given)
    for count in range(len(names) + 1):
        for some in combinations(names, count):
            yield without_fields({kind: not_given.union(some)})


def _names_of(data: Raw | bytes) -> frozenset[str]:
    """The names of the members of data; none for data that are not an object."""
    try:
        return frozenset(read_members(bytes(data)))
    except (ValueError, RecursionError):  # msgspec's errors are
        return frozenset()
