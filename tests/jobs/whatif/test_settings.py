"""Settings have the same effect in `whatif` as they had in history."""

from collections.abc import Iterator
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.decision_rules import DecisionRules
from cqrs_cli.core.deferral.deferrals import DeferralLimits
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.topics import KINDS, AggregateTopics, Topics
from cqrs_cli.proof.whatif.decided import OwnerRecord, decoded_outcomes
from cqrs_cli.scans.whatif.deferred_before import deferred_changes
from cqrs_cli.settings.settings import load_settings
from tests.core.deferral.random_histories import random_world
from tests.core.deferral.world import TOPIC, WAY
from tests.jobs.whatif.histories import logs_of, simulate_history
from tests.proof.deferral_histories import log_records
from tests.proof.history import plan_command, seeds
from tests.proof.repartitioned import RepartitionedHistory
from tests.support import ROOT


def split_at(
    outcomes: Iterator[OwnerRecord[OutcomeEnvelope]], cut: int
) -> tuple[list[OwnerRecord[OutcomeEnvelope]], list[OwnerRecord[OutcomeEnvelope]]]:
    records = list(outcomes)
    return records[:cut], records[cut:]


def comparable(entry: Deferral) -> Deferral:
    return replace(entry, command=b"", due=0, resubmitted_offset=None, resubmitted_topic_id="")


#: Settings with which most histories reach each limit.
RULES = st.builds(
    DecisionRules,
    st.just(0),
    st.just("way.commands"),
    st.just(TOPIC),
    st.sampled_from([None, lambda key: 0, lambda key: 1]),
    st.none(),
    st.sampled_from([1, 1000, 2000, 86_400_000]),
    st.sampled_from([700, 800, 10_000]),
    st.builds(
        DeferralLimits,
        st.integers(1, 4),
        st.integers(1150, 1400),
        st.sampled_from([1350, 1450, 10_000]),
        st.sampled_from([0, 500, 60_000]),
    ),
    st.sampled_from([1, inf]),
)


@pytest.mark.covers("whatif")
@settings(max_examples=300, deadline=None)
@given(seeds, RULES, st.integers(0, 12), st.sampled_from([1, 3, 1000]))
def test_same_code_and_settings_differ_nowhere(
    seed: int, rules: DecisionRules, start: int, batch: int
) -> None:
    """A simulation with the same code and settings equals history, for commands that reach any limit."""
    logs = logs_of(random_world(seed, rules))
    assert simulate_history(logs, rules, WAY, WAY, start, batch) == []


@settings(max_examples=300, deadline=None)
@example(seed=7, most=15, cut=3)  # cancelled
@example(seed=20, most=25, cut=8)  # deferred again with a later version
@given(seeds, st.integers(0, 60), st.integers(0, 12))
def test_outcomes_show_deferred_commands(seed: int, most: int, cut: int) -> None:
    """The entries equal the owner's, except for the command, its due time and its resubmission."""
    world = random_world(seed, max_steps=most)
    earlier_outcomes, later_outcomes = split_at(decoded_outcomes(log_records(world.outcomes)), cut)
    earlier_changes = deferred_changes(earlier_outcomes, lambda _: None, TOPIC)
    changes = earlier_changes | deferred_changes(later_outcomes, earlier_changes.get, TOPIC)
    expected = {change.key: comparable(change) for change in world.shard.entries}
    assert {key: comparable(change) for key, change in changes.items() if change is not None} == expected


def test_forwarded_commands_are_not_deferred() -> None:
    history = RepartitionedHistory()
    history.decide(0, plan_command(1, "1", notbefore="2999-01-01T00:00:00Z"))
    history.split(0, 2)
    history.decide(0, plan_command(1, "1"))
    changes = deferred_changes(decoded_outcomes(history.logs["outcomes"][0]), lambda _: None, "T")
    assert list(changes) == ["T/0"]


TOPICS = AggregateTopics(
    Topics("way"), "cluster", 4, dict.fromkeys(KINDS, "id"), dict.fromkeys(KINDS, 1_048_588)
)


def rules_of(folder: Path, **changes: Any) -> DecisionRules:
    loaded_settings = load_settings({"payload_store": "store"}, folder).model_copy(update=changes)
    return DecisionSettings.of(loaded_settings).rules(
        TOPICS, 0, RecordCodec(loaded_settings.payloads()).payload_threshold
    )


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"dedup_window": timedelta(days=2)}, "dedup_window"),
        ({"max_attempts": 3}, "limits"),
        ({"max_clock_skew": timedelta(seconds=9)}, "limits"),
        ({"partitioner": "none"}, "partition_of"),
        ({"payload_threshold": 5000}, "payload_threshold"),
        ({"payload_store": None}, "payload_threshold"),
    ],
)
def test_each_deciding_setting_is_a_rule(changes: dict[str, Any], rule: str, tmp_path: Path) -> None:
    """A command that reached a limit with the old setting may not reach it with the new one."""
    assert getattr(rules_of(tmp_path, **changes), rule) != getattr(rules_of(tmp_path), rule)


def test_contexts_are_made_in_one_module() -> None:
    """Owners, `whatif` and `send --dry-run` use the same rules, so that none of them can omit one."""
    makers = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "cqrs_cli").rglob("*.py"))
        if any(f" {name}(" in file.read_text() for name in ("BatchContext", "Deferrals"))
    ]
    assert makers == ["cqrs_cli/core/decision_rules.py"]
