"""Helpers of several tests: brokers, projects, owners, and functions that inspect them."""

from pathlib import Path

#: The repository.
ROOT = Path(__file__).parents[2]

#: The example aggregates. Every project has such a folder.
AGGREGATES = ROOT / "aggregates"
