from pathlib import Path
from typing import Any

import pytest

from aggregates.order import Placed, Shipped
from cqrs_cli.errors import ConfigurationError, CqrsError, UsageError
from cqrs_cli.following.projections.load import load_projection
from tests.following.projections.projector_harness import recent_orders
from tests.support import ROOT
from tests.support.user_code import write_projection

VALID_PROJECTION = """
from collections.abc import Sequence
from sqlalchemy import Column, Connection, MetaData, String, Table
import cqrs_cli as cqrs
from aggregates.order import Placed, Shipped
from cqrs_cli.core.aggregate import erased

metadata = MetaData()
table = Table("mine", metadata, Column("id", String, primary_key=True))

def project(db: Connection, events: Sequence[cqrs.Recorded[Placed | Shipped]]) -> None: ...

projection = cqrs.Projection(project, metadata)
"""


def load_from_text(folder: Path, text: str) -> Any:
    return load_projection("mine", write_projection(folder, text), "aggregates")


def test_annotations_define_the_events(tmp_path: Path) -> None:
    projection = load_from_text(tmp_path, VALID_PROJECTION)
    assert (set(projection.aggregates), projection.events) == ({"order"}, {Placed, Shipped})
    assert recent_orders().event_names == ("Cancelled", "Deleted", "Placed", "Shipped")


def test_base_event_means_all_events(tmp_path: Path) -> None:
    projection = load_from_text(tmp_path, VALID_PROJECTION.replace("Placed | Shipped]", "cqrs.Event]"))
    assert {"order", "bank_account", "counter", "sensor"} <= set(projection.aggregates)
    assert projection.event_names == ("*",)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("(project, metadata)", "(project, MetaData())", "projections/mine.py:11: its metadata has no table"),
        ("metadata)\n", "metadata, revision=0)\n", "revision must be a whole number of at least 1, found 0"),
        ("primary_key=True)", 'primary_key=True), schema="x"', "table 'mine' has a schema"),
        ('"mine", metadata', '"cqrs_mine", metadata', "names that begin with cqrs_"),
        ("Sequence[cqrs.Recorded[Placed | Shipped]]", "list[Placed]", "annotate its second parameter"),
        ("Placed | Shipped]", "int]", "is not an event type"),
        (
            "metadata)\n",
            "metadata, keeps_personal='')\n",
            "keeps_personal must be the reason to keep personal values",
        ),
        ("| Shipped]", "| erased.Erased]", "projections/mine.py:11: it subscribes to cqrs.Erased, but none"),
        ("projection = ", "other = ", "projections/mine.py defines no projection"),
        ("import Placed", "import Bought", "projections/mine.py:5: ImportError: cannot import name 'Bought'"),
        ("Placed | Shipped]", "Lost]", "name 'Lost' is not defined"),
    ],
)
def test_bad_projections_name_the_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in VALID_PROJECTION
    with pytest.raises(ConfigurationError) as error:
        load_from_text(tmp_path, VALID_PROJECTION.replace(old, new))
    assert complaint in str(error.value)


def test_unknown_aggregates_are_refused(tmp_path: Path) -> None:
    text = VALID_PROJECTION.replace("metadata = ", "class Lost(cqrs.Event): ...\n\nmetadata = ").replace(
        "Placed | S", "S"
    )
    text = text.replace("Shipped]", "Shipped | Lost]").replace("import Shipped", "import Placed, Shipped")
    with pytest.raises(ConfigurationError, match=r"projections\.mine\.Lost is not an event of an aggregate"):
        load_from_text(tmp_path, text)


def test_unknown_projection_lists_existing_names() -> None:
    with pytest.raises(UsageError, match="no projection 'recent_order'; did you mean recent_orders"):
        load_projection("recent_order", ROOT, "aggregates")


def test_project_without_projections_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CqrsError, match="there is no folder 'projections' with modules in"):
        load_projection("mine", tmp_path, "aggregates")
