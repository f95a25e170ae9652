"""How a tenure ends when it is no error of the broker's."""

from cqrs_cli.owner.claim import Claim, Judgement


class Superseded(Exception):
    """The claim that stands says to end: `judgement` is TAKEN_OVER or STRAGGLER."""

    def __init__(self, judgement: Judgement, committed_claim: Claim | None) -> None:
        super().__init__(judgement.value)
        self.judgement = judgement
        self.committed_claim = committed_claim


class ClaimLost(Exception):
    """The claim that stands is not this tenure's any more, though nobody later has it: begin again."""


class BatchTooLarge(Exception):
    """A batch that its own records keep from being committed: its first offset and how many it held.

    `late`: it may also be the broker's fault, so a single record is not to blame. `undecidable`: none of them was more
    than `failed`, so that their dead letters are to blame.
    """

    def __init__(self, offset: int, size: int, reason: str, late: bool, undecidable: bool) -> None:
        super().__init__(reason)
        self.offset = offset
        self.size = size
        self.late = late
        self.undecidable = undecidable
