"""The names that users import are stable."""

import importlib

import pytest


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "cqrs_cli",
            [
                "Cancel",
                "Client",
                "Command",
                "Context",
                "Decider",
                "Erase",
                "Erased",
                "Event",
                "Later",
                "Personal",
                "Process",
                "Projection",
                "PublicEvent",
                "Publication",
                "Recorded",
                "Rejected",
                "Release",
                "Send",
                "State",
                "__version__",
                "decode",
                "field",
                "personal",
                "replace",
            ],
        ),
        (
            "cqrs_cli.testing",
            [
                "BrokenLaw",
                "Outcome",
                "ProcessSpec",
                "ProjectionSpec",
                "Reaction",
                "Spec",
                "check_laws",
                "laws",
                "process",
                "projection",
                "spec",
            ],
        ),
    ],
)
def test_public_names_stay(module: str, names: list[str]) -> None:
    exported = importlib.import_module(module)
    assert sorted(exported.__all__) == names
    assert all(hasattr(exported, name) for name in names)
