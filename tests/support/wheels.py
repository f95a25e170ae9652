"""Wheels packed from the installed packages, so that an image can be built where containers reach no registry."""

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from zipfile import ZIP_STORED, ZipFile

from packaging.requirements import Requirement

#: Files that an installer writes itself.
_INSTALLERS = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}


def pack_installed(folder: Path, *requirements: str) -> None:
    """Put wheels of these packages and of all their requirements into `folder`, at the installed versions."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in _needed([Requirement(text) for text in requirements]):
        _pack(one, folder)


def _needed(waiting: list[Requirement]) -> list[Distribution]:
    """Return the installed packages that are needed, without this project, which is built in the image."""
    found: dict[str, Distribution] = {}
    asked = set[tuple[str, frozenset[str]]]()
    while waiting:
        wanted = waiting.pop()
        extras = frozenset(wanted.extras)
        if (wanted.name, extras) in asked:
            continue
        asked.add((wanted.name, extras))
        try:
            one = found[wanted.name] = distribution(wanted.name)
        except PackageNotFoundError:
            continue  # part of an extra that is not installed; the package that needs it will report it
        for need in map(Requirement, one.requires or ()):
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras | {""}):
                waiting.append(need)
    found.pop("cqrs-cli", None)
    return list(found.values())


def _pack(one: Distribution, folder: Path) -> None:
    tag = (one.read_text("WHEEL") or "").rpartition("Tag: ")[2].splitlines()[0]  # py3, also if py2 is listed
    name = one.metadata["Name"].replace("-", "_").replace(".", "_")
    stem = f"{name}-{one.version}"
    made = {script.name for script in one.entry_points.select(group="console_scripts")}
    record = []
    with ZipFile(folder / f"{stem}-{tag}.whl", "w", ZIP_STORED) as wheel:
        for file in one.files or ():
            path = PurePosixPath(file)
            if path.suffix == ".pyc" or path.name in _INSTALLERS:
                continue
            if path.parts[0] == "..":  # a program; pip creates the programs of entry points itself
                if path.parts[-2] != "bin" or path.name in made:
                    continue
                path = PurePosixPath(f"{stem}.data/scripts/{path.name}")
            elif path.parts[0].endswith(".dist-info"):
                path = PurePosixPath(f"{stem}.dist-info", *path.parts[1:])
            wheel.write(str(one.locate_file(file)), path)
            record.append(f"{path},,\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "".join(record))
