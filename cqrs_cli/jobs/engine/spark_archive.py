"""The class data archives of Spark's JVMs: one for the driver, and one for executors, which has the same path on every
machine.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cqrs_cli.system.class_archive import ClassArchive

#: The properties with the options of Spark's JVMs.
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"


def spark_archive(java: Path) -> ClassArchive:
    """Return the driver's archive for this `java` and the installed PySpark."""
    return _archive(java, "spark")


def executor_archive(java: Path) -> ClassArchive:
    """Return the archive for a cluster's executors. With the driver's archive they would start 0.6 s later, because
    they load other classes.
    """
    return _archive(java, "spark-executor")


def with_archives(java: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the two properties with the options of Spark's JVMs: the options for the archives, followed by the options
    in `conf`.

    If an executor's machine lacks the archive, Java does not use the archive of its own classes either, and the start
    costs a tenth more processor time.
    """
    archives = {DRIVER_OPTIONS: spark_archive(java), EXECUTOR_OPTIONS: executor_archive(java)}
    return {
        name: f"{quote_options(archive.options)} {conf.get(name, '')}".strip()
        for name, archive in archives.items()
    }


def quote_options(options: Sequence[str]) -> str:
    """Return the options of a JVM as the text of a Spark property; each is quoted, because a path may have blanks."""
    return " ".join(f'"{option}"' for option in options)


def _archive(java: Path, program: str) -> ClassArchive:
    import pyspark

    return ClassArchive(java, f"{program}-{pyspark.__version__}", Path(pyspark.__file__).parent / "jars")
