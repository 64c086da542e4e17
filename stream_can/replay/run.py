"""replay: play a recording through a corrector, at one or several label rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stream_can.method.costs import Costs
from stream_can.replay.player import Player
from stream_can.replay.result import Replay
from stream_can.replay.step import Step
from stream_can.replay.steps import check_arrival
from stream_can.row_kinds import AnyCorrector, kind_of, refuse_others

DRAWS, RATE_DRAWS = 5, 3
"""How often labels are drawn where not all come, and for each other rate: by which of them come the
result differs, too."""


def number_of_replays(
    rates: Iterable[float], *, label_rate: float, ask: float | None, models: bool,
    fitted: bool = False,
) -> int:  # fmt: skip
    """How often :func:`replay` plays a recording; ``fitted``: with a corrector that was."""
    requested_rates = {rate for rate in rates if 0 < rate < 1 and rate != ask and not models}
    own_rate = label_rate if ask is None else ask
    drawn = sum(RATE_DRAWS if 0 < rate < 1 else 1 for rate in {*rates} - {own_rate})
    alone = int(fitted and label_rate > 0)
    if ask is not None:
        return 2 + drawn + len(requested_rates) + alone
    return (DRAWS if 0 < label_rate < 1 else 1) + drawn + len(requested_rates) + alone


def is_fitted(corrector: AnyCorrector) -> bool:
    """Whether a corrector was fitted to validation rows and has learned no label since."""
    fitted = getattr(corrector, "fit_report", None) is not None
    return fitted and not getattr(corrector, "n_labels", 0)


def replay(
    recording: Any,
    corrector: AnyCorrector,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    ask: float | None = None,
    explain: bool = True,
    rates: Iterable[float] = (),
    model: str | None = None,
    version: str | None = None,
    costs: Costs | None = None,
    progress: Callable[[int], object] = lambda rows: None,
    each: Callable[[Step], object] = lambda step: None,
) -> Replay:
    """Replay a recording through a corrector, of any kind of rows.

    Parameters
    ----------
    recording
        Predictions and labels: a `Recording`, or that of another kind of rows.
    corrector
        A new corrector, fitted or not, or the state of an earlier one; it learns.
    label_delay, label_rate, seed
        As for :func:`steps`; `label_delay` may be None only where the recording has times.
    ask
        Share of the rows whose labels are requested, see :func:`asking_for`; no other label
        arrives. The `label_rate` must then be 1, and the recording is played once more with as many
        labels at random, for :attr:`Replay.at_random`.
    explain
        Whether to score each path too, and to watch for a worse classifier; takes about twice the
        time.
    rates
        Other shares of the labels, each replayed once more from what `corrector` is now, for
        :attr:`Replay.rates` and, those between 0 and 1, for :attr:`Replay.asked_rates`;
        `label_rate` itself, or `ask`, joins them.
    model, version
        Columns that the recording was opened with (``segments``), which name the model and version
        of each row: each has a corrector of its own, and begins with `corrector`.
    costs
        Costs of actions, for rows of one label: what the decisions by them cost, before and after,
        is :attr:`Replay.cost_change`.
    progress
        Called after each step with its number of rows.
    each
        Called with each step of the replay itself, which has the corrected rows.

    Returns
    -------
    The `Replay` of this kind of rows, with scores over all rows with a known label, including
    labels that never arrive.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from stream_can import Corrector
    >>> from stream_can.replay import Recording
    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice(2, 2000, p=[0.8, 0.2])
    >>> P = np.where(y[:, None] == [0, 1], 0.55, 0.45)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "stream.npz")
    ...     np.savez(file, probs=P, label=y)
    ...     result = replay(Recording(file), Corrector(2), label_delay=10)
    >>> result.corrected.log_loss < result.raw.log_loss
    True
    """
    check_arrival(recording, label_delay)
    if ask is not None and label_rate != 1:
        raise ValueError(
            "label_rate: labels are asked for; both say which arrive, give one of them"
        )
    rates = list(rates)
    was_fitted = is_fitted(corrector) and label_rate > 0
    plays_again = rates or ask is not None or label_rate < 1 or was_fitted
    fresh = corrector.to_bytes() if plays_again else b""
    kind = kind_of(corrector)
    refuse_others(kind, "replay", {"costs": costs})
    player = Player(
        recording, label_delay=label_delay, label_rate=label_rate, seed=seed, model=model,
        version=version, costs=costs, progress=progress,
    )  # fmt: skip

    def again(rate: float, *, asks: bool = False, draw: int = 0) -> Replay:
        """Replay at another label rate, or of other labels, from the corrector's initial state."""
        start, ask = kind.copied(fresh), rate if asks else None
        return player.play(start, label_rate=1.0 if asks else rate, ask=ask, seed=seed + draw)

    def drawn(first: Replay, rate: float, times: int) -> Replay:
        """Add other draws to the first, where not all labels come."""
        if 0 < rate < 1:
            first.other_draws = [again(rate, draw=draw) for draw in range(1, times)]
        return first

    result = player.play(corrector, ask=ask, explain=explain, each=each)
    if was_fitted:
        result.fit_alone = again(0.0)
    if ask is None:
        drawn(result, label_rate, DRAWS)
    elif result.coming:
        result.at_random = again(result.coming / result.possible)
    if rates:
        own_rate = label_rate if ask is None else ask
        random_replays = {
            rate: drawn(again(rate), rate, RATE_DRAWS) for rate in rates if rate != own_rate
        }
        requested_replays = {
            rate: again(rate, asks=True)
            for rate in rates
            if 0 < rate < 1 and rate != ask and player.models is None
        }
        if ask is None:
            random_replays[own_rate] = result
        else:
            requested_replays[own_rate] = result
            if result.at_random is not None:
                random_replays[own_rate] = result.at_random
        for requested, replays in ((False, random_replays), (True, requested_replays)):
            for rate, rate_replay in sorted(replays.items()):
                scores = result.asked_rates if requested else result.rates
                scores[rate] = rate_replay.corrected
                if (changes := rate_replay.changes()) is not None:
                    result.rate_changes[rate, requested] = changes
    return result
