"""``stream-can inspect``: show what a corrector has learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from stream_can import snapshot
from stream_can.app.settings import SettingsError
from stream_can.cli.terminal import print_json, show_inspection
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.learner import Learner
from stream_can.learner.saved import corrector as corrector_of
from stream_can.pipe.statefile import PipeState
from stream_can.recording.names import listed
from stream_can.row_kinds import kind_of_snapshot, part
from stream_can.snapshot import save as write

SQLITE = b"SQLite format 3\0"
"""The first bytes of a server's file."""


def inspect_command(
    snapshot: Path | None = None,
    *,
    topic: str | None = None,
    bootstrap_servers: str | None = None,
    config: Path | None = None,
    key: str | None = None,
    save: Path | None = None,
    segments: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Show what correctors have learned, from a file or from the state topic of run.

    Parameters
    ----------
    snapshot
        File written by replay --state, pipe --state, a server that has stopped, or from to_bytes()
        of a corrector or Learner.
    topic
        State topic of run; its newest state is shown.
    bootstrap_servers
        Brokers with that topic: host:port,...
    config
        TOML file of the settings of run, in place of --topic and --bootstrap-servers.
    key
        Only the corrector of this model and version, as named in the output without --key.
    save
        Save the corrector to this file, for classes_from_file or Corrector.from_bytes.
    segments
        Segments to show: carrier,origin; the odds furthest from 0 come first.
    as_json
        Print JSON.
    """
    if (snapshot is None) == (topic is None and config is None):
        raise SettingsError("give one place to read from: a file, or --topic or --config")
    correctors: dict[str, Any]
    if snapshot is not None:
        correctors = read_snapshot(snapshot)
    else:
        from stream_can.cli.kafka import newest_states

        correctors = newest_states(topic, bootstrap_servers, config)
    if key is not None:
        require_key(key, correctors)
        correctors = {key: correctors[key]}
    if save is not None:
        if len(correctors) > 1:
            raise SettingsError(f"--save: choose one with --key: {', '.join(correctors)}")
        [(corrector, _)] = correctors.values()
        write(corrector.to_bytes(), save)
    columns = [] if segments is None else listed(segments)
    for corrector, _ in correctors.values():
        declared_columns = getattr(corrector, "segments", ())
        if unknown := [name for name in columns if name not in declared_columns]:
            declared_names = ", ".join(declared_columns) or "none"
            raise SettingsError(
                f"--segments: {unknown[0]!r} was not declared; declared: {declared_names}"
            )
    descriptions = {
        name: describe(corrector)
        | ({"stream": stream} if stream else {})
        | ({"segments": {name: odds_of(corrector, name) for name in columns}} if columns else {})
        for name, (corrector, stream) in correctors.items()
    }
    if as_json:
        shown = descriptions[""] if [*descriptions] == [""] else descriptions
        print_json(shown)
    else:
        for name, description in descriptions.items():
            print(f"{name}\n" if name else "", end="")
            show_inspection(description)
    return 0


def read_snapshot(path: str | Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The correctors in a file, with further details from the file.

    Parameters
    ----------
    path
        The result of ``to_bytes`` of a corrector or `Learner`, or the state file of ``stream-can
        pipe`` or of a stopped server.

    Returns
    -------
    "model version" ("" without models) -> its corrector and, for the state of a pipe, the number of
    lines so far and their counts.

    Raises
    ------
    SnapshotMismatch
        The file is no snapshot, corrupt, or of a newer version; the message names it.
    """
    data = snapshot.read(path)
    if data.startswith(SQLITE):
        return _named(_served(path), {})
    try:
        head = snapshot.decode(data).head
        if "pipe" in head:
            state = PipeState.from_bytes(data)
            learner = state.learner
            details = {"lines": state.lines, "counts": msgspec.to_builtins(state.counts)}
        elif "learner" in head:
            learner, details = Learner.from_bytes(data), {}
        else:
            return {"": (kind_of_snapshot(data).copied(data), {})}
    except SnapshotMismatch as error:
        raise SnapshotMismatch(f"{path}: {error}") from None
    return _named(learner, details)


def _named(learner: Learner, details: dict[str, Any]) -> dict[str, tuple[Any, dict[str, Any]]]:
    return {
        " ".join(filter(None, name)): (corrector_of(saved_corrector), details)
        for name, saved_corrector in learner.correctors.items()
    }


def _served(path: str | Path) -> Learner:
    """The learner in a server's file."""
    from stream_can.serve.store import Store  # needs the extra serve

    store = Store(path)
    try:
        stored = store.load()
        if stored is None:
            raise StreamCANError(f"{path}: a server's file without a state")
        with store.explained():
            return stored.learner()
    finally:
        store.close()


def require_key(key: str, correctors: Mapping[str, Any]) -> None:
    """SettingsError where no corrector has this key."""
    if key not in correctors:
        names = "is one, without a key" if [*correctors] == [""] else f"are {', '.join(correctors)}"
        raise SettingsError(f"--key: no corrector {key!r}; there {names}")


def describe(corrector: Any) -> dict[str, Any]:
    """Everything a corrector can report about itself, as JSON; nan becomes None."""
    description: dict[str, Any] = part(corrector.row_kind, "about").describe(corrector)
    return description


def odds_of(corrector: Corrector, column: str) -> dict[str, float]:
    """Odds of a column's values, the furthest from 0 first."""
    odds = corrector.segment_values(column)
    return dict(sorted(odds.items(), key=lambda pair: -abs(pair[1])))
