"""Details of the rules, each broken in one way."""

from tests.mutations.table import Mutation

#: Further details.
DETAILS = [
    Mutation(
        "the members of JSON objects have no fixed order",
        "cqrs_cli/core/messages/json.py",
        (('Encoder(order="deterministic")', "Encoder()"),),
        "tests/core/messages/test_json.py",
    ),
    Mutation(
        "a command in the wrong partition is decided",
        "cqrs_cli/core/checks.py",
        (
            (
                "(key_partition := partition_of(key)) == context.partition",
                "(key_partition := partition_of(key)) >= 0",
            ),
        ),
        "tests/core/test_checks.py::test_key_must_hash_to_the_partition",
    ),
    Mutation(
        "an id with another fingerprint is a duplicate",
        "cqrs_cli/core/checks.py",
        (("if fingerprint == first_decision.fingerprint:", "if True:"),),
        "tests/core/test_model.py::test_outcomes_equal_the_reference_model",
    ),
    Mutation(
        "an id is remembered after the dedup window",
        "cqrs_cli/core/checks.py",
        ((" or first_decision.timestamp < window_start", ""),),
        "tests/core/test_decide.py::test_id_is_forgotten_after_its_window",
    ),
    Mutation(
        "a command does not see the changes of its batch",
        "cqrs_cli/core/fast_path.py",
        (("state_before = states.get(subject)", "state_before = None"),),
        "tests/core/test_model.py::test_outcomes_equal_the_reference_model",
    ),
    Mutation(
        "a text is written without its escapes",
        "cqrs_cli/core/messages/command.py",
        (("encode_json(members)[1:-1]", 'encode_json(members)[1:-1].replace(b"\\\\", b"")'),),
        "tests/core/messages/test_written.py",
    ),
    Mutation(
        "a second event of the same version is ignored",
        "cqrs_cli/core/fold.py",
        (("not _is_last_event(event, before)", "False"),),
        "tests/core/test_fold.py",
    ),
    Mutation(
        "a shard is kept after an upcaster is removed",
        "cqrs_cli/core/aggregate/schema.py",
        (('    digest_input |= {f"upcaster of {name}": {} for name in upcasters}', "    pass"),),
        "tests/core/aggregate/test_upcasting.py::test_schema_digest_depends_on_upcasters",
    ),
    Mutation(
        "a signal interrupts an import, whose lock stays taken",
        "cqrs_cli/cli/interrupts.py",
        (('_IMPORT_MODULE = "importlib._bootstrap"', '_IMPORT_MODULE = ""'),),
        "tests/cli/test_interrupts.py::test_interrupted_import_releases_the_global_lock",
    ),
    Mutation(
        "a signal whose exception was dropped is not raised again",
        "cqrs_cli/cli/interrupts.py",
        (("undo.enter_context(_raise_dropped_signals())", "pass"),),
        "tests/cli/test_interrupts.py::test_dropped_signals_are_raised_again",
    ),
    Mutation(
        "a signal interrupts code that takes a lock",
        "cqrs_cli/cli/interrupts.py",
        (('    "threading",\n}', "}"),),
        "tests/cli/test_interrupts.py::test_no_lock_stays_taken",
    ),
    Mutation(
        "a signal interrupts the start of a thread",
        "cqrs_cli/cli/interrupts.py",
        ((" or _is_starting_thread(frame)", ""),),
        "tests/cli/test_interrupts.py::test_interrupted_thread_start_is_complete",
    ),
    Mutation(
        "a signal does not interrupt waiting for a thread",
        "cqrs_cli/cli/interrupts.py",
        (("        and thread_position(frame) != previous_position\n", ""),),
        "tests/cli/test_interrupts.py::test_waiting_is_interrupted",
    ),
    Mutation(
        "a signal does not interrupt short waits",
        "cqrs_cli/cli/interrupts.py",
        ((" and not _waits_for_condition(frame)", ""),),
        "tests/cli/test_interrupts.py::test_waiting_is_interrupted",
    ),
    Mutation(
        "an unknown field in a nested object is dropped",
        "cqrs_cli/core/aggregate/values.py",
        (("            if has_objects:", "            if False:"),),
        "tests/core/aggregate/test_values.py",
    ),
    Mutation(
        "an inconsistency is reported without reading the claim again",
        "cqrs_cli/ownership/claim.py",
        (("    return judge(own_claim, committed_claim) is Judgement.OWN\n", "    return True\n"),),
        "tests/ownership/test_claim.py",
    ),
    Mutation(
        "a standby folds the shard of a running owner",
        "cqrs_cli/ownership/claim.py",
        (("committed_claim.number > _number(token)", "committed_claim.number >= 0"),),
        "tests/ownership/test_claim.py",
    ),
    Mutation(
        "a fencing error is attributed to the batch",
        "cqrs_cli/kafka/write_errors.py",
        (
            (
                "    ErrorKind.REJECTED,\n}",
                "    ErrorKind.REJECTED,\n    ErrorKind.CLIENT_UNUSABLE,\n}",
            ),
        ),
        "tests/kafka/test_write_errors.py",
    ),
    Mutation(
        "all attempts of a run have the same shard token",
        "cqrs_cli/ownership/claim.py",
        (("{self.run}.{self.submission}.{self.attempt}", "{self.run}"),),
        "tests/ownership/test_claim.py::test_two_attempts_have_different_tokens",
    ),
    Mutation(
        "a run that ended leaves an ordinary claim",
        "cqrs_cli/ownership/claim.py",
        (
            (
                "replace(committed_claim, submission=TERMINAL, attempt=TERMINAL, number=",
                "replace(committed_claim, number=",
            ),
        ),
        "tests/ownership/test_claim.py",
    ),
    Mutation(
        "a moved group offset is ignored",
        "cqrs_cli/deciding/log_state.py",
        (("        raise inconsistency_error(state, problem, position)\n", "        continue\n"),),
        "tests/scenarios/losses/test_loss.py::test_moved_offset_stops_owner_until_accepted[8]",
    ),
    Mutation(
        "an accepted loss may repeat decided commands",
        "cqrs_cli/deciding/position.py",
        ((" and accept_loss >= _known_decided_end(state)", ""),),
        "tests/deciding/test_position.py",
    ),
    Mutation(
        "the offsets of written records are not checked",
        "cqrs_cli/kafka/expected_offsets.py",
        (("            self._error = TopicRecreatedError(topic)\n", "            return\n"),),
        "tests/scenarios/losses/test_topics_lost.py::test_logs_recreated_during_run_stop_it[50-events]",
    ),
    Mutation(
        "a state is not encoded and decoded before decide",
        "cqrs_cli/core/aggregate/aggregate.py",
        (
            (
                "            return decode_state(encode(next_state))",
                "            encode(next_state)\n            return next_state",
            ),
        ),
        "tests/core/test_fold.py",
    ),
    Mutation(
        "a change is applied to a shard at another position",
        "cqrs_cli/state/memory.py",
        (("if change.start != self._positions:", "if False:"),),
        "tests/state/test_memory.py",
    ),
    Mutation(
        "a change in memory that fails is not undone",
        "cqrs_cli/state/memory.py",
        (("undo.callback(self._restore, self.entries, old_values, self.bytes)", "pass"),),
        "tests/state/test_memory.py::TestMemoryStore::test_change_that_fails_leaves_nothing",
    ),
    Mutation(
        "an ended task keeps the clients of its owners",
        "cqrs_cli/runs/task.py",
        (("            supervisor.drop_owner()\n", "            pass\n"),),
        "tests/jobs/run/test_processes.py::test_ended_task_closes_its_clients",
    ),
    Mutation(
        "a run whose memory is full fences the active owner",
        "cqrs_cli/deciding/catch_up.py",
        (("except (CorruptError, StoreFullError):", "except CorruptError:"),),
        "tests/scenarios/takeovers/test_memory.py::test_full_memory_ends_no_other_owner",
    ),
    Mutation(
        "a transaction begins after one that may be half completed",
        "cqrs_cli/kafka/transactional.py",
        (("        if self._unreachable_errors:\n", "        if False:\n"),),
        "tests/kafka/test_writer.py::test_lost_broker_prevents_further_transactions",
    ),
    Mutation(
        "librdkafka retries a fence that waits for an open transaction",
        "cqrs_cli/kafka/transactional.py",
        (
            (
                "self._producer.init_transactions, timeout)",
                "self._producer.init_transactions, self._timeout)",
            ),
        ),
        "tests/kafka/test_fence.py::test_open_transactions_end_at_the_fence",
    ),
    Mutation(
        "a standby polls at fixed intervals instead of at the timeout",
        "cqrs_cli/ownership/standby.py",
        (("min(interval, timeout - silence + _POLL_MARGIN)", "interval"),),
        "tests/ownership/test_standby.py::test_takeover_at_the_timeout",
    ),
    Mutation(
        "a standby counts its own pause as the active run's silence",
        "cqrs_cli/ownership/committed_claims.py",
        (
            (
                "return max(0.0, requested_at - self._first_answer_at)",
                "return answered_at - self._first_answer_at",
            ),
        ),
        "tests/ownership/test_standby.py::test_own_pauses_do_not_count_as_silence",
    ),
    Mutation(
        "`--once` counts its own pause as idle time of another run",
        "cqrs_cli/runs/other_runs.py",
        (
            (
                ".seconds_unchanged(positions, polled_at, answered_at)",
                ".seconds_unchanged(positions, answered_at, answered_at)",
            ),
        ),
        "tests/jobs/run/test_once_wait.py::test_own_pauses_are_not_idle_time",
    ),
]
