"""The alarm once more, slowly: every start, every label, nothing kept but what came."""

from __future__ import annotations

import math

BETS = [2.0**-k for k in range(1, 7)]
REFERENCE, MOST_LOSS = 1000, 6.0


def kt(wrong, right):
    """log of the Krichevsky-Trofimov probability of so many errors and so many hits."""
    return (
        math.lgamma(wrong + 0.5) + math.lgamma(right + 0.5) - math.log(math.pi)
        - math.lgamma(wrong + right + 1)
    )  # fmt: skip


def best_constant(wrong, n):
    """log of the largest probability that a constant error rate gives."""
    found = 0.0
    for count in (wrong, n - wrong):
        if count:
            found += count * math.log(count / n)
    return found


def log_sum(terms):
    top = max(terms, default=-math.inf)
    return top if math.isinf(top) else top + math.log(sum(math.exp(t - top) for t in terms))


def change_of_errors(wrong):
    """log of the e-value that the error rate has risen, and the start with the largest share."""
    n, total = len(wrong), sum(wrong)
    terms = {}
    before = 0
    for i in range(1, n):
        before += wrong[i - 1]
        after = total - before
        if after * i > before * (n - i):
            terms[i] = (
                -math.log(i * (i + 1)) + kt(before, i - before)
                + kt(after, n - i - after) - best_constant(total, n)
            )  # fmt: skip
    return log_sum(list(terms.values())), max(terms, key=terms.get, default=0)


def bound(losses):
    """An upper bound of the mean of the reference, scaled, at .00125 (Maurer and Pontil 2009)."""
    x = [min(loss, MOST_LOSS) / MOST_LOSS for loss in losses[:REFERENCE]]
    mean = sum(x) / len(x)
    variance = sum((one - mean) ** 2 for one in x) / (len(x) - 1)
    log_term = math.log(2 / 0.00125)
    return mean + math.sqrt(2 * variance * log_term / len(x)) + 7 * log_term / (3 * (len(x) - 1))


def rise_of_losses(losses):
    """log of the e-value that the mean log loss has risen above that of the first 1000, and the
    start with the largest share."""
    if len(losses) <= REFERENCE:
        return -math.inf, 0
    mu = min(bound(losses), 1.0)
    x = [min(loss, MOST_LOSS) / MOST_LOSS for loss in losses[REFERENCE:]]
    terms = {}
    for start in range(len(x)):
        shares = []
        for bet in BETS:
            shares.append(sum(math.log1p(bet / mu * (one - mu)) for one in x[start:]))
        weight = -math.log((start + 1) * (start + 2)) - math.log(len(BETS))
        terms[REFERENCE + start] = weight + log_sum(shares)
    return log_sum(list(terms.values())), max(terms, key=terms.get)
