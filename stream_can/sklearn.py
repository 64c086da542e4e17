"""A scikit-learn classifier whose probabilities are corrected, and go on learning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sized
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.method.segments import given_texts
from stream_can.method.settings import SETTINGS, CorrectorKeywords, keywords, takes_settings

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.model_selection import check_cv
    from sklearn.utils import (
        Bunch,
        _safe_indexing,
        assert_all_finite,
        column_or_1d,
        get_tags,
        indexable,
    )
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_method_params, check_is_fitted
except ImportError:
    raise StreamCANError(
        "the estimator needs scikit-learn 1.8 or newer: pip install '.[compare]' in stream_can's"
        " folder"
    ) from None

__all__ = ["StreamCalibrator"]

Array = NDArray[np.float64]
PREFIT = "prefit"


@takes_settings
class StreamCalibrator(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Correct a classifier's probabilities, at once from held-out rows and later from late labels.

    Where :class:`sklearn.calibration.CalibratedClassifierCV` ends with ``fit``, this goes on:
    ``observe`` the rows that go by, ``partial_fit`` the labels that arrive. The classifier itself
    is not trained again.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``.
    cv
        How ``fit`` comes by predictions on rows that the classifier was not trained on: a number of
        folds, a splitter (also :class:`~sklearn.model_selection.TimeSeriesSplit`), an iterable of
        splits; "prefit": the estimator is trained already, and ``fit`` gets validation rows.
    train_counts
        Training rows per class, {class: count} or in the order of ``classes_``; those of ``y``
        where not given, and with "prefit" uniform.
    **settings
        Those of :class:`stream_can.CorrectorKeywords`.

    ``segments`` are columns of X, which is a data frame then; the classifier sees them as ever.

    Attributes
    ----------
    classes_
        The classes, shape (m,).
    estimator_
        The trained classifier.
    corrector_
        The :class:`stream_can.Corrector` behind it, to look inside, and for its snapshot.
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
        **settings: Unpack[CorrectorKeywords],
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.train_counts = train_counts
        self.__dict__.update(keywords(settings))

    # ---- train

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Train the classifier, and the corrector on predictions of rows it was not trained on.

        Parameters
        ----------
        X, y
            Training rows; with ``cv="prefit"`` validation rows.
        **params
            For the classifier's ``fit``; with metadata routing also for the splitter's ``split``.

        Raises
        ------
        ValueError
            The rows hold fewer than two classes, or one that a prefit classifier does not know, or
            ``sample_weight`` has not one weight for each; or ``sets`` is no share.

        Warns
        -----
        UserWarning
            A split's rows are of a class that it did not train on, as where ``y`` is sorted.
        """
        X, y = _rows_and_labels(X, y)
        given = self._given(X)
        if self._is_prefit:
            if params:
                raise ValueError(f"fit: {next(iter(params))!r} is for a classifier to be trained")
            self._start(self.estimator)
            P = self._raw(X)
        else:
            routed = self._route(params)
            self.classes_, counts = np.unique(y, return_counts=True)
            P, held = self._held_out(X, y, routed)
            model = clone(self.estimator).fit(X, y, **routed.estimator.fit)
            self._start(model, counts)
            y = y[held]
            if given is not None:
                given = {name: [texts[i] for i in held] for name, texts in given.items()}
        self.corrector_.fit(P, y, segments=given)
        return self

    def _held_out(self, X: Any, y: NDArray[Any], routed: Any) -> tuple[Array, NDArray[np.intp]]:
        """Predictions of each split's test rows, and which rows those are."""
        if len(self.classes_) < 2:
            raise ValueError(
                f"fit: {len(y)} rows hold only {len(self.classes_)} class, expected 2 or more; "
                "one class needs no classifier"
            )
        _check_weights(routed.estimator.fit, len(y))
        splitter = check_cv(self.cv, y, classifier=True)
        parts, rows = [], []
        unseen: list[Any] = []
        for train, test in splitter.split(X, y, **routed.splitter.split):
            own = _check_method_params(X, params=routed.estimator.fit, indices=train)
            model = clone(self.estimator).fit(_safe_indexing(X, train), y[train], **own)
            P = np.zeros((len(test), len(self.classes_)))
            columns = np.searchsorted(self.classes_, model.classes_)
            P[:, columns] = _probabilities(model, _safe_indexing(X, test))
            parts.append(P)
            rows.append(test)
            unseen += y[test][~np.isin(y[test], y[train])].tolist()
        if unseen:
            _warn_of_unseen(len(unseen), sum(map(len, rows)), unseen[0])
        return np.concatenate(parts), np.concatenate(rows)

    def _start(self, model: Any, counts: ArrayLike | None = None) -> None:
        """A new corrector behind a trained classifier."""
        self._take(model)
        self.corrector_ = Corrector(
            self.classes_.tolist(),
            train_counts=counts if self.train_counts is None else self.train_counts,
            **self._settings(),
        )

    def _take(self, model: Any) -> None:
        check_is_fitted(model)
        self.estimator_ = model
        self.classes_ = model.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SETTINGS}

    @property
    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == PREFIT

    # ---- predict: nothing changes

    def predict_proba(self, X: Any) -> Array:
        """The corrected probabilities, shape (n, m), in the order of ``classes_``."""
        check_is_fitted(self)
        return self.corrector_.correct_many(self._raw(X), segments=self._given(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row after the correction, shape (n,)."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def predict_set(self, X: Any) -> NDArray[np.bool_]:
        """Which classes each row can be, as certain as ``sets`` promises; the likeliest always.

        What is promised, and what is not, stands in docs/sets.md. It is kept by labels of
        ``partial_fit``, of the sets that would be sent when they come.

        Returns
        -------
        Whether each class is in the set of each row, shape (n, m), in the order of ``classes_``.

        Raises
        ------
        ValueError
            ``sets`` is None.
        """
        check_is_fitted(self)
        return self.corrector_.predict_set_many(self._raw(X), segments=self._given(X))

    def _raw(self, X: Any) -> Array:
        return _probabilities(self.estimator_, X)

    def _given(self, X: Any) -> dict[str, list[Any]] | None:
        """What the rows give of the columns; None where there are none."""
        if not self.segments:
            return None
        names = getattr(X, "columns", ())
        for name in self.segments:
            if name not in names:
                raise ValueError(f"segments: X has no column {name!r}; give a data frame with it")
        return given_texts(self.segments, X, many=True)

    # ---- learn

    def observe(self, X: Any) -> Self:
        """Predictions of these rows went by, in stream order; their labels come later, or never.

        Call it once for each row, after ``predict_proba``.
        """
        check_is_fitted(self)
        self.corrector_.observe_many(self._raw(X), segments=self._given(X))
        return self

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Learn from labels that arrived, in their order. The classifier stays as it is.

        Called before ``fit``, it is ``fit``; with ``cv="prefit"`` a corrector without validation
        rows starts, and learns these labels.

        Parameters
        ----------
        X, y
            Rows that were predicted earlier, and their labels.
        classes
            As scikit-learn's own ``partial_fit`` has it: where given, it must be ``classes_``.

        Raises
        ------
        UnknownClass
            A label is none of ``classes_``. Nothing was learned.
        """
        if not hasattr(self, "corrector_"):
            if not self._is_prefit:
                X, y = _rows_and_labels(X, y)
                _check_classes(classes, np.unique(y), "the rows have")
                return self.fit(X, y)
            check_is_fitted(self.estimator)
            _check_classes(classes, self.estimator.classes_, "the classifier has")
            self._start(self.estimator)
        _check_classes(classes, self.classes_, "the classifier has")
        X, y = _rows_and_labels(X, y)
        self.corrector_.learn_many(self._raw(X), y, segments=self._given(X))
        return self

    def restore(self, snapshot: bytes) -> Self:
        """Go on from ``corrector_.to_bytes()`` of an earlier run, behind a prefit classifier.

        With the classifier kept by whatever means, what the corrector learned needs no pickle.

        Parameters
        ----------
        snapshot
            The bytes. The settings are those of this object; given ``paths`` must be theirs.
            Sets of another promise begin anew.

        Raises
        ------
        SnapshotMismatch
            The bytes are no snapshot, or one of other classes or paths.
        ValueError
            ``cv`` is not "prefit".
        """
        if not self._is_prefit:
            raise ValueError('restore: needs a trained classifier and cv="prefit"')
        self._take(self.estimator)
        settings = self._settings() | {"segments": self.segments or ()}  # also none must match
        self.corrector_ = Corrector.from_bytes(snapshot, self.classes_.tolist(), **settings)
        return self

    def successor(self, estimator: Any, discount: float = 0.1) -> Self:
        """What corrects a new version of the classifier; see :meth:`Corrector.successor`.

        Parameters
        ----------
        estimator
            The new version, trained.
        discount
            What the evidence learned here counts there, from 0 to 1.

        Returns
        -------
        Another calibrator with ``cv="prefit"`` and these settings, whose sets begin anew; this one
        stays as it is.

        Raises
        ------
        ValueError
            The new version has other classes.
        """
        check_is_fitted(self)
        after: Self = clone(self).set_params(estimator=estimator, cv=PREFIT)
        after._take(estimator)
        if not np.array_equal(after.classes_, self.classes_):
            raise ValueError(
                f"successor: the new classifier has classes {after.classes_.tolist()}, this one"
                f" {self.classes_.tolist()}; for other classes make a new StreamCalibrator"
            )
        after.corrector_ = self.corrector_.successor(discount)
        return after

    # ---- what scikit-learn asks for

    def get_metadata_routing(self) -> Any:
        """What parameters ``fit`` hands on: to the classifier, and to the splitter."""
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            estimator=self.estimator,
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )
        if hasattr(self.cv, "split"):
            router.add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        return router

    def _route(self, params: dict[str, Any]) -> Any:
        from sklearn import get_config

        if not get_config()["enable_metadata_routing"]:
            return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={}))
        routed = process_routing(self, "fit", **params)
        return Bunch(estimator=routed.estimator, splitter=routed.get("splitter", Bunch(split={})))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.input_tags.sparse = own.input_tags.sparse
        tags.input_tags.allow_nan = own.input_tags.allow_nan
        tags.classifier_tags.multi_class = own.classifier_tags.multi_class
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "corrector_")


def _rows_and_labels(X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    X, y = indexable(X, y)
    return X, y


def _check_classes(classes: ArrayLike | None, known: NDArray[Any], whose: str) -> None:
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(
            f"partial_fit: classes are {np.unique(classes).tolist()}, but {whose} "
            f"{known.tolist()}; a class that is not known needs a fit with rows of it"
        )


def _check_weights(params: Mapping[str, Any], n: int) -> None:
    """Refuse weights of a wrong length here: in a split they would be called those of its rows."""
    weights = params.get("sample_weight")
    if isinstance(weights, Sized) and len(weights) != n:
        raise ValueError(
            f"fit: sample_weight has {len(weights)} weights for {n} rows; give one for each row"
        )


def _warn_of_unseen(unseen: int, rows: int, first: Any) -> None:
    """Rows whose class the split's classifier was not trained on spoil what is learned of it."""
    warnings.warn(
        f"fit: {unseen} of {rows} held-out rows are of a class that their split did not train on, "
        f"the first of class {first!r}; where y is sorted, shuffle: cv=StratifiedKFold(5, "
        "shuffle=True), or KFold(5, shuffle=True)",
        UserWarning,
        stacklevel=4,
    )


def _probabilities(model: Any, X: Any) -> Array:
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{type(model).__name__} has no predict_proba; scikit-learn's CalibratedClassifierCV "
            "around it gives it one"
        )
    return np.asarray(model.predict_proba(X), np.float64)
