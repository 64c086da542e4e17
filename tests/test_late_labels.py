"""Labels that come half a cycle after a turning class mix: through the library, replay and pipe.

Half a cycle late, a label teaches the opposite of what holds now. Judged by what would be sent by
then, corrections look good that were wrong when they were sent; judged by what was sent, not.
"""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.recording import from_arrays
from stream_can.replay import steps

PERIOD, DELAY, ROWS, M = 8000, 4000, 24_000, 4
LOST = 2.5  # points of accuracy, all of them before there is any evidence
NATS = 0.06


def season(seed):
    """Rows of a calibrated classifier, shape (n, m), and labels whose mix turns in cycles."""
    rng = np.random.default_rng(seed)
    turn = np.arange(ROWS)[:, None] / PERIOD + np.arange(M) / M
    mix = np.exp(1.5 * np.sin(2 * np.pi * turn))
    y = (rng.random((ROWS, 1)) > (mix / mix.sum(1, keepdims=True)).cumsum(1)).sum(1).clip(0, M - 1)
    evidence = np.exp(1.2 * (rng.normal(size=(ROWS, M)) + 1.2 * np.eye(M)[y]))
    return evidence / evidence.sum(1, keepdims=True), y


def change(Q, P, y):
    """Accuracy in points and log loss in nats, corrected minus raw."""
    at = np.arange(len(y))
    hits = 100 * ((Q.argmax(1) == y).mean() - (P.argmax(1) == y).mean())
    return hits, np.log(P[at, y] / np.maximum(Q[at, y], 1e-6)).mean()


@pytest.mark.fast
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_replay_is_not_led_astray(seed):
    P, y = season(seed)
    corrector = Corrector(M)
    chunks = steps(from_arrays(P, y), corrector, label_delay=DELAY, explain=False)
    points, nats = change(np.concatenate([step.corrected for step in chunks]), P, y)
    assert points > 2 * LOST
    assert nats < -NATS
    recent = corrector.recent_log_loss
    assert recent["corrected"] < recent["raw"] + 0.01  # it says what it does, not more


@pytest.mark.fast
def test_what_labels_taught_would_be():
    """The stream is as hard as it is meant to be: the tempered mixture, where nothing asks whether
    the mix is stale, costs many points."""
    P, y = season(1)
    corrector, plain = Corrector(M), []
    at = list(corrector.final_weights).index("plain")
    for start in range(0, ROWS, 50):
        _, receipts = corrector.process_many(P[start : start + 50], receipt=True)
        plain.append(receipts[:, at * M : (at + 1) * M].astype(float))
        late = slice(start - DELAY, start - DELAY + 50)
        if start >= DELAY:
            corrector.learn_many(P[late], y[late])
    assert change(np.concatenate(plain), P, y)[0] < -2 * LOST


def test_pipe_with_a_state_file_and_two_kills_is_not_led_astray(tmp_path):
    P, y = season(1)
    lines = tmp_path / "lines.jsonl"
    with lines.open("w") as file:
        for i in range(ROWS):
            print(json.dumps({"id": i, "probs": P[i].tolist()}), file=file)
            if i >= DELAY:
                print(json.dumps({"id": i - DELAY, "label": int(y[i - DELAY])}), file=file)
    command = [sys.executable, "-m", "stream_can", "pipe", "--classes", "0,1,2,3", "--skip"]
    command += ["--state", str(tmp_path / "state"), "--save-every", "1000"]
    sent = {}
    for kill_after in (9000, 9000, None):
        with (
            lines.open("rb") as source,
            subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE) as pipe,
        ):
            for n, line in enumerate(pipe.stdout):
                try:
                    message = json.loads(line)
                except ValueError:  # cut by the kill
                    assert kill_after is not None
                    break
                sent.setdefault(message["id"], message["probs"])
                if n == kill_after:
                    pipe.send_signal(signal.SIGKILL)
        assert pipe.returncode == (0 if kill_after is None else -signal.SIGKILL)
    Q = np.array([sent[i] for i in range(ROWS)])
    points, nats = change(Q, P, y)
    assert points > -LOST
    assert nats < NATS
