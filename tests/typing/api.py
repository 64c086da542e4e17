"""The public interface as a type checker sees it: checked by mypy, never run."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from stream_can import (
    Corrector,
    InvalidPrediction,
    StreamCANError,
    any_topk_entropy,
    batch_can,
    entropy,
    laplace,
    margin,
    topk_entropy,
)

Array = NDArray[np.float64]

corrector = Corrector(["a", "b"], train_counts={"a": 3, "b": 1}, paths=["can"], half_life=100)
corrector = Corrector(2, train_counts=[3, 1], prior_strength=float("inf"))
assert_type(corrector.correct_one([0.5, 0.5]), Array)
assert_type(corrector.process_many(np.ones((1, 2)) / 2), Array)
assert_type(corrector.explain_one([0.5, 0.5]), dict[str, Array])
corrector.learn_one(None, "a")
corrector.learn_many([[0.5, 0.5]], ["a"])
corrector.fit([[0.5, 0.5]], np.array([1]))
assert_type(corrector.to_bytes(), bytes)
assert_type(Corrector.from_bytes(b"", ["a", "b"], half_life=3), Corrector)
assert_type(corrector.prior, Array)
assert_type(corrector.weights, dict[str, float])
assert_type(corrector.confident_sums, dict[str, Array])
assert_type(corrector.recent_log_loss, dict[str, float])
assert_type(corrector.fit_report, dict[str, Any] | None)
assert_type(batch_can([[0.5, 0.5]], laplace([3, 1]), iterations=2, sample=500, seed=1), Array)
assert_type(topk_entropy([0.5, 0.5], k=2), Array)
assert_type(entropy([0.5]), Array)
assert_type(margin([0.5]), Array)
assert_type(any_topk_entropy([0.5]), Array)
error: StreamCANError = InvalidPrediction("row 0: ...")
