"""The class data archive of Spark's JVMs, of the driver and of executors that find it at its place."""

from collections.abc import Sequence
from pathlib import Path

from cqrs_cli.system.class_archive import ClassArchive

#: The properties with the options of Spark's JVMs.
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"


def spark_archive(java: Path) -> ClassArchive:
    """The archive for this `java` and the PySpark that is installed."""
    import pyspark

    return ClassArchive(java, f"spark-{pyspark.__version__}", Path(pyspark.__file__).parent / "jars")


def spark_words(options: Sequence[str]) -> str:
    """Options of a JVM, as Spark takes them: a path may have blanks."""
    return " ".join(f'"{option}"' for option in options)
