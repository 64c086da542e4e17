"""The open inference protocol: tensors in, tensors out, the same corrections as by messages."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from stream_can import Costs, softmax
from stream_can.serve.inference import Inference
from stream_can.serve.settings import load
from stream_can.serve.tensors import BadRequest
from tests.serve.serving import CLASSES, Server

P = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]
PATH = "/v2/models/stream_can/infer"


def tensor(name="probs", data=P, datatype="FP64", shape=None):
    return {"name": name, "shape": shape or [2, 3], "datatype": datatype, "data": data}


def test_tensors(tmp_path):
    with Server(tmp_path, commit_interval_ms=1) as server:
        for i in range(40):
            server.correct({"id": i, "probs": [0.5, 0.3, 0.2]})
            server.label({"id": i, "label": "dog"})
        wanted = [one["probs"] for one in server.correct(*({"probs": row} for row in P))]
        flat = np.ravel(P).tolist()
        for data in (P, flat):
            body = json.dumps({"id": "42", "inputs": [tensor(data=data)]})
            answer = server.client.post(PATH, content=body)
            said = answer.json()
            assert said["model_name"] == "stream_can"
            assert said["id"] == "42"
            (out,) = said["outputs"]
            assert (out["name"], out["shape"], out["datatype"]) == ("probs", [2, 3], "FP64")
            assert out["data"] == np.ravel(wanted).tolist()
            assert int(answer.headers["stream-can-learned"]) == 40
        code, said = server.post(PATH, json.dumps({"inputs": [tensor("scores", datatype="FP32")]}))
        assert code == 200
        assert said["outputs"][0]["datatype"] == "FP32"
        assert said["outputs"][0]["name"] == "scores"
        assert said["outputs"][0]["data"] == pytest.approx(np.ravel(wanted), abs=1e-6)
        one = {"inputs": [tensor(data=P[0], shape=[3])], "outputs": [{"name": "probs"}]}
        assert server.post(PATH, json.dumps(one))[0] == 200


def test_prediction_sets_are_texts(tmp_path):
    """A JSON text a row; a client that wants one of the outputs names it."""
    settings = {"sets": 0.8, "model": "m", "models": {"other": {"classes": ["x", "y"]}}}
    (tmp_path / "same").mkdir()
    with Server(tmp_path / "same", **settings) as server:
        rows = server.correct(*({"m": "one", "probs": row} for row in P))
    with Server(tmp_path, **settings) as server:
        path = "/v2/models/one/infer"
        answer = server.client.post(path, content=json.dumps({"inputs": [tensor()]})).json()
        probs, sets = answer["outputs"]
        assert probs["data"] == np.ravel([one["probs"] for one in rows]).tolist()
        assert (sets["name"], sets["datatype"], sets["shape"]) == ("set", "BYTES", [2])
        assert [json.loads(text) for text in sets["data"]] == [one["set"] for one in rows]
        for names in (["probs"], ["set"], ["set", "probs"]):
            body = {"inputs": [tensor()], "outputs": [{"name": name} for name in names]}
            code, said = server.post(path, json.dumps(body))
            assert (code, [one["name"] for one in said["outputs"]]) == (200, names)
        body = {"inputs": [tensor("set")]}
        assert "inputs.set: an output has" in server.post(path, json.dumps(body))[1]["error"]
        body = {"inputs": [tensor(data=[[0.9, 0.1]], shape=[1, 2])]}  # other classes
        said = server.post("/v2/models/other/infer", json.dumps(body))[1]
        assert json.loads(said["outputs"][1]["data"][0])[0] == "x"
        about = server.client.get("/v2/models/one").json()
        assert about["outputs"][1] == {"name": "set", "datatype": "BYTES", "shape": [-1]}


def test_decisions_are_texts(tmp_path):
    costs = {"a": [0, 1, 4], "call": 0.5}
    of_a = ",".join(f"{name}={cost}" for name, cost in zip(CLASSES, [0, 1, 4], strict=True))
    with Server(tmp_path, costs=f"a:{of_a};call=0.5") as server:
        row = server.correct({"probs": P[0]})
        assert row["decision"] == Costs(CLASSES, costs).decide_one(row["probs"])
        said = server.client.post(PATH, content=json.dumps({"inputs": [tensor()]})).json()
        probs, decisions = said["outputs"]
        rows = np.reshape(probs["data"], (2, 3))
        assert decisions["data"] == Costs(CLASSES, costs).decide(rows)
        assert (decisions["name"], decisions["datatype"]) == ("decision", "BYTES")
        page = server.client.get("/openapi.json").json()
        assert json.dumps(page).count('"enum": ["a", "call"]') == 1


def test_ids_join_labels(tmp_path):
    with Server(tmp_path) as server:
        server.post(PATH, json.dumps({"id": "a", "inputs": [tensor()]}))
        ids = tensor("ids", ["x", "y"], "BYTES", [2])
        server.post(PATH, json.dumps({"inputs": [tensor(), ids]}))
        names = ["a/0", "a/1", "x", "y", "z"]
        statuses = server.label(*({"id": name, "label": "cat"} for name in names))
        assert statuses == ["learned"] * 4 + ["unknown"]


def test_models_versions_and_columns(tmp_path):
    settings = {"model": "about.model", "version": "v", "segments": ["tenant"]}
    with Server(tmp_path, **settings) as server:
        column = tensor("tenant", ["a", "b"], "BYTES", [2, 1])
        body = json.dumps({"id": "i", "inputs": [tensor(), column]})
        code, said = server.post("/v2/models/fraud%20eu/versions/3/infer", body)
        assert code == 200, said
        assert said["model_name"] == "fraud eu"
        assert said["model_version"] == "3"
        assert server.label({"id": "i/0", "label": "dog"}) == ["learned"]
        status = server.client.get("/status.json").json()
        assert [one["lane"] for one in status["learned"]] == ["fraud eu 3"]
        values = {one["value"]: one["labels"] for one in status["columns"][0]["values"]}
        assert values == {"a": 1, "b": 0}
        about = server.client.get("/v2/models/fraud%20eu/versions/3").json()
        assert about["versions"] == ["3"]
        assert [one["name"] for one in about["inputs"]] == ["probs", "ids", "tenant"]


def test_what_there_is(tmp_path):
    with Server(tmp_path, application_id="animals") as server:
        client = server.client
        assert client.get("/v2").json()["name"] == "stream_can"
        about = client.get("/v2/models/animals").json()
        assert about["inputs"][0] == {"name": "probs", "datatype": "FP64", "shape": [-1, 3]}
        assert client.get("/v2/models/animals/ready").json() == {"ready": True}
        assert client.get("/v2/models/others").status_code == 404
        assert client.get("/v2/models").status_code == 404
        assert client.get("/v2/models/animals/versions/1/x").status_code == 404


def test_the_response_of_the_step_before_is_a_request(tmp_path):
    label = tensor("label", [0, 2], "INT64", [2])
    confidence = tensor("confidence", [0.5, 0.8], "FP32", [2, 1])
    with Server(tmp_path) as server:
        wanted = [one["probs"] for one in server.correct(*({"probs": row} for row in P))]
        outputs = [label, confidence, tensor("predict_proba", datatype="FP32")]
        response = {"model_name": "before", "model_version": "1", "id": "r", "outputs": outputs}
        code, said = server.post(PATH, json.dumps(response))
        assert code == 200, said
        (out,) = said["outputs"]
        assert (said["id"], out["name"], out["shape"]) == ("r", "predict_proba", [2, 3])
        assert out["data"] == pytest.approx(np.ravel(wanted), abs=0.01)
        assert server.label({"id": "r/1", "label": "eel"}) == ["learned"]
        code, said = server.post(PATH, json.dumps({"predictions": P}))
        assert code == 200, said
        assert list(said) == ["predictions"]
        assert np.array(said["predictions"]) == pytest.approx(np.array(wanted), abs=0.05)
        named = [{"classes": CLASSES[::-1], "scores": row[::-1]} for row in P]
        code, again = server.post(PATH, json.dumps({"predictions": named}))
        assert code == 200, again
        assert [one["classes"] for one in again["predictions"]] == [CLASSES[::-1]] * 2
        found = [one["scores"][::-1] for one in again["predictions"]]
        assert np.array(found) == pytest.approx(np.array(wanted), abs=0.05)
        for body, code, why in [
            ({"outputs": [label]}, 400, "expected one tensor of probabilities, found none"),
            ({"outputs": [tensor("a"), tensor("b")]}, 400, "found 'a', 'b'"),
            ({"outputs": []}, 400, "missing required field `inputs`"),
            ({"predictions": [0.5, 0.2]}, 422, "message 1: probs: one number"),
            ({"predictions": 1}, 400, "missing required field `inputs`"),
        ]:
            found, said = server.post(PATH, json.dumps(body))
            assert (found, why in said["error"]) == (code, True), said


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ([tensor(shape=[10**6, 10**6])], "inputs.probs.shape: "),
        ([tensor(shape=[10**12])], "at `inputs[0].shape[0]`"),
        ([tensor(shape=[1] * 10**6)], "shape`"),
        ([tensor(shape=[10_000, 2**31 - 1], data=[1] * 10**6)], "expected 64 rows at most"),
        ([tensor(shape=[64, 2**31 - 1], data=[1] * 10**6)], "inputs.probs.data: 1000000 numbers"),
        ([tensor(shape=[10_000, 3], data=[[1] * 100] * 10_000)], "inputs.probs.data: 1000000 num"),
        ([tensor(shape=[10_000, 400], data=[1] * 4_000_000)], "expected 8,388 rows at most"),
        ([tensor(), tensor("ids", ["a"] * 10**6, "BYTES", [2])], "inputs.ids.data: over 2"),
        ([tensor(), tensor("ids", ["a"], "BYTES", [2**31 - 1])], "inputs.ids: BYTES of shape"),
        ([tensor(f"x{i}") for i in range(10**4)], "at `inputs`"),
        ([tensor("x" * 10**6)], "at `inputs[0].name`"),
    ],
)
def test_what_is_declared_takes_no_memory(tmp_path, inputs, why):
    """Before, numbers were read before they were counted, and errors repeated all that came."""
    (tmp_path / "app.toml").write_text('classes = ["a", "b", "c"]\nstate = "s"\n')
    settings = load(tmp_path / "app.toml", {}, {})
    body = json.dumps({"inputs": inputs}).encode()
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest) as error:
            Inference(body, settings, "stream_can", "")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert why in str(error.value)[:200]
    assert len(str(error.value)) < 1000
    assert peak < 5 * len(body) + 1_000_000


def test_what_is_refused(tmp_path):
    good = {"inputs": [tensor()]}
    with Server(tmp_path) as server:
        for body, code, why in [
            ("", 400, "JSON"),
            ("{}", 400, "inputs"),
            ({"inputs": []}, 400, "found none"),
            ({"inputs": [tensor(), tensor("more")]}, 400, "'probs', 'more'"),
            ({"inputs": [tensor(datatype="INT8")]}, 400, "inputs.probs.datatype: 'INT8'"),
            ({"inputs": [tensor(shape=[2, 3, 1])]}, 400, "inputs.probs.shape"),
            ({"inputs": [tensor(shape=[-1, 3])]}, 400, "inputs"),
            ({"inputs": [tensor(shape=[100_000, 100_000])]}, 400, "inputs.probs.shape"),
            ({"inputs": [tensor(data=[1, 2])]}, 400, "inputs.probs.data: 2 numbers"),
            ({"inputs": [tensor(data=[[1, 2], [3]])]}, 400, "inputs.probs.data: 3 numbers"),
            ({"inputs": [tensor(data=[[1, 2], [3, 4, 5, 6]])]}, 400, "probs.data: expected number"),
            ({"inputs": [tensor(data=["x"] * 6)]}, 400, "inputs.probs.data: expected numbers"),
            ({"inputs": [tensor(data=[None] * 6)]}, 400, "inputs.probs.data"),
            ({"inputs": [tensor(data=[0.1] * 8, shape=[2, 4])]}, 422, "message 1: probs"),
            ({"inputs": [tensor(data=[-1, 1, 1] * 2)]}, 422, "message 1: probs"),
            (good | {"outputs": [{"name": "other"}]}, 400, "outputs: expected 'probs'"),
            (good | {"outputs": [{"name": "set"}]}, 400, "outputs: expected 'probs', each once"),
            (good | {"outputs": [{"name": "probs"}] * 2}, 400, "outputs: expected 'probs', each"),
            (good | {"outputs": []}, 400, "outputs: expected 'probs'"),
            ({"inputs": [tensor(), tensor("ids", [1, 2], "INT64", [2])]}, 400, "inputs.ids"),
            ({"inputs": [tensor(), tensor("ids", [1, 2], "BYTES", [2])]}, 400, "inputs.ids.data"),
            ({"inputs": [tensor(), tensor("ids", ["a"], "BYTES", [1])]}, 400, "BYTES [2]"),
        ]:
            found, said = server.post(PATH, body if isinstance(body, str) else json.dumps(body))
            assert found == code, (body, said)
            assert why in said["error"], (body, said)
        text = json.dumps(good)
        headers = {"inference-header-content-length": "10"}
        assert server.post(PATH, text, **headers)[0] == 415
        assert server.post("/v2/models/other/infer", text)[0] == 400
        assert server.post("/v2/models/stream_can/versions/2/infer", text)[0] == 400
        assert server.client.get(PATH).status_code == 405
        assert len(CLASSES) == 3


def test_tensors_of_logits(tmp_path):
    with Server(tmp_path, logits=True) as server:
        said = server.client.post(PATH, content=json.dumps({"inputs": [tensor()]})).json()
        rows = np.reshape(said["outputs"][0]["data"], (2, 3))
        np.testing.assert_allclose(rows, softmax(P), atol=1e-3)
        page = server.client.get("/openapi.json").json()
        assert '"maximum": 1' not in json.dumps(page["components"]["schemas"])
