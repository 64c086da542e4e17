"""Protocol of scikit-learn: metadata routing, tags, and whether an estimator is fitted."""

from __future__ import annotations

from typing import Any

from sklearn.utils import (
    Bunch,
    get_tags,
)
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter


class EstimatorProtocol:
    """The part of a `StreamCalibrator` that scikit-learn calls."""

    estimator: Any
    cv: Any

    def get_metadata_routing(self) -> Any:
        """Routing of parameters of ``fit``: to the classifier, and to the splitter."""
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
            if "groups" in params and not has_fit_parameter(self.estimator, "groups"):
                raise ValueError(
                    "fit: 'groups' reaches the splitter only with metadata routing:"
                    " sklearn.set_config(enable_metadata_routing=True)"
                )
            return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={}))
        routed = process_routing(self, "fit", **params)
        return Bunch(estimator=routed.estimator, splitter=routed.get("splitter", Bunch(split={})))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        estimator_tags = get_tags(self.estimator)
        tags.input_tags.sparse = estimator_tags.input_tags.sparse
        tags.input_tags.allow_nan = estimator_tags.input_tags.allow_nan
        tags.classifier_tags.multi_class = estimator_tags.classifier_tags.multi_class
        tags.classifier_tags.multi_label = estimator_tags.classifier_tags.multi_label
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "corrector_")
