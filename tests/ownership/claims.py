"""Claims that tests know."""

from cqrs_cli.ownership.claim import Claim

MINE = Claim(10, "m", 1, 1, 7, "topic", 4)
