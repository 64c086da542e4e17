"""A classifier that became worse, behind a real server: said in words, and to Prometheus."""

from __future__ import annotations

import numpy as np

from tests.serve.serving import CLASSES, Server


def rows(server, rng, first, n, accuracy):
    """Predictions that are right so often, and their labels at once."""
    for start in range(first, first + n, 50):
        ys = rng.integers(0, 3, 50)
        top = np.where(rng.random(50) < accuracy, ys, (ys + 1) % 3)
        P = np.full((50, 3), 0.1)
        P[np.arange(50), top] = 0.8
        server.correct(*({"id": start + i, "probs": P[i].tolist()} for i in range(50)))
        said = server.label(*({"id": start + i, "label": CLASSES[ys[i]]} for i in range(50)))
        assert said == ["learned"] * 50


def worse(server):
    text = server.client.get("/metrics").text
    return [f'stream_can_worse{{stage="{stage}"}} 1.0' in text for stage in ("before", "after")]


def test_it_is_said_since_when_and_until(tmp_path):
    rng = np.random.default_rng(0)
    with Server(tmp_path) as server:
        rows(server, rng, 0, 600, 0.9)
        page = server.client.get("/status.json").json()
        assert page["worse"] == []
        assert worse(server) == [False, False]
        rows(server, rng, 600, 300, 0.3)
        page = server.client.get("/status.json").json()
        ((lane, episode),) = [one.values() for one in page["worse"]]
        assert lane == ""
        assert 560 < episode["since"] < 640
        assert abs(episode["time"] / 1000 - page["time"]) < 300
        assert episode["after"][0] < 0.45 < 0.85 < episode["before"][0]
        (said,) = [p for p in page["problems"] if "worse than before since 20" in p["what"]]
        assert said["what"].startswith("The classifier itself is worse")
        assert "a season or other traffic" in said["do"]
        assert worse(server) == [True, False]
        rows(server, rng, 900, 600, 0.95)
        assert server.client.get("/status.json").json()["worse"] == []
        assert worse(server) == [False, False]


def test_of_several_models_it_is_said_which(tmp_path):
    rng = np.random.default_rng(1)
    with Server(tmp_path, model="model") as server:
        for first, accuracy in ((0, 0.9), (1000, 0.3)):
            for start in range(first, first + 1000, 50):
                ys = rng.integers(0, 3, 50)
                for model, right in (("a", 0.9), ("b", accuracy)):
                    top = np.where(rng.random(50) < right, ys, (ys + 1) % 3)
                    P = np.full((50, 3), 0.1)
                    P[np.arange(50), top] = 0.8
                    ids = [f"{model}{start + i}" for i in range(50)]
                    server.correct(
                        *(
                            {"id": id, "model": model, "probs": row}
                            for id, row in zip(ids, P.tolist(), strict=True)
                        )
                    )
                    server.label(
                        *(
                            {"id": id, "model": model, "label": CLASSES[y]}
                            for id, y in zip(ids, ys, strict=True)
                        )
                    )
        page = server.client.get("/status.json").json()
        ((lane, episode),) = [one.values() for one in page["worse"]]
        assert lane == "b"
        assert 960 < episode["since"] < 1040
        assert worse(server) == [True, False]
        (said,) = [p for p in page["problems"] if "(b) is worse than before" in p["what"]]
        assert said["what"].startswith("The classifier itself (b)")
