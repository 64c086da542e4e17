"""The labelling page of a server: a real browser's keyboard, and labels that are learned."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.chromium import Browser
from tests.programs import wait
from tests.serve.serving import Server


@pytest.mark.browser
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


@pytest.mark.browser
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
