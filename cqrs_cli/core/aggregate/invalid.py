"""Errors in the code of an aggregate."""


class InvalidAggregate(TypeError):
    """A decider cannot be put on the wire as it is written; `where` is the function or class to correct."""

    def __init__(self, message: str, where: object) -> None:
        super().__init__(message)
        self.where = where


def raised(error: BaseException) -> str:
    """The words of an exception of an aggregate's code. Asking for them runs that code again, which may raise again."""
    name = type(error).__name__
    try:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        return name
    return f"{name}: {said}" if said else name
