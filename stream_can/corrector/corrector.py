"""Corrector: checks its input, owns the state arrays, calls the compiled kernel."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Unpack

from numpy.typing import ArrayLike

from stream_can.corrector.content import Content, bytes_of, counts_in_order
from stream_can.corrector.known_mix import mix_in_order
from stream_can.corrector.persistence import CorrectorPersistence
from stream_can.method import paths as path_names
from stream_can.method.class_names import class_names
from stream_can.method.classes import ClassIndex
from stream_can.method.promise import groups_of
from stream_can.method.segments import column_names
from stream_can.method.settings import LOOP, CorrectorKeywords, settings_of
from stream_can.method.settings_help import takes_settings
from stream_can.method.state import (
    bytes_needed,
    new_known,
    new_sets,
    new_state,
)
from stream_can.method.values import Values


@takes_settings
class Corrector(CorrectorPersistence):
    """Corrects a classifier's probability vectors as they stream by and learns from late labels.

    Each row costs O(m) for m classes, and up to 256 classes m^2 multiplications more, which the
    path ``full`` takes. The output is a Bayesian mixture of up to eleven paths: the row unchanged
    and recalibrated by online temperature, vector and matrix scaling [2]_, each with and without
    Classification with Alternating Normalization [1]_, and by three bases more without it, weighted
    by how well each has predicted the labels so far. Without labels the output hardly differs from
    the input.

    Parameters
    ----------
    classes
        Names of the classes in column order (str, int of 64 bits, float or bool), or their number m
        for 0..m-1. A member of a str or int Enum stands for its value.
    train_counts
        Training rows per class: shape (m,), or {class: count}; uniform by default.
    **settings
        Those of :class:`stream_can.CorrectorKeywords`.

    Raises
    ------
    ValueError
        An argument is out of range; the message names it.

    References
    ----------
    .. [1] Jia, Reiter, Lim, Artzi, Cardie: When in Doubt: Improving Classification Performance with
       Alternating Normalization. Findings of EMNLP 2021.
    .. [2] Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017.

    Examples
    --------
    >>> corrector = Corrector(["fraud", "fine"], train_counts=[100, 900])
    >>> p = [0.45, 0.55]
    >>> better = corrector.process_one(p)
    >>> corrector.learn_one(p, "fraud")  # the label arrived, now or much later
    >>> corrector.n_labels
    1
    """

    row_kind = "dense"

    def __init__(
        self,
        classes: int | Iterable[Hashable],
        *,
        train_counts: ArrayLike | Mapping[Any, float] | None = None,
        **settings: Unpack[CorrectorKeywords],
    ) -> None:
        names = class_names(classes)
        self._fewest = m = len(names)
        index = ClassIndex(names)
        counts = None if train_counts is None else counts_in_order(train_counts, index)
        options = settings_of(settings)
        paths, monotone = options.paths, options.monotone
        own_paths = (
            path_names.default_paths(m, monotone=monotone)
            if paths is None
            else path_names.in_order(paths)
        )
        self._settings = {name: getattr(options, name) for name in LOOP}
        columns = column_names(options.segments or ())
        if monotone:
            path_names.refuse_reordering(own_paths, columns)
        mix = mix_in_order(options.prior, index)
        if mix is not None:
            path_names.refuse_known_mix(own_paths, {"monotone": monotone, "segments": columns})
        if columns:
            own_paths = path_names.segmented(own_paths)
        if (needed := bytes_needed(m, own_paths, len(columns))) > options.max_mb * (1 << 20):
            raise ValueError(
                f"classes: {m:,} take {needed >> 20:,} MB, and max_mb is {options.max_mb:g};"
                " raise max_mb, or, where the classifier sends only its likeliest classes, use"
                " stream_can.sparse.SparseCorrector"
            )
        groups_of(options.sets, options.sets_by, columns)
        content = Content(
            names, counts, own_paths, None, columns, options.sets, monotone, mix, options.sets_by
        )
        values = Values(columns, m, bytes_of(options.segments_mb)) if columns else None
        state = new_state(m, own_paths, len(columns))
        state |= {} if options.sets is None else new_sets(m)
        state |= {} if mix is None else new_known()
        self._begin(state, content, index, values)
