from typing import Any

def score(p: float) -> float: ...
def sets_of(
    P: Any, labels: Any, belief: Any, state: Any, shifts: Any, miss: float, growth: float,
    inside: Any, thetas: Any, scores: Any,
) -> None: ...  # fmt: skip
def learn_label(
    p: float, y: int, theta: float, labels: Any, state: Any, shifts: Any, counts: Any, miss: float,
    gamma: float, growth: float, per_class: bool,
) -> bool: ...  # fmt: skip
def sets_now(P: Any, labels: Any, belief: Any, state: Any, miss: float, inside: Any) -> float: ...
def believe(P: Any, belief: Any, growth: float) -> None: ...
