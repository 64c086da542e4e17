from typing import Any

def sets_of(
    P: Any, labels: Any, belief: Any, state: Any, shifts: Any, miss: float, growth: float,
    inside: Any, thetas: Any, scores: Any,
) -> None: ...  # fmt: skip
def learn_label(
    p: float, y: int, theta: float, labels: Any, state: Any, shifts: Any, counts: Any, miss: float,
    gamma: float, growth: float, per_class: bool,
) -> bool: ...  # fmt: skip
