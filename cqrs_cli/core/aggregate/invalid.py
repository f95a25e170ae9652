"""What is wrong with the code of an aggregate."""


class InvalidAggregate(TypeError):
    """A decider cannot be put on the wire as it is written; `where` is the function or class to mend."""

    def __init__(self, message: str, where: object) -> None:
        super().__init__(message)
        self.where = where


def raised(error: BaseException) -> str:
    """What an aggregate's code raised, in words: finding them runs that code once more, which may raise again."""
    name = type(error).__name__
    try:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        return name
    return f"{name}: {said}" if said else name
