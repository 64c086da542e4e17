"""`decide`: the actions of `Costs.decide`, for each kind of column."""

import numpy as np
import pytest

from stream_can import Corrector, Costs
from stream_can.spark import correct, decide
from tests.spark.frames import CLASSES, KINDS, frame, rows

COSTS = Costs(CLASSES, {"stop": {"a": 0, "*": 2}, "pass": {"a": 9, "*": 0}, "call": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_the_actions_are_those_of_the_library(spark, kind):
    P = rows(300)
    df = decide(correct(frame(spark, P, kind, null={7}), Corrector(CLASSES), errors="null"), COSTS)
    out = {row["id"]: row for row in df.collect()}
    assert df.columns == ["id", "probability", "s", "corrected", "decision"]
    assert out[7]["decision"] is None
    sent = np.array([list(out[i]["corrected"]) for i in range(300) if i != 7])
    actions = [out[i]["decision"] for i in range(300) if i != 7]
    assert actions == COSTS.decide(sent)
    assert {*actions} == {"stop", "pass", "call"}


def test_a_column_that_exists_is_refused(spark):
    with pytest.raises(ValueError, match="there is a column s already"):
        decide(frame(spark, rows(3), "dense"), COSTS, probs="probability", into="s")
