"""The rule for process managers finds nothing in clean histories, and finds every planted fault."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.proof.findings import MAX_LISTED
from cqrs_cli.proof.reactions import ReactionCommand
from tests.proof.process.histories import Found, History, histories


@given(histories())
def test_clean_histories_are_silent(history: History) -> None:
    found = history.judge(history.sent())
    assert (found.listed, found.count) == ([], 0)
    assert found.commands == sum(len(one) for one in history.sent().values())
    assert found.events == history.position


@given(histories(), st.data())
def test_owners_at_work_are_no_fault(history: History, data: st.DataObject) -> None:
    """Commands that were sent after the topics were read are not missing."""
    surely = data.draw(st.integers(history.start, history.position))
    sent = {origin: one for origin, one in history.sent().items() if int(origin.rpartition("@")[2]) < surely}
    assert history.judge(sent, surely).listed == []


def test_command_of_before_a_growth_is_expected() -> None:
    wanted = ReactionCommand("payment.commands", 5, b"x", earlier_partitions=(1,))
    assert [ReactionCommand("payment.commands", one, b"x", 7).matches(wanted) for one in (5, 1, 3)] == [
        True,
        True,
        False,
    ]


WHOLE = History([1, 2, 0, 1, 1], 0, 4)


def missing(sent: Found) -> None:
    del sent["p/t/1@1"][1]


def whole_reaction_is_missing(sent: Found) -> None:
    del sent["p/t/1@1"]


def twice(sent: Found) -> None:
    sent["p/t/0@0"][0] *= 2


def too_early(sent: Found) -> None:
    sent["p/t/4@4"] = {0: [WHOLE.place(4, 0)]}


def stray(sent: Found) -> None:
    sent["p/t/9@9"] = {0: [WHOLE.place(4, 0)]}


def of_another_topic(sent: Found) -> None:
    sent["p/t/1@77"] = {0: [WHOLE.place(1, 0)]}


def taken(sent: Found) -> None:
    sent["p/t/3@3"][0].insert(0, WHOLE.place(3, 0)._replace(digest=b"", offset=7))


def numbers_exchanged(sent: Found) -> None:
    (first,), (second,) = sent["p/t/1@1"][0], sent["p/t/1@1"][1]
    sent["p/t/1@1"] = {0: [first._replace(offset=11)], 1: [second._replace(offset=10)]}


def events_exchanged(sent: Found) -> None:
    (first,), (second,) = sent["p/t/0@0"][0], sent["p/t/3@3"][0]
    sent["p/t/0@0"], sent["p/t/3@3"] = {0: [first._replace(offset=30)]}, {0: [second._replace(offset=0)]}


def elsewhere(sent: Found) -> None:
    sent["p/t/3@3"] = {0: [WHOLE.place(3, 0)._replace(partition=2)]}


def other_bytes(sent: Found) -> None:
    sent["p/t/3@3"] = {0: [WHOLE.place(3, 0)._replace(digest=b"")]}


def one_more(sent: Found) -> None:
    sent["p/t/3@3"][1] = [WHOLE.place(3, 1)]


FAULTS = {
    missing: "t:0@1: command 1, for payment.commands, is missing",
    whole_reaction_is_missing: "t:0@1: command 0, for payment.commands, is missing",
    twice: "t:0@0: command 0 was sent 2 times",
    too_early: "t:0@4: it has commands, and the position is 4",
    stray: "commands of p/t/9@9: there is no such event",
    of_another_topic: "commands of p/t/1@77: there is no such event",
    taken: "t:0@3: the id of command 0 was taken by payment.commands:0@7",
    numbers_exchanged: "t:0@1: command 1 stands at payment.commands:1@10, before the one that was sent before it",
    events_exchanged: "t:0@3: command 0 stands at payment.commands:0@0, before the one that was sent before it",
    elsewhere: "1 commands are not those that react gives now: was it changed?",
    other_bytes: "1 commands are not those that react gives now: was it changed?",
    one_more: "1 commands are not those that react gives now: was it changed?",
}


@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_faults_are_found(fault: object) -> None:
    sent = WHOLE.sent()
    fault(sent)  # type: ignore[operator]
    found = WHOLE.judge(sent)
    assert FAULTS[fault] in found.listed and found.count in (1, 2, 3)  # type: ignore[index]


def test_going_back_keeps_the_order() -> None:
    """Commands that are sent again come after all commands sent before."""
    history = History([1, 1, 1, 1, 1, 1, 1], 0, 7, accepted=3)
    sent = history.sent()
    for origin in (3, 4, 5, 6):
        one = history.place(origin, 0)
        sent[f"p/t/{origin}@{origin}"][0].append(one._replace(offset=100 + one.offset))
    assert history.judge(sent).listed == []


def test_one_displaced_command_is_one_fault() -> None:
    history = History([1] * 9, 0, 9)
    sent = history.sent()
    sent["p/t/0@0"] = {0: [history.place(0, 0)._replace(offset=99)]}
    assert history.judge(sent).listed == [
        "t:0@3: command 0 stands at payment.commands:0@30, before the one that was sent before it"
    ]


def test_skipped_events_have_no_commands() -> None:
    history = History([1, 1, 1], 0, 3, frozenset({1}), raises=frozenset({1}))
    assert history.judge(history.sent()).listed == []
    plain = History([1, 1, 1], 0, 3)
    assert history.judge(plain.sent()).listed == ["t:0@1: it has commands, and an operator left it out"]
    raising = History([1, 1, 1], 0, 3, raises=frozenset({1}))
    assert raising.judge(history.sent()).listed == ["t:0@1: react raises on it, and it is below the position"]


def test_deleted_commands_are_not_missing() -> None:
    history = History([1, 1, 1, 1], 0, 4, deleted_below=2)
    sent = history.sent()
    del sent["p/t/1@1"]
    assert history.judge(sent).listed == []
    del sent["p/t/2@2"]
    assert history.judge(sent).listed == ["t:0@2: command 0, for payment.commands, is missing"]


def test_accepted_losses_are_counted() -> None:
    history = History([1, 1, 1, 1], 0, 4, accepted=2)
    sent = history.sent()
    del sent["p/t/1@1"]
    sent["p/t/3@3"][0] *= 2
    sent["p/t/0@99"] = {0: [history.place(0, 0)]}
    found = history.judge(sent)
    assert (found.listed, found.accepted_losses, found.unknown) == ([], 1, 1)


def test_loss_ends_where_it_was_accepted() -> None:
    """Commands may be missing before the offset of the acceptance, and may occur twice from this offset on."""
    history = History([1, 1, 1, 1], 0, 4, accepted=2)
    sent = {origin: one for origin, one in history.sent().items() if origin == "p/t/0@0"}
    found = history.judge(sent)
    assert found.listed == [
        "t:0@2: command 0, for payment.commands, is missing",
        "t:0@3: command 0, for payment.commands, is missing",
    ]
    assert found.accepted_losses == 1 and history.judge({}).accepted_losses == 0
    sent = history.sent()
    del sent["p/t/1@1"], sent["p/t/0@0"]
    sent["p/t/2@2"][0] *= 2
    assert history.judge(sent).listed == []
    sent["p/t/0@0"] = {0: [history.place(0, 0)] * 2}
    assert history.judge(sent).listed == ["t:0@0: command 0 was sent 2 times"]


def test_accepted_losses_add_up() -> None:
    history = History([1, 1, 1, 1], 0, 4, accepted=3)
    sent = history.sent()
    del sent["p/t/1@1"], sent["p/t/2@2"]
    sent["p/t/0@98"] = {0: [history.place(0, 0)]}
    sent["p/t/0@99"] = {0: [history.place(0, 0)], 1: [history.place(0, 0)] * 2}
    found = history.judge(sent)
    assert (found.listed, found.accepted_losses, found.unknown, found.commands) == ([], 2, 4, 6)


def test_raising_before_the_beginning_is_fine() -> None:
    """Errors from the position on are fine too, because the position was read before the commands."""
    history = History([1, 1, 1, 1], 1, 4, raises=frozenset({0, 2, 3}))
    sent = history.sent()
    del sent["p/t/2@2"], sent["p/t/3@3"]
    assert history.judge(sent, 2).listed == []
    assert history.judge(sent, 3).listed == ["t:0@2: react raises on it, and it is below the position"]


def test_commands_at_the_position_may_come() -> None:
    """The position was read before the commands."""
    history = History([1, 1, 1], 0, 3)
    sent = history.sent()
    del sent["p/t/2@2"]
    assert history.judge(sent, 2).listed == []
    assert history.judge(sent, 3).listed == ["t:0@2: command 0, for payment.commands, is missing"]


@pytest.mark.covers("reacted-once")
def test_first_commands_are_not_missed() -> None:
    """Without a recorded start, the first event with a command counts as the start."""
    history = History([1, 1, 1, 1, 1], 1, 5, is_start_recorded=True)
    sent = {origin: one for origin, one in history.sent().items() if origin == "p/t/4@4"}
    assert history.judge(sent).count == 3
    assert History([1, 1, 1, 1, 1], 1, 5).judge(sent).count == 0
    sent = {"p/t/0@0": {0: [history.place(0, 0)]}, **history.sent()}
    assert history.judge(sent).listed == ["t:0@0: it has commands, and the process manager started at 1"]


def test_other_commands_add_up() -> None:
    sent = WHOLE.sent()
    other_bytes(sent)
    sent["p/t/0@0"] = {0: [WHOLE.place(1, 0)], 1: [WHOLE.place(1, 0)]}
    found = WHOLE.judge(sent)
    assert found.listed == ["3 commands are not those that react gives now: was it changed?"]
    assert (found.changed_commands, found.count, found.events) == (3, 1, 4)


def test_only_the_first_faults_are_named() -> None:
    found = WHOLE.judge(
        {f"p/t/0@{number}": {0: [WHOLE.place(0, 0)]} for number in range(100, 101 + MAX_LISTED)}
    )
    assert len(found.listed) == MAX_LISTED and found.count == MAX_LISTED + 1
