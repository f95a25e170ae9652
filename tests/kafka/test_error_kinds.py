"""Every error code of librdkafka has one kind, and transient errors lead to a retry."""

from collections import Counter

import pytest
from confluent_kafka import KafkaError, KafkaException

from cqrs_cli.client.producer import send_failure
from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.error_kinds import ERROR_NAMES, ErrorKind, error_kind

CODES = {
    name: code
    for name in dir(KafkaError)
    if name.strip("_").isupper() and isinstance(code := getattr(KafkaError, name), int)
}


def error_for(name: str) -> CqrsError:
    return send_failure(Connection("broker:1"), "counter.commands", KafkaError(CODES[name]))


def test_every_code_has_its_kind() -> None:
    name_counts = Counter(name for names in ERROR_NAMES.values() for name in names.split())
    assert name_counts == Counter(CODES.keys())
    assert set(ERROR_NAMES) == set(ErrorKind)


def test_unknown_codes_are_final() -> None:
    assert error_kind(KafkaException(KafkaError(4711))) is ErrorKind.FINAL


@pytest.mark.parametrize(
    "name",
    ["_PURGE_QUEUE", "_PURGE_INFLIGHT", "_MSG_TIMED_OUT", "_ALL_BROKERS_DOWN", "_FATAL", "NOT_CONTROLLER"],
)
def test_transient_errors_are_unavailable(name: str) -> None:
    assert isinstance(error_for(name), UnavailableError)


def test_permanent_errors_are_not_unavailable() -> None:
    errors = [error_for(name) for name in ("MSG_SIZE_TOO_LARGE", "UNKNOWN_TOPIC_OR_PART", "INVALID_RECORD")]
    assert not any(isinstance(error, UnavailableError) for error in errors)
    assert isinstance(errors[1], ConfigurationError)
