"""The public interface as a type checker sees it: checked by mypy, never run."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from stream_can import (
    Corrector,
    InvalidPrediction,
    LabelRequest,
    LabelRequests,
    StreamCANError,
    any_topk_entropy,
    batch_can,
    entropy,
    laplace,
    margin,
    topk_entropy,
)
from stream_can.kafka import EXIT_CODES, Settings, Worker, load
from stream_can.pipe import pipe
from stream_can.recording import Chunk, Recording
from stream_can.replay import Replay, Step, replay, steps, verdict
from stream_can.report import report
from stream_can.river import CorrectedClassifier, FrozenClassifier
from stream_can.scores import Scores, accuracy
from stream_can.snapshot import save

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
requests = LabelRequests(0.05, random_share=0.5, seed=1)
assert_type(requests.ask_one("17", [0.5, 0.5]), LabelRequest | None)
assert_type(requests.ask_many([1, b"2"], np.ones((2, 2)) / 2), list[LabelRequest | None])
assert_type(LabelRequests.from_bytes(requests.to_bytes()), LabelRequests)
error: StreamCANError = InvalidPrediction("row 0: ...")

# -- scores, recordings, replay, report

scores = Scores(bins=10)
scores.add([[0.5, 0.5]], [0])
assert_type(scores.log_loss, float)
assert_type(scores.summary(), dict[str, float])
assert_type(accuracy([[0.5, 0.5]], np.array([0])), float)

recording = Recording("stream.csv", probs="p_")
assert_type(next(recording.chunks(100)), Chunk)
result = replay(recording, Corrector(recording.classes), label_delay=500)
assert_type(result, Replay)
assert_type(result.moments, list[Any])
for step in steps(recording.chunks(), corrector, explain=False):
    assert_type(step, Step)
    assert_type(step.first, int)
assert_type(verdict(result), str)
assert_type(report(result, "title"), str)

# -- river, Kafka, pipe, snapshot

assert_type(CorrectedClassifier(FrozenClassifier(lambda x: {"a": 1.0})).corrector, Corrector | None)
assert_type(load("app.toml", {"half_life": 3}, {}), Settings)
worker = Worker(load(None, {}, {}))
worker.run()
assert_type(worker.stop(), None)
assert_type(EXIT_CODES, dict[int, str])
assert_type(pipe(["a", "b"], state="state.bin", errors="fail", half_life=3), int)
assert_type(save(corrector.to_bytes(), "state.bin"), None)
