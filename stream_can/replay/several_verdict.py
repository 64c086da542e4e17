"""Verdict on a replay of rows with several labels."""

from __future__ import annotations

from stream_can.change import Change, change
from stream_can.replay.effect import NATS, Effect
from stream_can.replay.several import MultiLabelReplay
from stream_can.replay.verdict import FEW, Verdict, late_labels

__all__ = ["judge_several", "loss_change"]


def judge_several(result: MultiLabelReplay) -> Verdict:
    """Judge whether to use the corrector on this stream, how certain that is, and why.

    The log loss of a row decides: a change counts beyond its 95 % interval, taken over 30 stretches
    of the stream, and from 0.002 nats on; a loss must be five times as large for advice against
    using it.
    """
    raw, corrected = result.raw, result.corrected
    if raw.n < FEW:
        few = (
            f"Too few labels to say: of {raw.n:,} rows a label is known, and below {FEW} any"
            " difference may be chance. Replay a longer recording."
        )
        return Verdict(few, "", (), False)
    known, there = raw.of_labels[:2].sum(axis=1)
    if there == known:
        only = (
            "No verdict: all known labels are there, and nothing says which are not, so nothing is"
            " corrected. Some negatives are needed: rows of which all labels are known, say."
        )
        return Verdict(only, "", (), False)
    nats = Effect(loss_change(result), NATS)
    numbers = (
        f"log loss of a row {raw.log_loss:.4f} before and {corrected.log_loss:.4f} after "
        f"({nats.change.value:+.4f} nats, standard error {nats.change.error:.4f})"
    )
    if nats.down:
        first = f"Use it: the probabilities are closer to the truth, {numbers}."
    elif nats.up:
        first = (
            f"Do not use it on this stream: it made the predictions worse, {numbers}."
            if nats.much
            else f"It costs a little here and gains nothing: {numbers}."
        )
    elif nats.small:
        first = f"It does nothing here, neither good nor bad: {numbers}."
    else:
        first = (
            f"It changes nothing here that stands out of the noise: {numbers}. A longer recording "
            "would tell."
        )
    return Verdict(first, _decisions(result), tuple(_why(result)), nats.down)


def loss_change(result: MultiLabelReplay) -> Change:
    """Change of the log loss of a row."""
    rows = [moment.labelled for moment in result.moments]
    found = change(rows, *zip(*(moment.losses for moment in result.moments), strict=True))
    assert found is not None, "a replay of too few labels has no verdict"
    return found


def _decisions(result: MultiLabelReplay) -> str:
    """A sentence on F1."""
    raw, after, decided = result.raw, result.corrected, result.decided
    text = (
        f"Micro F1 {100 * raw.micro_f1:.2f} % before with a yes from 0.5 on, after"
        f" {100 * after.micro_f1:.2f} % from 0.5 on and {100 * decided.micro_f1:.2f} % from the"
        f" threshold on ({result.corrector.threshold:.3f} at the end)."
    )
    if after.micro_f1 < raw.micro_f1 - 0.001 <= decided.micro_f1:
        text += " Decide at the threshold: labels that are rare are seldom likelier than not."
    if decided.macro_f1 < raw.macro_f1 - 0.001:
        text += (
            f" Macro F1, in which rare labels count as much as others, falls from"
            f" {100 * raw.macro_f1:.2f} % to {100 * decided.macro_f1:.2f} %."
        )
    return text


def _why(result: MultiLabelReplay) -> list[str]:
    said = late_labels(result)
    known, there, *_ = result.raw.of_labels
    one_sided = int(((known > 0) & (there == known)).sum())
    if one_sided:
        noun = "label is" if one_sided == 1 else "labels are"
        said.append(
            f"{one_sided:,} {noun} known where they are there alone; of such a label nothing is"
            " corrected."
        )
    if never := int((known == 0).sum()):
        said.append(f"Of {never:,} label{'s' * (never > 1)} nobody said anything.")
    if result.changed:
        said.append(
            f"{result.changed:,} messages say something else of a label than one before them; the"
            " first counts."
        )
    few = result.rates.get(0.05)
    gain = result.raw.log_loss - result.corrected.log_loss
    if few is not None and gain > NATS:
        kept = max(0.0, min(1.0, (result.raw.log_loss - few.log_loss) / gain))
        said.append(
            f"With the labels of one row in 20 it would keep {100 * kept:.0f} % of the gain in log"
            " loss."
        )
    return said
