"""The mutations of `verify`'s checks of keys and erasures: each rule is omitted."""

from tests.mutations.table import Mutation

_KEY_TESTS = "tests/proof/test_keys.py"
_ENCRYPTED_COMMAND_TESTS = "tests/proof/deferred/test_encrypted.py"
_ERASURE_TESTS = "tests/scans/erased/test_verify.py"

KEY_VERIFICATION = [
    Mutation(
        "two keys may encrypt one aggregate",
        "cqrs_cli/proof/key_rules.py",
        (("    if before.kid not in (None, key.kid):", "    if False:"),),
        f"{_KEY_TESTS}::test_one_key_between_two_ends",
    ),
    Mutation(
        "an erased key may still encrypt",
        "cqrs_cli/proof/key_rules.py",
        (("    if key.kid in before.erased_kids:\n        predicate", "    if False:\n        predicate"),),
        f"{_KEY_TESTS}::test_key_ends_once",
    ),
    Mutation(
        "the events of a command may have two keys",
        "cqrs_cli/proof/events.py",
        (("if events.kid is not None and (events.kid, events.is_erasure) != key:", "if False:"),),
        f"{_KEY_TESTS}::test_event_under_another_key_is_found",
    ),
    Mutation(
        "a lost key is no violation",
        "cqrs_cli/proof/keys.py",
        (
            (
                "    if active_kid in (None, topic_kid):",
                "    if topic_kid is None or active_kid in (None, topic_kid):",
            ),
        ),
        f"{_KEY_TESTS}::test_lost_key_is_a_violation",
    ),
    Mutation(
        "an erased key may return to the topic",
        "cqrs_cli/proof/keys.py",
        (("    if topic_kid is not None and topic_kid in key_entry.erased_kids:", "    if False:"),),
        f"{_KEY_TESTS}::test_restored_key_is_found",
    ),
    Mutation(
        "a key that was erased during verification is reported as lost",
        "cqrs_cli/proof/key_topic.py",
        (("*erased_keys_in(later_events)}", "}"),),
        f"{_KEY_TESTS}::test_erasure_since_explains_the_loss",
    ),
    Mutation(
        "a damaged encrypted value is no violation",
        "cqrs_cli/codec/damage_finder.py",
        (("kid_of(value) != wrapped.kid", "True"),),
        f"{_KEY_TESTS}::test_damaged_encrypted_value_is_found",
    ),
    Mutation(
        "any command may erase a key",
        "cqrs_cli/proof/key_rules.py",
        (("events.is_erasure != erases or", "False or"),),
        f"{_KEY_TESTS}::test_key_ends_only_by_an_erasure",
    ),
    Mutation(
        "an erase without effect may leave the current key",
        "cqrs_cli/proof/key_rules.py",
        (('if outcome.status == "unchanged" and key_entry.kid is not None', "if False"),),
        f"{_KEY_TESTS}::test_unchanged_erase_has_no_key",
    ),
    Mutation(
        "an erase may delete a key that it does not name",
        "cqrs_cli/proof/key_rules.py",
        (
            (
                "if events is not None and events.is_erasure and named_kid not in (None, events.kid):",
                "if False:",
            ),
        ),
        f"{_KEY_TESTS}::test_erase_deletes_the_key_it_names",
    ),
    Mutation(
        "a sender may encrypt values",
        "cqrs_cli/proof/key_rules.py",
        (("if _was_decrypted(outcome) and has_encrypted_members(bytes(envelope.data)):", "if False:"),),
        f"{_KEY_TESTS}::test_sender_may_not_encrypt",
    ),
    Mutation(
        "a command is ERASED although its key is current",
        "cqrs_cli/proof/key_rules.py",
        (("    if is_erased and not kids & {*key_entry.erased_kids}:", "    if False:"),),
        f"{_ENCRYPTED_COMMAND_TESTS}::test_erased_command_has_deleted_key",
    ),
    Mutation(
        "a command is decided with redacted values",
        "cqrs_cli/proof/key_rules.py",
        (("    elif kids & {*key_entry.erased_kids} and _was_decrypted(outcome):", "    elif False:"),),
        f"{_ENCRYPTED_COMMAND_TESTS}::test_decided_command_has_its_key",
    ),
    Mutation(
        "a command that was never deferred may be ERASED",
        "cqrs_cli/proof/key_rules.py",
        (("if outcome.reason == _ERASED and outcome.deferredfrom is None:", "if False:"),),
        f"{_ENCRYPTED_COMMAND_TESTS}::test_erased_command_was_deferred",
    ),
    Mutation(
        "an encrypted deferred command differs from the original",
        "cqrs_cli/proof/documents.py",
        (('return with_data(document, b"null" if', 'return document or with_data(document, b"null" if'),),
        f"{_ENCRYPTED_COMMAND_TESTS}::test_encrypted_deferred_commands_are_clean",
    ),
    Mutation(
        "a deferred command may be encrypted with any key",
        "cqrs_cli/proof/key_topic.py",
        (
            (
                "            elif (subject, active_kid) not in self._recently_erased:",
                "            elif False:",
            ),
        ),
        f"{_ENCRYPTED_COMMAND_TESTS}::test_deferred_command_is_under_current_key",
    ),
    Mutation(
        "the key of deferred commands may be lost",
        "cqrs_cli/proof/key_topic.py",
        (("                active_kid = kid\n", "                continue\n"),),
        f"{_ENCRYPTED_COMMAND_TESTS}::test_deferred_command_needs_its_key",
    ),
    Mutation(
        "personal fields count when a process manager's commands are compared",
        "cqrs_cli/following/processes/sent_commands.py",
        (("        value = redact(value)\n", "        pass\n"),),
        "tests/following/processes/test_sent_commands.py::test_personal_fields_do_not_count",
    ),
    Mutation(
        "a shard may have unencrypted personal values",
        "cqrs_cli/codec/ciphertext.py",
        (("        if not is_encrypted(value):\n            yield", "        if False:\n            yield"),),
        f"{_ERASURE_TESTS}::test_shard_in_plain_text",
    ),
    Mutation(
        "a simulation forgets existing keys",
        "cqrs_cli/scans/whatif/simulation.py",
        (("            self.keys.fold(record.message for record in batch)\n", ""),),
        "tests/jobs/whatif/test_personal.py::test_erasures_make_no_difference",
    ),
    Mutation(
        "a simulation redacts deferred commands",
        "cqrs_cli/scans/whatif/simulation.py",
        (("[self.keys.restore_sent_data(command) for command in batch]", "batch"),),
        "tests/jobs/whatif/test_personal.py::test_deferred_commands_are_decided_as_sent",
    ),
    Mutation(
        "a simulation shows personal values",
        "cqrs_cli/proof/whatif/difference.py",
        (("return event.data if cls is None else Raw(", "return event.data or Raw("),),
        "tests/jobs/whatif/test_personal.py::test_values_are_decided_on_and_not_shown",
    ),
    Mutation(
        "the digest of status includes personal fields",
        "cqrs_cli/status/shards.py",
        (
            (
                "digest.state_digest(aggregate_for_digests, aggregate_id,",
                "digest.aggregate_digest(aggregate_id,",
            ),
        ),
        "tests/status/test_shards.py::test_digest_is_the_same_after_an_erasure",
    ),
    Mutation(
        "plain text in events is not reported",
        "cqrs_cli/codec/ciphertext.py",
        (("if not is_encrypted(value)]", "if False]"),),
        f"{_ERASURE_TESTS}::test_event_in_plain_text",
    ),
    Mutation(
        "a copied key cache is not searched",
        "cqrs_cli/scans/erased/files.py",
        (("in cached_kids(folder) if", "in () if"),),
        f"{_ERASURE_TESTS}::test_copied_key_cache_is_found",
    ),
    Mutation(
        "the shard in a checkpoint is not searched",
        "cqrs_cli/scans/erased/files.py",
        (("                    yield from self._search_lmdb(copy.parent, location)\n", ""),),
        "tests/scans/erased/test_checkpoints.py::test_checkpoint_in_plain_text",
    ),
    Mutation(
        "a copied shard is recognised only by its file name",
        "cqrs_cli/scans/erased/files.py",
        (("        elif _is_lmdb(file):", "        elif False:"),),
        "tests/scans/erased/test_checkpoints.py::test_checkpoints_in_given_folder",
    ),
    Mutation(
        "erased data with a current key is not reported",
        "cqrs_cli/proof/erased.py",
        (("self.active_kid in kids and", "False and"),),
        "tests/scans/erased/test_decryptable_values.py::test_decryptable_event_is_found",
    ),
    Mutation(
        "unreferenced payloads are not searched",
        "cqrs_cli/scans/erased/verify.py",
        (("        yield store.subfolder(name, UNUSED_SUBFOLDER)\n", ""),),
        "tests/scans/erased/test_stores.py::test_unreferenced_payload_is_searched",
    ),
    Mutation(
        "a value across two chunks is not found",
        "cqrs_cli/scans/erased/search_patterns.py",
        (("window[max(0, len(window) - self._overlap) :]", 'b""'),),
        "tests/scans/erased/test_search_patterns.py::test_text_is_found_across_chunks",
    ),
    Mutation(
        "commands without time-based retention are no violation",
        "cqrs_cli/scans/erased/verify.py",
        (("                if records.deletion_deadline == NEVER\n", "                if False\n"),),
        f"{_ERASURE_TESTS}::test_commands_without_retention_are_found",
    ),
]
