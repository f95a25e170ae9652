"""The mutations of owners' keys, calls and positions: how owners read and write them, and where owners stop."""

from tests.mutations.table import Mutation

_OWNER_KEY_TESTS = "tests/deciding/test_owner_keys.py"
_OWNER_KEYS = "cqrs_cli/deciding/owner_keys.py"
_STATE_CACHE_FILE = "cqrs_cli/deciding/state_cache.py"

OWNERSHIP = [
    Mutation(
        "states in the shard are not encrypted",
        "cqrs_cli/deciding/packing.py",
        (("        data = encryption.encrypt_state(aggregate_id, data)", "        pass"),),
        f"{_OWNER_KEY_TESTS}::test_state_in_shard_is_encrypted",
    ),
    Mutation(
        "the shard is written before the keys",
        _STATE_CACHE_FILE,
        (
            (
                "        has_unresolved = self.keys is not None and self._flush_keys(self.keys, end)\n",
                "",
            ),
            (
                "        self._flushed = end\n        if self._has_unresolved_keys",
                "        doubts = self.keys is not None and self._flush_keys(self.keys, end)\n"
                "        self._flushed = end\n        if self._has_unresolved_keys",
            ),
        ),
        f"{_OWNER_KEY_TESTS}::test_crash_while_flushing_changes_nothing",
    ),
    Mutation(
        "a cache from before an erasure is trusted",
        _OWNER_KEYS,
        (("if clears_store or stored_until < known_until or", "if clears_store or"),),
        f"{_OWNER_KEY_TESTS}::test_cache_from_before_an_erasure_is_dropped",
    ),
    Mutation(
        "an interrupted read of the keys topic counts as complete",
        _OWNER_KEYS,
        (("            self._write(offsets.events)", "            self._write(noted)"),),
        f"{_OWNER_KEY_TESTS}::test_interrupted_reading_of_keys_restarts",
    ),
    Mutation(
        "a folded erasure removes no key",
        _OWNER_KEYS,
        (("            self._end_key(event.subject, erased.key)", "            pass"),),
        f"{_OWNER_KEY_TESTS}::test_deleted_key_stays_deleted_without_tombstone",
    ),
    Mutation(
        "a committed erasure removes no key",
        _OWNER_KEYS,
        (("                self._end_key(subject, current.kid)", "                pass"),),
        f"{_OWNER_KEY_TESTS}::test_erased_key_in_the_topic_is_ignored",
    ),
    Mutation(
        "a lost key counts as erased",
        _OWNER_KEYS,
        (("            self.unresolved_keys[kid] = subject", "            pass"),),
        f"{_OWNER_KEY_TESTS}::test_lost_key_stops_recovery",
    ),
    Mutation(
        "a lost key is forgotten after the first attempt",
        _STATE_CACHE_FILE,
        (("        if keys.unresolved_keys and not self._has_unresolved_keys:", "        if False:"),),
        f"{_OWNER_KEY_TESTS}::test_lost_key_stops_recovery",
    ),
    Mutation(
        "an owner decides without a key that was lost",
        _OWNER_KEYS,
        (("            elif not self._is_loss_accepted:", "            elif False:"),),
        f"{_OWNER_KEY_TESTS}::test_lost_key_stops_deciding",
    ),
    Mutation(
        "all keys stay in memory",
        "cqrs_cli/keys/decrypted_key_cache.py",
        (("        if len(self._keys) > self._limit:", "        if False:"),),
        f"{_OWNER_KEY_TESTS}::test_few_keys_stay_decrypted",
    ),
    Mutation(
        "a partition keeps the keys of other partitions",
        _OWNER_KEYS,
        (("records if key_filter is None else key_filter.matching(records)", "records"),),
        f"{_OWNER_KEY_TESTS}::test_keys_of_other_owners_are_not_stored",
    ),
    Mutation(
        "a child trusts keys that it read before the split",
        _OWNER_KEYS,
        ((" or (key_filter is not None and stored_until == 0):", ":"),),
        f"{_OWNER_KEY_TESTS}::test_child_without_events_rereads_keys",
    ),
    Mutation(
        "a hidden key does not count for completing a transaction",
        "cqrs_cli/deciding/in_doubt.py",
        (("            self.hidden_key,\n", ""),),
        "tests/deciding/test_in_doubt.py::test_visible_outcome_commits_the_key",
    ),
    Mutation(
        "a hidden deferred command does not count for completing a transaction",
        "cqrs_cli/deciding/in_doubt.py",
        (("            self.hidden_deferred,\n", ""),),
        "tests/deciding/test_in_doubt.py::test_visible_outcome_commits_other_records",
    ),
    Mutation(
        "a resubmission is aborted although a part of it is visible",
        "cqrs_cli/deciding/in_doubt.py",
        (("            or _is_resubmission_visible(log, topic_id, first_resubmitted)\n", ""),),
        "tests/scenarios/crashes/hanging/test_other_topics.py::test_half_a_resubmission_is_resolved",
    ),
    Mutation(
        "a hanging call to the broker is never given up",
        "cqrs_cli/ownership/monitored_thread.py",
        (("overdue_seconds > self.timing.overdue_timeout and", "False and"),),
        "tests/scenarios/takeovers/test_zombies.py::test_overdue_call_ends_the_process",
    ),
    Mutation(
        "a call is given up right after a pause",
        "cqrs_cli/ownership/monitored_thread.py",
        ((" and running_for > self.timing.pause_threshold", ""),),
        "tests/scenarios/takeovers/test_zombies.py::test_overdue_call_ends_the_process",
    ),
    Mutation(
        "a lost leader is not looked up again",
        "cqrs_cli/kafka/leaders.py",
        (("            _refresh_leaders(reader, topic, answer_timeout)\n", "            pass\n"),),
        "tests/kafka/test_readers.py::test_lost_leader_is_looked_up_again",
    ),
    Mutation(
        "an idle owner waits for a lost coordinator",
        "cqrs_cli/ownership/session.py",
        (
            (
                "self.read_commit(self.uncommitted_consumer, COORDINATOR_TIMEOUT)",
                "self.read_commit(self.uncommitted_consumer)",
            ),
        ),
        "tests/scenarios/takeovers/test_zombies.py::test_idle_owner_uses_short_request_timeout",
    ),
    Mutation(
        "a run that ends also retires claims that are not its own",
        "cqrs_cli/ownership/retire.py",
        (("            if terminal_claim(commit.claim, run)\n", ""),),
        "tests/jobs/run/test_retire.py::test_only_its_open_claims_are_retired",
    ),
    Mutation(
        "a commit may take as long as a transaction",
        "cqrs_cli/kafka/transactional.py",
        (("timeout = min(self._timeout, COORDINATOR_TIMEOUT)", "timeout = self._timeout"),),
        "tests/kafka/test_writer.py::test_commit_has_less_time_than_an_election",
    ),
    Mutation(
        "logs are read to the last stable offset",
        "cqrs_cli/ownership/session.py",
        (('isolation="read_uncommitted"', 'isolation="read_committed"'),),
        "tests/scenarios/losses/test_loss.py::test_foreign_open_transaction_stops_the_owner",
    ),
    Mutation(
        "an old offset is claimed without a check of the outcomes",
        "cqrs_cli/deciding/owner.py",
        ((" and (claim is not None or first_undecided == offset):", ":"),),
        "tests/deciding/test_old_offset.py::test_old_offset_is_not_claimed[by the log]",
    ),
    Mutation(
        "a claim is committed at the group's offset, before later decisions",
        "cqrs_cli/deciding/session.py",
        (
            (
                "        return decided_end(self.log, offset, claim, outcomes, self.log_end())",
                "        return offset",
            ),
        ),
        "tests/deciding/test_omitted_positions.py::test_next_owner_continues_after_last_outcome[another]",
    ),
    Mutation(
        "a batch with a dead letter omits its position",
        "cqrs_cli/deciding/loop.py",
        (("is_simple and not (piece.dead_letters or piece.forwards)", "is_simple and not piece.forwards"),),
        "tests/deciding/test_omitted_positions.py::test_dead_letter_commits_the_position",
    ),
    Mutation(
        "a batch omits its position although the claim has changed",
        "cqrs_cli/deciding/session.py",
        (("            or replace(claim, counts=committed_claim.counts) != committed_claim\n", ""),),
        "tests/scenarios/crashes/test_deadly_commands.py",
    ),
    Mutation(
        "a failed record counts as reported",
        "cqrs_cli/kafka/expected_offsets.py",
        (("        self._unreported_counts[topic] += 1\n", ""),),
        "tests/kafka/test_expected_offsets.py",
    ),
    Mutation(
        "a new reader does not look up its leader",
        "cqrs_cli/kafka/leaders.py",
        (("        _refresh_leaders(reader, topic, FIRST_ANSWER_TIMEOUT)\n", "        pass\n"),),
        "tests/kafka/test_leaders.py",
    ),
    Mutation(
        "the first request of a client has a long timeout",
        "cqrs_cli/kafka/leaders.py",
        (
            (
                "            return request(min(_FIRST_CALL_TIMEOUT, answer_timeout))\n",
                "            return request(answer_timeout)\n",
            ),
        ),
        "tests/kafka/test_leaders.py",
    ),
    Mutation(
        "records that are appended between two requests look like a transaction",
        "cqrs_cli/kafka/partition_log.py",
        (
            (
                "        high_watermark = self.watermarks(uncommitted_reader, kind)[1]\n"
                "        return self.watermarks(committed_reader, kind)[1] < high_watermark\n",
                "        return self.watermarks(committed_reader, kind)[1]"
                " < self.watermarks(uncommitted_reader, kind)[1]\n",
            ),
        ),
        "tests/kafka/test_partition_log.py::test_appending_is_no_transaction",
    ),
    Mutation(
        "a client with an error returns to the pool",
        "cqrs_cli/kafka/consumer_pool.py",
        (
            (
                "            client.close()\n            raise\n",
                "            _take_back(client, idle)\n            raise\n",
            ),
        ),
        "tests/kafka/test_consumer_pool.py::test_failed_clients_are_not_reused",
    ),
]
