"""The digests by which a preview and its action are compared."""

from cqrs_cli.client.queries.dead_letters import FailedCommand
from cqrs_cli.client.queries.selection_digest import deferral_digest, letter_digest
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.record import Record

ENTRY = Deferral("topic", 0, "a", "x", 5, 0, 1_000, 1_007, 1, "LATER", b"{}")


def letter(partition: int, offset: int, timestamp: int = 1_000) -> FailedCommand:
    return FailedCommand(partition, offset, "", "", "", "", Record(offset, timestamp, b"", b"", []), None)


def test_digest_names_the_letters() -> None:
    digest = letter_digest([letter(0, 1), letter(1, 1)])
    assert digest.text == letter_digest([letter(1, 1), letter(0, 1)]).text
    others = ([letter(0, 1), letter(0, 2)], [letter(0, 1), letter(1, 2)], [letter(0, 1), letter(1, 1, 2_000)])
    digests = {letter_digest(letters).text for letters in others}
    assert digest.count == 2 and len(digests | {digest.text}) == 4


def test_later_letters_are_left_out() -> None:
    digest = letter_digest([letter(0, 1), letter(1, 5)])
    letters = [letter(2, 0), letter(0, 1), letter(1, 5), letter(1, 6)]
    assert list(digest.without_later(letters)) == letters[1:3]


def test_digest_names_the_deferred_commands() -> None:
    other = Deferral("topic", 0, "b", "x", 5, 0, 1_000, 1_007, 1, "LATER", b"{}")
    assert deferral_digest([ENTRY, other]) == deferral_digest([other, ENTRY])
    assert deferral_digest([ENTRY]) != deferral_digest([other])
