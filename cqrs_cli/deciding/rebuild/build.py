"""Builds one new shard from the log in a child process, while an owner may be active."""

import gc
import os
import threading
import time
import traceback
from contextlib import closing, suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.deciding.catch_up import fold_visible
from cqrs_cli.deciding.key_session import open_owner_keys
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.recover import is_permanent
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.kafka.clients import unreachable_error
from cqrs_cli.observer import observing
from cqrs_cli.ownership.claim import parse_claim
from cqrs_cli.ownership.timing import ErrorDuration
from cqrs_cli.registry import load
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.lmdb_store import LmdbStore

#: Seconds between two messages about the progress.
_PROGRESS_INTERVAL = 0.2


class ShardSize(NamedTuple):
    """The size of a new shard."""

    aggregates: int
    bytes: int  # on disk


def build_shard(plan: Plan, partition: Partition, aggregate: Aggregate, folder: Path) -> ShardSize:
    """Build a shard in an empty folder, from all records that are committed at present. Raises `ContradictionError` for
    an inconsistent log, as a run would, and the store's errors for a full disk.
    """
    log, identity = plan.log(partition), plan.identity(partition, aggregate)
    error_duration = ErrorDuration(plan.timing.error_reset_after)
    # A temporary key store: it is not part of the shard, and the shard's owner reads the keys itself.
    keys_folder = folder.with_name("keys")
    with (
        closing(LmdbStore(folder, identity.window_ms)) as store,
        open_owner_keys(plan, partition, aggregate, keys_folder) as keys,
    ):
        store.set_identity(encode_json(identity))
        while True:
            cache = StateCache(aggregate, store, store.token(), plan.cache_bytes, keys)
            try:
                claim = parse_claim(log.committed_position().metadata)
                fold_visible(plan, partition, log, aggregate, cache, claim)
                cache.check_keys(claim is not None and claim.accepted is not None)
                break
            except ContradictionError as error:
                if is_permanent(error) or error_duration.persists_for(plan.timing.inconsistency_timeout):
                    raise
                # Perhaps only a part of a transaction of the active owner is visible now: read again.
                time.sleep(plan.timing.first_restart_delay)
        store.sync()
        return ShardSize(store.count(), (folder / DATA_FILE).stat().st_blocks * 512)


def serve_build(plan: Plan, partition: Partition, folder: Path, parent: Pipe) -> None:
    """Build a shard in a child process. Send the number of folded records to the parent process repeatedly, and finally
    the `ShardSize` or an error.
    """
    measures, finished = Measures(), threading.Event()
    progress_thread = threading.Thread(target=_send_progress, args=(measures, finished, parent), daemon=True)
    progress_thread.start()
    gc.freeze()
    gc.disable()
    result: ShardSize | CqrsError
    try:
        aggregate = load(partition.aggregate, plan.package, plan.root)
        with observing(measures.listener):
            result = build_shard(plan, partition, aggregate, folder)
    except CqrsError as error:
        result = error
    except KafkaException as error:
        result = unreachable_error(plan.connection, error)
    except Exception as error:
        traceback.print_exc()
        result = CqrsError(
            f"{partition.aggregate} partition {partition.number}: {type(error).__name__}: {error}"
        )
    finished.set()
    progress_thread.join()
    with suppress(BrokenPipeError):
        parent.send(result)


def _send_progress(measures: Measures, finished: threading.Event, parent: Pipe) -> None:
    while not finished.wait(_PROGRESS_INTERVAL):
        folding = measures.folding
        try:
            parent.send(0 if folding is None else folding.done)
        except BrokenPipeError:  # the parent process was killed: the shard is not needed
            os._exit(os.EX_SOFTWARE)
