"""Persistence: a corrector in bytes, and the corrector of a new version of the classifier."""

from collections.abc import Hashable, Iterable
from numbers import Real
from typing import Any, Self

import numpy as np

from stream_can import snapshot
from stream_can.corrector.content import (
    Content,
    CorrectorHead,
    SegmentsHead,
    bytes_of,
    counts_in_order,
)
from stream_can.corrector.fitting import Fitting
from stream_can.corrector.known_mix import mix_in_order, same_mix
from stream_can.errors import SnapshotMismatch
from stream_can.method import paths as path_names
from stream_can.method.bases import FITTED_PATHS
from stream_can.method.class_names import class_names
from stream_can.method.classes import ClassIndex
from stream_can.method.promise import groups_of
from stream_can.method.segments import column_names, text_of
from stream_can.method.settings import LOOP, PROMISE, check_settings
from stream_can.method.state import (
    SETS,
    State,
    check_state,
    check_values,
    new_known,
    new_sets,
)
from stream_can.method.successor import successor
from stream_can.method.values import Values
from stream_can.row_kinds import read_snapshot

OWN = ("_fewest", "_settings", "_kernel")
"""Attributes of a Corrector itself; subclasses may have more."""


class CorrectorPersistence(Fitting):
    """The part of a `Corrector` that is saved, loaded and succeeded."""

    def to_bytes(self) -> bytes:
        """Serialise the state with its classes and settings, versioned and checksummed; no
        pickle."""
        content, state, _, values = self._kernel.copied()
        counts = content.train_counts
        head = {
            "classes": list(content.classes),
            "train_counts": None if counts is None else counts.tolist(),
            "paths": list(content.paths),
            "settings": dict(self._settings),
            "fit": content.fit_report,
        }
        if values is not None:
            names, state["values"] = values.dump()
            head["segments"] = SegmentsHead(list(content.columns), values.limit, names)
        if content.sets is not None:
            head["sets"] = content.sets
        if content.sets_by is not None:
            head["sets_by"] = content.sets_by
        if content.monotone:
            head["monotone"] = True
        if content.known_mix is not None:
            head["known_mix"] = content.known_mix.tolist()
        return snapshot.encode(head, state)

    @classmethod
    def from_bytes(
        cls, data: bytes, classes: int | Iterable[Hashable] | None = None, **settings: Any
    ) -> Self:
        """Load :meth:`to_bytes`; the corrector continues bit for bit.

        Parameters
        ----------
        data
            The result of ``to_bytes``.
        classes
            If given, the snapshot must have these classes.
        **settings
            Replace the snapshot's; ``paths``, ``monotone``, ``segments`` and ``train_counts`` must
            equal them. With ``prior=None`` no class mix is known any more, with ``sets=None``
            there are no prediction sets; without ``prior`` or ``sets`` they are as in the snapshot.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version, or have other classes or paths.
        """
        head, state = read_snapshot(data, "paths", CorrectorHead)
        self = cls.__new__(cls)
        state, content, values = self._restore(head, state)
        self._fewest = len(content.classes)
        if classes is not None:
            snapshot.match("classes", content.classes, class_names(classes))
        counts = settings.pop("train_counts", None)
        options = check_settings({
            k: v for k, v in settings.items() if v is not None or k in (*LOOP, *PROMISE, "prior")
        })  # fmt: skip
        if "paths" in options:
            own_paths = path_names.own(content.paths)
            snapshot.match(
                "paths", own_paths, path_names.in_order(path_names.own(options["paths"]))
            )
        if counts is not None:
            expected = counts_in_order(counts, ClassIndex(content.classes))
            own_counts = content.train_counts
            counts_here = () if own_counts is None else tuple(own_counts.tolist())
            snapshot.match("train_counts", counts_here, tuple(expected.tolist()))
        if "monotone" in options:
            snapshot.match("monotone", (content.monotone,), (options["monotone"],))
        if "segments" in options:
            snapshot.match("segments", content.columns, column_names(options["segments"]))
        if "segments_mb" in options and values is not None:
            values.limit = bytes_of(options["segments_mb"])
        promise = {name: options[name] for name in PROMISE if name in options}
        if "sets" in promise:  # then without groups, unless these are given too
            promise.setdefault("sets_by", None)
        after = content._replace(**promise)
        groups_of(after.sets, after.sets_by, after.columns)
        if (after.sets, after.sets_by) != (content.sets, content.sets_by):  # they begin anew
            content = after
            state = {name: array for name, array in state.items() if name not in SETS}
            if after.sets is not None:
                state |= new_sets(len(content.classes))
            if values is not None:
                values.forget_sets()
        self._settings |= {name: options[name] for name in LOOP if name in options}
        self._begin(state, content, ClassIndex(content.classes), values)
        if "prior" in options:
            mix = mix_in_order(options["prior"], self._index)
            if not same_mix(mix, content.known_mix):
                self.set_prior(options["prior"])
        return self

    def _restore(self, head: CorrectorHead, state: State) -> tuple[State, Content, Values | None]:
        """Check a snapshot's content like arguments."""
        try:
            names = class_names(head.classes)
            index = ClassIndex(names)
            counts = head.train_counts
            in_order = None if counts is None else counts_in_order(counts, index)
            paths = path_names.in_order(path_names.own(head.paths))
            columns = () if head.segments is None else column_names(head.segments.columns)
            if head.monotone:
                path_names.refuse_reordering(paths, columns)
            if columns:
                paths = path_names.segmented(paths)
            if head.fit is not None and not head.monotone:
                paths = (*paths, *FITTED_PATHS)
            if list(paths) != head.paths:
                raise ValueError(f"paths: {head.paths}, expected {list(paths)}")
            if strange := head.settings.keys() ^ set(LOOP):
                raise ValueError(f"settings: {min(strange)!r} is missing or unknown")
            self._settings = check_settings(head.settings)
            values = None
            if head.segments is not None and columns:
                if not 0 < head.segments.limit < 1 << 53:
                    raise ValueError(f"segments: {head.segments.limit} bytes")
                values = Values(columns, len(names), head.segments.limit)
                known = [(column, text_of(text) or "") for column, text in head.segments.values]
                values.load(known, check_values(state.pop("values", np.empty((0, 0)))))
            check_settings({"sets": head.sets})
            groups_of(head.sets, head.sets_by, columns)
            mix = None if head.known_mix is None else np.array(head.known_mix)
            if mix is not None:
                path_names.refuse_known_mix(
                    paths, {"monotone": head.monotone, "segments": columns, "fit": head.fit}
                )
                if mix.shape != (len(names),) or not ((mix > 0) & (mix <= 1)).all():
                    raise ValueError("known_mix: expected a share of each class, above 0")
            check_state(
                state, len(names), paths, len(columns), head.sets is not None, mix is not None
            )
        except ValueError as error:
            raise SnapshotMismatch(f"snapshot: {error}") from None
        content = Content(
            names, in_order, paths, head.fit, columns, head.sets, head.monotone, mix, head.sets_by
        )
        return state, content, values

    def successor(self, discount: float = 0.1) -> Self:
        """Create the corrector with which a new version of the classifier starts.

        A retrained version errs much like its predecessor, but not exactly. So what was learned
        stays as a belief, but its evidence is discounted: labels of the new version change it as
        soon as they would change a corrector with ``discount`` times the evidence. The class mix of
        the labels and the weights of the paths are kept. The result of :meth:`fit` belongs to the
        old classifier and is left out; to fit the new one, use ``successor(0)``, which has seen
        nothing yet. docs/method.md, "A new version of the classifier", has the formula.

        Parameters
        ----------
        discount
            Factor of the evidence, from 0 (only the class mix and the weights of the paths are
            kept) to 1 (a copy without the result of ``fit``).

        Returns
        -------
        A new corrector with the same classes, settings and columns; this one is unchanged. Labels
        of its own predictions still belong to it.

        Raises
        ------
        ValueError
            ``discount`` is not from 0 to 1.

        Examples
        --------
        >>> from stream_can import Corrector
        >>> old = Corrector(["fraud", "fine"])
        >>> old.learn_many([[0.6, 0.4]] * 200, ["fraud", "fine", "fine", "fine"] * 50)
        >>> new = old.successor()
        >>> new.n_labels
        20
        >>> [corrector.correct_one([0.6, 0.4])[1].round(2).item() for corrector in (old, new)]
        [0.66, 0.59]
        """
        if not (
            isinstance(discount, Real) and not isinstance(discount, bool) and 0 <= discount <= 1
        ):
            raise ValueError(f"discount: {discount!r}, expected a number from 0 to 1")
        head, state = snapshot.decode(self.to_bytes())
        values = state.pop("values", None)
        paths = tuple(head["paths"])
        columns = len(head["segments"]["columns"]) if "segments" in head else 0
        state, paths = successor(state, len(head["classes"]), paths, columns, float(discount))
        if values is not None:
            state["values"] = discount * values
            state["values"][:, -2:] = 0  # sets start over
        if self.sets is not None:
            state |= new_sets(len(self.classes))
        if "known_mix" in head:
            state |= new_known()
        head |= {"paths": list(paths), "fit": None}
        return type(self).from_bytes(snapshot.encode(head, state))

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copy and pickle: the bytes, and attributes of subclasses."""
        attributes = {name: value for name, value in vars(self).items() if name not in OWN}
        if self._fewest < len(self.classes):
            attributes["_fewest"] = self._fewest
        return type(self).from_bytes, (self.to_bytes(),), attributes or None
