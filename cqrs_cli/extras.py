"""The optional dependencies of this package, by extra."""

from collections.abc import Callable
from importlib.util import find_spec

from cqrs_cli.errors import ConfigurationError

#: Extra → the modules that its commands need; pyproject.toml defines the extras.
EXTRAS = {
    "spark": ("pyspark", "lmdb", "numpy", "pandas", "pyarrow"),
    "gateway": ("starlette", "uvicorn", "lmdb"),
    "projections": ("sqlalchemy",),
    "duckdb": ("duckdb",),
    "payloads": ("pyarrow",),
    "personal": ("cryptography",),
    "otel": ("opentelemetry",),
    "mcp": ("mcp",),
}


def install_command(extra: str) -> str:
    """Return the command line that installs an extra."""
    return f"pip install 'cqrs-cli[{extra}]'"


def missing_modules(extra: str, find: Callable[[str], object] = find_spec) -> list[str]:
    """Return the modules of an extra that are not installed. `find` returns None for such a module."""
    return [module for module in EXTRAS[extra] if find(module) is None]


def require(extra: str, needed_by: str, find: Callable[[str], object] = find_spec) -> None:
    """Raise `ConfigurationError` if modules of an extra are missing. `needed_by`: such as `cqrs run`."""
    if missing := missing_modules(extra, find):
        raise ConfigurationError(
            f"{needed_by} needs {', '.join(missing)}, which is not installed",
            f"type: {install_command(extra)}",
        )


def explain_import(error: ImportError) -> ConfigurationError | None:
    """Return the error for a module of an extra that could not be imported; None for any other module."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return ConfigurationError(f"{module} is not installed", f"type: {install_command(extra)}")
    return None
