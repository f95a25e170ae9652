from typing import Any

import pytest

from cqrs_cli.proof.scope import check_shape
from tests.core.notes import event


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"data": []}, "its data is not a JSON object: Expected `object`, got `array`"),
        ({"type": "notes."}, "its type 'notes.' names no event"),
        ({"type": "notes.7"}, "its type 'notes.7' names no event"),
    ],
)
def test_shape_that_no_event_has(members: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_shape(event(1, **members))


def test_shape_of_an_event_passes() -> None:
    check_shape(event(1, data={"anything": [1]}))
