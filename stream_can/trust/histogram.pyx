# cython: language_level=3
"""The histogram of scores behind prediction sets: rows and labels added, a quantile read.

A score is s_k = -logit(p_k), in [-14, 14]. Weights grow in place of what came before decaying.
"""

from libc.math cimport INFINITY, exp, log, log1p

cdef enum:
    BINS = 560
cdef double EDGE = 14.0, PER_BIN = BINS / 28.0
cdef double ALL = 1e-4, MOST = 1e200


cpdef double score(double p) noexcept nogil:
    """-logit of a probability, kept within the histogram."""
    cdef double s
    if p <= 0.0:
        return EDGE
    if p >= 1.0:
        return -EDGE
    s = log1p(-p) - log(p)
    return EDGE if s > EDGE else -EDGE if s < -EDGE else s


cdef inline Py_ssize_t bin_of(double s) noexcept nogil:
    cdef Py_ssize_t b = <Py_ssize_t>((s + EDGE) * PER_BIN)
    return BINS - 1 if b >= BINS else b


cdef double quantile(const double *labels, double label_weight, double label_sum,
                     const double *belief, double belief_sum, double miss,
                     double level) noexcept nogil:
    """theta: the 1 - level quantile of labels and pseudo-labels together, the latter of weight
    1 / miss."""
    cdef double a = 1.0 / label_weight, c = 1.0 / (miss * belief_sum), below = 0.0, here
    cdef double wanted = (1.0 - level) * (a * label_sum + 1.0 / miss)
    cdef Py_ssize_t b
    if level < ALL:
        return INFINITY
    for b in range(BINS):
        here = a * labels[b] + c * belief[b]
        if here > 0.0 and below + here >= wanted:
            return (b + (wanted - below) / here) / PER_BIN - EDGE
        below += here
    return EDGE


def sets_of(
    const double[:, ::1] P, double[::1] labels, double[::1] belief, double[::1] state,
    const double[::1] shifts, double miss, double growth, unsigned char[:, ::1] inside,
    double[::1] thetas, double[::1] scores,
):
    """Rows in order: each is added to the belief, then its set is told.

    Parameters
    ----------
    P, inside, thetas
        Rows (n, m); the sets (n, m) and theta (n,) to fill in.
    labels, belief
        The histograms, 560 bins.
    state
        Weight of the next label, of the next row, sum of the belief, i, and sum of the labels.
    shifts
        d_k, (m,).
    miss, growth
        The share that may be missed; by what the weight of rows grows.
    scores
        Room for those of a row, (m,).
    """
    cdef Py_ssize_t n = P.shape[0], m = P.shape[1], r, k, best
    cdef double level, theta, w
    with nogil:
        for r in range(n):
            w = state[1] * growth
            for k in range(m):
                scores[k] = score(P[r, k])
                belief[bin_of(scores[k])] += w * P[r, k]
                state[2] += w * P[r, k]
            state[1] = w
            if w > MOST:
                for k in range(BINS):
                    belief[k] /= w
                state[2] /= w
                state[1] = 1.0
            level = 1.0 / (1.0 + exp(-(log(miss / (1.0 - miss)) + state[3])))
            theta = quantile(
                &labels[0], state[0], state[4], &belief[0], state[2], miss, level
            )
            thetas[r] = theta
            best = 0
            for k in range(m):
                inside[r, k] = scores[k] <= theta + shifts[k]
                if P[r, k] > P[r, best]:
                    best = k
            inside[r, best] = 1


def learn_label(
    double p, Py_ssize_t y, double theta, double[::1] labels, double[::1] state,
    double[::1] shifts, double[::1] counts, double miss, double gamma, double growth,
    bint per_class,
):
    """A label of a row whose probability for it was p; whether its set had missed it."""
    cdef double s = score(p)
    cdef bint missed = s > theta + shifts[y]
    cdef Py_ssize_t b
    state[3] += gamma * (miss - missed) / (miss * (1.0 - miss))
    if per_class:
        shifts[y] += (missed - miss) / (counts[y] + 1.0) ** 0.5
        counts[y] += 1.0
    state[0] *= growth
    labels[bin_of(s)] += state[0]
    state[4] += state[0]
    if state[0] > MOST:
        for b in range(BINS):
            labels[b] /= state[0]
        state[4] /= state[0]
        state[0] = 1.0
    return missed


def sets_now(
    const double[:, ::1] P, const double[::1] labels, const double[::1] belief,
    const double[::1] state, double miss, unsigned char[:, ::1] inside,
):
    """The sets of rows by what is known, without shifts, and theta, which is the same for all;
    nothing is added."""
    cdef Py_ssize_t n = P.shape[0], m = P.shape[1], r, k, best
    cdef double level = 1.0 / (1.0 + exp(-(log(miss / (1.0 - miss)) + state[3])))
    cdef double theta = quantile(
        &labels[0], state[0], state[4], &belief[0], state[2], miss, level
    )
    cdef double least = 0.0 if theta >= EDGE else 1.0 / (1.0 + exp(theta))  # with that score
    with nogil:
        for r in range(n):
            best = 0
            for k in range(m):
                inside[r, k] = P[r, k] >= least
                if P[r, k] > P[r, best]:
                    best = k
            inside[r, best] = 1
    return theta


def believe(const double[:, ::1] P, double[::1] belief, double growth):
    """Add the belief of rows to that of rows before; the last of them weighs 1."""
    cdef Py_ssize_t n = P.shape[0], m = P.shape[1], r, k
    cdef double w = 1.0
    with nogil:
        for r in range(n):
            w *= growth
            for k in range(m):
                belief[bin_of(score(P[r, k]))] += w * P[r, k]
            if w > MOST:
                for k in range(BINS):
                    belief[k] /= w
                w = 1.0
        for k in range(BINS):
            belief[k] /= w
