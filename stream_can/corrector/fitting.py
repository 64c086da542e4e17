"""Fitting: a corrector learns validation rows before the stream, or takes another class."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stream_can.corrector.known_mix import mix_in_order
from stream_can.corrector.label_learning import LabelLearning
from stream_can.errors import StreamCANError
from stream_can.method import validation
from stream_can.method.bases import FITTED_PATHS
from stream_can.method.class_names import class_names
from stream_can.method.classes import ClassIndex
from stream_can.method.kernel import Kernel, Mode
from stream_can.method.paths import refuse_known_mix
from stream_can.method.state import (
    JUDGED,
    KNOWN,
    LATE,
    MOVING,
    SHARED,
    WEIGHTS,
    WITH_COLUMNS,
    State,
    grown,
    judged,
    new_known,
    start_weights,
)
from stream_can.method.values import Values


class Fitting(LabelLearning):
    """The part of a `Corrector` whose arrays change shape."""

    def fit(self, P: ArrayLike, ys: Iterable[Hashable], *, segments: Any = None) -> None:
        """Learn from validation data before the stream starts, so that the first row benefits.

        Adds two paths, ``fitted`` and ``fitted+can``: a recalibration fitted to these rows and
        frozen, with an estimate of the stream's class mix that needs no labels. The other bases and
        the prior learn the rows once, as labels. With ``monotone`` no path is added: temperature,
        weights and the calibrated top learn the rows, as labels that come at once.

        Parameters
        ----------
        P
            Predictions of the deployed classifier on rows outside its training set, shape (n, m).
        ys
            Their labels: n names of classes.
        segments
            {column: n values} of the declared columns.

        Raises
        ------
        StreamCANError
            The stream has started, or ``fit`` was called before.
        ValueError
            Fewer than two classes have rows.
        InvalidPrediction, UnknownClass
            A row or label is invalid. Nothing was learned, whatever the error.

        Warns
        -----
        UserWarning
            A class has no row: ``fit`` cannot help it.
        """
        state, changes, values = self._before_fit()
        content = self._content
        if content.known_mix is not None:
            raise StreamCANError("fit: follows the class mix itself; leave out prior, or fit")
        # Warnings are issued here, before anything changes and without holding the lock.
        indices = self._indices_of(ys)
        fitted = validation.fit(
            P, indices, content.classes, content.train_prior, monotone=content.monotone
        )
        paths, hidden = content.paths, {*SHARED, *WITH_COLUMNS, *LATE} - {"labels"}
        if content.monotone:  # no base is added: the validation rows judge what is sent
            hidden -= {"weights", "odds", "u.last", "K.last"}
        else:
            # The fitted base follows the class mix itself, and a single path is no longer single.
            paths, hidden = (*paths, *FITTED_PATHS), {*hidden, *JUDGED}
            state = {name: array for name, array in state.items() if name not in MOVING}
            state |= fitted.state | judged(len(content.classes))
            state |= dict(zip(WEIGHTS, start_weights(paths), strict=False))
        content_after = content._replace(paths=paths, fit_report=fitted.report)
        # These labels teach no sets; see below.
        bare = content_after._replace(sets=None, sets_by=None)
        # Weights, guards and the judging of sent rows ignore these labels.
        unseen = {name: array.copy() for name, array in state.items() if name in hidden}
        kernel = Kernel(self._model(state, bare, values), state)
        kernel.learn_many(fitted.rows, fitted.labels, None, fitted.in_order(self._texts(segments)))
        state |= unseen
        if values is not None:
            values.forget_odds()
        model = self._model(state, content_after, values)
        if content_after.sets is not None:
            # As if labels came at once: sets from rows without labels would all err alike.
            kernel, texts = Kernel(model, state, content_after, self._index), self._texts(segments)
            model.teach_sets(kernel.rows(P, 2, Mode.CORRECT, texts=texts), indices, texts)
        while not self._kernel.replace(model, state, content_after, self._index, changes):
            _, changes, _ = self._before_fit()

    def _before_fit(self) -> tuple[State, int, Values | None]:
        """Copies of the arrays, their number of changes, and the column values.

        Raise where something has been learned.
        """
        content, state, changes, values = self._kernel.copied()
        if content.fit_report is not None:
            raise StreamCANError(
                "fit: called a second time; make a new Corrector to fit other rows"
            )
        if state["counts"].any():
            raise StreamCANError(
                "fit: the stream has started; call fit before the first prediction or label"
            )
        return state, changes, values

    def _add_class(self, name: Hashable) -> None:
        """Append an unknown class: zero rows and columns, weights kept."""
        while True:
            content, state, changes, values = self._kernel.copied()
            if content.fit_report is not None:
                raise StreamCANError(
                    "a fitted corrector cannot take another class: its validation rows lacked it"
                )
            names = (*content.classes, *class_names([name]))
            index = ClassIndex(names)  # raises for a name that exists
            counts = content.train_counts
            counts = None if counts is None else np.append(counts, 0.0)
            content_after = content._replace(classes=names, train_counts=counts)
            if content.known_mix is not None:  # of the new class nothing is known
                mix = np.append(content.known_mix, content_after.train_prior[-1])
                content_after = content_after._replace(known_mix=mix / mix.sum())
            state = grown(state)
            values = None if values is None else values.grown(len(names))
            model = self._model(state, content_after, values)
            if self._kernel.replace(model, state, content_after, index, changes):
                return

    def set_prior(self, prior: ArrayLike | Mapping[Any, float] | None) -> None:
        """Say what the class mix of the stream is from now on; labels may overrule it.

        The row at this mix begins with its initial odds, whatever labels said of an earlier one.
        With None no mix is known any more, and that row is gone.

        Parameters
        ----------
        prior
            Shares or numbers of rows of the classes, shape (m,) or {class: share}.

        Raises
        ------
        ValueError
            It is not a class mix of these classes, or the corrector has a single path, segments,
            ``monotone``, or was fitted.
        """
        while True:
            content, state, changes, values = self._kernel.copied()
            mix = mix_in_order(prior, self._index)
            state = {name: array for name, array in state.items() if name not in KNOWN}
            if mix is not None:
                others = {"monotone": content.monotone, "segments": content.columns}
                refuse_known_mix(content.paths, others | {"fit": content.fit_report})
                state |= new_known()
            content_after = content._replace(known_mix=mix)
            model = self._model(state, content_after, values)
            if self._kernel.replace(model, state, content_after, self._index, changes):
                return
