"""The holders of a standalone master's cores, as its web UI tells it."""

import json
import re
import urllib.request
from collections.abc import Mapping
from typing import Any

#: The web UI's port of a master for which nobody has chosen another.
UI_PORT = "8080"

#: Seconds for an answer.
_PATIENCE = 2.0

_HOST = re.compile(r"(?:spark://|,)(\[[^]]+\]|[^:,]+):\d+")


def who_holds(master: str, ui_port: str, own: str) -> str:
    """Why a standalone master gives no executor to the application with the id `own`; empty for other masters.

    Of several masters the one that is alive knows.
    """
    if not master.startswith("spark://"):
        return ""
    asked = [f"http://{host}:{ui_port}/json/" for host in _HOST.findall(master)]
    for url in asked:
        told = _ask(url)
        if told is not None and told.get("status", "ALIVE") == "ALIVE":
            return explain_state(told, own)
    return (
        f"its web UI does not answer at {' or '.join(asked)}: with its port "
        "(--conf spark.master.ui.port=N) it is said who holds the cores"
    )


def _ask(url: str) -> dict[str, Any] | None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=_PATIENCE) as answer:
            told = json.loads(answer.read(10_000_000))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) and isinstance(told.get("activeapps"), list) else None


def explain_state(told: Mapping[str, Any], own: str) -> str:
    """The state of a master in one line: who holds how many of its cores."""
    total, used = int(told.get("cores", 0)), int(told.get("coresused", 0))
    if not total:
        return "it has no workers"
    others = [app for app in told["activeapps"] if app.get("id") != own]
    held = [
        f"{app.get('name', '?')} ({app.get('id', '?')}, user {app.get('user', '?')}) holds {app['cores']}"
        for app in others
        if int(app.get("cores", 0))
    ]
    waiting = sum(app.get("state") == "WAITING" for app in others)
    behind = f"; {waiting} more wait" if waiting else ""
    if used < total:
        free = f"{total - used} of its {total} cores are free: has a worker memory for spark.executor.memory?"
        return "; ".join([free, *held]) + behind
    return f"all of its {total} cores are held: {'; '.join(held) or 'by applications that end'}{behind}"
