import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cqrs_cli.cli.app import RootGroup
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.interrupts import TerminationSignal
from cqrs_cli.cli.main import main
from cqrs_cli.errors import (
    CqrsError,
    NoOutcomeError,
    RefusedError,
    RuleError,
    TakenOverError,
    UnavailableError,
)
from tests.cli.conftest import Cqrs
from tests.support import ROOT


@pytest.fixture
def failing_cqrs(cqrs: Cqrs) -> Cqrs:
    """`cqrs` whose first argument is the exception that it raises when it connects to a broker."""

    def call(error: BaseException, *arguments: str) -> object:
        def connection(cli: Cli) -> None:
            raise error

        return cqrs("status", "counter", *arguments, connect=connection)

    return call  # type: ignore[return-value]


def test_an_error_is_one_line(failing_cqrs: Cqrs) -> None:
    result = failing_cqrs(UnavailableError("no broker\nat all", "start one"))
    assert result == (4, "", "error: no broker at all; start one\n")


def test_process_in_place_of_aggregate_is_named(cqrs: Cqrs, tmp_path: Path) -> None:
    (tmp_path / "processes").symlink_to(ROOT / "processes")
    result = cqrs("run", "checkout", "--once", "-b", "nowhere:1")
    assert result.status == 2
    assert result.err.partition("error: ")[2] == (
        "checkout is a process manager, not an aggregate; run it: cqrs run -b nowhere:1 --process checkout\n"
    )


def test_json_errors_go_to_stderr(failing_cqrs: Cqrs) -> None:
    result = failing_cqrs(UnavailableError("no broker", "start one"), "-o", "json")
    assert json.loads(result.err) == {
        "error": {"code": "UNAVAILABLE", "message": "no broker", "hint": "start one"}
    }
    assert result.out == ""


def test_help_and_version_are_words_too(cqrs: Cqrs) -> None:
    assert cqrs("help", "send") == cqrs("send", "--help")
    assert cqrs("version") == cqrs("--version")


@pytest.mark.parametrize(
    "error", [CqrsError, UnavailableError, TakenOverError, RefusedError, NoOutcomeError, RuleError]
)
def test_every_error_has_its_status(failing_cqrs: Cqrs, error: type[CqrsError]) -> None:
    assert failing_cqrs(error("no")).status == error.exit_code


def test_hints_repeat_the_flags(failing_cqrs: Cqrs) -> None:
    error = CqrsError("no", "let cqrs run work; look: cqrs tail counter events")
    result = failing_cqrs(error, "-b", "kafka:9092", "-X", "client.id=a b", "--topic-prefix", "p.")
    flags = "-b kafka:9092 -X 'client.id=a b' --topic-prefix p."
    assert result.err == f"error: no; let cqrs run work; look: cqrs tail {flags} counter events\n"


def test_unexpected_errors_are_one_line(failing_cqrs: Cqrs) -> None:
    assert failing_cqrs(KeyError("x")) == (1, "", "error: KeyError: 'x'; -v shows the traceback\n")


def test_verbose_shows_the_traceback(failing_cqrs: Cqrs) -> None:
    result = failing_cqrs(KeyError("x"), "-v")
    assert result.err.startswith("Traceback (most recent call last)")
    assert result.err.endswith("error: KeyError: 'x'\n")


def test_verbose_json_stays_json(failing_cqrs: Cqrs) -> None:
    assert (
        "Traceback" in json.loads(failing_cqrs(KeyError("x"), "-v", "-o", "json").err)["error"]["traceback"]
    )


def test_termination_while_parsing_is_143(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise TerminationSignal

    monkeypatch.setattr(RootGroup, "parse_args", interrupt)
    assert main(["status"]) == 143


def test_control_characters_become_escapes(failing_cqrs: Cqrs) -> None:
    assert failing_cqrs(CqrsError("bad \x1b[31m id")).err == "error: bad \\x1b[31m id\n"


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (TerminationSignal(), 143)])
def test_signals_end_without_output(failing_cqrs: Cqrs, error: BaseException, status: int) -> None:
    assert failing_cqrs(error) == (status, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sned"], "error: no such command 'sned'; did you mean 'send'? see cqrs --help\n"),
        (["show"], "error: missing argument 'AGGREGATE'; see cqrs show --help\n"),
        (["show", "a", "b", "--nope"], "error: no such option: --nope; see cqrs show --help\n"),
        (["tail", "a", "b"], "error: invalid value for 'TOPIC': 'b' is not one of"),
        (["status", "-o", "yaml"], "error: invalid value for '-o' / '--output': 'yaml' is not one of"),
        (["status", "-X", "nonsense"], "error: -X"),
        (["replay", "counter", "--format", "json"], "error: --format needs --out; name a folder"),
        (
            ["status", "nope"],
            "error: no aggregate 'nope'; known: bank_account, counter, order, payment, reservation, sensor\n",
        ),
    ],
)
def test_wrong_usage_ends_with_2(cqrs: Cqrs, arguments: list[str], message: str) -> None:
    result = cqrs(*arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(message)


@pytest.mark.parametrize(
    "flags", ["-o json", "-ojson", "-qo json", "-qvojson", "--output json", "--output=json"]
)
def test_usage_errors_respect_json(cqrs: Cqrs, flags: str) -> None:
    assert json.loads(cqrs("show", *flags.split()).err)["error"]["code"] == "USAGE"


def test_secrets_are_refused_as_flags(cqrs: Cqrs) -> None:
    result = cqrs("status", "-X", "sasl.password=hunter2")
    assert result.status == 2
    assert "--command-config" in result.err
    assert "hunter2" not in result.err


@pytest.mark.program
def test_closed_pipes_end_without_output(cqrs: Cqrs) -> None:
    code = "import sys; from cqrs_cli.cli.main import main; sys.exit(main(['kafka', 'stop', '-q']))"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.close()
        assert writer.wait(30) == 128 + signal.SIGPIPE
        assert writer.stderr.read() == b""


@pytest.mark.program
def test_full_disks_are_an_error(cqrs: Cqrs) -> None:
    code = "import sys; from cqrs_cli.cli.main import main; sys.exit(main(['kafka', 'stop', '-q']))"
    with open("/dev/full", "wb") as full_device:  # noqa: PTH123 (a device)
        process = subprocess.run(
            [sys.executable, "-c", code], stdout=full_device, stderr=subprocess.PIPE, check=False
        )
    assert process.returncode == 1
    assert b"error: [Errno 28] No space left on device" in process.stderr
