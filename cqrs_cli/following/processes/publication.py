"""Publications: process managers that turn events into records of a topic for programs outside the project."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from msgspec import Struct

from cqrs_cli import registry
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.process import Process
from cqrs_cli.core.react import InvalidReaction
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.composer import ComposedRecord, Composer
from cqrs_cli.kafka.topics.topics import KINDS

_TOPIC = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", re.ASCII)


class PublicEvent(Struct, frozen=True):
    """An event for other teams: `PublicEvent("order-placed", "o-7", {"customer": "ann"})`.

    Events with the same `key` arrive in order. `data` is a value with a JSON form, such as a dict or a dataclass.
    """

    type: str
    key: str
    data: Any


@dataclass(frozen=True, slots=True)
class Publication(Process):
    """A process manager whose `react` returns or yields `PublicEvent`s, which are written to `topic`, each once."""

    yields: ClassVar[type[Struct]] = PublicEvent
    noun: ClassVar[str] = "public events"
    key_name: ClassVar[str] = "key"

    topic: str


class PublicationComposer(Composer):
    """Composes CloudEvents, whose ids have the same form as the ids of commands. Large data stay in the record, because
    readers of the topic may have no access to the payload store.
    """

    @staticmethod
    def output_topics(
        process: Publication, module: ModuleType, aggregates: Collection[str], root: Path
    ) -> set[str]:
        """Return the public topic, which must not look like a topic of an aggregate or of a process manager."""
        topic = process.topic
        is_valid = isinstance(topic, str) and _TOPIC.fullmatch(topic)
        if not is_valid or topic.rpartition(".")[2] in (*KINDS, "lineage", "keys", "positions"):
            raise ConfigurationError(
                f"{registry.relative_path(module.__file__, root)}: {topic!r} cannot be the topic of a publication",
                "choose a name that no topic of cqrs can have: letters, digits, ., _ and -; at most 200",
            )
        return {topic}

    def _compose(self, recorded: Recorded[Event], value: PublicEvent, id: str, time: int) -> ComposedRecord:
        if not isinstance(value.key, str) or not isinstance(value.type, str) or not value.type:
            raise InvalidReaction("key and type of a public event must be text, and not empty")
        try:
            data = encode_json(value.data)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidReaction(f"the data of a public event have no JSON form: {error}") from error
        assert isinstance(self._process, Publication)
        return self._record(recorded, self._process.topic, value.key, value.type, data, id=id, time=time)

    def _with_payload_reference(self, record: ComposedRecord) -> ComposedRecord:
        return record
