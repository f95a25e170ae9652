"""Details of the rules, each broken in one way."""

from tests.mutations.table import Mutation

#: Further details.
DETAILS = [
    Mutation(
        "objects are written in any order of their members",
        "cqrs_cli/core/messages/json.py",
        (('Encoder(order="deterministic")', "Encoder()"),),
        "tests/core/messages/test_json.py",
    ),
    Mutation(
        "a command is decided wherever it lies",
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
        "an id that is used again for something else is a duplicate",
        "cqrs_cli/core/checks.py",
        (("if fingerprint == first_decision.fingerprint:", "if True:"),),
        "tests/core/test_model.py::test_outcomes_equal_the_reference_model",
    ),
    Mutation(
        "an id is known for ever",
        "cqrs_cli/core/checks.py",
        ((" or first_decision.timestamp < window_start", ""),),
        "tests/core/test_decide.py::test_id_is_forgotten_after_its_window",
    ),
    Mutation(
        "a command does not see what those before it in the batch changed",
        "cqrs_cli/core/fast_path.py",
        (("states.get(subject) or state_of", "state_of"),),
        "tests/core/test_model.py::test_outcomes_equal_the_reference_model",
    ),
    Mutation(
        "a text that needs escapes is written without them",
        "cqrs_cli/core/messages/command.py",
        (("encode_json(members)[1:-1]", 'encode_json(members)[1:-1].replace(b"\\\\", b"")'),),
        "tests/core/messages/test_written.py",
    ),
    Mutation(
        "two events of one version are taken for one",
        "cqrs_cli/core/fold.py",
        (("not _is_last_event(event, folded)", "False"),),
        "tests/core/test_fold.py",
    ),
    Mutation(
        "a shard outlives a lost upcaster",
        "cqrs_cli/core/aggregate/schema.py",
        (('    digest_input |= {f"upcaster of {name}": {} for name in upcasters}', "    pass"),),
        "tests/core/aggregate/test_upcasting.py::test_schema_digest_depends_on_upcasters",
    ),
    Mutation(
        "a signal interrupts an import, and keeps its lock",
        "cqrs_cli/cli/interrupts.py",
        (('_IMPORT_MODULE = "importlib._bootstrap"', '_IMPORT_MODULE = ""'),),
        "tests/cli/test_interrupts.py::test_interrupted_import_releases_the_global_lock",
    ),
    Mutation(
        "a signal whose exception was dropped does not come again",
        "cqrs_cli/cli/interrupts.py",
        (("undo.enter_context(_raise_dropped_signals())", "pass"),),
        "tests/cli/test_interrupts.py::test_dropped_signals_are_raised_again",
    ),
    Mutation(
        "a signal interrupts what takes a lock",
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
        "a signal does not interrupt what waits for a thread",
        "cqrs_cli/cli/interrupts.py",
        ((" and thread_position(frame) != previous", ""),),
        "tests/cli/test_interrupts.py::test_waiting_is_interrupted",
    ),
    Mutation(
        "a signal does not interrupt short waits",
        "cqrs_cli/cli/interrupts.py",
        ((" and not _waits_for_condition(frame)", ""),),
        "tests/cli/test_interrupts.py::test_waiting_is_interrupted",
    ),
    Mutation(
        "a field that nobody knows within a command is dropped",
        "cqrs_cli/core/aggregate/values.py",
        (("            if has_objects:", "            if False:"),),
        "tests/core/aggregate/test_values.py",
    ),
    Mutation(
        "a contradiction is believed without looking at the claim again",
        "cqrs_cli/ownership/claim.py",
        (("    return judge(own_claim, committed_claim) is Judgement.OWN\n", "    return True\n"),),
        "tests/ownership/test_claim.py",
    ),
    Mutation(
        "a living owner's shard is warmed",
        "cqrs_cli/ownership/claim.py",
        (("committed_claim.n > _number(token)", "committed_claim.n >= 0"),),
        "tests/ownership/test_claim.py",
    ),
    Mutation(
        "fencing blames the batch",
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
        "attempts of a run write the shard under one token",
        "cqrs_cli/ownership/claim.py",
        (("{self.run}.{self.submission}.{self.attempt}", "{self.run}"),),
        "tests/ownership/test_claim.py::test_two_attempts_have_different_tokens",
    ),
    Mutation(
        "a run that was ended leaves an ordinary claim",
        "cqrs_cli/ownership/claim.py",
        (
            (
                "replace(committed_claim, submission=TERMINAL, attempt=TERMINAL, n=",
                "replace(committed_claim, n=",
            ),
        ),
        "tests/ownership/test_claim.py",
    ),
    Mutation(
        "a moved offset is not looked into",
        "cqrs_cli/deciding/log_state.py",
        (("        raise inconsistency_error(state, problem, position)\n", "        continue\n"),),
        "tests/scenarios/losses/test_loss.py::test_moved_offset_stops_owner_until_accepted[8]",
    ),
    Mutation(
        "an operator's word goes back behind what is decided",
        "cqrs_cli/deciding/position.py",
        ((" and accept_loss >= _known_decided_end(log)", ""),),
        "tests/deciding/test_position.py",
    ),
    Mutation(
        "where records come to lie is not looked at",
        "cqrs_cli/kafka/expected_offsets.py",
        (("            self._error = TopicRecreatedError(topic)\n", "            return\n"),),
        "tests/scenarios/losses/test_topics_lost.py::test_logs_recreated_during_run_stop_it[50-events]",
    ),
    Mutation(
        "a state is decided on as evolve left it",
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
        "a change is applied wherever the shard is",
        "cqrs_cli/state/memory.py",
        (("if change.start != self._positions:", "if False:"),),
        "tests/state/test_memory.py",
    ),
    Mutation(
        "a change in memory that fails half-way stays half made",
        "cqrs_cli/state/memory.py",
        (("undo.callback(self._restore, self.entries, old, self.bytes)", "pass"),),
        "tests/state/test_memory.py::TestMemoryStore::test_change_that_fails_leaves_nothing",
    ),
    Mutation(
        "an ended task keeps the clients of its owners",
        "cqrs_cli/runs/task.py",
        (("            owner.drop_owner()\n", "            pass\n"),),
        "tests/jobs/run/test_processes.py::test_ended_task_closes_its_clients",
    ),
    Mutation(
        "states that do not fit into memory fence the owner at work",
        "cqrs_cli/deciding/catch_up.py",
        (("except (CorruptError, StoreFullError):", "except CorruptError:"),),
        "tests/scenarios/takeovers/test_memory.py::test_full_memory_ends_no_other_owner",
    ),
    Mutation(
        "a transaction begins behind one that a lost broker may have ended by half",
        "cqrs_cli/kafka/transactional.py",
        (("        if self._unreachable_errors:\n", "        if False:\n"),),
        "tests/kafka/test_writer.py::test_lost_broker_prevents_further_transactions",
    ),
    Mutation(
        "librdkafka asks again by itself for a fence behind an open transaction",
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
        "a run that stands by looks for silence in rounds",
        "cqrs_cli/ownership/standby.py",
        (("min(interval, timeout - silence + _POLL_MARGIN)", "interval"),),
        "tests/ownership/test_standby.py::test_takeover_at_the_timeout",
    ),
    Mutation(
        "a run that stood still itself takes that for the other one's silence",
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
        "`--once` takes its own standing still for the rest of a run at work",
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
