"""What is wrong with the code of an aggregate."""


class InvalidAggregate(TypeError):
    """A decider cannot be put on the wire as it is written; `where` is the function or class to mend."""

    def __init__(self, message: str, where: object) -> None:
        super().__init__(message)
        self.where = where
