"""What is called inside a call of the same corrector: it works on a whole state, or raises at once.

Signal handlers, hooks of warnings, `__array__`, iterables of labels, forks: none may hang. Each
case runs in a process of its own, with a limit to its time.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.fast, pytest.mark.filterwarnings("ignore")]

LIMIT = 240
"""Seconds; each takes one or two on a quiet machine, and what hangs hangs for good."""

COMMON = """
import copy, os, pickle, signal, sys, threading, time, warnings
import numpy as np
from stream_can import Corrector, StreamCANError
from stream_can.row_sums import RowSums

M = 10
ROWS = np.random.default_rng(0).dirichlet(np.ones(M), 50_000)
P = np.concatenate([ROWS] * 40)
corrector = Corrector(M)


def whole(data):
    "A snapshot between two rows: the very bytes that so many rows make."
    other = Corrector.from_bytes(data)
    plain = Corrector(M)
    plain.process_many(P[:other.n_predictions])
    assert plain.to_bytes() == data
    return other.n_predictions


def begun():
    while not corrector.n_predictions:
        time.sleep(0.001)


def when_begun(call):
    def work():
        begun()
        call()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def send(number=signal.SIGTERM):
    signal.pthread_kill(threading.main_thread().ident, number)


def child(call):
    "Fork; the call in the child, which must end."
    number = os.fork()
    if number == 0:
        try:
            call()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    end = time.monotonic() + 200
    while time.monotonic() < end:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            assert status == 0, status
            return
        time.sleep(0.01)
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    raise AssertionError("the child hangs")
"""

CASES = {
    "a handler saves beside process_many": """
saved = []
signal.signal(signal.SIGTERM, lambda *_: saved.append(corrector.to_bytes()))
when_begun(send)
corrector.process_many(P)
assert 0 < whole(saved[0]) < len(P)
assert corrector.n_predictions == len(P)
""",
    "a handler saves beside learn_many": """
saved = []
y = np.zeros(len(ROWS), int)
signal.signal(signal.SIGTERM, lambda *_: saved.append(corrector.to_bytes()))
def work():
    while not corrector.n_labels:
        time.sleep(0.001)
    send()
threading.Thread(target=work, daemon=True).start()
while not saved:
    corrector.learn_many(ROWS, y)
n = Corrector.from_bytes(saved[0]).n_labels
plain = Corrector(M)
for at in range(0, n, len(ROWS)):
    plain.learn_many(ROWS[:n - at], y[:n - at])
assert plain.to_bytes() == saved[0]
""",
    "a handler looks at everything beside process_many": """
seen = []
def look(*_):
    expected = Corrector.from_bytes(corrector.to_bytes())
    assert expected.correct_many(P[:5]).tobytes() == corrector.correct_many(P[:5]).tobytes()
    assert list(expected.explain_one(P[0])) == list(corrector.explain_one(P[0]))
    for name in ("weights", "final_weights", "prior", "coverage", "silent_classes", "n_labels",
                 "confident_sums", "recent_log_loss", "effective_sample_size", "label_counts",
                 "temperature", "last_temperature", "fit_report", "classes", "paths", "settings"):
        assert repr(getattr(expected, name)) == repr(getattr(corrector, name)), name
    sums = RowSums(corrector).zeros()
    RowSums(corrector).correct(P[:5], sums)
    assert copy.deepcopy(corrector).to_bytes() == pickle.loads(pickle.dumps(corrector)).to_bytes()
    seen.append(corrector.n_predictions)
signal.signal(signal.SIGTERM, look)
when_begun(send)
out = corrector.process_many(P)
assert 0 < seen[0] < len(P)
plain = Corrector(M)
assert plain.process_many(P).tobytes() == out.tobytes()
assert plain.to_bytes() == corrector.to_bytes()
""",
    "a handler changes it beside process_many": """
told = []
def change(*_):
    sums, before = RowSums(corrector).zeros(), corrector.to_bytes()
    for call in (
        lambda: corrector.process_one(P[0]),
        lambda: corrector.process_many(P[:5]),
        lambda: corrector.observe_one(P[0]),
        lambda: corrector.learn_one(P[0], 1),
        lambda: corrector.learn_one(None, 1),
        lambda: corrector.learn_many(P[:5], [1] * 5),
        lambda: RowSums(corrector).add(sums),
        lambda: corrector.play(P[:1], [], [], []),
        lambda: corrector._add_class("new"),
        lambda: corrector.fit(P[:100], [0, 1] * 50),
    ):
        try:
            call()
        except StreamCANError as error:
            told.append(str(error))
    assert corrector.to_bytes() == before
signal.signal(signal.SIGTERM, change)
when_begun(send)
corrector.process_many(P)
assert len(told) == 10, told
assert sum("called inside another call of the same corrector" in text for text in told) == 9
assert "set a flag and call it afterwards" in told[0]
assert corrector.n_predictions == len(P)
corrector.learn_one(P[0], 1)
""",
    "a handler saves in a loop of to_bytes": """
corrector.process_many(ROWS)
expected, saved = corrector.to_bytes(), []
signal.signal(signal.SIGALRM, lambda *_: saved.append(corrector.to_bytes()))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while len(saved) < 200:
    assert corrector.to_bytes() == expected
signal.setitimer(signal.ITIMER_REAL, 0)
assert set(saved) == {expected}
""",
    "a handler learns in a loop of to_bytes": """
learned = []
signal.signal(signal.SIGALRM, lambda *_: learned.append(corrector.learn_one(ROWS[0], 1)))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while len(learned) < 200:
    Corrector.from_bytes(corrector.to_bytes())
signal.setitimer(signal.ITIMER_REAL, 0)
plain = Corrector(M)
for _ in range(corrector.n_labels):
    plain.learn_one(ROWS[0], 1)
assert plain.to_bytes() == corrector.to_bytes()
""",
    "a handler looks in a loop of weights": """
corrector.process_many(ROWS)
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(corrector.weights))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while len(seen) < 200:
    corrector.weights, corrector.silent_classes, corrector.recent_log_loss, corrector.prior
signal.setitimer(signal.ITIMER_REAL, 0)
""",
    "a hook of warnings looks during fit": """
seen = []
def hook(*_, **__):
    seen.append((corrector.weights, corrector.to_bytes()))
warnings.simplefilter("always")
warnings.showwarning = hook
before = corrector.to_bytes()
corrector.fit(ROWS[:100], [0, 1] * 50)
assert seen and seen[0][1] == before and corrector.fit_report["missing"]
""",
    "a hook of warnings learns during fit": """
def hook(*_, **__):
    corrector.learn_one(ROWS[0], 1)
warnings.simplefilter("always")
warnings.showwarning = hook
try:
    corrector.fit(ROWS[:100], [0, 1] * 50)
except StreamCANError as error:
    assert "the stream has started" in str(error)
assert corrector.n_labels == 1 and corrector.fit_report is None
""",
    "warnings are errors during fit": """
warnings.simplefilter("error")
before = corrector.to_bytes()
try:
    corrector.fit(ROWS[:100], [0, 1] * 50)
except UserWarning:
    assert corrector.to_bytes() == before
else:
    raise AssertionError
warnings.simplefilter("ignore")
corrector.fit(ROWS[:100], [0, 1] * 50)
""",
    "an input calls the corrector as it becomes an array": """
class Rows:
    def __array__(self, dtype=None, copy=None):
        corrector.process_many(ROWS[:3])
        corrector.learn_one(ROWS[0], 1)
        corrector.to_bytes()
        return ROWS[:5]
corrector.process_many(Rows())
assert corrector.n_predictions == 8
corrector.learn_many(Rows(), [0] * 5)
assert corrector.n_labels == 7
RowSums(corrector).correct(Rows(), RowSums(corrector).zeros())
class Sums:
    def __array__(self, dtype=None, copy=None):
        corrector.process_one(ROWS[0])
        return RowSums(corrector).zeros()
RowSums(corrector).add(Sums())
""",
    "labels call the corrector as they are read": """
def labels():
    for i in range(5):
        corrector.learn_one(ROWS[i], 1)
        yield i
corrector.learn_many(ROWS[:5], labels())
assert corrector.n_labels == 10
""",
    "forks while other threads call learners and alarms": """
from stream_can import Learner
from stream_can.trust import Alarm
learners = [Learner(Corrector(M), recent_mb=0.2) for _ in range(2)]
alarms = [Alarm() for _ in learners]
ended = threading.Event()
def learn(learner, alarm):
    for i in range(10**9):
        learner.process_many(range(20), ROWS[:20])
        learner.label(3, 1)
        alarm.learn_one(ROWS[i % 1000], ROWS[i % 1000], 1)
        if ended.is_set():
            return
threads = [threading.Thread(target=learn, args=both) for both in zip(learners, alarms)]
for thread in threads:
    thread.start()
def first_calls():
    for learner, alarm in zip(learners, alarms):
        copied = copy.deepcopy(learner)
        assert copied.live[None, None].corrector.n_predictions % 20 == 0
        alarm.learn_one(ROWS[0], ROWS[0], 1)
        learner.process(5, ROWS[0])
for _ in range(20):
    child(first_calls)
ended.set()
for thread in threads:
    thread.join()
child(first_calls)
for learner in learners:
    learner.process_many(range(20), ROWS[:20])
    twin = pickle.loads(pickle.dumps(learner))
    assert twin.to_bytes() == learner.to_bytes()
    assert twin.label(7, 2) == learner.label(7, 2) == "learned"
""",
    "a fork while another thread is in process_many": """
thread = threading.Thread(target=corrector.process_many, args=[P])
thread.start()
begun()
def first_call():
    n = whole(corrector.to_bytes())
    assert 0 < n < len(P)
    corrector.process_one(P[0])
    assert corrector.n_predictions == n + 1
for _ in range(3):
    child(first_call)
thread.join()
assert corrector.n_predictions == len(P)
whole(corrector.to_bytes())
""",
    "forks in two threads while two more are in calls": """
second = Corrector(M)
threads = [threading.Thread(target=c.process_many, args=[P]) for c in (corrector, second)]
for thread in threads:
    thread.start()
begun()
def first_call():
    whole(corrector.to_bytes()), whole(second.to_bytes())
forks = [threading.Thread(target=child, args=[first_call]) for _ in range(3)]
for thread in forks:
    thread.start()
for thread in (*forks, *threads):
    thread.join()
assert corrector.n_predictions == second.n_predictions == len(P)
""",
    "a handler forks beside process_many": """
done = []
def fork(*_):
    child(lambda: whole(corrector.to_bytes()))
    done.append(corrector.n_predictions)
signal.signal(signal.SIGTERM, fork)
when_begun(send)
corrector.process_many(P)
assert 0 < done[0] < len(P)
assert corrector.n_predictions == len(P)
""",
    "the child of a handler goes on with the call": """
parent = os.getpid()
number = []
signal.signal(signal.SIGTERM, lambda *_: number.append(os.fork()))
when_begun(send)
corrector.process_many(P)
assert whole(corrector.to_bytes()) == len(P)
corrector.learn_one(P[0], 1)
if os.getpid() != parent:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(number[0], 0)[1]) == 7
""",
    "Ctrl-C while another thread has the lock": """
def forever():
    while not stop:
        corrector.process_many(P)
stop = []
thread = threading.Thread(target=forever)
thread.start()
begun()
saved = []
signal.signal(signal.SIGTERM, lambda *_: saved.append(1))
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupt():
    while not saved:
        send()
        time.sleep(0.05)
    while not stop:
        send(signal.SIGINT)
        time.sleep(0.05)
threading.Thread(target=interrupt, daemon=True).start()
try:
    while True:
        corrector.to_bytes()
except KeyboardInterrupt:
    stop.append(1)
thread.join()
assert saved
corrector.process_one(P[0])
""",
    "Ctrl-C ends it and the lock is free": """
when_begun(lambda: send(signal.SIGINT))
try:
    corrector.process_many(P)
except KeyboardInterrupt:
    pass
assert 0 < whole(corrector.to_bytes()) < len(P)
thread = threading.Thread(target=corrector.process_one, args=[P[0]])
thread.start()
thread.join()
""",
    "a class is added while another thread learns": """
stop = []
def learn():
    while not stop:
        corrector.learn_one(None, 1)
threads = [threading.Thread(target=learn) for _ in range(2)]
for thread in threads:
    thread.start()
n = M
for i in range(5):
    corrector._add_class(f"new{i}")
stop.append(1)
for thread in threads:
    thread.join()
plain = Corrector([*range(M), *(f"new{i}" for i in range(5))])
assert corrector.classes == plain.classes and len(corrector.prior) == M + 5
assert corrector.n_labels == corrector.label_counts[1:2].astype(bool) * corrector.n_labels
Corrector.from_bytes(corrector.to_bytes())
""",
}


@pytest.mark.parametrize("case", CASES)
def test_inside(case, tmp_path):
    script = tmp_path / "case.py"
    script.write_text(COMMON + CASES[case])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(script)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=Path(__file__).parent.parent,
    )
    assert done.returncode == 0, done.stderr
