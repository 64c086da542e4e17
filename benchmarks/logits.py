"""Logits against the softmax of them in single precision, on an overconfident classifier.

    python benchmarks/logits.py FOLDER [SHARPNESS]

FOLDER holds .npz files as for validation.py. The logits are SHARPNESS (10) times the logarithms of
the recorded probabilities, in float32. Labels come 100 rows late, with their receipts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from stream_can import Corrector, softmax

DELAY = 100


def corrected(P: np.ndarray, y: np.ndarray) -> np.ndarray:
    corrector, out, receipts = Corrector(P.shape[1]), np.empty_like(P), []
    for i, p in enumerate(P):
        out[i], receipt = corrector.process_one(p, receipt=True)
        receipts.append(receipt)
        if (k := i - DELAY) >= 0 and y[k] >= 0:
            corrector.learn_one(P[k], int(y[k]), receipt=receipts[k])
    return out


def loss(P: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(P[np.arange(len(y)), y][y >= 0], 1e-300)).mean())


def main() -> None:
    sharpness = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    print("stream, top exactly 1 %, some exactly 0 %, before: single double, after: single double")
    for file in sorted(Path(sys.argv[1]).glob("*.npz")):
        with np.load(file) as data:
            P, y = data["probs"].astype(float), data["labels"]
        logits = (np.log(np.maximum(P, 1e-30)) * sharpness).astype(np.float32)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        single = shares / shares.sum(axis=1, keepdims=True)
        rows = (
            single.astype(float) / single.astype(float).sum(axis=1, keepdims=True),
            softmax(logits),
        )
        top, zero = 100 * (single.max(axis=1) == 1).mean(), 100 * (single == 0).any(axis=1).mean()
        losses = [loss(Q, y) for Q in rows] + [loss(corrected(Q, y), y) for Q in rows]
        print(f"{file.stem:22} {top:5.1f} {zero:5.1f}", *(f"{x:.5f}" for x in losses), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
