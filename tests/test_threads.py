"""A Corrector in several threads and under Ctrl-C: calls wait for each other, none is half done."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from stream_can import Corrector

pytestmark = pytest.mark.fast


def stream(n, m, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.5), n)
    return P, (rng.random((n, 1)) < P.cumsum(1)).argmax(1).clip(0, m - 1)


def run(calls):
    """Each in a thread of its own, begun together; raises what one of them raised."""
    errors, together = [], threading.Barrier(len(calls))

    def work(call):
        together.wait()
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_wait_for_each_other():
    P, _ = stream(64, 10)
    corrector = Corrector(10)

    def work():
        for _ in range(200):
            corrector.process_many(P)

    run([work] * 8)
    assert corrector.n_predictions == 8 * 200 * 64


def test_what_comes_out_is_that_of_some_order():
    P, y = stream(4000, 5)
    both = Corrector(5)
    run([lambda: both.process_many(P), lambda: both.learn_many(P, y)])
    ends = []
    for first in (True, False):
        corrector = Corrector(5)
        for process in (first, not first):
            if process:
                corrector.process_many(P)
            else:
                corrector.learn_many(P, y)
        ends.append(corrector.to_bytes())
    assert both.to_bytes() in ends


def test_with_columns_too_whatever_their_values_come_to():
    """Values appear, are dropped and come again in one thread while another looks them up."""
    P, y = stream(4000, 5)
    rng = np.random.default_rng(1)
    table = {"x": rng.integers(300, size=len(P)), "y": rng.integers(3, size=len(P)).astype(str)}
    settings = {"segments": ["x", "y"], "segments_mb": 0.02}  # some 100 values

    def process(corrector):
        return corrector.process_many(P, receipt=True, segments=table)

    def learn(corrector):
        corrector.learn_many(P, y, segments=table)

    both, sent = Corrector(5, **settings), []
    run([lambda: sent.append(process(both)), lambda: learn(both)])
    assert both.evicted_values > 1000
    ends = []
    for first, second in ((process, learn), (learn, process)):
        corrector = Corrector(5, **settings)
        made = [call(corrector) for call in (first, second)]
        (rows,) = [found for found in made if found is not None]
        ends.append((corrector.to_bytes(), rows[0].tobytes(), rows[1].tobytes()))
    assert (both.to_bytes(), sent[0][0].tobytes(), sent[0][1].tobytes()) in ends


def test_many_threads_that_correct_beside_one_that_learns_see_whole_values():
    P, y = stream(30_000, 5)
    tenant = np.random.default_rng(2).integers(50, size=len(P))
    corrector, plain, done = (
        Corrector(5, segments=["x"]),
        Corrector(5, segments=["x"]),
        threading.Event(),
    )
    batch = 3000
    cuts = [slice(i, i + batch) for i in range(0, len(P), batch)]
    here = {"x": tenant[:64]}
    allowed = {plain.correct_many(P[:64], segments=here).tobytes()}
    for cut in cuts:
        plain.learn_many(P[cut], y[cut], segments={"x": tenant[cut]})
        allowed.add(plain.correct_many(P[:64], segments=here).tobytes())

    def learn():
        for cut in cuts:
            corrector.learn_many(P[cut], y[cut], segments={"x": tenant[cut]})
        done.set()

    def look():
        while not done.is_set():
            assert corrector.correct_many(P[:64], segments=here).tobytes() in allowed
            assert len(corrector.segment_values("x")) in (0, 50)

    run([learn, look, look])
    assert corrector.to_bytes() == plain.to_bytes()


def test_a_snapshot_beside_learning_is_whole():
    P, y = stream(20_000, 20)
    batch = 2_500
    corrector, plain = Corrector(20), Corrector(20)
    whole = {plain.to_bytes()}
    for i in range(0, len(P), batch):
        plain.learn_many(P[i : i + batch], y[i : i + batch])
        whole.add(plain.to_bytes())
    taken, twice, done = [], threading.Event(), threading.Event()

    def learn():
        for i in range(0, len(P), batch):
            if i == len(P) // 2:
                twice.wait(280)  # where the other thread had no processor yet
            corrector.learn_many(P[i : i + batch], y[i : i + batch])
        done.set()

    def save():
        while not done.is_set():
            taken.append(corrector.to_bytes())
            if len(taken) == 2:
                twice.set()

    run([learn, save])
    assert len(taken) > 1
    assert whole.issuperset(taken)


def test_what_it_shows_beside_learning_is_whole():
    P, y = stream(60_000, 20)
    corrector, done = Corrector(20), threading.Event()

    def learn():
        corrector.learn_many(P, y)
        done.set()

    def look():
        while not done.is_set():
            assert sum(corrector.weights.values()) == pytest.approx(1, abs=1e-9)
            assert corrector.prior.sum() == pytest.approx(1, abs=1e-9)
            assert corrector.effective_sample_size == 0 or corrector.n_labels > 0

    run([learn, look])


def test_a_class_that_cannot_be_added_leaves_nothing_behind():
    corrector = Corrector(["a", "b", "c"], train_counts=[1, 2, 3])
    corrector.learn_one([0.2, 0.3, 0.5], "b")
    before = corrector.to_bytes()
    with pytest.raises(ValueError, match="'a' is named twice"):
        corrector._add_class("a")
    with pytest.raises(ValueError, match="expected str, int, float or bool"):
        corrector._add_class(None)
    assert corrector.classes == ("a", "b", "c")
    assert corrector.to_bytes() == before
    assert corrector.process_one([0.2, 0.3, 0.5]).shape == (3,)


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from stream_can import Corrector

P = np.random.default_rng(0).dirichlet(np.ones(10), 100_000)
P = np.concatenate([P] * 30)
y = np.zeros(len(P), int)
corrector = Corrector(10)
verb = sys.argv[1]
sent = []


def interrupt():
    while not corrector.n_predictions + corrector.n_labels:  # it has begun
        time.sleep(0.01)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt).start()
try:
    corrector.process_many(P) if verb == "process" else corrector.learn_many(P, y)
except KeyboardInterrupt:
    seconds = time.perf_counter() - sent[0]
    n = corrector.n_predictions + corrector.n_labels
    assert 0 < n < len(P), n
    plain = Corrector(10)
    plain.process_many(P[:n]) if verb == "process" else plain.learn_many(P[:n], y[:n])
    assert plain.to_bytes() == corrector.to_bytes()
    corrector.process_many(P[:10])
    print(seconds)
"""


@pytest.mark.parametrize("verb", ["process", "learn"])
def test_ctrl_c_ends_a_long_call_between_two_rows(verb):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, verb], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout  # it was interrupted, not finished
