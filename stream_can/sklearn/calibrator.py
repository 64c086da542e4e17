"""StreamCalibrator: a scikit-learn classifier with corrected probabilities that keeps learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from stream_can import snapshot as snapshots
from stream_can.corrector import Corrector
from stream_can.method.segments import given_texts
from stream_can.method.settings import SETTINGS, CorrectorKeywords, keywords
from stream_can.method.settings_help import takes_settings
from stream_can.multilabel import MultiLabelCorrector
from stream_can.sklearn.held_out import held_out, probabilities
from stream_can.sklearn.labels import check_classes, classes_of, rows_and_labels
from stream_can.sklearn.protocol import EstimatorProtocol

Array = NDArray[np.float64]
PREFIT = "prefit"


@takes_settings
class StreamCalibrator(EstimatorProtocol, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Correct a classifier's probabilities, from held-out rows and later from late labels.

    :class:`sklearn.calibration.CalibratedClassifierCV` ends with ``fit``; this estimator continues:
    ``observe`` rows of the stream, ``partial_fit`` labels that arrive. The classifier itself is not
    retrained.

    If y has a column for each label, shape (n, m) of 1 and 0, rows are multilabel, as for
    :class:`~sklearn.multioutput.MultiOutputClassifier` and natively multilabel classifiers. Then a
    :class:`stream_can.multilabel.MultiLabelCorrector` is used, which has only the setting
    ``half_life``. In ``partial_fit`` -1 is an unknown label.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``.
    cv
        How ``fit`` obtains predictions on rows outside the training set: a number of folds, a
        splitter (also :class:`~sklearn.model_selection.TimeSeriesSplit`), an iterable of splits; or
        "prefit": the estimator is trained, and ``fit`` receives validation rows.
    train_counts
        Training rows per class, {class: count} or in the order of ``classes_``; by default those of
        ``y``, with "prefit" uniform. With multilabel rows, the training rows with each.
    train_rows
        With multilabel rows, the number of training rows; goes with ``train_counts``.
    **settings
        Those of :class:`stream_can.CorrectorKeywords`.

    ``segments`` are columns of X, which must be a data frame; the classifier still receives them.

    Attributes
    ----------
    classes_
        The classes, shape (m,); with multilabel rows 0 to m - 1, one for each column of y.
    estimator_
        The trained classifier.
    corrector_
        The :class:`stream_can.Corrector`, for inspection and snapshots; with multilabel rows the
        ``MultiLabelCorrector``.
    n_features_in_, feature_names_in_
        Those of ``estimator_``, where it has them.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> model = StreamCalibrator(GaussianNB()).fit(X[:1000], y[:1000])
    >>> P = model.predict_proba(X[1000:])  # changes nothing
    >>> model = model.observe(X[1000:]).partial_fit(X[1000:1500], y[1000:1500])
    >>> model.corrector_.n_labels
    500
    """

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = 5,
        train_counts: ArrayLike | Mapping[Any, float] | None = None,
        train_rows: float | None = None,
        **settings: Unpack[CorrectorKeywords],
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.train_counts = train_counts
        self.train_rows = train_rows
        self.__dict__.update(keywords(settings))

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Train the classifier, and the corrector on predictions of held-out rows.

        Parameters
        ----------
        X, y
            Training rows; with ``cv="prefit"`` validation rows.
        **params
            For the classifier's ``fit``; with metadata routing also for the splitter's ``split``.

        Raises
        ------
        ValueError
            The rows have fewer than two classes, or one that a prefit classifier does not know;
            ``sample_weight`` has another length; or ``sets`` is out of range.

        Warns
        -----
        UserWarning
            A split's test rows have a class without training rows, as where ``y`` is sorted.
        """
        X, y = rows_and_labels(X, y)
        segments = self._given(X)
        if self._is_prefit:
            if params:
                raise ValueError(f"fit: {next(iter(params))!r} is for a classifier to be trained")
            self._start(self.estimator, y)
            P = self._raw(X)
        else:
            routed = self._route(params)
            self.classes_, counts = classes_of(y)
            P, held = held_out(self.estimator, self.cv, self.classes_, X, y, routed)
            model = clone(self.estimator).fit(X, y, **routed.estimator.fit)
            self._start(model, y, counts)
            y = y[held]
            if segments is not None:
                segments = {name: [texts[i] for i in held] for name, texts in segments.items()}
        if isinstance(self.corrector_, MultiLabelCorrector):
            rows = np.arange(len(y))
            self.corrector_.play(P, y, rows, rows + 1)
        else:
            self.corrector_.fit(P, y, segments=segments)
        return self

    def _start(self, model: Any, y: NDArray[Any], counts: ArrayLike | None = None) -> None:
        """Create the corrector of a trained classifier, for labels like y."""
        several = y.ndim == 2
        self._take(model, several)
        if several and y.shape[1] != len(self.classes_):
            raise ValueError(
                f"y has {y.shape[1]} labels a row, the classifier {len(self.classes_)}; give one"
                " column for each label that it was trained on"
            )
        names, settings = self.classes_.tolist(), self._settings(several)
        counts_by_class, n = self.train_counts, self.train_rows
        if counts_by_class is None and n is None and counts is not None:
            counts_by_class, n = counts, len(y)
        self.corrector_: Any
        if several:
            self.corrector_ = MultiLabelCorrector(
                names, train_counts=counts_by_class, train_rows=n, **settings
            )
        else:
            self.corrector_ = Corrector(names, train_counts=counts_by_class, **settings)

    def _take(self, model: Any, several: bool) -> None:
        check_is_fitted(model)
        if isinstance(model.classes_, list) and not several:
            raise ValueError(
                f"{type(model).__name__} predicts {len(model.classes_)} labels a row, y has one;"
                f" give y of shape (n, {len(model.classes_)})"
            )
        self.estimator_ = model
        self.classes_ = np.arange(len(model.classes_)) if several else model.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def _settings(self, several: bool) -> dict[str, Any]:
        """Settings of the corrector; a ``MultiLabelCorrector`` has only one."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        if not several:
            if self.train_rows is not None:
                raise ValueError("train_rows: for multilabel rows, y has one")
            return settings
        for name, default in keywords({}).items():
            if name != "half_life" and settings[name] != default:
                raise ValueError(f"{name}: not of multilabel rows; leave it out")
        return {"half_life": settings["half_life"]}

    @property
    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == PREFIT

    def predict_proba(self, X: Any) -> Array:
        """Predict corrected probabilities, shape (n, m), in the order of ``classes_``."""
        check_is_fitted(self)
        return np.asarray(self.corrector_.correct_many(self._raw(X), **self._more(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the likeliest class of each row, shape (n,); with multilabel rows 1 where a label
        is more likely than not, else 0, shape (n, m)."""
        P = self.predict_proba(X)
        if self._has_several:
            return (P >= 0.5).astype(int)
        return np.asarray(self.classes_[P.argmax(axis=1)])

    def decide(self, X: Any) -> NDArray[Any]:
        """Decide on each label of multilabel rows so as to maximise F1: 1 or 0, shape (n, m); see
        :meth:`MultiLabelCorrector.decide`.

        Raises
        ------
        ValueError
            Rows have a single label.
        """
        check_is_fitted(self)
        if not self._has_several:
            raise ValueError("decide: for multilabel rows, y had one; predict says it")
        return np.asarray(self.corrector_.decide(self.predict_proba(X)).astype(int))

    def predict_set(self, X: Any) -> NDArray[np.bool_]:
        """Predict the set of classes that each row can have, with the coverage ``sets``; it always
        includes the likeliest class.

        docs/sets.md says what is promised. The sets learn from the labels of ``partial_fit``, each
        judged by the set that would be sent when it arrives.

        Returns
        -------
        Whether each class is in the set of each row, shape (n, m), in the order of ``classes_``.

        Raises
        ------
        ValueError
            ``sets`` is None, or rows are multilabel.
        """
        check_is_fitted(self)
        if self._has_several:
            raise ValueError("predict_set: a set is of one label a row, y had several")
        sets = self.corrector_.predict_set_many(self._raw(X), segments=self._given(X))
        return np.asarray(sets)

    def _raw(self, X: Any) -> Array:
        return probabilities(self.estimator_, X)

    @property
    def _has_several(self) -> bool:
        return isinstance(self.corrector_, MultiLabelCorrector)

    def _more(self, X: Any) -> dict[str, Any]:
        return {} if self._has_several else {"segments": self._given(X)}

    def _given(self, X: Any) -> dict[str, list[Any]] | None:
        """Column values of the rows; None without columns."""
        if not self.segments:
            return None
        names = getattr(X, "columns", ())
        for name in self.segments:
            if name not in names:
                raise ValueError(f"segments: X has no column {name!r}; give a data frame with it")
        return given_texts(self.segments, X, many=True)

    def observe(self, X: Any) -> Self:
        """Observe unlabelled rows in stream order; their labels come later, or never.

        Call it once for each row, after ``predict_proba``.
        """
        check_is_fitted(self)
        self.corrector_.observe_many(self._raw(X), **self._more(X))
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn labels that arrived, in order. The classifier is not changed.

        Before ``fit`` it calls ``fit``; with ``cv="prefit"`` it creates a corrector without
        validation rows, which learns these labels.

        Parameters
        ----------
        X, y
            Rows predicted earlier, and their labels; with multilabel rows, -1 where unknown.
        classes
            As for ``partial_fit`` in scikit-learn: if given, it must equal ``classes_``; with
            multilabel rows, 0 and 1 for each.
        sample_weight
            How many labels each counts as, shape (n,), from 0.01 to 100; 1 by default. Where this
            calls ``fit``, it weighs the classifier's training rows, as there.

        Raises
        ------
        UnknownClass
            A label is not in ``classes_``, or with multilabel rows not 1, 0 or -1. Nothing was
            learned.
        ValueError
            A weight is none, or rows are multilabel, which have no weights. Nothing was learned.
        """
        X, y = rows_and_labels(X, y)
        if not hasattr(self, "corrector_"):
            if not self._is_prefit:
                check_classes(classes, y, np.unique(y), "the rows have")
                params = {} if sample_weight is None else {"sample_weight": sample_weight}
                return self.fit(X, y, **params)
            check_is_fitted(self.estimator)
            check_classes(classes, y, self.estimator.classes_, "the classifier has")
            self._start(self.estimator, y)
        check_classes(classes, y, self.classes_, "the classifier has")
        weighted = {} if sample_weight is None else {"weights": sample_weight}
        if weighted and self._has_several:
            raise ValueError("sample_weight: not of multilabel rows; leave it out")
        self.corrector_.learn_many(self._raw(X), y, **self._more(X), **weighted)
        return self

    def restore(self, snapshot: bytes) -> Self:
        """Continue from ``corrector_.to_bytes()`` of an earlier run, with a prefit classifier.

        However the classifier is stored, the corrector's knowledge needs no pickle.

        Parameters
        ----------
        snapshot
            The bytes. The settings are those of this object; given ``paths`` must equal the
            snapshot's. Sets with another coverage start over.

        Raises
        ------
        SnapshotMismatch
            The bytes are no snapshot, or one with other classes or paths.
        ValueError
            ``cv`` is not "prefit".
        """
        if not self._is_prefit:
            raise ValueError('restore: needs a trained classifier and cv="prefit"')
        several = "multilabel" in snapshots.decode(snapshot).head
        self._take(self.estimator, several)
        names, settings = self.classes_.tolist(), self._settings(several)
        if several:
            self.corrector_ = MultiLabelCorrector.from_bytes(snapshot, names, **settings)
        else:
            settings["segments"] = self.segments or ()  # the snapshot must have none either
            self.corrector_ = Corrector.from_bytes(snapshot, names, **settings)
        return self

    def successor(self, estimator: Any, discount: float = 0.1) -> Self:
        """Create the calibrator of a new version of the classifier; see
        :meth:`Corrector.successor`.

        Parameters
        ----------
        estimator
            The new version, trained.
        discount
            Factor of the evidence learned here, from 0 to 1.

        Returns
        -------
        A new calibrator with ``cv="prefit"`` and these settings, whose sets start over; this one is
        unchanged.

        Raises
        ------
        ValueError
            The new version has other classes.
        """
        check_is_fitted(self)
        calibrator: Self = clone(self).set_params(estimator=estimator, cv=PREFIT)
        calibrator._take(estimator, self._has_several)
        if not np.array_equal(calibrator.classes_, self.classes_):
            raise ValueError(
                f"successor: the new classifier has classes {calibrator.classes_.tolist()}, this"
                f" one {self.classes_.tolist()}; for other classes make a new StreamCalibrator"
            )
        calibrator.corrector_ = self.corrector_.successor(discount)
        return calibrator
