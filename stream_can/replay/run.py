"""replay: play a recording through a corrector, at one or several label rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stream_can.corrector import Corrector
from stream_can.method.asking import LabelRequests
from stream_can.recording.recording import Recording
from stream_can.replay.models import PlayedModels
from stream_can.replay.player import Player
from stream_can.replay.result import Replay
from stream_can.replay.steps import Step

__all__ = ["replay"]


def replay(
    recording: Recording,
    corrector: Corrector,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    requests: LabelRequests | None = None,
    explain: bool = True,
    rates: Iterable[float] = (),
    model: str | None = None,
    version: str | None = None,
    progress: Callable[[int], object] = lambda rows: None,
    each: Callable[[Step], object] = lambda step: None,
) -> Replay:
    """Replay a recording through a corrector.

    Parameters
    ----------
    recording
        Predictions and labels.
    corrector
        A new corrector, fitted or not, or the state of an earlier one.
    label_delay, label_rate, seed, requests, explain
        As for :func:`steps`; `label_delay` may be None only where the recording has times. With
        `requests` the `label_rate` must be 1, and the recording is played once more with as many
        labels at random, for :attr:`Replay.at_random`.
    rates
        Other shares of the labels, each replayed once more from what `corrector` is now, for
        :attr:`Replay.rates` and, those between 0 and 1, for :attr:`Replay.asked_rates`;
        `label_rate` itself, or the budget of `requests`, joins them.
    model, version
        Columns that the recording was opened with (``segments``), which name the model and version
        of each row: each has a corrector of its own, and begins with `corrector`.
    progress
        Called after each step with its number of rows.
    each
        Called with each step of the replay itself, which has the corrected rows.

    Returns
    -------
    Scores over all rows with a known label, including labels that never arrive.

    Examples
    --------
    >>> import numpy as np, os, tempfile
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
    if label_delay is None and not recording.has_times:
        raise ValueError(
            "label_delay: say after how many rows a label arrives, or name the columns of times"
        )
    if requests is not None and label_rate != 1:
        raise ValueError(
            "label_rate: labels are asked for; both say which arrive, give one of them"
        )
    rates = list(rates)
    fresh = corrector.to_bytes() if rates or requests is not None else b""
    named = model is not None or version is not None
    player = Player(
        recording, label_delay=label_delay, label_rate=label_rate, seed=seed, progress=progress
    )

    def several(start: Corrector) -> Corrector | PlayedModels:
        return PlayedModels(start, model, version) if named else start

    def again(rate: float, *, ask: bool = False) -> Replay:
        """Replay at another label rate, from the corrector's initial state."""
        asks = LabelRequests(rate, seed=seed) if ask else None
        start = several(Corrector.from_bytes(fresh))
        return player.play(start, label_rate=1.0 if ask else rate, requests=asks)

    result = player.play(several(corrector), requests=requests, explain=explain, each=each)
    if requests is not None and result.coming:
        result.at_random = again(result.coming / result.possible)
    if rates:
        budget = None if requests is None else requests.budget
        own = label_rate if budget is None else budget
        found = {rate: again(rate).corrected for rate in rates if rate != own}
        asked = {
            rate: again(rate, ask=True).corrected
            for rate in rates
            if 0 < rate < 1 and rate != budget and not named
        }
        if budget is None:
            found[own] = result.corrected
        else:
            asked[own] = result.corrected
            if result.at_random is not None:
                found[own] = result.at_random.corrected
        result.rates, result.asked_rates = dict(sorted(found.items())), dict(sorted(asked.items()))
    return result
