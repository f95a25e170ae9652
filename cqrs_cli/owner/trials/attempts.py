"""The commands of a partition that are not decided as others are: given up by an operator, or tried in vain."""

#: A command is tried alone this often before it fails by an error that need not be its own.
ATTEMPTS = 3


class Attempts:
    """What a partition's supervisor knows of commands that could not be decided."""

    def __init__(self, refused: frozenset[int] = frozenset()) -> None:
        self.refused = refused  # offsets that get a failed outcome unread
        self.blamed: dict[int, str] = {}  # offset → why the aggregate's code is not asked again
        self._failed: dict[int, int] = {}  # offset → how often it was tried alone, in vain

    def refuse(self, offset: int) -> None:
        """Give a command a failed outcome unread from now on."""
        self.refused |= {offset}

    def failed_alone(self, offset: int, why: str) -> bool:
        """Note that an error of the process kept a command from being decided alone; true once it is blamed."""
        tried = self._failed[offset] = self._failed.get(offset, 0) + 1
        return self.blame(offset, f"{why} (tried alone {tried} times)", tried)

    def blame(self, offset: int, why: str, tried: int) -> bool:
        """Give a command a failed outcome if it was `tried` often enough; unread if it was blamed and tried again."""
        if tried > ATTEMPTS:
            self.refuse(offset)
        if tried >= ATTEMPTS:
            self.blamed[offset] = why
        return tried >= ATTEMPTS
