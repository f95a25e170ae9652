"""Checks that a process with another hash seed, in which sets have another order, makes the same decisions."""

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from types import ModuleType

import msgspec
from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Context, State
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.testing.round_trip import BrokenLaw, TimedCommand, aggregate_of, decide_command, evolve_event

#: A history for the other process: (type, data, context) of each command.
HistoryMessages = list[tuple[str, msgspec.Raw, Context]]

_PROGRAM = "from cqrs_cli.testing import hash_seed; hash_seed.transcribe_stdin()"


def check_hash_seed(module: ModuleType, histories: Sequence[Sequence[TimedCommand]]) -> None:
    """Raise `BrokenLaw` if a process with another hash seed gets other outcomes or states."""
    __tracebackhide__ = True
    aggregate = aggregate_of(module.decider)
    messages = [_history_messages(aggregate, history) for history in histories]
    transcripts = _transcripts_of_other_process(module.__name__, encode_json(messages))
    for history, other_transcript in zip(histories, transcripts, strict=True):
        own_transcript = transcript(aggregate, history)
        if own_transcript != other_transcript:
            step = next(
                number
                for number, (own, other) in enumerate(zip(own_transcript, other_transcript, strict=True))
                if own != other
            )
            raise BrokenLaw(
                "decide or evolve depends on the order of a set",
                f"{history[step].command!r} after {[command for command, _ in history[:step]]!r}",
                f"here it gives {own_transcript[step]}",
                f"in another process {other_transcript[step]}",
                function=aggregate.decider.decide,
            )


def _history_messages(aggregate: Aggregate, history: Sequence[TimedCommand]) -> HistoryMessages:
    """Return a history in the form that is sent to the other process."""
    wire_types = {cls: name for name, cls in aggregate.commands.items()}
    return [
        (wire_types[type(command)], msgspec.Raw(encode_json(command)), context)
        for command, context in history
    ]


def transcript(aggregate: Aggregate, history: Sequence[TimedCommand]) -> list[list[str]]:
    """Return for each command a list of lines: its outcome, and the state after the command."""
    state: State = aggregate.decider.initial
    version = 0
    lines = []
    for command, context in history:
        outcome = decide_command(aggregate, state, command, replace(context, version=version))
        version += len(outcome.events)
        for event in outcome.events:
            state = evolve_event(aggregate, state, event)
        lines.append([*outcome.as_lines(), encode_json(state).decode()])
    return lines


def _transcripts_of_other_process(module: str, messages: bytes) -> list[list[list[str]]]:
    """Return the transcript of each encoded history, made by a new process with another hash seed."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", _PROGRAM, module]
    completed = subprocess.run(command, input=messages, capture_output=True, env=environment, check=False)
    if completed.returncode:
        raise BrokenLaw(
            f"{module} fails in a process of its own:\n{completed.stderr.decode(errors='replace')}"
        )
    return msgspec.json.decode(completed.stdout, type=list[list[list[str]]])


def transcribe_stdin() -> None:
    """Read histories from stdin, for the module named on the command line, and write their transcripts to stdout."""
    aggregate = aggregate_of(importlib.import_module(sys.argv[1]).decider)
    histories = msgspec.json.decode(sys.stdin.buffer.read(), type=list[HistoryMessages])
    transcripts = [
        transcript(aggregate, [_timed_command(aggregate, *message) for message in history])
        for history in histories
    ]
    sys.stdout.buffer.write(encode_json(transcripts))


def _timed_command(aggregate: Aggregate, wire_type: str, data: msgspec.Raw, context: Context) -> TimedCommand:
    return TimedCommand(aggregate.decode_command[wire_type](data), context)
