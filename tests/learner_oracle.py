"""A learner in plain Python, from the design: dictionaries, and a `Corrector` a row at a time.

Written before the fast one, and without sight of it.
"""

from __future__ import annotations

from typing import Any

from stream_can import Corrector, LabelRequests
from stream_can.method.receipts import NOT_FAIR
from stream_can.scores import Scores

OVERHEAD = 480
MOST_HELD = 100_000
MOST_ALONE = 100_000


def of_lane(named, lane):
    """A label's model, or version, that is not given is any."""
    return named is None or all(a is None or a == b for a, b in zip(named, lane, strict=True))


class OracleLearner:
    def __init__(
        self, corrector: Corrector, recent_mb=64.0, ask=None, label_wait=0.0, max_lanes=1000
    ) -> None:
        self.most, self.n = max_lanes, 0
        self.last_of: dict[Any, int] = {}
        """Of each lane the number of its last prediction, or of the next one when it began."""
        self.begun: dict[Any, int] = {}
        """Of each lane how many had been dropped when it began."""
        self.start, self.budget, self.wait = corrector.to_bytes(), ask, label_wait
        self.bound = recent_mb * (1 << 20)
        self.correctors: dict[Any, Corrector] = {}
        self.askers: dict[Any, LabelRequests] = {}
        self.recent: list[dict[str, Any]] = []  # oldest first
        self.held: list[dict[str, Any]] = []
        self.alone: list[Any] = []
        self.clock = float("-inf")
        self.scores: dict[Any, tuple[Scores, Scores]] = {}
        self.open: dict[Any, str] = {}
        self.dropped = 0

    def corrector(self, lane):
        if lane not in self.correctors:
            same = [other for other in self.correctors if other[0] == lane[0]]
            made = Corrector.from_bytes(self.start)
            if same:  # of the one with most labels of late; of several alike, the newest
                best = same[0]
                for other in same[1:]:
                    of, to = (self.correctors[x].effective_sample_size for x in (best, other))
                    best = other if to >= of else best
                made = self.correctors[best].successor()
            self.correctors[lane], self.last_of[lane] = made, self.n
            self.begun[lane] = self.dropped
            self.scores[lane] = Scores(), Scores()
            if self.budget is not None:
                self.askers[lane] = LabelRequests(self.budget)
            if len(self.correctors) > self.most:
                others = [one for one in self.correctors if one != lane]
                self.drop(min(others, key=lambda one: self.last_of[one]))
        return self.correctors[lane]

    def drop(self, lane):
        """The lane whose last prediction is oldest, for another one."""
        for kept in (self.correctors, self.last_of, self.scores, self.begun, self.askers):
            kept.pop(lane, None)
        self.recent = [one for one in self.recent if one["lane"] != lane]
        self.open = {of: why for of, why in self.open.items() if of[0] != lane}
        self.dropped += 1

    def of(self, lane, id):
        """The prediction of an id that waits in a lane, or waited: the latest."""
        if id is None:
            return None
        found = [one for one in self.recent if (one["lane"], one["id"]) == (lane, id)]
        return found[-1] if found else None

    def correct(self, id, p, columns=None, lane=(None, None), time=None):
        if time is not None:
            self.clock = max(self.clock, time)
            self.give_up()
        corrector = self.corrector(lane)
        self.last_of[lane] = self.n
        self.n += 1
        row, receipt = corrector.process_one(p, receipt=True, segments=columns)
        names = None if corrector.sets is None else corrector.set_of(row, receipt)
        asked = None
        if self.budget is not None:
            if id is not None:
                (asked,) = self.askers[lane].ask_many([id], row[None])
            self.open.pop((lane, id), None)  # that of an earlier prediction of the id
            if asked is not None and id is not None:
                self.open[lane, id] = asked.reason
        fair = self.budget is None or (asked is not None and asked.reason == "random")
        raw = (
            b""
            if id is None
            else id.encode()
            if isinstance(id, str)
            else id
            if isinstance(id, bytes)
            else bytes(8)
        )
        size = OVERHEAD + len(raw) + 16 * len(p) + receipt.nbytes
        size += sum(0 if text is None else len(str(text)) for text in (columns or {}).values())
        one = {"lane": lane, "id": id, "p": p, "receipt": receipt, "sent": row, "size": size,
               "columns": columns, "labelled": False, "fair": fair,
               "begun": self.begun[lane]}  # fmt: skip
        self.last = one
        if id is None:  # no label finds it
            return row, names, asked and asked.reason
        self.recent.append(one)
        waiting = [
            x
            for x in self.held
            if x["id"] == id and (x["lane"] is None or of_lane(x["lane"], lane))
        ]
        if waiting:
            self.held.remove(waiting[0])
            self.teach(one, waiting[0]["label"])
        while sum(x["size"] for x in self.recent) > self.bound:
            gone = self.recent.pop(0)
            if self.of(gone["lane"], gone["id"]) is None:  # else another one is asked for
                self.open.pop((gone["lane"], gone["id"]), None)
        return row, names, asked and asked.reason

    def teach(self, one, label, row=None, columns=None):
        corrector = self.correctors[one["lane"]]
        receipt = one["receipt"]
        if not one["fair"]:
            receipt = receipt.copy()
            if corrector.sets is not None:
                receipt[-2] = NOT_FAIR
        if row is not None and list(row) != list(one["p"]):  # of another row than is kept
            corrector.learn_one(row, label, segments=columns)
        else:
            corrector.learn_one(one["p"], label, receipt=receipt, segments=one["columns"])
        one["labelled"] = True
        if self.of(one["lane"], one["id"]) is one:
            self.open.pop((one["lane"], one["id"]), None)
        if one["fair"]:
            y = [corrector.classes.index(label)]
            raw, sent = self.scores[one["lane"]]
            raw.add([one["p"]], y)
            sent.add(one["sent"][None], y)

    def label(self, id, label, row=None, columns=None, lane=None, time=None):
        lanes = [one for one in self.correctors if of_lane(lane, one)]
        found = [
            one for one in (self.of(x, id) for x in lanes) if one is not None and id is not None
        ]
        if found:
            waiting = [one for one in found if not one["labelled"]]
            for one in waiting:
                self.teach(one, label, row, columns)
            return "learned" if waiting else "repeated"
        if row is not None:
            of = lane if lane is not None else (None, None)
            self.corrector(of).learn_one(row, label, segments=columns)
            return "learned"
        if id is not None and (id, lane) in self.alone:
            return "repeated"
        if any(x["id"] == id and x["lane"] == lane for x in self.held):
            return "repeated"
        if self.wait > 0 and time is not None and id is not None:
            self.held.append({"id": id, "label": label, "lane": lane, "time": time})
            if len(self.held) > MOST_HELD:
                self.prior(self.held.pop(0))
            return "held"
        self.prior({"label": label, "lane": lane, "id": id})
        return "unknown"

    def own_label(self, one, label):
        """That which a prediction brings itself, or which names it and not its id."""
        if one["labelled"] or self.begun.get(one["lane"]) != one["begun"]:
            return "repeated"
        self.teach(one, label)
        return "learned"

    def give_up(self):
        """Labels of which predictions are too far past: they teach the class mix alone."""
        due = [x for x in self.held if x["time"] + self.wait < self.clock]
        for one in sorted(due, key=lambda x: x["time"]):
            self.held.remove(one)
            self.prior(one)

    def prior(self, one):
        """Where one corrector is all there is, the class mix; the latest such labels are known."""
        if one["id"] is not None:
            self.alone = [*self.alone, (one["id"], one["lane"])][-MOST_ALONE:]
        if one["lane"] is None and [*self.correctors] in ([], [(None, None)]):
            self.corrector((None, None)).learn_one(None, one["label"])
