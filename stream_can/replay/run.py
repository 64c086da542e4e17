"""The replay: a recording through a corrector, once or at several rates of labels."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable

from stream_can.corrector import Corrector
from stream_can.method.asking import LabelRequests
from stream_can.recording.recording import Recording
from stream_can.replay.models import PlayedModels
from stream_can.replay.result import Replay
from stream_can.replay.steps import Step, steps
from stream_can.scores import Scores
from stream_can.trust.alarm import Alarm

__all__ = ["label_rates", "replay"]


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
        :attr:`Replay.rates` and, those below 1, for :attr:`Replay.asked_rates`; `label_rate`
        itself, or the budget of `requests`, joins them.
    model, version
        Columns that the recording was opened with (``segments``), which name the model and version
        of each row: each has a corrector of its own, and begins with `corrector`.
    progress
        Is called after each step with the number of its rows.
    each
        Is called with each step of the replay itself, which has the corrected rows.

    Returns
    -------
    Scores over all rows whose label is known, those whose label never arrives included.

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

    def several(start: Corrector) -> Corrector | PlayedModels:
        named = model is not None or version is not None
        return PlayedModels(start, model, version) if named else start

    corrects = several(corrector)
    result = _once(
        recording, corrects, label_delay, label_rate, seed, requests, explain, progress, each
    )
    at_random = None
    if requests is not None and result.coming:
        as_many = result.coming / result.possible
        start = Corrector.from_bytes(fresh)
        at_random = _once(recording, start, label_delay, as_many, seed, None, False, progress)
        result.at_random = at_random.moments
    if rates:
        own = None if requests is None else requests.budget

        def others(rates: Iterable[float], ask: bool) -> dict[float, Scores]:
            return label_rates(
                recording,
                lambda: several(Corrector.from_bytes(fresh)),
                rates,
                ask=ask,
                label_delay=label_delay,
                seed=seed,
                progress=progress,
            )

        played = label_rate if own is None else own
        found = others((rate for rate in rates if rate != played), False)
        asked: dict[float, Scores] = {}
        if not isinstance(corrects, PlayedModels):
            asked = others((rate for rate in rates if rate < 1 and rate != own), True)
        if own is None:
            found[label_rate] = result.corrected
        else:
            asked[own] = result.corrected
            if at_random is not None:
                found[own] = at_random.corrected
        result.rates, result.asked_rates = dict(sorted(found.items())), dict(sorted(asked.items()))
    return result


def _once(
    recording: Recording,
    corrector: Corrector | PlayedModels,
    label_delay: int | None,
    label_rate: float,
    seed: int,
    requests: LabelRequests | None,
    explain: bool,
    progress: Callable[[int], object],
    each: Callable[[Step], object] = lambda step: None,
) -> Replay:
    """One pass over the recording."""
    started = clock.perf_counter()
    # What is played once more is the same classifier.
    result = Replay(corrector, requests, Alarm() if explain else None)
    for step in steps(
        recording.chunks(),
        corrector,
        label_delay=label_delay,
        label_rate=label_rate,
        seed=seed,
        requests=requests,
        explain=explain,
    ):
        result.add(step)
        each(step)
        progress(len(step.P))
    result.dates |= recording.dates
    result.delay = "at their own time" if label_delay is None else f"{label_delay:,} rows late"
    result.seconds = clock.perf_counter() - started
    return result


def label_rates(
    recording: Recording,
    start: Callable[[], Corrector | PlayedModels],
    rates: Iterable[float],
    *,
    ask: bool = False,
    label_delay: int | None = None,
    seed: int = 0,
    progress: Callable[[int], object] = lambda rows: None,
) -> dict[float, Scores]:
    """Replay at shares of the labels: scores of the corrected rows at each rate.

    Parameters
    ----------
    start
        Makes the corrector that each rate begins with.
    rates
        Shares of the labels that arrive, in [0, 1].
    ask
        Whether :class:`stream_can.LabelRequests` asks for the labels; else they come at random.
    """
    return {
        rate: _once(
            recording,
            start(),
            label_delay,
            1.0 if ask else rate,
            seed,
            LabelRequests(rate, seed=seed) if ask else None,
            False,
            progress,
        ).corrected
        for rate in rates
    }
