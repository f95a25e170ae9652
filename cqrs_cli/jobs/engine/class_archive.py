"""The class data archive of Spark's JVM: its classes as they are in memory. With one Spark starts a third sooner.

It lies in the user's cache, for one Java and one PySpark. To write it takes half a minute and 150 MB, which no command
takes unasked: `cqrs warm` does it. The JVM itself looks whether an archive fits, and goes on without one that does not
(JEP 350).
"""

from hashlib import sha256
from pathlib import Path

from cqrs_cli.system.cache import user_cache

#: The property with the options of Spark's JVM.
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"

#: An option of a JVM that writes an archive when it ends.
AT_EXIT = "-XX:ArchiveClassesAtExit"


def class_archive(java: Path) -> Path:
    """The place of the archive for this `java` and the PySpark that is installed."""
    import pyspark

    program = java.resolve()
    found = program.stat()
    text = f"{program}\0{found.st_size}\0{found.st_mtime_ns}\0{pyspark.__file__}"
    return user_cache() / f"spark-{pyspark.__version__}-{sha256(text.encode()).hexdigest()[:16]}.jsa"


def archive_option(java: Path) -> str:
    """The option with which a JVM starts from its archive, as Spark takes options; empty if there is none."""
    archive = class_archive(java)
    return f'"-XX:SharedArchiveFile={archive}"' if archive.exists() else ""
