"""Outcomes as rows of a DataFrame."""

from operator import attrgetter
from typing import TYPE_CHECKING

from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.spark.rows import MessageList, RowMaker, envelope_arrays

if TYPE_CHECKING:
    import pyarrow


class OutcomeRows(RowMaker):
    """Rows of an outcomes topic: the envelope, and the fields of the outcome's `data` (a `Verdict`)."""

    kind = "outcomes"

    def _columns(self, partition: int, messages: MessageList) -> "tuple[MessageList, list[pyarrow.Array]]":
        try:
            outcomes = [read_outcome(message.value()) for message in messages]
        except ValueError:
            self.raise_unreadable(partition, messages, read_outcome)
        outcome_data = list(map(attrgetter("data"), outcomes))
        return messages, [
            *envelope_arrays(outcomes),
            *self.field_arrays(partition, messages, outcome_data),
        ]
