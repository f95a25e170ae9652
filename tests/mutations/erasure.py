"""The mutations of erasing by command line, HTTP and process managers, and of messages that could reveal values."""

from tests.mutations.table import Mutation

_COMPOSE_TESTS = "tests/following/processes/test_compose.py"
_GATEWAY_TESTS = "tests/following/gateway/test_erasing.py"
_LOST_KEY_TESTS = "tests/codec/test_lost_keys.py"
_PROJECTION_TESTS = "tests/following/projections/test_personal.py"
_ERASURE_TESTS = "tests/client/test_erasures.py"

ERASURE = [
    Mutation(
        "an error about damaged data quotes the data",
        "cqrs_cli/core/personal/text_redaction.py",
        (("        return UNSEARCHABLE_TEXT\n", "        pass\n"),),
        "tests/core/personal/test_text_redaction.py::test_decoding_error_shows_no_value",
    ),
    Mutation(
        "a reader treats a lost key as erased",
        "cqrs_cli/codec/event_decryptor.py",
        (("                    reader_keys.check_all_resolved()\n", "                    pass\n"),),
        f"{_LOST_KEY_TESTS}::test_lost_key_is_named",
    ),
    Mutation(
        "a reader before an erasure reports the erased key as lost",
        "cqrs_cli/codec/event_decryptor.py",
        (("                    self._search_erasures(reader_keys, number)\n", ""),),
        f"{_LOST_KEY_TESTS}::test_later_erasure_is_found",
    ),
    Mutation(
        "an aggregate without personal fields can be erased",
        "cqrs_cli/core/reserved.py",
        (("        return aggregate.has_personal_fields or not self.erases\n", "        return True\n"),),
        "tests/core/test_reserved.py::test_only_personal_aggregates_are_erased",
    ),
    Mutation(
        "a process manager cannot erase",
        "cqrs_cli/core/reserved.py",
        (("erases=True, is_for_services=True", "erases=True"),),
        f"{_COMPOSE_TESTS}::test_processes_erase",
    ),
    Mutation(
        "a process manager may cancel commands",
        "cqrs_cli/following/processes/compose.py",
        (("    if reserved is not None and reserved.is_for_services:\n", "    if reserved is not None:\n"),),
        f"{_COMPOSE_TESTS}::test_only_personal_aggregates_can_be_erased",
    ),
    Mutation(
        "a process manager's error contains values of the event",
        "cqrs_cli/following/processes/compose.py",
        (
            (
                "            redacted = error.redact(recorded.event, value.command)\n",
                "            redacted = error\n",
            ),
        ),
        f"{_COMPOSE_TESTS}::test_errors_contain_no_personal_value",
    ),
    Mutation(
        "an error about the result of `react` quotes personal values",
        "cqrs_cli/core/react.py",
        (("_class_name if personal_fields(event_type) else _abbreviate", "_abbreviate"),),
        "tests/core/test_react.py::test_personal_events_show_no_values",
    ),
    Mutation(
        "a token for sending also permits erasing",
        "cqrs_cli/following/gateway/guard.py",
        (("    if right not in access_of(scope).rights:\n", "    if False:\n"),),
        f"{_GATEWAY_TESTS}::test_erasing_needs_its_right",
    ),
    Mutation(
        "a token without rights also permits erasing",
        "cqrs_cli/following/gateway/token.py",
        (('frozenset({"read", "send"})\n', 'frozenset({"read", "send", "erase"})\n'),),
        f"{_GATEWAY_TESTS}::test_erasing_needs_its_right",
    ),
    Mutation(
        "the gateway's error quotes the invalid value",
        "cqrs_cli/following/gateway/commands.py",
        (("aggregate.personal.redact_mismatch(str(error), command_class, body)", "str(error)"),),
        f"{_GATEWAY_TESTS}::test_errors_have_no_personal_value",
    ),
    Mutation(
        "a projection's error quotes the database's message",
        "cqrs_cli/following/projections/projector.py",
        ((" and not self._aggregate.has_personal_fields:\n", ":\n"),),
        f"{_PROJECTION_TESTS}::test_errors_contain_no_value",
    ),
    Mutation(
        "a projection's error has an unredacted cause",
        "cqrs_cli/following/projections/projector.py",
        (("error) from self._aggregate.redact_error(error)\n", "error) from error\n"),),
        f"{_PROJECTION_TESTS}::test_errors_contain_no_value",
    ),
    Mutation(
        "an error about an invalid field quotes a personal value",
        "cqrs_cli/client/field_values.py",
        ((' if match["name"] in personal else field_text[:60]', " if False else field_text[:60]"),),
        "tests/client/test_field_values.py::test_messages_have_no_personal_value",
    ),
    Mutation(
        "a process error in `evolve` keeps its message",
        "cqrs_cli/core/fold.py",
        (
            (
                "event.type, event.data)\n    except PROCESS_ERRORS as error:\n        aggregate.raise_redacted(error)",
                "event.type, event.data)\n    except PROCESS_ERRORS as error:\n        raise",
            ),
        ),
        "tests/core/personal/test_text_redaction.py::test_process_error_has_no_message",
    ),
    Mutation(
        "a redacted process error keeps its context",
        "cqrs_cli/core/aggregate/errors.py",
        (("copy.__suppress_context__ = True", "pass"),),
        "tests/core/personal/test_text_redaction.py::test_process_error_has_no_message",
    ),
    Mutation(
        "a replay shows the message of a process error",
        "cqrs_cli/scans/replay/fold.py",
        (("self._aggregate.raise_redacted(error)", "raise"),),
        "tests/core/personal/test_text_redaction.py::test_process_error_has_no_message",
    ),
    Mutation(
        "a traceback on the terminal shows error messages",
        "cqrs_cli/cli/output.py",
        (("redacted_traceback if self.has_personal_data else traceback_text\n", "traceback_text\n"),),
        "tests/cli/test_tracebacks.py::test_shown_errors_have_no_personal_values",
    ),
    Mutation(
        "an erase deletes a later key than the key that it names",
        "cqrs_cli/core/erasure.py",
        (("if key is None or command.key not in (None, key)", "if key is None"),),
        "tests/core/test_erasure.py::test_erase_keeps_a_later_key",
    ),
    Mutation(
        "any event in an erasure file erases",
        "cqrs_cli/client/erasures.py",
        (('    if message.get("type") != ERASED:\n', "    if False:\n"),),
        f"{_ERASURE_TESTS}::test_errors_name_the_line",
    ),
    Mutation(
        "an erasure file is overwritten instead of extended",
        "cqrs_cli/client/erasures.py",
        (('open(self.path, "ab", opener=opener)', 'open(self.path, "wb", opener=opener)'),),
        f"{_ERASURE_TESTS}::test_erasure_file_is_read_back",
    ),
    Mutation(
        "a specification ignores an erasure",
        "cqrs_cli/testing/spec.py",
        (
            (
                "            return self.aggregate.step(state, ERASED, encode_json(event))\n",
                "            return state\n",
            ),
        ),
        "tests/testing/test_personal_laws.py::test_specification_applies_an_erasure",
    ),
    Mutation(
        "an upcaster gets null instead of the redacted value",
        "cqrs_cli/core/personal/encrypted_data.py",
        (('redacted_values.get(name, b"null")\n', 'b"null"\n'),),
        "tests/core/personal/test_encrypted_data.py::test_unknown_redacted_value_is_null",
    ),
    Mutation(
        "`decide` may return encrypted values",
        "cqrs_cli/core/batch_state.py",
        (("aggregate.quick_encode, aggregate.step_decided", "aggregate.quick_encode, aggregate.step"),),
        "tests/core/personal/test_batches.py::test_decide_may_not_return_encrypted_values",
    ),
    Mutation(
        "unknown members of a command may be encrypted",
        "cqrs_cli/core/aggregate/aggregate.py",
        ((" | upcast | lenient", " | upcast"),),
        "tests/core/personal/test_batches.py::test_unknown_members_may_not_be_encrypted",
    ),
]
