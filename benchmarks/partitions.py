"""What labels split over partitions cost: one stream, over 1 to 64 partitions, each learning alone.

The stream is made here: ten classes whose mix drifts, and a classifier that is overconfident and
leans towards some classes. Labels come 1,000 rows late, all of them or one in twenty.
"""

from __future__ import annotations

import numpy as np

from stream_can import Corrector
from stream_can.scores import Scores

ROWS, CLASSES, DELAY = 100_000, 10, 1_000


def stream(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Predictions (n, m) and the true classes (n,)."""
    rng = np.random.default_rng(seed)
    lean = rng.normal(0, 0.7, CLASSES)
    phase = rng.uniform(0, 2 * np.pi, CLASSES)
    turn = 2 * np.pi * np.arange(ROWS)[:, None] / 40_000
    mix = np.exp(np.sin(turn + phase) + rng.normal(0, 0.5, CLASSES))
    mix /= mix.sum(axis=1, keepdims=True)
    y = (mix.cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1).clip(max=CLASSES - 1)
    scores = rng.normal(0, 1, (ROWS, CLASSES))
    scores[np.arange(ROWS), y] += 1.8
    scores = 1.8 * (1.8 * scores) + lean  # 1.8 * scores would be the right log-odds
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True), y


def corrected(P: np.ndarray, y: np.ndarray, partitions: int, rate: float) -> np.ndarray:
    """Every row as the corrector of its partition sends it; rows go round the partitions."""
    learned = np.random.default_rng(1).random(ROWS) < rate
    correctors = [Corrector(CLASSES) for _ in range(partitions)]
    Q = np.empty_like(P)
    for start in range(0, ROWS, DELAY // 10):
        for k, corrector in enumerate(correctors):
            rows = np.arange(start, min(start + DELAY // 10, ROWS))
            late = rows - DELAY
            late = late[(late >= 0) & (late % partitions == k)]
            late = late[learned[late]]
            corrector.learn_many(P[late], y[late].tolist())
            rows = rows[rows % partitions == k]
            Q[rows] = corrector.process_many(P[rows])
    return Q


def main() -> None:
    P, y = stream()
    raw = Scores()
    raw.add(P, y)
    print(
        f"{ROWS} rows, {CLASSES} classes; raw: accuracy {raw.accuracy:.2%},"
        f" log loss {raw.log_loss:.4f}"
    )
    print("partitions  every label: points  nats   1 in 20: points  nats")
    for partitions in (1, 4, 16, 64):
        cells = []
        for rate in (1.0, 0.05):
            scores = Scores()
            scores.add(corrected(P, y, partitions, rate), y)
            points = 100 * (scores.accuracy - raw.accuracy)
            cells.append(f"{points:+8.2f}  {scores.log_loss - raw.log_loss:+.4f}")
        print(f"{partitions:>10}  {'   '.join(cells)}")


if __name__ == "__main__":
    main()
