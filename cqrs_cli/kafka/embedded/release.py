"""The Kafka release of the embedded broker. To change the version, change only `EMBEDDED`."""

from dataclasses import dataclass
from typing import NamedTuple


class Jar(NamedTuple):
    """A jar of a Maven repository."""

    coordinates: str  # such as `org.slf4j:slf4j-api:1.7.36`
    sha256: str

    @property
    def name(self) -> str:
        """Return the file's name."""
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def path(self) -> str:
        """Return the path within a repository."""
        group, artifact, version = self.coordinates.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{self.name}"


@dataclass(frozen=True, slots=True)
class KafkaRelease:
    """A version of Kafka, with the checksums of its jars."""

    version: str
    megabytes: int  # size of the download in MB
    jars: tuple[Jar, ...]


def parse_jars(text: str) -> tuple[Jar, ...]:
    """Parse a list of jars: a line with a Maven group, then a line `SHA256  ARTIFACT:VERSION` for each jar of the
    group.
    """
    group, jars = "", []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 1:
            (group,) = words
        else:
            sha256, artifact_and_version = words
            jars.append(Jar(f"{group}:{artifact_and_version}", sha256))
    return tuple(jars)


#: Kafka and its dependencies, without kafka-tools-api, which only tools use. The jar log4j-slf4j-impl is added, because
#: a broker logs nothing without it: its version must be the version of Kafka's log4j.
EMBEDDED = KafkaRelease(
    version="4.4.0",
    megabytes=45,
    jars=parse_jars("""\
at.yawk.lz4
8a7458657938e9b692224db83aac458c13abd7a59ab75c3d3b08bd2233a646a2  lz4-java:1.11.2
com.dynatrace.hash4j
23028a3fd006e530bf495f551083208187cafd8f80624d048eba56442f16a50e  hash4j:0.22.0
com.fasterxml.jackson.core
53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b  jackson-annotations:2.21
8c5623b98f32d5f7e1287ff61ed50e08ab7b11381e991fff89327faabba42261  jackson-core:2.21.7
1290c2795e93e8a6861a6c4d9ff0d844d32f5ea178362cb2721edf5561e828b1  jackson-databind:2.21.7
com.fasterxml.jackson.dataformat
df2b3e6a194181dc067b7211d750926b4ae9e4f3c892a0005b8219a9b59be681  jackson-dataformat-yaml:2.21.7
com.fasterxml.jackson.datatype
b8f62f98363ed9aa259b3a479a64fcbe7e081158a8bec6733972e900d12f4e47  jackson-datatype-jdk8:2.21.7
com.github.ben-manes.caffeine
ec411dfdf0c03f25218648ce89861630b71680e5858a9a7278ebac8e55cab3d7  caffeine:3.2.0
com.github.luben
c9043e2da8a16c13b6cd7661a5cb56685a573c3546ef4bd0ead67b0b67c2e107  zstd-jni:1.5.7-17
com.google.re2j
7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7  re2j:1.8
com.typesafe.scala-logging
0ad0c3f4d89d538b3b6c300158555e266aa69cf1b5f6522aba8b5bad238eb994  scala-logging_2.13:3.9.6
com.yammer.metrics
6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c  metrics-core:2.2.0
commons-beanutils
9e44ba68ec9a3f21286fa2a8bbb003b735c0f69101bb43144b79f4f8aaa74709  commons-beanutils:1.11.0
commons-collections
eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8  commons-collections:3.2.2
commons-digester
e0b2b980a84fc6533c5ce291f1917b32c507f62bcad64198fff44368c2196a3d  commons-digester:2.1
commons-logging
6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4  commons-logging:1.3.5
commons-validator
ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa  commons-validator:1.10.1
net.sf.jopt-simple
df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28  jopt-simple:5.0.4
net.sourceforge.argparse4j
65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56  argparse4j:0.7.0
org.apache.kafka
1ab07317eb6633241392449d329dbdc5d9251e6ffc4926860f42dd966e88bdf9  kafka-clients:4.4.0
e380267a17981edbadaa2e2e785f18dc1b5671abf2d1084eb7da06a765c71d0c  kafka-coordinator-common:4.4.0
bf11d7586c7363ba72a16ac5ef80c65365de9166469f7f6fc4ac5d2e0a98213a  kafka-group-coordinator-api:4.4.0
3fc830ace54f6a13f9f536bc0564bf39a68797365a4c4b194bd7db4fb893b2bc  kafka-group-coordinator:4.4.0
6c52de74ecd670332e1e1324f5d40311275ac49b22699b6722e5fb07dd266fcb  kafka-metadata:4.4.0
687f278ce5d82b7f53644643e21e1a7452530f202826108990f0fe4f3d334d4f  kafka-raft:4.4.0
e50931831a27a2f3eb6cf74e8d63cc325b4e98656f30e94f8829297951ca5080  kafka-server-common:4.4.0
5f5456c2976203525080220212639f7033274b94458ceabf44197f4800bd615c  kafka-server:4.4.0
6969a7961ca98d37a039bbe0af0fe761d6b0dd07ca9666802f47821167afbb6e  kafka-share-coordinator:4.4.0
edd47a86cdce283fc15d033090417a5dec29642eb807713f2e807e3c46b5ca46  kafka-storage-api:4.4.0
9eaa4dafacc251080ece0efa8511283da5de6931e843457f6af87f02f9b50039  kafka-storage:4.4.0
1d5324d59776d6b7f324cfdc87647b1e88f9823332201c0324e7ae9f210d915d  kafka-transaction-coordinator:4.4.0
76d3314f873571677ff98620ab9a431e508e3687f921a3df4f70d692a970475e  kafka_2.13:4.4.0
org.apache.logging.log4j
64777f73ea0b3104c04eb82befbdccc30a425a19e83ad06cb2f93aa303511863  log4j-api:2.25.5
050c4f85deb48b055e9c041ac39043fbb79ce477841a11a1eb2969c86c6a0072  log4j-core:2.25.5
3d25b926bc6025c47ec010459749c12aa66b9d5537ba1922d67d89a098a66607  log4j-slf4j-impl:2.25.5
org.bitbucket.b_c
7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef  jose4j:0.9.6
org.hdrhistogram
22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8  HdrHistogram:2.2.2
org.jspecify
1fad6e6be7557781e4d33729d49ae1cdc8fdda6fe477bb0cc68ce351eafdfbab  jspecify:1.0.0
org.pcollections
2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef  pcollections:4.0.2
org.scala-lang
4e85d96ff7bc7dc627985523c3541b9917aaa08e956391380c42db21a2c4e5a0  scala-library:2.13.18
6935ff1982b2ac93d695f15aa66921be2f602921277afe002f018fd8c7d6e29b  scala-reflect:2.13.18
org.slf4j
d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0  slf4j-api:1.7.36
org.xerial.snappy
4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36  snappy-java:1.1.10.7
org.yaml
e6682acf1ace77508ef13649cbf4f8d09d2cf5457bdb61d25ffb6ac0233d78dd  snakeyaml:2.5
"""),
)
