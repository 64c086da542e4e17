from typing import Any

BINS: int
STRENGTH: float
PRECISIONS: dict[str, Any]
NUMBERS: dict[str, int]
OF_LABELS: tuple[str, ...]

class Model:
    m: int
    n_predictions: int
    n_labels: int
    def __init__(self, q_train: Any, half_life: float) -> None: ...
    def play(
        self,
        P: Any,
        first: int,
        Y: Any,
        rows: Any,
        due: Any,
        known: Any,
        observes: bool,
        sends: bool,
        receipt: bool,
        decides: bool = ...,
    ) -> tuple[Any, Any, Any]: ...
    def dump(self) -> dict[str, Any]: ...
    def load(self, arrays: dict[str, Any]) -> None: ...

def outside(P: Any) -> tuple[int, int] | None: ...
