"""The mutations of the code, each with the cheapest test that must notice it."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """Edits of one file, each of whose texts occurs exactly once in it, and the test that must fail then."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    noticed_by: str


#: The rules on which the guarantees depend.
RULES = [
    Mutation(
        "the shard is written before Kafka has committed",
        "cqrs_cli/deciding/loop.py",
        (
            (
                "                counts = session.counts.add_batch(",
                "                self.cache.stage(decisions, records[0].offset, None, None)\n"
                "                self.cache.flush()\n                counts = session.counts.add_batch(",
            ),
        ),
        "tests/scenarios/crashes/test_crashes.py::test_an_owner_killed_anywhere_harms_nothing[flush.after:5]",
    ),
    Mutation(
        "the position is read before the fence",
        "cqrs_cli/deciding/owner.py",
        (
            (
                '        reached("fence.before")',
                "        self.before = self.session.bounds('outcomes')\n        reached(\"fence.before\")",
            ),
            (
                "        with session.explaining_stalls():\n            log_state, last",
                "        bounds['outcomes'] = self.before\n"
                "        with session.explaining_stalls():\n            log_state, last",
            ),
            ("        if end != position_end:", "        if False:"),
        ),
        "tests/deciding/test_takeover.py::test_commits_before_the_fence_are_kept",
    ),
    Mutation(
        "the end of the outcomes may differ from the end that gave the position",
        "cqrs_cli/deciding/owner.py",
        (("        if end != position_end:", "        if False:"),),
        "tests/deciding/test_outdated_leader.py::test_outdated_position_decides_no_command_again",
    ),
    Mutation(
        "a takeover during the recovery is reported as an outdated broker",
        "cqrs_cli/deciding/owner.py",
        (("            self.session.judge(self.session.read_committed_claim())\n", ""),),
        "tests/deciding/test_takeover.py::test_takeover_during_recovery_is_named",
    ),
    Mutation(
        "a record that cannot be produced is ignored",
        "cqrs_cli/kafka/transactional.py",
        (
            (
                "                return\n            except BufferError:",
                "                return\n            except KafkaException:\n                return\n"
                "            except BufferError:",
            ),
        ),
        "tests/kafka/test_writer.py::test_unproducible_record_prevents_the_commit",
    ),
    Mutation(
        "records after the last one read are ignored",
        "cqrs_cli/kafka/expected_offsets.py",
        (
            (
                "        elif end > expected:\n            self._error = UnreadRecordsError(topic, expected, end)\n",
                "",
            ),
        ),
        "tests/scenarios/takeovers/test_races.py::test_brokers_that_lag_cause_no_second_decision",
    ),
    Mutation(
        "a transaction is aborted although a part of it is visible",
        "cqrs_cli/deciding/in_doubt.py",
        (
            (
                "    return any(offset is not None and offset >= min(traces.hidden) for offset in visible_commands)",
                "    return False",
            ),
        ),
        "tests/deciding/test_in_doubt.py::test_visible_part_commits_the_rest",
    ),
    Mutation(
        "a shard of a lost history is trusted",
        "cqrs_cli/deciding/history_check.py",
        (("    if mismatch := history_mismatch(log, last_event, last_outcome):", "    if mismatch := '':"),),
        "tests/scenarios/losses/test_lost_histories.py::test_shard_of_lost_history_is_rebuilt",
    ),
    Mutation(
        "a shard ahead of the log is trusted",
        "cqrs_cli/deciding/owner.py",
        (("            check_not_ahead(self.store, session.log, start.offset)\n", "            pass\n"),),
        "tests/deciding/test_owner.py::test_shard_ahead_of_the_log_is_dropped",
    ),
    Mutation(
        "a new shard ahead of the log is reported as a damaged disk",
        "cqrs_cli/deciding/supervisor.py",
        ((" and not isinstance(error, AheadError)", ""),),
        "tests/deciding/test_owner.py::test_new_shard_ahead_of_log_is_rebuilt",
    ),
    Mutation(
        "the offset of a process's lost position is committed",
        "cqrs_cli/following/processes/in_doubt.py",
        (
            (
                "    return traces.visible_offset >= 0 and not traces.is_visible_in_group",
                "    return not traces.is_visible_in_group",
            ),
        ),
        "tests/following/processes/test_in_doubt.py::test_offset_without_its_position_is_aborted",
    ),
    Mutation(
        "event ids are random",
        "cqrs_cli/core/batch_state.py",
        (("write((offset, index,", "write((__import__('random').getrandbits(40), index,"),),
        "tests/core/test_fast_path.py::test_both_paths_give_the_same",
    ),
    Mutation(
        "the fast path ignores decisions of the same batch",
        "cqrs_cli/core/fast_path.py",
        (("(subject, command_id) in dedup_entries or ", ""),),
        "tests/core/test_model.py::test_outcomes_equal_the_reference_model",
    ),
    Mutation(
        "the fast path ignores deferred commands of the same batch",
        "cqrs_cli/core/fast_path.py",
        (("envelope is None or deferrals.active or ", "envelope is None or "),),
        "tests/core/test_fast_path.py::test_deferred_command_has_one_decision",
    ),
    Mutation(
        "a smaller id than a remembered id is new",
        "cqrs_cli/core/fast_path.py",
        (("if command_id > decisions.greatest_id:", "if command_id != decisions.greatest_id:"),),
        "tests/core/test_fast_path.py::test_both_paths_give_the_same",
    ),
    Mutation(
        "`decide` is called twice for a command",
        "cqrs_cli/core/decide.py",
        (
            (
                "                    handle(checked)\n",
                "                    handle(checked), handle(checked)\n",
            ),
        ),
        "tests/core/test_fast_path.py::test_both_paths_give_the_same",
    ),
    Mutation(
        "decided ids are not restored after a restart",
        "cqrs_cli/deciding/recover.py",
        (("            restore_dedup_entry(dedup_entries, outcome, record.timestamp)\n", ""),),
        "tests/deciding/test_recover.py::test_lost_shard_is_rebuilt_identically[deleted]",
    ),
    Mutation(
        "the shard is written without checking its token and positions",
        "cqrs_cli/state/lmdb_store.py",
        (("(head := self._head(txn)) != expected:", "(head := expected) != expected:"),),
        "tests/state/test_lmdb.py::TestLmdbStore::test_another_token_changes_nothing",
    ),
    Mutation(
        "claims are ordered by their counter instead of the run",
        "cqrs_cli/ownership/claim.py",
        (
            (
                "    own_run = (own_claim.run_epoch, own_claim.run)\n"
                "    committed_run = (committed_claim.run_epoch, committed_claim.run)\n",
                '    own_run = (own_claim.number, "")\n    committed_run = (committed_claim.number, "")\n',
            ),
        ),
        "tests/ownership/test_claim.py::test_later_run_has_taken_over",
    ),
    Mutation(
        "a fencing error is treated as a takeover",
        "cqrs_cli/ownership/supervisor.py",
        (
            (
                "            case UnwritableBatch():\n",
                "            case KafkaException() if '_FENCED' in str(error):\n"
                "                raise self.explain_takeover(self.mine)\n"
                "            case UnwritableBatch():\n",
            ),
        ),
        "tests/scenarios/takeovers/test_races.py::test_a_fence_without_claim_is_harmless",
    ),
    Mutation(
        "a process error fails the command",
        "cqrs_cli/core/handle.py",
        (
            (
                "    if isinstance(error, PROCESS_ERRORS):\n        raise error\n    if isinstance(error, Later)",
                "    if isinstance(error, Later)",
            ),
        ),
        "tests/core/test_decide.py::test_process_error_interrupts_the_batch",
    ),
    Mutation(
        "a command fails at the first process error",
        "cqrs_cli/ownership/poison_detection/attempts.py",
        (("elif attempts >= ATTEMPTS and offset", "elif attempts and offset"),),
        "tests/ownership/poison_detection/test_attempts.py",
    ),
    Mutation(
        "a command fails because of a process error in a larger batch",
        "cqrs_cli/deciding/supervisor.py",
        (("        if session.limit > 1:\n", "        if session.limit < 0:\n"),),
        "tests/deciding/test_batches.py::test_command_out_of_memory_is_retried",
    ),
    Mutation(
        "a death outside of `decide` counts against the command",
        "cqrs_cli/ownership/poison_detection/suspects.py",
        (("    if died and before.deciding:", "    if died:"),),
        "tests/ownership/poison_detection/test_suspects.py",
    ),
    Mutation(
        "a death does not reduce the number of suspects",
        "cqrs_cli/ownership/poison_detection/suspects.py",
        (("        return replace(before, count=before.limit)", "        return before"),),
        "tests/ownership/poison_detection/test_suspects.py::test_each_death_narrows_the_suspects",
    ),
    Mutation(
        "deaths of one command count against the next",
        "cqrs_cli/ownership/poison_detection/suspects.py",
        (
            (
                "(self.deaths, self.seconds) if self.announced == offset else (0, 0)",
                "(self.deaths, self.seconds)",
            ),
        ),
        "tests/ownership/poison_detection/test_suspects.py",
    ),
    Mutation(
        "an owner that was stopped counts as dead",
        "cqrs_cli/ownership/claim.py",
        (("died = not is_own and committed_claim.attempt != TERMINAL", "died = not is_own"),),
        "tests/ownership/poison_detection/test_claims.py",
    ),
    Mutation(
        "a command is decided alone without being announced",
        "cqrs_cli/ownership/session.py",
        (("            self.commit_position(position)\n            yield", "            yield"),),
        "tests/scenarios/crashes/test_deadly_commands.py::test_only_the_deadly_command_fails[exit-0]",
    ),
    Mutation(
        "other owners decide while a suspect is tried alone",
        "cqrs_cli/ownership/poison_detection/batch_admission.py",
        (("not self._has_suspect and not self._batch_count", "not self._has_suspect"),),
        "tests/ownership/poison_detection/test_batch_admission.py::test_waiting_suspect_is_admitted_first",
    ),
    Mutation(
        "a command that does not end is retried for ever",
        "cqrs_cli/ownership/watchdog.py",
        (("        self._thread.replace_claim(claim_with_hang)\n", ""),),
        "tests/scenarios/crashes/test_endless_decide.py::test_endless_command_fails_at_once",
    ),
    Mutation(
        "a pause of the process counts as time in `decide`",
        "cqrs_cli/ownership/watchdog.py",
        ((" or now - last_check > self._timing.pause_threshold:", ":"),),
        "tests/ownership/test_hang_detector.py",
    ),
    Mutation(
        "a worker is killed for a command that is already committed",
        "cqrs_cli/ownership/watchdog.py",
        (("            is_committed = position > offset\n", "            is_committed = False\n"),),
        "tests/ownership/test_hang_detector.py",
    ),
]
