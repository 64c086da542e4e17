"""Spark alone corrects, and the learner of an application between Kafka topics learns from it."""

import json
import random

import numpy as np
import pytest

from stream_can import InvalidPrediction
from stream_can import spark as sc
from stream_can.kafka import States
from tests.kafka.broker.broker import VERSIONS, Broker
from tests.kafka.judge import Answered, judge_answers
from tests.kafka.streams import App, Running, prediction
from tests.kafka.topics import produce
from tests.programs import wait

ROWS, BATCHES = 300, 8
SCHEMA = "id string, time double, probs array<double>, note string"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    found = Broker(VERSIONS[0], tmp_path_factory.mktemp("broker"))
    found.start()
    yield found
    Running.end_all()
    found.remove()


def loss(row, truth):
    return -np.log(max(row["abcd".index(truth)], 1e-12))


def test_the_application_learns_what_spark_corrected(spark, broker, tmp_path):
    """Every state is exact, every row is what the state of its batch makes of it, and it helps."""
    app = App(broker.bootstrap_servers, partitions=1, served=True, segments=["note"])
    learner = app.learner()
    wait("a state", lambda: learner.learning() and learner.worker.learns.writer.number >= 0)
    rng, truths, source = random.Random(1), {}, tmp_path / "in"
    for n in range(BATCHES):
        rows = []
        for i in range(n * ROWS, (n + 1) * ROWS):
            _, value, truth = prediction(rng, i)
            says = json.loads(value)
            truths[str(i)] = truth
            rows.append((str(i), 1_000_000.0 + i, says["probs"], says["note"]))
        frame = spark.createDataFrame(rows, SCHEMA)
        frame.coalesce(1).write.mode("append").parquet(str(source))
    answers, taught = [], 0
    with States([broker.bootstrap_servers], app.id) as states:

        def write(batch, n):
            nonlocal taught
            state = states.newest()
            better = sc.correct(batch, state, probs="probs", into="better", key="id")
            found = better.collect()
            here = [broker.bootstrap_servers]
            assert sc.send(batch, state, here, id="id", probs="probs", time="time") == len(found)
            for row in found:
                asked = {"id": row.id, "probs": [*row.probs], "note": row.note}
                made = {**asked, "probs": [*row.better], "probs_raw": asked["probs"]}
                answers.append(Answered(asked, made, state.number))
            labels = [
                (row.id.encode(), json.dumps({"id": row.id, "label": truths[row.id]}).encode())
                for row in found
            ]
            produce(app.servers, [(app.given["labels"], 0, key, value) for key, value in labels])
            taught += len(labels)
            live = learner.learning().learner.live
            wait("learned", lambda: sum(x.corrector.n_labels for x in live.values()) == taught)
            wait("the state is read", lambda: states.newest().corrector().n_labels == taught)

        query = (
            spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(source))
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(write)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        bad = spark.createDataFrame([("x", 1.0, [1.0, 2.0, 3.0, 4.0], "n")], SCHEMA)
        with pytest.raises(Exception, match="id = x") as error:
            sc.send(bad, states.newest(), [broker.bootstrap_servers], id="id", probs="probs")
        assert InvalidPrediction.__name__ in str(error.value)
        assert sc.send(
            bad, states.newest(), [broker.bootstrap_servers], id="id", probs="probs", errors="null"
        ) == 0  # fmt: skip
    learner.stop()
    assert len(answers) == ROWS * BATCHES
    app.verify()
    assert app.checked.labels["learned"] + app.checked.labels["learned late"] == ROWS * BATCHES
    assert judge_answers(app.servers, app.settings(), answers) == 0
    last = answers[ROWS * BATCHES // 2 :]
    before = np.mean([loss(one.asked["probs"], truths[one.asked["id"]]) for one in last])
    after = np.mean([loss(one.answer["probs"], truths[one.asked["id"]]) for one in last])
    hits = [
        np.mean([likeliest(at(one)["probs"]) == truths[one.asked["id"]] for one in last])
        for at in (lambda one: one.asked, lambda one: one.answer)
    ]
    print(f"log loss {before:.4f} -> {after:.4f}, accuracy {hits[0]:.4f} -> {hits[1]:.4f}")
    assert after < before - 0.01


def likeliest(row):
    return "abcd"[int(np.argmax(row))]
