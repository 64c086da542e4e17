"""FrozenClassifier: a river classifier that predicts and does not learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from river import base

from stream_can.river.frames import takes_frames


class FrozenClassifier(base.Classifier):
    """A classifier that predicts and does not learn, so that only the corrector around it does.

    Parameters
    ----------
    model
        A trained river classifier or pipeline; a trained scikit-learn classifier as
        ``river.compat.SKL2RiverClassifier(model, classes=[...])``; or any function from a dict of
        features to {class: probability}.

    Examples
    --------
    >>> from stream_can.river import CorrectedClassifier, FrozenClassifier

    >>> def rain(x):
    ...     return {"rain": x["clouds"], "sun": 1 - x["clouds"]}

    >>> model = CorrectedClassifier(FrozenClassifier(rain), train_counts={"rain": 40, "sun": 60})
    >>> for i in range(200):  # clouds that seldom bring rain
    ...     model.learn_one({"clouds": 0.75}, "rain" if i % 5 == 0 else "sun")
    >>> model.predict_one({"clouds": 0.75})
    'sun'
    """

    def __init__(
        self, model: base.Classifier | Callable[[dict[Any, Any]], Mapping[Any, float]]
    ) -> None:
        if not (hasattr(model, "predict_proba_one") or callable(model)):
            raise TypeError(
                f"FrozenClassifier: {type(model).__name__} is no river classifier and no function;"
                " for scikit-learn use river.compat.SKL2RiverClassifier(model, classes=[...])"
            )
        self.model = model

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict {class: probability} with the model."""
        ask: Any = getattr(self.model, "predict_proba_one", self.model)
        return dict(ask(x, **kwargs))

    @property
    def predict_proba_many(self) -> Callable[..., Any]:
        """The model's own method; missing where the model has none, so that rows are used."""
        if not takes_frames(self.model, "predict_proba_many"):
            raise AttributeError(f"{type(self.model).__name__} has no predict_proba_many")
        return self.model.predict_proba_many  # type: ignore[no-any-return, union-attr]

    def learn_one(self, x: dict[Any, Any], y: Any, **kwargs: Any) -> None:
        """Do nothing: the model is frozen."""

    def _get_params(self) -> dict[str, Any]:
        # Not expanded as river does, which would rebuild a clone from them, untrained.
        return {"model": self.model}

    @property
    def _multiclass(self) -> bool:
        return bool(getattr(self.model, "_multiclass", True))

    def _more_tags(self) -> set[str]:
        return set(getattr(self.model, "_tags", ()))

    def _unit_test_skips(self) -> set[str]:
        skips = getattr(self.model, "_unit_test_skips", set)
        return set(skips())

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model

        yield {"model": linear_model.LogisticRegression()}
