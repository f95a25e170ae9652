"""Programs in Java with Kafka's own client, compiled at their start."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cqrs_cli.kafka.embedded import jars
from cqrs_cli.system import java


def find_compiler() -> str:
    """Return a `java` that can compile, or skip the test."""
    program = java.find_java()
    if "jdk.compiler" not in subprocess.check_output([program, "--list-modules"], text=True):
        pytest.skip(f"{program} is a runtime: it does not compile Java")
    return str(program)


def launch_command(file: str, *arguments: str) -> list[str]:
    """Return the command that compiles and runs a program with Kafka's client."""
    return [find_compiler(), "-cp", f"{jars.cache_folder()}/*", file, *arguments]


#: Increments counters, one round for each input line. Never refreshes the partition count.
_FORGETFUL = """
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class Forgetful {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0], "metadata.max.age.ms", "3600000");
        var strings = new StringSerializer();
        var lines = new Scanner(System.in);
        try (var producer = new KafkaProducer<String, String>(settings, strings, strings)) {
            while (lines.hasNextLine()) {
                String round = lines.nextLine();
                for (int number = 0; number < 12; number++) {
                    String subject = "counter-" + number;
                    String command = "{'specversion':'1.0','id':'" + subject + "." + round + "','source':'/java',"
                        + "'type':'counter.Increment','subject':'" + subject + "','data':{}}";
                    var sent = new ProducerRecord<>(arguments[1], subject, command.replace('\\'', '"'));
                    sent.headers().add("content-type", "application/cloudevents+json".getBytes());
                    producer.send(sent);
                }
                producer.flush();
                System.out.println(round);
            }
        }
    }
}
"""


class StaleJavaProducer:
    """A Java producer that caches the topic's metadata for an hour."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def send(self, round: int) -> None:
        """Send one command to each counter, and wait until all are acknowledged."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{round}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == f"{round}\n"


@contextmanager
def stale_java_producer(folder: Path, server: str, topic: str) -> Iterator[StaleJavaProducer]:
    """Run the producer while the block lasts."""
    (folder / "Forgetful.java").write_text(_FORGETFUL)
    call, pipe = launch_command("Forgetful.java", server, topic), subprocess.PIPE
    with subprocess.Popen(call, cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield StaleJavaProducer(process)
        finally:
            process.kill()
