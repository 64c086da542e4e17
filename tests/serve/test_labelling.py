"""The labelling page of a server: a real browser's keyboard, and labels that are learned."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.chromium import Browser
from tests.programs import wait
from tests.serve.serving import Server


@pytest.mark.needs("chromium")
def test_labels_are_given_on_the_page(tmp_path, browser: Browser):
    rng = np.random.default_rng(0)
    with Server(tmp_path, ask=1.0, label_port=0, commit_interval_ms=5) as server:
        for i in range(6):
            probs = rng.dirichlet(np.ones(3)).tolist()
            said = server.correct({"id": f"o{i}", "probs": probs, "text": f"animal {i}"})
            assert said["ask"] == "random"
        assert server.label({"id": "o5", "label": "dog"}) == ["learned"]
        (address,) = re.findall(r"give labels on (\S+)", server.log.read_text())
        browser.look(address, 1000)
        browser.until("document.querySelector('dl')?.textContent.includes('animal 4')")
        browser.press("2")
        browser.until("document.querySelector('dl')?.textContent.includes('animal 3')")
        learned = lambda: server.client.get("/status.json").json()["learned"][0]["labels"]  # noqa: E731
        wait("it is learned", lambda: learned() == 2)
        assert server.label({"id": "o4", "label": "eel"}) == ["repeated"]
        status = server.client.get("/status.json").json()
        assert status["learned"][0]["labels"] == 2
        assert status["open_requests"] == 4
        browser.look("about:blank", 1000)  # The page asks again and again: nobody would answer.
        browser.until("location.href === 'about:blank'")
        server.stop()
        server.start()
        said = lambda: re.findall(r"give labels on (\S+)", server.log.read_text())  # noqa: E731
        wait("it gives its address again", lambda: len(said()) == 2)
        browser.look(said()[1], 1000)
        browser.until("document.querySelector('dl')?.textContent.includes('animal 3')")
        assert browser.errors == []


@pytest.mark.needs("chromium")
def test_several_labels_are_given_on_the_page(tmp_path, browser: Browser):
    labels = [f"t{k}" for k in range(12)]
    settings = {"rows": "multilabel", "classes": labels, "ask": 1.0, "label_port": 0}
    with Server(tmp_path, **settings) as server:
        for i in range(3):
            scores = [0.9 - 0.05 * k for k in range(12)]
            assert server.correct({"id": f"o{i}", "scores": scores, "text": f"text {i}"})["ask"]
        (address,) = re.findall(r"give labels on (\S+)", server.log.read_text())
        browser.look(address, 1000)
        shown = "document.querySelector('dl')?.textContent.includes('text {}')"
        browser.until(shown.format(2))
        pressed = (
            "[...document.querySelectorAll('li button[aria-pressed=true] bdi')]"
            ".map(one => one.textContent).join()"
        )
        browser.press("1")
        browser.press("3")
        browser.press("1")  # not any more
        browser.press("4")
        browser.until(f"{pressed} === 't2,t3'")
        browser.value("document.getElementById('search').value = 't11'")
        browser.value("search()")
        browser.until(f"{pressed} === 't2,t3,t11'")
        browser.press("d")
        browser.until(shown.format(1))
        browser.press("u")
        browser.until(f"{shown.format(2)} && {pressed} === 't2,t3,t11'")
        browser.press("d")
        browser.until(shown.format(1))
        browser.press("d")  # none
        browser.until(shown.format(0))
        learned = lambda: server.client.get("/status.json").json()["learned"][0]["labels"]  # noqa: E731
        wait("they are learned", lambda: learned() == 2)
        assert browser.errors == []
        for i, has in ((2, ["t2", "t3", "t11"]), (1, [])):
            every = {"id": f"o{i}", "labels": {name: name in has for name in labels}}
            assert server.label(every) == ["repeated"]
        status = server.client.get("/status.json").json()
        assert status["changed_labels"] == 0
        assert status["open_requests"] == 1


@pytest.mark.needs("chromium")
def test_labels_of_very_many_classes_are_given_on_the_page(tmp_path, browser: Browser):
    settings = {"classes": None, "rows": "sparse", "max_classes": 60}
    with Server(tmp_path, **settings, ask=1.0, label_port=0) as server:
        for i, row in enumerate([{"c1": 0.5}, {"c2": 0.5, "c3": 0.3}, {"c4": 0.9}]):
            assert server.correct({"id": f"o{i}", "probs": row, "text": f"text {i}"})["ask"]
        (address,) = re.findall(r"give labels on (\S+)", server.log.read_text())
        browser.look(address, 1000)
        shown = "document.querySelector('dl')?.textContent.includes('text {}')"
        browser.until(shown.format(2))
        for text, then in (
            ("c3", shown.format(1)),
            ("none such", "document.getElementById('said').textContent.includes('no class')"),
            ("c4", shown.format(0)),
        ):
            browser.value(f"document.getElementById('search').value = '{text}'")
            browser.value("search() && 1")
            browser.until(then)
        browser.press("1")
        learned = lambda: server.client.get("/status.json").json()["learned"][0]["labels"]  # noqa: E731
        wait("they are learned", lambda: learned() == 3)
        assert browser.errors == []
        assert server.label({"id": "o2", "label": "c3"}) == ["repeated"]
        status = server.client.get("/status.json").json()
        assert (status["n_classes"], status["changed_labels"]) == (4, 0)


@pytest.mark.needs("chromium")
def test_the_live_page(tmp_path, browser: Browser):
    with Server(tmp_path) as server:
        for i in range(30):
            server.correct({"id": i, "probs": [0.6, 0.3, 0.1]})
            server.label({"id": i, "label": "dog"})
        browser.look(f"http://127.0.0.1:{server.port}/", 400)
        browser.until("document.getElementById('content')?.hidden === false")
        browser.until("document.body.textContent.includes('30')")
        assert browser.value("document.documentElement.scrollWidth") <= 400
        shown = "[...document.querySelectorAll('section')].filter(one => !one.hidden)"
        text = browser.value(f"{shown}.map(one => one.innerText).join()").lower()
        for word in ("worker", "partition", "topic", "broker", "kafka", "undefined", "null"):
            assert word not in text, text
        assert browser.errors == []
