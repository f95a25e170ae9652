"""Helpers that several tests share: brokers, projects, owners, and functions to look at them."""

from pathlib import Path

#: The repository.
ROOT = Path(__file__).parents[2]

#: The example aggregates, as every project has a folder of them.
AGGREGATES = ROOT / "aggregates"
