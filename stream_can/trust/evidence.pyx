# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""How strongly labels speak for a change, over all starts that it may have had; compiled.

See `stream_can.trust.alarm.Alarm` for the tests and their sources.
"""

from libc.math cimport INFINITY, exp, lgamma, log
from libc.stdint cimport int64_t

cdef enum:
    SMALL = 32
    MOST_BETS = 8

cdef double LOG_TWO_PI = 1.8378770664093453
cdef double LOG_PI = 1.1447298858494002
cdef double[2 * SMALL] of_halves    # log of the gamma function of 0, 1/2, 1 and so on
cdef int half
of_halves[0] = INFINITY
for half in range(1, 2 * SMALL):
    of_halves[half] = lgamma(half / 2.0)


cdef inline double log_gamma(double x) noexcept nogil:
    """Log of the gamma function of a multiple of 1/2: small ones from a table, others by Stirling's
    series, exact to 1e-15 there."""
    cdef double z
    if x < SMALL:
        return of_halves[<int>(2 * x)]
    z = 1 / (x * x)
    return (x - 0.5) * log(x) - x + 0.5 * LOG_TWO_PI + (1 / 12.0 - z * (1 / 360.0 - z / 1260)) / x


cdef double best_constant(double wrong, double n) noexcept nogil:
    """Log of the largest probability under a constant error rate."""
    cdef double likelihood = 0
    if wrong > 0:
        likelihood += wrong * log(wrong / n)
    if n - wrong > 0:
        likelihood += (n - wrong) * log((n - wrong) / n)
    return likelihood


cdef class LogSum:
    """Log of a sum of exponentials, and the place of the largest term, the first of equals."""

    cdef double top, total
    cdef Py_ssize_t at

    def __cinit__(self):
        self.top, self.total, self.at = -INFINITY, 0, 0

    cdef void add(self, double term, Py_ssize_t at) noexcept:
        if term <= self.top:
            self.total += exp(term - self.top)
        else:
            self.total = 1 + self.total * exp(self.top - term)
            self.top, self.at = term, at

    cdef tuple result(self):
        if self.top == -INFINITY:
            return -INFINITY, 0
        return self.top + log(self.total), self.at


def more_errors(const int64_t[::1] starts, const double[:, ::1] before, int side, double wrong,
                int64_t n):
    """Log of the e-value that errors have increased, and the index of the likeliest start.

    For each start after the first, the probability that the Krichevsky-Trofimov estimator gives the
    labels before it times that of those behind it, over that under the best constant error rate;
    starts count behind which there are relatively more errors.

    Parameters
    ----------
    starts, before
        Number of labels before each start, and sums before it, shape (number of starts, ...).
    side
        Column of ``before`` with the errors.
    wrong, n
        Errors and labels in all.
    """
    cdef LogSum total = LogSum.__new__(LogSum)
    cdef Py_ssize_t k
    cdef double i, earlier, later, constant = best_constant(wrong, n)
    for k in range(1, starts.shape[0]):
        i, earlier = starts[k], before[k, side]
        later = wrong - earlier
        if later * i > earlier * (n - i):
            total.add(
                log_gamma(earlier + 0.5) + log_gamma(i - earlier + 0.5) + log_gamma(later + 0.5)
                + log_gamma(n - i - later + 0.5) - log_gamma(i + 1) - log_gamma(n - i + 1)
                - 2 * LOG_PI - log(i * (i + 1)) - constant, k)
    return total.result()


def wealth(const int64_t[::1] starts, const double[:, ::1] before, const double[::1] sums,
           Py_ssize_t column, Py_ssize_t bets, int64_t first):
    """Log of the e-value that bets win, and the index of the start since which they win most.

    Parameters
    ----------
    starts, before
        As for :func:`more_errors`.
    sums
        Sums of all labels.
    column, bets
        The first column of the log wealths of bets, and their number, up to 8.
    first
        The first start that counts.
    """
    cdef LogSum total = LogSum.__new__(LogSum)
    cdef Py_ssize_t k, b
    cdef double j, top, mean
    cdef double[MOST_BETS] won
    if not 0 < bets <= MOST_BETS:
        raise ValueError(f"{bets} bets, expected 1 to {MOST_BETS}")
    for k in range(starts.shape[0]):
        if starts[k] < first:
            continue
        top, mean = -INFINITY, 0
        for b in range(bets):
            won[b] = sums[column + b] - before[k, column + b]
            top = max(top, won[b])
        for b in range(bets):
            mean += exp(won[b] - top)
        j = starts[k] - first + 1
        total.add(top + log(mean / bets) - log(j * (j + 1)), k)
    return total.result()
