"""A thousand tenants behind one classifier: corrected together, with the tenant, and what it is
worth for the large and the small.

Traffic is Zipf's: the first tenant sends every seventh row, most send a few in a day. Each has its
own mix of classes, which turns now and then, and its own way of being misread. Labels come 100 rows
late.

Run it: `python examples/tenants.py`
"""

import numpy as np

from stream_can import Corrector
from stream_can.scores import Scores

ROWS, TENANTS, LATE = 60_000, 1000, 100
CLASSES = ["refund", "delivery", "account", "other"]
TRAINED = np.array([0.3, 0.3, 0.2, 0.2])

rng = np.random.default_rng(0)
share = 1 / np.arange(1, TENANTS + 1)
tenant = rng.choice(TENANTS, ROWS, p=share / share.sum())

# Each tenant's own mix, and where in the stream it turns to another one.
mixes = rng.dirichlet(12 * TRAINED, (2, TENANTS))
turned = np.arange(ROWS) > rng.uniform(0.2, 1.5, TENANTS)[tenant] * ROWS
mix = mixes[turned.astype(int), tenant]
y = (rng.random((ROWS, 1)) > mix.cumsum(axis=1)).sum(axis=1).clip(0, 3)
misread = 0.4 * rng.normal(size=(TENANTS, len(CLASSES)))[tenant]
evidence = rng.normal(size=(ROWS, 4)) + 1.3 * np.eye(4)[y] + misread + np.log(TRAINED)
P = np.exp(1.3 * evidence)
P /= P.sum(axis=1, keepdims=True)


def corrected(columns: list[str]) -> np.ndarray:
    """What is sent with these columns, shape (n, m)."""
    corrector = Corrector(CLASSES, train_counts=1000 * TRAINED, segments=columns)
    out, receipts = [], []
    for start in range(0, ROWS, LATE):
        now, before = slice(start, start + LATE), slice(start - LATE, start)
        here, then = ({"tenant": tenant[part]} if columns else None for part in (now, before))
        if start:
            names = [CLASSES[k] for k in y[before]]
            corrector.learn_many(P[before], names, receipts=receipts[-1], segments=then)
        better, receipt = corrector.process_many(P[now], receipt=True, segments=here)
        out.append(better)
        receipts.append(receipt)
    return np.concatenate(out)


rows = {"raw": P, "together": corrected([]), "with tenant": corrected(["tenant"])}
sizes = np.bincount(tenant, minlength=TENANTS)[tenant]
for what, at in {
    "all": sizes > 0,
    "tenants of 1,000 rows and more": sizes >= 1000,
    "of 100 to 1,000": (sizes >= 100) & (sizes < 1000),
    "of fewer than 100": sizes < 100,
}.items():
    print(f"{what}: {at.sum():,} rows of {len(set(tenant[at]))} tenants")
    for name, Q in rows.items():
        scores = Scores()
        scores.add(Q[at], y[at])
        print(f"  {name:<12} accuracy {scores.accuracy:.3f}  log loss {scores.log_loss:.3f}")
