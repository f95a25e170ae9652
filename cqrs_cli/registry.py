"""Loads users' code by name: each module of a package of the project defines one value, such as a decider."""

import importlib
import inspect
import pkgutil
import re
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Decider, Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.aggregate.errors import InvalidAggregate, describe_error, is_interrupt
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.formatting import did_you_mean


class UserCode(NamedTuple):
    """A type of user code: aggregates, process managers or projections."""

    name: str  # for messages, such as `aggregate`
    value: str  # the name of the value that each module defines
    type: type
    example_line: str  # a sample line that creates the value
    name_pattern: re.Pattern[str]  # the valid module names
    part_of: str  # for messages: the name that contains a module's name, such as `a topic's name`
    name_rule: str  # for messages: a description of `name_pattern`


_AGGREGATE = UserCode(
    "aggregate",
    "decider",
    Decider,
    "decider = cqrs.Decider(decide, evolve, initial=…)",
    # A topic's name has at most 249 characters of [a-zA-Z0-9._-]; a dot ends the aggregate's name (`order.events`).
    re.compile(r"[A-Za-z0-9_-]{1,200}"),
    "a topic's name",
    "letters A to Z, digits, _ and -, at most 200",
)


def names(package: str, root: Path) -> list[str]:
    """Return the names of the modules in `package` below `root`, sorted; an empty list if the package does not exist.

    Only the package's own `__init__` is executed. Modules whose name starts with `_` are left out.
    """
    package_module = _import_package(package, root)
    if package_module is None:
        return []
    return sorted(
        info.name for info in pkgutil.iter_modules(package_module.__path__) if not info.name.startswith("_")
    )


def load(name: str, package: str, root: Path) -> Aggregate:
    """Return the aggregate `name` of `package` below `root`, which is a folder or an archive of `source_archive`.

    Raises `UsageError` for an unknown name, and `ConfigurationError` with file and line for code that cannot be used.
    """
    return _create_aggregate(name, user_module(_AGGREGATE, name, package, root), root)


def user_module(user_code: UserCode, name: str, package: str, root: Path) -> ModuleType:
    """Return the module `name` of a package; it defines a value of this type of user code.

    Raises `UsageError` for an unknown name, and `ConfigurationError` with file and line for code that cannot be used.
    """
    known_names = names(package, root)
    if name not in known_names:
        raise UsageError(
            f"no {user_code.name} {name!r}", _known_names_hint(user_code, name, known_names, package, root)
        )
    if not user_code.name_pattern.fullmatch(name):
        raise ConfigurationError(
            f"{user_code.name} {name!r} cannot be part of {user_code.part_of}",
            f"rename its file: {user_code.name_rule} (in {package})",
        )
    return _load_module(user_code, name, package, root)


def _load_module(user_code: UserCode, name: str, package: str, root: Path) -> ModuleType:
    module_name = f"{package}.{name}"
    module = _run_module(partial(importlib.import_module, module_name), module_name, root, user_code.name)
    if not isinstance(getattr(module, user_code.value, None), user_code.type):
        raise ConfigurationError(
            f"{relative_path(module.__file__, root)} defines no {user_code.value}",
            f"end it with `{user_code.example_line}`",
        )
    return module


def load_from(name: str, module: str, root: Path) -> Aggregate:
    """Return the aggregate `name` with the code of another module below `root`, such as `drafts.bank_account`.

    Raises the errors of `load`. `cqrs whatif` uses it to decide with changed code.
    """
    package, _, module_name = module.rpartition(".")
    package_module = _import_package(package, root) if package else None
    if package_module is None or module_name not in {
        module_info.name for module_info in pkgutil.iter_modules(package_module.__path__)
    }:
        raise UsageError(
            f"there is no module {module!r} in a folder of {root}",
            "write FOLDER.NAME for the file FOLDER/NAME.py of the project",
        )
    return _create_aggregate(name, _load_module(_AGGREGATE, module_name, package, root), root)


def _create_aggregate(name: str, module: ModuleType, root: Path) -> Aggregate:
    """Return the aggregate that a module defines; raises `ConfigurationError` if its code cannot be used."""
    decider: Decider[Any, Any, Any] = module.decider
    try:
        aggregate = Aggregate.of(name, decider)
    except TypeError as error:
        code_object = error.where if isinstance(error, InvalidAggregate) else decider.decide
        raise ConfigurationError(
            f"{location_of(code_object, module, root)}: {error}", "correct the aggregate"
        ) from error
    return aggregate


def event_owners(
    event_classes: Iterable[type[Event]], names: list[str], package: str, root: Path, location: str
) -> dict[str, Aggregate]:
    """Return the aggregates that have these events, by name; for `cqrs.Event` all aggregates of `names`.

    `Erased` selects no aggregate. Raises `ConfigurationError` for an event of no aggregate; `location` is the file and
    line in its message, such as `processes/checkout.py:19`.
    """
    owned_classes = [event_class for event_class in event_classes if event_class is not Erased]
    return {
        aggregate.name: aggregate
        for event_class in owned_classes
        for aggregate in _aggregates_with(event_class, names, package, root, location)
    }


def _aggregates_with(
    event_class: type[Event], candidates: list[str], package: str, root: Path, location: str
) -> list[Aggregate]:
    """Return the aggregates that have this event. For an event that is defined in an aggregate's module,
    only that module is loaded.
    """
    known_names = ", ".join(candidates) or "none"
    module_name = event_class.__module__.removeprefix(f"{package}.")
    if event_class is not Event and module_name in candidates:
        candidates = [module_name]
    loaded_aggregates = [load(name, package, root) for name in candidates]
    aggregates = [
        aggregate
        for aggregate in loaded_aggregates
        if event_class is Event or event_class in aggregate.events.values()
    ]
    if not aggregates:
        raise ConfigurationError(
            f"{location}: {event_class.__module__}.{event_class.__name__} is not an event of an aggregate of this "
            "project",
            f"known aggregates: {known_names}",
        )
    return aggregates


def source_archive(package: str, root: Path, target: Path) -> Path:
    """Write the package's Python files as a zip for Spark's `addPyFile`, and return `target`, a `root` for `load`.

    Equal sources give equal bytes.
    """
    files = (root / package.partition(".")[0]).rglob("*.py")
    sources = {path.relative_to(root): path.read_bytes() for path in files}
    for folder in {parent for path in sources for parent in path.parents if parent.name}:
        sources.setdefault(folder / "__init__.py", b"")  # in an archive, each package needs an `__init__`
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(sources):
            archive.writestr(zipfile.ZipInfo(path.as_posix()), sources[path], zipfile.ZIP_DEFLATED)
    return target


def _import_package(package: str, root: Path) -> ModuleType | None:
    """Return the package below `root`, None if it does not exist. Equal names elsewhere on `sys.path` are ignored."""
    importlib.invalidate_caches()  # a new file may be missing in the finder's cached listing of its folder
    path, module = [str(root.resolve())], None
    for name in accumulate(package.split("."), "{}.{}".format):
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = list(spec.submodule_search_locations)
        module = sys.modules.get(name)
        if module is None or [_resolved_path(folder) for folder in getattr(module, "__path__", ())] != [
            _resolved_path(folder) for folder in path
        ]:
            module = _run_module(partial(_import, spec), name, root)
    return module


def _import(spec: ModuleSpec) -> ModuleType:
    """Import a package, and replace a loaded module of the same name, such as the package of another project."""
    for name in list(sys.modules):  # a copy, because another thread may import a module
        if name == spec.name or name.startswith(f"{spec.name}."):
            del sys.modules[name]
    module = sys.modules[spec.name] = module_from_spec(spec)
    # Without an explicit path, Python would search all of `sys.path` for a package that has no `__init__`.
    module.__path__ = list(spec.submodule_search_locations or ())
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module


def _run_module(run: Callable[[], ModuleType], name: str, root: Path, kind: str = "aggregate") -> ModuleType:
    """Run a user's module. Every exception becomes a `ConfigurationError` with file and line of the user's code."""
    try:
        return run()
    except BaseException as error:
        if is_interrupt(error):
            raise
        location = _error_location(error, root) or name
        raise ConfigurationError(
            f"{location}: {' '.join(describe_error(error).split())}", f"correct the {kind}"
        ) from error


def _error_location(error: BaseException, root: Path) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{relative_path(error.filename, root)}:{error.lineno}"
    base = str(root.resolve())
    project_frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if _resolved_path(frame.filename).startswith(base)
    ]
    return (
        f"{relative_path(project_frames[-1].filename, root)}:{project_frames[-1].lineno}"
        if project_frames
        else ""
    )


def location_of(code_object: object, module: ModuleType, root: Path) -> str:
    """Return file and line of a function or class, such as `processes/checkout.py:19`; else the file of the module."""
    try:
        file = inspect.getsourcefile(code_object) or module.__file__  # type: ignore[arg-type]
        return f"{relative_path(file, root)}:{inspect.getsourcelines(code_object)[1]}"  # type: ignore[arg-type]
    except (TypeError, OSError):
        return relative_path(module.__file__, root)


def relative_path(file: str | None, root: Path) -> str:
    """Return a file's path relative to the project's root, or its absolute path if it is outside."""
    path = Path(_resolved_path(file or "?"))
    base = root.resolve()
    return str(path.relative_to(base) if path.is_relative_to(base) else path)


def _resolved_path(path: str) -> str:
    return str(Path(path).resolve())


def _known_names_hint(
    user_code: UserCode, name: str, known_names: list[str], package: str, root: Path
) -> str:
    if not known_names and user_code is _AGGREGATE:
        return f"there is no package {package!r} with aggregates in {root}: cqrs new DIR makes a project"
    if not known_names:
        return f"there is no folder {package!r} with modules in {root}"
    return f"{did_you_mean(name, known_names)} known: {', '.join(known_names)}".lstrip()
