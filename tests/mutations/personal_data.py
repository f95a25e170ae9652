"""The mutations of personal fields: annotations, encryption, redaction, and the knowledge of keys."""

from tests.mutations.table import Mutation

_PERSONAL_FIELD_TESTS = "tests/core/personal/test_personal_fields.py"
_ENCRYPTION_TESTS = "tests/core/personal/test_encryption.py"
_VERIFICATION_TESTS = "tests/proof/test_personal.py"
_REDACTION_TESTS = "tests/core/personal/test_text_redaction.py"
_KEY_RECORD_TESTS = "tests/keys/test_topic.py"
_DECRYPTOR_TESTS = "tests/codec/test_event_decryptor.py"

_BATCH_TESTS = "tests/core/personal/test_batches.py"
_DEFERRED_COMMAND_TESTS = "tests/core/personal/test_deferred_commands.py"

PERSONAL_DATA = [
    Mutation(
        "a reader treats a late key as erased",
        "cqrs_cli/keys/reader_keys.py",
        (("self._end if use.offset < self._covered_events.get(events_partition, 0) else None", "self._end"),),
        f"{_DECRYPTOR_TESTS}::test_late_key_is_waited_for",
    ),
    Mutation(
        "a reader keeps an erased key",
        "cqrs_cli/codec/event_decryptor.py",
        (("                    reader_keys.end_key(event.subject, kid)", "                    pass"),),
        f"{_DECRYPTOR_TESTS}::test_erased_event_ends_a_key_without_tombstone",
    ),
    Mutation(
        "a reader treats keys as erased after a truncation of the topic",
        "cqrs_cli/keys/log.py",
        (("    if end < next_offset:", "    if False:"),),
        f"{_DECRYPTOR_TESTS}::test_truncated_keys_topic_is_no_erasure",
    ),
    Mutation(
        "an export contains personal values that were not requested",
        "cqrs_cli/codec/encrypted_events.py",
        (
            (
                "        if name in redacted_values or is_encrypted(bytes(member))",
                "        if is_encrypted(bytes(member))",
            ),
        ),
        "tests/codec/test_encrypted_events.py::test_redacted_events_have_no_values",
    ),
    Mutation(
        "an event is written unencrypted",
        "cqrs_cli/core/batch_state.py",
        (("data = encryption.encrypt_event(event, data, envelope.subject, offset, index)", "pass"),),
        f"{_BATCH_TESTS}::test_events_are_decrypted_at_their_location",
    ),
    Mutation(
        "an erased aggregate keeps its key",
        "cqrs_cli/core/batch_state.py",
        (("            self.encryption.drop_key(envelope.subject)", "            pass"),),
        f"{_BATCH_TESTS}::test_erase_deletes_the_key_permanently",
    ),
    Mutation(
        "a sender may encrypt members of a command",
        "cqrs_cli/core/batch_encryption.py",
        (("                if has_encrypted_shape(data):", "                if False:"),),
        f"{_BATCH_TESTS}::test_senders_may_not_encrypt",
    ),
    Mutation(
        "the payload of an event is stored unencrypted",
        "cqrs_cli/core/batch_state.py",
        (
            (
                " if encryption is None else encryption.encrypt_event(event, data, subject, offset, index)",
                "",
            ),
        ),
        f"{_BATCH_TESTS}::test_hashes_of_payloads_are_of_encrypted_data",
    ),
    Mutation(
        "a deferred command is stored unencrypted",
        "cqrs_cli/core/deferral/deferrals.py",
        (("            if self.encrypt_document is not None:", "            if False:"),),
        f"{_DEFERRED_COMMAND_TESTS}::test_deferred_commands_are_encrypted",
    ),
    Mutation(
        "a deferred command survives the erasure of its key",
        "cqrs_cli/core/personal/data_keys.py",
        (("            if key is None or key.kid != kid:", "            if key is None:"),),
        f"{_DEFERRED_COMMAND_TESTS}::test_deferred_command_ends_with_its_key",
    ),
    Mutation(
        "an annotation within a type is ignored",
        "cqrs_cli/core/personal/personal_fields.py",
        (
            (
                "if any(isinstance(part, PersonalAnnotation) for part in _parts_of(plain_type, set())):",
                "if False:",
            ),
        ),
        f"{_PERSONAL_FIELD_TESTS}::test_invalid_annotation_is_refused",
    ),
    Mutation(
        "a shard is kept after a field becomes personal",
        "cqrs_cli/core/aggregate/schema.py",
        (("        for field in tree_of(cls).personal_fields:", "        for field in ():"),),
        f"{_PERSONAL_FIELD_TESTS}::test_schema_digest_depends_on_annotations",
    ),
    Mutation(
        "an encrypted value can be moved and decrypted",
        "cqrs_cli/core/personal/encryption.py",
        (
            ("encrypt(value, associated_data(location))", "encrypt(value, [])"),
            ("decrypt(ciphertext, associated_data(location))", "decrypt(ciphertext, [])"),
        ),
        f"{_ENCRYPTION_TESTS}::test_moved_value_is_not_decrypted",
    ),
    Mutation(
        "a value with another key is reported as damaged",
        "cqrs_cli/core/personal/encryption.py",
        (("        if kid != self.kid:", "        if False:"),),
        f"{_ENCRYPTION_TESTS}::test_value_of_another_key_names_it",
    ),
    Mutation(
        "a missing personal field gets no redacted value",
        "cqrs_cli/core/personal/message_redaction.py",
        (
            (
                "Raw(field.redacted_json) for field in personal_fields(cls)}",
                "Raw(field.redacted_json) for field in personal_fields(cls)"
                " if field.wire_name in read_members(data)}",
            ),
        ),
        "tests/core/personal/test_message_redaction.py::test_missing_field_gets_its_redacted_value",
    ),
    Mutation(
        "a fingerprint includes personal values",
        "cqrs_cli/core/messages/fingerprint.py",
        (("            members.pop(name, None)", "            pass"),),
        "tests/core/messages/test_fingerprint.py::test_personal_values_do_not_count",
    ),
    Mutation(
        "a digest changes with an erasure",
        "cqrs_cli/core/digest.py",
        (("version, aggregate.personal.redact_data(aggregate.state, state))", "version, state)"),),
        "tests/core/test_digest.py::test_personal_fields_do_not_change_the_digest",
    ),
    Mutation(
        "fields without annotation may depend on personal fields",
        "cqrs_cli/testing/laws.py",
        (("        if redacted_result != expected:", "        if False:"),),
        "tests/testing/test_personal_laws.py::test_derived_values_are_personal",
    ),
    Mutation(
        "an erased state keeps its values",
        "cqrs_cli/core/aggregate/erased.py",
        (("        redacted = redact(state)\n", "        redacted = state\n"),),
        "tests/core/test_erasure.py::test_erased_folds_to_the_redacted_state",
    ),
    Mutation(
        "an erasure removes no key from caches",
        "cqrs_cli/keys/topic.py",
        (
            (
                "current = None if self.current is not None and self.current.kid == kid else self.current",
                "current = self.current",
            ),
        ),
        "tests/model/erasing/test_erasing.py::test_erasure_breaks_no_promise",
    ),
    Mutation(
        "an erased key returns",
        "cqrs_cli/keys/topic.py",
        (("        if wrapped is not None and wrapped.kid in self.ended:\n", "        if False:\n"),),
        f"{_KEY_RECORD_TESTS}::test_deleted_key_never_comes_back",
    ),
    Mutation(
        "a key that is not read yet is treated as erased",
        "cqrs_cli/keys/topic.py",
        (("end is not None and read_until >= end", "True"),),
        f"{_KEY_RECORD_TESTS}::test_missing_key_is_erased_only_after_reading",
    ),
    Mutation(
        "a deferred command is decided without its key",
        "cqrs_cli/keys/topic.py",
        (("return self.current is None or self.current.kid != kid", "return False"),),
        "tests/model/erasing/test_erasing.py::test_erasure_breaks_no_promise",
    ),
    Mutation(
        "a key can be decrypted for another aggregate",
        "cqrs_cli/keys/topic.py",
        (
            ("associated_data((topic, subject, wrapped.kid))", "associated_data((wrapped.kid,))"),
            ("associated_data((topic, subject, key.kid))", "associated_data((key.kid,))"),
        ),
        f"{_KEY_RECORD_TESTS}::test_copied_or_altered_key_does_not_unwrap",
    ),
    Mutation(
        "a paused owner overwrites the keys of its successor",
        "cqrs_cli/state/key_cache.py",
        (("if (offsets := self._offsets(txn)) != start:", "if (offsets := self._offsets(txn)) is None:"),),
        "tests/state/test_key_cache.py::test_stale_writer_changes_nothing",
    ),
    Mutation(
        "verify includes personal values in fingerprints",
        "cqrs_cli/proof/fingerprints.py",
        (("if aggregate is None or not aggregate.has_personal_fields:", "if aggregate is not None:"),),
        f"{_VERIFICATION_TESTS}::test_personal_values_do_not_count",
    ),
    Mutation(
        "verify knows only the current annotations",
        "cqrs_cli/proof/fingerprints.py",
        (("stored_fingerprint == earlier(command_type, data, expected)\n", "False\n"),),
        f"{_VERIFICATION_TESTS}::test_earlier_code_had_fewer_annotations",
    ),
    Mutation(
        "a failed outcome quotes an exception with personal values",
        "cqrs_cli/core/aggregate/aggregate.py",
        (("package or self.package, not self.has_personal_fields)", "package or self.package)"),),
        f"{_REDACTION_TESTS}::test_outcome_has_no_personal_value",
    ),
    Mutation(
        "a traceback contains the message of an exception",
        "cqrs_cli/core/handle.py",
        (("__cause__ = aggregate.redact_error(error)", "__cause__ = error"),),
        f"{_REDACTION_TESTS}::test_line_of_an_error_is_shown",
    ),
    Mutation(
        "a rejection contains a personal value of the state",
        "cqrs_cli/core/handle.py",
        (
            (
                "        redact = aggregate.personal.text_redactor(command, state)\n",
                "        redact = aggregate.personal.text_redactor(command)\n",
            ),
        ),
        f"{_REDACTION_TESTS}::test_value_of_the_state_is_redacted",
    ),
    Mutation(
        "an outcome quotes an invalid personal value",
        "cqrs_cli/core/checks.py",
        (("aggregate.personal.redact_mismatch(str(error), cls, data)", "str(error)"),),
        f"{_REDACTION_TESTS}::test_outcome_has_no_personal_value",
    ),
    Mutation(
        "an upcaster's error quotes the event",
        "cqrs_cli/core/aggregate/upcasting.py",
        (("                if shows_values\n", "                if event\n"),),
        f"{_REDACTION_TESTS}::test_unreadable_event_is_not_quoted",
    ),
    Mutation(
        "a subscription to personal events may omit erasures",
        "cqrs_cli/core/subscription_rule.py",
        (("    if personal_events:\n", "    if False:\n"),),
        "tests/core/test_subscription_rule.py::test_refused_subscriptions",
    ),
    Mutation(
        "removing a personal-data annotation is compatible",
        "cqrs_cli/core/aggregate/schema_comparison.py",
        (('yield Difference(path, "unmarked"', 'yield Difference(path, "wider"'),),
        "tests/core/aggregate/test_annotation_changes.py::test_annotation_must_not_be_removed",
    ),
    Mutation(
        "the JSON contract lacks the personal-data annotations",
        "cqrs_cli/core/aggregate/json_schema.py",
        (("for field in node.personal_fields:", "for field in ():"),),
        "tests/core/aggregate/test_json_schema.py::test_personal_fields_are_marked",
    ),
]
