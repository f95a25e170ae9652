"""The console hides personal values from requests without the right to see them."""

from pathlib import Path

import pytest

from tests.console.conftest import running_console
from tests.personal.people import FIRST_KEY, TOKENS, People
from tests.support.commands import command

pytestmark = pytest.mark.kafka


def test_personal_values_stay_hidden(people: People, tmp_path: Path) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    people.harness.send(
        command("customer.Register", "ann", "r-1", {"name": "Ann Smith", "mail": "a@b", "plan": "free"})
    )
    with running_console(
        people.harness, tmp_path / "gateway", connection=people.connection, tokens=TOKENS
    ) as console:
        console.gateway.token = "token-of-everybody"
        assert [event.name for event in console.events("search?q=Smith")][-1:] == ["end"]
        assert "record" not in [event.name for event in console.events("search?q=Smith")]
        assert "Smith" not in str(console.get("commands?aggregate=customer&id=ann"))
        assert console.get("commands?aggregate=customer&id=ann")["commands"][0]["data"]["plan"] == "free"
        assert "Smith" not in str(console.get("trace?id=ann"))
        console.gateway.token = "the-right-to-see"
        records = [event.data for event in console.events("search?q=Smith") if event.name == "record"]
        assert {record["kind"] for record in records} == {"commands", "events"}
        assert "Smith" in str(console.get("trace?id=ann")["commands"])
