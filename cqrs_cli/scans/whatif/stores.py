"""The two stores of a simulation, in a temporary folder."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from cqrs_cli.state.lmdb_store import LmdbStore


def open_stores(
    stack: ExitStack, window: int, originals: tuple[LmdbStore, LmdbStore] | None = None
) -> tuple[LmdbStore, LmdbStore]:
    """Create the logged and the simulated store in a temporary folder (TMPDIR), empty or as copies of `originals`.

    `window`: dedup window in ms. The files are unlinked after they are opened, so that a killed task leaves no files.
    """
    with tempfile.TemporaryDirectory(prefix="cqrs-whatif-") as folder:
        stores = []
        for index, name in enumerate(("logged", "simulated")):
            (Path(folder) / name).mkdir()
            if originals is not None:
                originals[index].copy(Path(folder) / name)
            stores.append(LmdbStore(Path(folder) / name, window))
            stack.callback(stores[-1].close_without_sync)
    return stores[0], stores[1]
