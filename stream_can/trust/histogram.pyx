# cython: language_level=3
"""Histogram of scores for prediction sets: add rows and labels, read a quantile.

A score is s_k = -logit(p_k), in [-14, 14]. Weights of new entries grow instead of old ones
decaying.
"""

from stream_can.method.sets cimport (
    SET_EDGE, SET_MOST, set_bin, set_divide, set_level, set_quantile, set_score,
)

from libc.math cimport exp


cpdef double score(double p) noexcept nogil:
    """-logit of a probability, clipped to the histogram."""
    return set_score(p)


def sets_of(
    const double[:, ::1] P, double[::1] labels, double[::1] belief, double[::1] state,
    const double[::1] shifts, double miss, double growth, unsigned char[:, ::1] inside,
    double[::1] thetas, double[::1] scores,
):
    """Process rows in order: add each to the belief, then make its set.

    Parameters
    ----------
    P, inside, thetas
        Rows (n, m); output for sets (n, m) and theta (n,).
    labels, belief
        Histograms with 560 bins.
    state
        Weight of the next label, of the next row, sum of the belief, i, and sum of the labels.
    shifts
        d_k, (m,).
    miss, growth
        Share that may be missed; growth factor of the weight of rows.
    scores
        Workspace for the scores of a row, (m,).
    """
    cdef Py_ssize_t n = P.shape[0], m = P.shape[1], r, k, best
    cdef double level, theta, w
    with nogil:
        for r in range(n):
            w = state[1] * growth
            for k in range(m):
                scores[k] = set_score(P[r, k])
                belief[set_bin(scores[k])] += w * P[r, k]
                state[2] += w * P[r, k]
            state[1] = w
            if w > SET_MOST:
                set_divide(&belief[0], w)
                state[2] /= w
                state[1] = 1.0
            level = set_level(miss, state[3])
            theta = set_quantile(
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
    """Add a label to which its row gave p; return whether its set had missed it."""
    cdef double s = set_score(p)
    cdef bint missed = s > theta + shifts[y]
    state[3] += gamma * (miss - missed) / (miss * (1.0 - miss))
    if per_class:
        shifts[y] += (missed - miss) / (counts[y] + 1.0) ** 0.5
        counts[y] += 1.0
    state[0] *= growth
    labels[set_bin(s)] += state[0]
    state[4] += state[0]
    if state[0] > SET_MOST:
        set_divide(&labels[0], state[0])
        state[4] /= state[0]
        state[0] = 1.0
    return missed


def sets_now(
    const double[:, ::1] P, const double[::1] labels, const double[::1] belief,
    const double[::1] state, double miss, unsigned char[:, ::1] inside,
):
    """Make sets of rows by the present knowledge, without shifts; theta is the same for all, and
    nothing is added."""
    cdef Py_ssize_t n = P.shape[0], m = P.shape[1], r, k, best
    cdef double level = set_level(miss, state[3])
    cdef double theta = set_quantile(
        &labels[0], state[0], state[4], &belief[0], state[2], miss, level
    )
    cdef double least = 0.0 if theta >= SET_EDGE else 1.0 / (1.0 + exp(theta))  # p with it
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
    """Add the belief of rows to that of earlier rows; the last of them weighs 1."""
    cdef Py_ssize_t n = P.shape[0], m = P.shape[1], r, k
    cdef double w = 1.0
    with nogil:
        for r in range(n):
            w *= growth
            for k in range(m):
                belief[set_bin(set_score(P[r, k]))] += w * P[r, k]
            if w > SET_MOST:
                set_divide(&belief[0], w)
                w = 1.0
        set_divide(&belief[0], w)
