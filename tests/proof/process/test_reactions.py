"""The rule for process managers finds nothing in clean histories, and finds every planted fault."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.proof.findings import MAX_LISTED
from cqrs_cli.proof.reactions import ReactionCommand
from tests.proof.process.histories import History, SentCommands, histories


@given(histories())
def test_clean_histories_are_silent(history: History) -> None:
    reactions = history.check(history.sent_commands())
    assert (reactions.listed_violations, reactions.violation_count) == ([], 0)
    assert reactions.command_count == sum(len(commands) for commands in history.sent_commands().values())
    assert reactions.event_count == history.position


@given(histories(), st.data())
def test_active_owners_cause_no_finding(history: History, data: st.DataObject) -> None:
    """Commands that were sent after the topics were read are not missing."""
    position = data.draw(st.integers(history.start, history.position))
    sent = {
        id_prefix: commands
        for id_prefix, commands in history.sent_commands().items()
        if int(id_prefix.rpartition("@")[2]) < position
    }
    assert history.check(sent, position).listed_violations == []


def test_command_from_before_repartitioning_matches() -> None:
    expected = ReactionCommand("payment.commands", 5, b"x", earlier_partitions=(1,))
    assert [
        ReactionCommand("payment.commands", partition, b"x", 7).matches(expected) for partition in (5, 1, 3)
    ] == [
        True,
        True,
        False,
    ]


COMPLETE = History([1, 2, 0, 1, 1], 0, 4)


def drop_command(sent: SentCommands) -> None:
    del sent["p/t/1@1"][1]


def drop_reaction(sent: SentCommands) -> None:
    del sent["p/t/1@1"]


def repeat_command(sent: SentCommands) -> None:
    sent["p/t/0@0"][0] *= 2


def send_beyond_position(sent: SentCommands) -> None:
    sent["p/t/4@4"] = {0: [COMPLETE.command(4, 0)]}


def send_for_missing_event(sent: SentCommands) -> None:
    sent["p/t/9@9"] = {0: [COMPLETE.command(4, 0)]}


def send_for_recreated_topic(sent: SentCommands) -> None:
    sent["p/t/1@77"] = {0: [COMPLETE.command(1, 0)]}


def take_command_id(sent: SentCommands) -> None:
    sent["p/t/3@3"][0].insert(0, COMPLETE.command(3, 0)._replace(digest=b"", offset=7))


def swap_commands(sent: SentCommands) -> None:
    (first,), (second,) = sent["p/t/1@1"][0], sent["p/t/1@1"][1]
    sent["p/t/1@1"] = {0: [first._replace(offset=11)], 1: [second._replace(offset=10)]}


def swap_events(sent: SentCommands) -> None:
    (first,), (second,) = sent["p/t/0@0"][0], sent["p/t/3@3"][0]
    sent["p/t/0@0"], sent["p/t/3@3"] = {0: [first._replace(offset=30)]}, {0: [second._replace(offset=0)]}


def change_partition(sent: SentCommands) -> None:
    sent["p/t/3@3"] = {0: [COMPLETE.command(3, 0)._replace(partition=2)]}


def change_bytes(sent: SentCommands) -> None:
    sent["p/t/3@3"] = {0: [COMPLETE.command(3, 0)._replace(digest=b"")]}


def add_command(sent: SentCommands) -> None:
    sent["p/t/3@3"][1] = [COMPLETE.command(3, 1)]


FAULTS = {
    drop_command: "t:0@1: command 1, for payment.commands, is missing",
    drop_reaction: "t:0@1: command 0, for payment.commands, is missing",
    repeat_command: "t:0@0: command 0 was sent 2 times",
    send_beyond_position: "t:0@4: it has commands, but the position is 4",
    send_for_missing_event: "commands of p/t/9@9: there is no such event",
    send_for_recreated_topic: "commands of p/t/1@77: there is no such event",
    take_command_id: "t:0@3: the id of command 0 was taken by payment.commands:0@7",
    swap_commands: "t:0@1: command 1 is at payment.commands:1@10, before a command that was sent earlier",
    swap_events: "t:0@3: command 0 is at payment.commands:0@0, before a command that was sent earlier",
    change_partition: "1 commands differ from those that react returns now: was react changed?",
    change_bytes: "1 commands differ from those that react returns now: was react changed?",
    add_command: "1 commands differ from those that react returns now: was react changed?",
}


@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_planted_faults_are_found(fault: object) -> None:
    sent = COMPLETE.sent_commands()
    fault(sent)  # type: ignore[operator]
    reactions = COMPLETE.check(sent)
    assert FAULTS[fault] in reactions.listed_violations and reactions.violation_count in (1, 2, 3)  # type: ignore[index]


def test_resent_commands_keep_the_order() -> None:
    """Commands that are sent again come after all commands sent before."""
    history = History([1, 1, 1, 1, 1, 1, 1], 0, 7, accepted=3)
    sent = history.sent_commands()
    for event_offset in (3, 4, 5, 6):
        command = history.command(event_offset, 0)
        sent[f"p/t/{event_offset}@{event_offset}"][0].append(command._replace(offset=100 + command.offset))
    assert history.check(sent).listed_violations == []


def test_one_displaced_command_is_one_fault() -> None:
    history = History([1] * 9, 0, 9)
    sent = history.sent_commands()
    sent["p/t/0@0"] = {0: [history.command(0, 0)._replace(offset=99)]}
    assert history.check(sent).listed_violations == [
        "t:0@3: command 0 is at payment.commands:0@30, before a command that was sent earlier"
    ]


def test_skipped_events_have_no_commands() -> None:
    history = History([1, 1, 1], 0, 3, frozenset({1}), raises=frozenset({1}))
    assert history.check(history.sent_commands()).listed_violations == []
    without_skip = History([1, 1, 1], 0, 3)
    assert history.check(without_skip.sent_commands()).listed_violations == [
        "t:0@1: it has commands, but an operator skipped it"
    ]
    raising = History([1, 1, 1], 0, 3, raises=frozenset({1}))
    assert raising.check(history.sent_commands()).listed_violations == [
        "t:0@1: react raises on it, but it is before the position"
    ]


def test_deleted_commands_are_not_missing() -> None:
    history = History([1, 1, 1, 1], 0, 4, deleted_below=2)
    sent = history.sent_commands()
    del sent["p/t/1@1"]
    assert history.check(sent).listed_violations == []
    del sent["p/t/2@2"]
    assert history.check(sent).listed_violations == ["t:0@2: command 0, for payment.commands, is missing"]


def test_accepted_losses_are_counted() -> None:
    history = History([1, 1, 1, 1], 0, 4, accepted=2)
    sent = history.sent_commands()
    del sent["p/t/1@1"]
    sent["p/t/3@3"][0] *= 2
    sent["p/t/0@99"] = {0: [history.command(0, 0)]}
    reactions = history.check(sent)
    assert (reactions.listed_violations, reactions.accepted_losses, reactions.unknown_commands) == ([], 1, 1)


def test_loss_ends_at_the_accepted_offset() -> None:
    """Commands may be missing before the offset of the acceptance, and may occur twice from this offset on."""
    history = History([1, 1, 1, 1], 0, 4, accepted=2)
    sent = {
        id_prefix: commands
        for id_prefix, commands in history.sent_commands().items()
        if id_prefix == "p/t/0@0"
    }
    reactions = history.check(sent)
    assert reactions.listed_violations == [
        "t:0@2: command 0, for payment.commands, is missing",
        "t:0@3: command 0, for payment.commands, is missing",
    ]
    assert reactions.accepted_losses == 1 and history.check({}).accepted_losses == 0
    sent = history.sent_commands()
    del sent["p/t/1@1"], sent["p/t/0@0"]
    sent["p/t/2@2"][0] *= 2
    assert history.check(sent).listed_violations == []
    sent["p/t/0@0"] = {0: [history.command(0, 0)] * 2}
    assert history.check(sent).listed_violations == ["t:0@0: command 0 was sent 2 times"]


def test_accepted_losses_add_up() -> None:
    history = History([1, 1, 1, 1], 0, 4, accepted=3)
    sent = history.sent_commands()
    del sent["p/t/1@1"], sent["p/t/2@2"]
    sent["p/t/0@98"] = {0: [history.command(0, 0)]}
    sent["p/t/0@99"] = {0: [history.command(0, 0)], 1: [history.command(0, 0)] * 2}
    reactions = history.check(sent)
    assert (reactions.listed_violations, reactions.accepted_losses) == ([], 2)
    assert (reactions.unknown_commands, reactions.command_count) == (4, 6)


def test_errors_before_the_start_are_ignored() -> None:
    """Errors from the position on are fine too, because the position was read before the commands."""
    history = History([1, 1, 1, 1], 1, 4, raises=frozenset({0, 2, 3}))
    sent = history.sent_commands()
    del sent["p/t/2@2"], sent["p/t/3@3"]
    assert history.check(sent, 2).listed_violations == []
    assert history.check(sent, 3).listed_violations == [
        "t:0@2: react raises on it, but it is before the position"
    ]


def test_commands_at_the_position_may_come() -> None:
    """The position was read before the commands."""
    history = History([1, 1, 1], 0, 3)
    sent = history.sent_commands()
    del sent["p/t/2@2"]
    assert history.check(sent, 2).listed_violations == []
    assert history.check(sent, 3).listed_violations == ["t:0@2: command 0, for payment.commands, is missing"]


@pytest.mark.covers("reacted-once")
def test_first_commands_are_not_missed() -> None:
    """Without a recorded start, the first event with a command counts as the start."""
    history = History([1, 1, 1, 1, 1], 1, 5, is_start_recorded=True)
    sent = {
        id_prefix: commands
        for id_prefix, commands in history.sent_commands().items()
        if id_prefix == "p/t/4@4"
    }
    assert history.check(sent).violation_count == 3
    assert History([1, 1, 1, 1, 1], 1, 5).check(sent).violation_count == 0
    sent = {"p/t/0@0": {0: [history.command(0, 0)]}, **history.sent_commands()}
    assert history.check(sent).listed_violations == [
        "t:0@0: it has commands, but the process manager started at 1"
    ]


def test_other_commands_add_up() -> None:
    sent = COMPLETE.sent_commands()
    change_bytes(sent)
    sent["p/t/0@0"] = {0: [COMPLETE.command(1, 0)], 1: [COMPLETE.command(1, 0)]}
    reactions = COMPLETE.check(sent)
    assert reactions.listed_violations == [
        "3 commands differ from those that react returns now: was react changed?"
    ]
    assert (reactions.changed_commands, reactions.violation_count, reactions.event_count) == (3, 1, 4)


def test_only_the_first_faults_are_named() -> None:
    reactions = COMPLETE.check(
        {f"p/t/0@{number}": {0: [COMPLETE.command(0, 0)]} for number in range(100, 101 + MAX_LISTED)}
    )
    assert len(reactions.listed_violations) == MAX_LISTED and reactions.violation_count == MAX_LISTED + 1
