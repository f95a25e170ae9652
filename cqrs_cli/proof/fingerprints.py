"""Compares the fingerprints in outcomes with the commands, for `verify`.

Fingerprints leave out personal fields. So a new personal-data annotation changes the fingerprints of later commands,
but earlier outcomes keep theirs. Verification accepts the fingerprint of any earlier code: such code may have left out
some of the members that are personal now, or any members of a command type that is now unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import TypeAlias

from msgspec import Raw

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.checks import fingerprint_function, personal_members
from cqrs_cli.core.messages.fingerprint import Fingerprint, fingerprint, fingerprint_without
from cqrs_cli.core.messages.json import read_members

#: (fingerprint, command type, data, expected version) → True if a command with these values may have the fingerprint.
FingerprintCheck: TypeAlias = Callable[[int | None, str, Raw | bytes, str | None], bool]

#: The maximal number of personal members whose subsets are tried: 2^10 fingerprints. For commands with more personal
#: members, any fingerprint is accepted.
MAX_LEFT_OUT = 10

#: Stands for a personal member that the command's data lack. Code with personal fields computes the fingerprint from
#: serialized members, not from the sender's bytes, even if the data have no personal member.
_MISSING_MEMBER = "\0"


def fits_whole(
    stored_fingerprint: int | None, command_type: str, data: Raw | bytes, expected: str | None
) -> bool:
    """The check for aggregates without personal fields, whose commands have only one possible fingerprint."""
    return stored_fingerprint == fingerprint(command_type, data, expected)


def fingerprint_check_of(aggregate: Aggregate | None) -> FingerprintCheck:
    """Return the check for an aggregate's commands. If the code is missing (None), no field counts as personal."""
    if aggregate is None or not aggregate.has_personal_fields:
        return fits_whole
    return _fits_any_code(fingerprint_function(aggregate), personal_members(aggregate))


def _fits_any_code(current: Fingerprint, personal_by_type: Mapping[str, frozenset[str]]) -> FingerprintCheck:
    def fits(
        stored_fingerprint: int | None, command_type: str, data: Raw | bytes, expected: str | None
    ) -> bool:
        if stored_fingerprint == current(command_type, data, expected):
            return True
        members = _member_names(data)
        personal = personal_by_type.get(command_type, members | {_MISSING_MEMBER})
        if len(members & personal) > MAX_LEFT_OUT:
            return True
        return any(
            stored_fingerprint == earlier(command_type, data, expected)
            for earlier in _earlier_fingerprints(command_type, members & personal, personal - members)
        )

    return fits


#: The check for commands without the aggregate's code: any member may be personal.
fits_without_code = _fits_any_code(fingerprint, {})


def _earlier_fingerprints(
    command_type: str, present: Iterable[str], absent: frozenset[str]
) -> Iterator[Fingerprint]:
    """Yield the fingerprint functions that earlier code may have used.

    Earlier code may have annotated no field as personal, may have lacked this command type, or may have annotated some
    of its members. `present`, `absent`: the personal members that the data have, and that the data lack.
    """
    yield fingerprint
    yield fingerprint_without({})
    names = sorted(present)
    for count in range(len(names) + 1):
        for left_out in combinations(names, count):
            yield fingerprint_without({command_type: absent.union(left_out)})


def _member_names(data: Raw | bytes) -> frozenset[str]:
    """Return the member names of data; empty if the data are not an object."""
    try:
        return frozenset(read_members(bytes(data)))
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return frozenset()
