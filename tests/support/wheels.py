"""Wheels packed from the installed packages, for machines and containers that build or download no package."""

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from zipfile import ZIP_STORED, ZipFile

from packaging.requirements import Requirement

#: Files that an installer writes itself.
_INSTALLERS = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}


def pack_installed(folder: Path, *requirements: str) -> None:
    """Put wheels of these packages and of all their requirements into `folder`, at the installed versions."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in _required_packages([Requirement(text) for text in requirements]):
        _pack(package, folder)


def _required_packages(requirements: list[Requirement]) -> list[Distribution]:
    """Return the installed packages that are needed, without this project, which is built in the image."""
    distributions: dict[str, Distribution] = {}
    visited = set[tuple[str, frozenset[str]]]()
    while requirements:
        requirement = requirements.pop()
        extras = frozenset(requirement.extras)
        if (requirement.name, extras) in visited:
            continue
        visited.add((requirement.name, extras))
        try:
            installed = distributions[requirement.name] = distribution(requirement.name)
        except PackageNotFoundError:
            continue  # part of an extra that is not installed; the package that needs it will report it
        for dependency in map(Requirement, installed.requires or ()):
            if dependency.marker is None or any(
                dependency.marker.evaluate({"extra": extra}) for extra in extras | {""}
            ):
                requirements.append(dependency)
    distributions.pop("cqrs-cli", None)
    return list(distributions.values())


def _pack(distribution: Distribution, folder: Path) -> None:
    tag = (
        (distribution.read_text("WHEEL") or "").rpartition("Tag: ")[2].splitlines()[0]
    )  # py3, also if py2 is listed
    name = distribution.metadata["Name"].replace("-", "_").replace(".", "_")
    stem = f"{name}-{distribution.version}"
    scripts = {script.name for script in distribution.entry_points.select(group="console_scripts")}
    record = []
    with ZipFile(folder / f"{stem}-{tag}.whl", "w", ZIP_STORED) as wheel:
        for file in distribution.files or ():
            path = PurePosixPath(file)
            if path.suffix == ".pyc" or path.name in _INSTALLERS:
                continue
            if path.parts[0] == "..":  # a program; pip creates the programs of entry points itself
                if path.parts[-2] != "bin" or path.name in scripts:
                    continue
                path = PurePosixPath(f"{stem}.data/scripts/{path.name}")
            elif path.parts[0].endswith(".dist-info"):
                path = PurePosixPath(f"{stem}.dist-info", *path.parts[1:])
            wheel.write(str(distribution.locate_file(file)), path)
            record.append(f"{path},,\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "".join(record))
