"""restored_learner: a server's learner from its file, by the settings of today; or a new one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from stream_can.app.start import Start
from stream_can.errors import SnapshotMismatch
from stream_can.learner import Learner, State
from stream_can.learner.changed_settings import NOTICE, changed_limits
from stream_can.learner.model_name import ONLY
from stream_can.learner.saved import corrector as corrector_of
from stream_can.serve.database import CannotWrite, StateError
from stream_can.serve.settings import ServeSettings
from stream_can.serve.store import Store

log = logging.getLogger(__name__)


def restored_learner(
    store: Store, start: Start, settings: ServeSettings, identity: dict[str, Any]
) -> tuple[Learner, list[tuple[int, bytes]]]:
    """Load the learner and the notes of a file, or begin a new one; the state is written again.

    Raises
    ------
    StateError
        The file is damaged, belongs to another application, or cannot be written.
    """
    stored, notes = store.load(), list[tuple[int, bytes]]()
    limits: dict[str, Any] = {
        "recent_mb": settings.recent_mb,
        "ask": settings.ask,
        "max_lanes": settings.max_lanes,
    }
    if stored is None:
        learner = Learner(start.with_settings(start.snapshot), **limits)
    else:
        _require_ours(store, settings.state, start, stored.state, stored.identity, identity)
        with store.explained():
            learner, notes = stored.learner(), stored.notes
        live = [(name, model.corrector) for name, model in learner.live.items()]
        changed = start.changed([(ONLY, corrector_of(stored.state.start)), *live])
        if changed := changed | changed_limits(learner, limits):
            log.info(NOTICE.format(changed))
            learner = Learner.from_state(
                learner.state(), [learner.keep_events()], **limits,
                under=lambda name, corrector: start.with_settings(
                    corrector.to_bytes(), name[0] or ""
                ),
            )  # fmt: skip
    try:
        store.write_state(learner.state(), learner.oldest, identity)
    except CannotWrite as error:
        raise StateError(str(error)) from None
    learner.keep_events()
    return learner, notes


def _require_ours(
    store: Store,
    path: str,
    start: Start,
    state: State,
    stored_identity: Mapping[str, Any],
    identity: Mapping[str, Any],
) -> None:
    """Raise StateError where the file belongs to another application."""
    with store.explained():
        begins = corrector_of(state.start)
        live = [
            (name, corrector_of(data)) for name, data in state.correctors.items()
            if start.has_table(name)
        ]  # fmt: skip
    differences = [
        f"{name} is {stored_identity.get(name)!r} in the file and {setting!r} here"
        for name, setting in identity.items()
        if stored_identity.get(name) != setting
    ]
    try:
        start.require_fits(begins, live)
    except SnapshotMismatch as error:
        differences.append(str(error))
    if differences:
        raise StateError(
            f"state {path}: of other settings: {'; '.join(differences)}; set these back, or"
            " name another file, which starts over"
        )
