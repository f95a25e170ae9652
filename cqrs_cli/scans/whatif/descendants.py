"""A family of partitions: an original partition and all its descendants.

A partition is decided again in stages, one for each partition count that applied. At each split its children get copies
of its stores, so that they start from the parent's states and ids, with the parent's clock.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.core.decision_rules import DecisionRules
from cqrs_cli.keyspace.key_history import KeyHistory
from cqrs_cli.proof.traces import LIMIT
from cqrs_cli.scans.whatif.simulation import Simulation
from cqrs_cli.state.lmdb_store import LmdbStore


class Member(NamedTuple):
    """A partition to decide again, with its stores. `is_whole`: start at its first command, ignoring `since`."""

    partition: int
    simulation: Simulation
    is_whole: bool = False


class DecidingStage(NamedTuple):
    """The commands of a partition that were decided with one partition count: start ≤ offset < end. `targets`: the
    partitions that got keys at `end`.
    """

    start: int
    end: int
    rules: DecisionRules
    targets: range = range(0)


def deciding_stages(key_history: KeyHistory | None, rules: DecisionRules) -> Iterator[DecidingStage]:
    """Yield the stages of a partition; one stage if the aggregate was never repartitioned."""
    if key_history is None:
        yield DecidingStage(0, LIMIT, rules)
        return
    start = 0
    for split in [*key_history.splits, None]:
        partition_of, forward_target_of = (
            partial(key_history.partition_at_command, command_offset=start),
            partial(key_history.forward_target, command_offset=start),
        )
        stage_rules = replace(rules, partition_of=partition_of, forward_target_of=forward_target_of)
        end = LIMIT if split is None else split.commands
        yield DecidingStage(start, end, stage_rules, range(0) if split is None else split.target_partitions)
        start = end


def target_members(targets: range, parent: Simulation, is_whole: bool, stack: ExitStack) -> Iterator[Member]:
    """Yield the children of a partition that has been decided again up to its split."""
    for target in targets:
        stores = open_stores(stack, parent.rules.dedup_window, (parent.logged_store, parent.simulated_store))
        rules = replace(parent.rules, partition=target)
        child = Simulation(
            rules,
            parent.current_code,
            parent.other_code,
            *stores,
            parent.codec,
            parent.batch,
            is_family=True,
            scratch_key=parent.scratch_key,
        )
        child.inherit_deferrals(parent.rules.partition)
        child.keys.active_keys.update(parent.keys.active_keys)
        yield Member(target, child, is_whole)


def open_stores(
    stack: ExitStack, window: int, originals: tuple[LmdbStore, LmdbStore] | None = None
) -> tuple[LmdbStore, LmdbStore]:
    """Create two stores in a temporary folder (TMPDIR), empty or as copies of `originals`.

    Their files are unlinked after they are opened.
    """
    with tempfile.TemporaryDirectory(prefix="cqrs-whatif-") as folder:
        stores = []
        for index, name in enumerate(("logged", "simulated")):
            (Path(folder) / name).mkdir()
            if originals is not None:
                originals[index].copy(Path(folder) / name)
            stores.append(LmdbStore(Path(folder) / name, window))
            stack.callback(stores[-1].close_without_sync)
    return stores[0], stores[1]
