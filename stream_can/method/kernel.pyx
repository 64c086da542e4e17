# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loop over rows: check, paths, mixture, observe, learn; plain arrays in and out.

The formulas, with their sources, are in docs/method.md; the state arrays belong to the Corrector.
"""

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.math cimport exp, fabs, isinf, log, sqrt
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcpy

import numpy as np

from stream_can.errors import InvalidPrediction
from stream_can.method.paths import split
from stream_can.method.rows import TOLERANCE, as_float64, reason

cdef extern from "vectormath.h" nogil:
    double log_of(double x)
    int bad_row(const double *p, Py_ssize_t m, double *total)
    double sum_of(const double *p, Py_ssize_t m)
    void divide(const double *p, double by, double *r, Py_ssize_t m)
    void scale(double *r, double by, Py_ssize_t m)
    void log_clipped(const double *p, double *x, Py_ssize_t m)
    void times(const double *x, double b, double *z, Py_ssize_t m)
    void times_plus(const double *x, double b, const double *c, double *z, Py_ssize_t m)
    void add_row(const float *a, double w, double *z, Py_ssize_t m)
    void exp_all(double *z, Py_ssize_t m)
    void normalise_columns(const double *r, const double *q, const double *S, double kappa, double *out, Py_ssize_t m)
    void shift_prior(double *r, const double *Q, const double *ref, double strength, double total, Py_ssize_t m)
    void decay_add(double *S, double g, const double *r, Py_ssize_t m)
    void weigh(const double *r, double w, double *out, Py_ssize_t m)
    void add_weighed(const double *r, double w, double *out, Py_ssize_t m)
    void posterior(const double *L, double strength, const double *train, double total, double *q, Py_ssize_t m)
    void moments(const double *r, const double *x, double *E, double *E2, Py_ssize_t m)
    void step_offsets(double *c, double *H, const double *d, const double *r, double g, double a, Py_ssize_t m)
    void step_row(float *A, float *G, const double *d, const double *r, double w, double g, double a, Py_ssize_t m)

# What to do with each row; shared with corrector.py.
cpdef enum Mode:
    CORRECT
    OBSERVE
    PROCESS
    EXPLAIN

UNCERTAINTIES = ("topk_entropy", "entropy", "margin", "any_topk_entropy")

cdef enum:
    TOPK_ENTROPY = 0
    ENTROPY = 1
    MARGIN = 2
    ANY_TOPK_ENTROPY = 3
    TOP = 5                 # the classes that speak in a matrix base
    FEW = 32                # up to here insertion finds the largest faster than sorting

cdef double tolerance = TOLERANCE
cdef double LIKELIHOOD_FLOOR = 1e-6     # what a path is given at least for the label
cdef double EM_STRENGTH = 20.0          # times m: pseudo-rows behind the prior of the fitted base
cdef double EM_DECAY = 2.0 ** (-1.0 / 1000)


# ---- what a prediction must be -----------------------------------------------------------------

cdef Py_ssize_t first_bad(const double *P, Py_ssize_t n, Py_ssize_t m) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total
    for i in range(n):
        if bad_row(P + i * m, m, &total) or not fabs(total - 1) <= tolerance:
            return i
    return -1


def bad_rows(P, names=None):
    """What is wrong with the rows of P, shape (n, m), that are no probability vectors: {row: in words}."""
    cdef Py_buffer view
    cdef Py_ssize_t i = 0, bad, n = P.shape[0], m = P.shape[1]
    found = {}
    PyObject_GetBuffer(P, &view, PyBUF_C_CONTIGUOUS)
    while (bad := first_bad(<const double *>view.buf + i * m, n - i, m)) >= 0:
        i += bad
        found[i] = reason(P[i], names)
        i += 1
    PyBuffer_Release(&view)
    return found


cdef object open_rows(object P, int ndim, Py_ssize_t m, Py_buffer *view, object index=None):
    """A C-contiguous float64 buffer of P, checked in shape and content; returns what owns it."""
    cdef Py_ssize_t n, bad
    if type(P) is not np.ndarray or P.dtype != np.float64 or not P.flags.c_contiguous:
        P = as_float64(P, index)
    if P.ndim != ndim or P.shape[ndim - 1] != m:
        expected = f"({m},)" if ndim == 1 else f"(n, {m})"
        raise InvalidPrediction(f"predictions have shape {P.shape}, expected {expected}: one column per class")
    PyObject_GetBuffer(P, view, PyBUF_C_CONTIGUOUS)
    n = view.len // (8 * m)
    if n > 1:
        with nogil:
            bad = first_bad(<const double *>view.buf, n, m)
    else:
        bad = first_bad(<const double *>view.buf, n, m)
    if bad >= 0:
        PyBuffer_Release(view)
        raise InvalidPrediction(f"row {bad}: {reason(P if ndim == 1 else P[bad])}")
    return P


def checked(P):
    """Rows, shape (n, m) with m >= 1, as a C-contiguous float64 array in which every one is a probability vector."""
    cdef Py_buffer view
    P = as_float64(P)
    if P.ndim != 2 or P.shape[1] == 0:
        raise InvalidPrediction(f"predictions have shape {P.shape}, expected (n, m): one column per class")
    open_rows(P, 2, P.shape[1], &view)
    PyBuffer_Release(&view)
    return P


def normalised(P):
    """The same, divided by their sums: a new array."""
    cdef double *target
    cdef const double[:, ::1] rows = checked(P)
    cdef Py_ssize_t i, n = rows.shape[0], m = rows.shape[1]
    out = np.empty((n, m))
    target = memory(out)
    for i in range(n):
        divide(&rows[i, 0], sum_of(&rows[i, 0], m), target + i * m, m)
    return out


# ---- how sure is a row -------------------------------------------------------------------------

cdef int descending(const void *a, const void *b) noexcept nogil:
    cdef double x = (<const double *>a)[0], y = (<const double *>b)[0]
    return (x < y) - (x > y)


cdef void largest(const double *p, Py_ssize_t m, Py_ssize_t k, double *top) noexcept nogil:
    """The k largest entries of p in descending order; top has room for m where k > FEW."""
    cdef Py_ssize_t i, j
    cdef double v
    if k > FEW:
        memcpy(top, p, m * sizeof(double))
        qsort(top, m, sizeof(double), descending)
        return
    for j in range(k):
        top[j] = -1.0
    for i in range(m):
        v = p[i]
        if v > top[k - 1]:
            j = k - 1
            while j > 0 and top[j - 1] < v:
                top[j] = top[j - 1]
                j -= 1
            top[j] = v


cdef double unit(double u) noexcept nogil:
    return 0.0 if u < 0 else 1.0 if u > 1 else u


cdef double plogp(double p) noexcept nogil:
    return p * log_of(p if p > 1e-300 else 1e-300)


cdef double uncertainty_of(const double *p, Py_ssize_t m, int kind, Py_ssize_t k, double *top) noexcept nogil:
    """The one function that says how uncertain a row is; p sums to 1."""
    cdef double total = 0, h = 0, u = 0
    cdef Py_ssize_t i
    if m == 1:
        return 0.0
    if kind == MARGIN:
        largest(p, m, 2, top)
        return unit(1 - (top[0] - top[1]))
    if kind == ANY_TOPK_ENTROPY:
        largest(p, m, m, top)
        for i in range(m):
            total += top[i]
            h += plogp(top[i])
            if i > 0 and total > 0:
                u = max(u, (log_of(total) - h / total) / log(<double>(i + 1)))
        return unit(u)
    if kind == ENTROPY or k > m:
        k = m
    largest(p, m, k, top)
    for i in range(k):
        total += top[i]
        h += plogp(top[i])
    return unit((log_of(total) - h / total) / log(<double>k)) if total > 0 else 0.0


def uncertainty(P, str kind, Py_ssize_t k):
    """Uncertainty of each row of P, float64 and C-contiguous, shape (n, m) -> (n,)."""
    cdef const double[:, ::1] rows = P
    cdef Py_ssize_t i, n = rows.shape[0], m = rows.shape[1]
    cdef int which = UNCERTAINTIES.index(kind)
    cdef double[::1] out = np.empty(n), top = np.empty(max(m, FEW, 2))
    with nogil:
        for i in range(n):
            out[i] = uncertainty_of(&rows[i, 0], m, which, k, &top[0])
    return np.asarray(out)


# ---- the rows ----------------------------------------------------------------------------------

cdef struct Base:
    double *b           # log b, H_b; NULL for raw
    double *c           # offsets, NULL where there are none
    double *H
    float *A            # m x m, NULL where there is none
    float *G
    double *S           # decayed column sums of its confident rows, NULL without CAN
    double *Q           # EM counts of the fitted base, then N in one more entry; NULL without EM
    const double *ref
    double exponent
    bint learns
    bint uncertain      # of the row at hand
    Py_ssize_t path     # where its own row goes among the paths, -1 for nowhere
    Py_ssize_t can      # where the row after CAN goes
    double *r           # the row at hand, of this base
    double *normalised  # and after CAN


cdef double *pointer(array, Py_ssize_t size) except? NULL:
    cdef double[::1] view = array.reshape(-1)
    if view.shape[0] != size:
        raise ValueError(f"state array has {view.shape[0]} entries, expected {size}")
    return &view[0]


cdef double *memory(array) except NULL:
    """Where a new, C-contiguous float64 array begins; whoever asks keeps the array."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
    PyBuffer_Release(&view)
    return <double *>view.buf


cdef float *pointer32(array, Py_ssize_t size) except? NULL:
    cdef float[::1] view = array.reshape(-1)
    if view.shape[0] != size:
        raise ValueError(f"state array has {view.shape[0]} entries, expected {size}")
    return &view[0]


cdef class Kernel:
    """The compiled half of a Corrector: pointers into its arrays, a workspace for one row, and the loop.

    Parameters
    ----------
    m, paths
        Number of classes; names of the paths in their order.
    state
        The arrays of :mod:`stream_can.method.state`, checked there, changed in place.
    train
        Prior of the training set, shape (m,).
    """

    cdef readonly Py_ssize_t m, n_paths
    cdef Py_ssize_t n_bases, k
    cdef Base *bases
    cdef double *weights
    cdef double *start_weights
    cdef double *labels
    cdef double *train
    cdef double *q
    cdef double *recent                 # decayed log loss before and after, and their weight
    cdef long long *counts              # predictions, labels, labels with their prediction
    cdef double *p
    cdef double *x
    cdef double *top
    cdef double *residual
    cdef double speak[TOP]              # w_j of the row at hand, to the exponent in use
    cdef Py_ssize_t speaker[TOP]        # J of the row at hand
    cdef Py_ssize_t n_top
    cdef double g, threshold, pseudo_count, strength, a
    cdef int kind
    cdef bint logs, tops, busy
    cdef object prior_row               # the array behind q
    cdef public object index            # class -> column, for rows that come with names
    cdef object keep                    # every array that a pointer goes into

    def __cinit__(self, Py_ssize_t m, tuple paths, dict state, *, train, double half_life, str uncertainty, Py_ssize_t k,
                  double threshold, double pseudo_count, double prior_strength, start_weights,
                  double precision=5.0, double exponent=0.25):
        cdef Base *base
        cdef long long[::1] counts = state["counts"]
        names = list(dict.fromkeys(split(path)[0] for path in paths))
        self.m, self.n_paths, self.n_bases = m, len(paths), len(names)
        self.g = 2.0 ** (-1.0 / half_life)
        self.kind, self.k, self.threshold = UNCERTAINTIES.index(uncertainty), k, threshold
        self.pseudo_count, self.strength, self.a = pseudo_count, prior_strength, precision
        self.n_top = min(<Py_ssize_t>TOP, m)
        self.bases = <Base *>calloc(self.n_bases, sizeof(Base))
        if self.bases == NULL:
            raise MemoryError
        work = np.zeros((4 + 2 * self.n_bases, max(m, FEW)))
        prior = np.empty(m)
        self.prior_row = prior
        self.keep = (*state.values(), train, start_weights, work)
        rows = iter(work)
        self.p, self.x, self.top, self.residual = (
            pointer(next(rows), work.shape[1]), pointer(next(rows), work.shape[1]),
            pointer(next(rows), work.shape[1]), pointer(next(rows), work.shape[1]))
        self.weights = pointer(state["weights"], self.n_paths)
        self.start_weights = pointer(start_weights, self.n_paths)
        self.labels = pointer(state["labels"], m)
        self.train = pointer(train, m)
        self.q = pointer(prior, m)
        self.recent = pointer(state["recent"], 3)
        self.counts = &counts[0]
        for i, name in enumerate(names):
            base = &self.bases[i]
            base.path = paths.index(name) if name in paths else -1
            can = "can" if name == "raw" else f"{name}+can"
            base.can = paths.index(can) if can in paths else -1
            base.r = pointer(next(rows), work.shape[1])
            base.normalised = pointer(next(rows), work.shape[1])
            base.learns = name in ("temperature", "vector", "matrix")
            base.exponent = 0.5 if name == "fitted" else exponent
            if base.can >= 0:
                base.S = pointer(state[f"S.{name}"], m)
            if name != "raw":
                base.b = pointer(state[f"b.{name}"], 2)
                self.logs = True
            if f"c.{name}" in state:
                base.c = pointer(state[f"c.{name}"], m)
            if f"A.{name}" in state:
                base.A = pointer32(state[f"A.{name}"], m * m)
                self.tops = True
            if base.learns and base.c != NULL:
                base.H = pointer(state[f"H.{name}"], m)
            if base.learns and base.A != NULL:
                base.G = pointer32(state[f"G.{name}"], m * m)
            if name == "fitted" and "Q" in state:
                base.Q = pointer(state["Q"], m + 1)
                base.ref = pointer(state["ref"], m)
        self.refresh_prior()

    def __dealloc__(self):
        free(self.bases)

    @property
    def prior(self):
        """The class prior in use now, shape (m,)."""
        return self.prior_row.copy()

    # ---- one row, no Python below here

    cdef void refresh_prior(self) noexcept nogil:
        if isinf(self.strength):
            memcpy(self.q, self.train, self.m * sizeof(double))
        else:
            posterior(self.labels, self.strength, self.train, sum_of(self.labels, self.m) + self.strength, self.q, self.m)

    cdef void find_speakers(self) noexcept nogil:
        """J: the largest entries of p, ties to the lower index."""
        cdef Py_ssize_t i, j, k = self.n_top
        cdef double v
        cdef double best[TOP]
        for j in range(k):
            best[j] = -1.0
        for i in range(self.m):
            v = self.p[i]
            if v > best[k - 1]:
                j = k - 1
                while j > 0 and best[j - 1] < v:
                    best[j] = best[j - 1]
                    self.speaker[j] = self.speaker[j - 1]
                    j -= 1
                best[j] = v
                self.speaker[j] = i

    cdef void weigh_speakers(self, double exponent) noexcept nogil:
        """w: max(p_j, 1e-7) to the power of 1/2 or 1/4."""
        cdef Py_ssize_t j
        cdef double v
        for j in range(self.n_top):
            v = self.p[self.speaker[j]]
            v = sqrt(v if v > 1e-7 else 1e-7)
            self.speak[j] = v if exponent == 0.5 else sqrt(v)

    cdef void recalibrate(self, Base *base) noexcept nogil:
        """base.r: the row p, recalibrated."""
        cdef Py_ssize_t j, m = self.m
        cdef double b
        if base.b == NULL or m == 1:
            memcpy(base.r, self.p, m * sizeof(double))
            return
        b = exp(base.b[0])
        if base.c == NULL:
            times(self.x, b, base.r, m)
        else:
            times_plus(self.x, b, base.c, base.r, m)
        if base.A != NULL:
            self.weigh_speakers(base.exponent)
            for j in range(self.n_top):
                add_row(base.A + self.speaker[j] * m, self.speak[j], base.r, m)
        exp_all(base.r, m)
        scale(base.r, 1 / sum_of(base.r, m), m)
        if base.Q != NULL:
            b = EM_STRENGTH * m
            shift_prior(base.r, base.Q, base.ref, b, base.Q[m] + b, m)
            scale(base.r, 1 / sum_of(base.r, m), m)

    cdef void alternate(self, Base *base) noexcept nogil:
        """base.uncertain and, where it is, base.normalised: the row after CAN."""
        cdef double total
        base.uncertain = False
        if base.can < 0 or uncertainty_of(base.r, self.m, self.kind, self.k, self.top) < self.threshold:
            return
        normalise_columns(base.r, self.q, base.S, self.pseudo_count, base.normalised, self.m)
        total = sum_of(base.normalised, self.m)
        base.uncertain = True
        if total > 1e-300:
            scale(base.normalised, 1 / total, self.m)
        else:  # a sum that underflowed carries no information: the row stays what it was
            memcpy(base.normalised, base.r, self.m * sizeof(double))

    cdef void forward(self, const double *p) noexcept nogil:
        """Every path of one row."""
        cdef Py_ssize_t i
        divide(p, sum_of(p, self.m), self.p, self.m)
        if self.logs:
            log_clipped(self.p, self.x, self.m)
        if self.tops:
            self.find_speakers()
        for i in range(self.n_bases):
            self.recalibrate(&self.bases[i])
            self.alternate(&self.bases[i])

    cdef double weight(self, Py_ssize_t path) noexcept nogil:
        return self.weights[path] if path >= 0 else 0.0

    cdef void mix(self, double *out) noexcept nogil:
        """The weighted mean of the paths."""
        cdef Py_ssize_t i
        cdef Base *base
        cdef double w
        if self.m == 1:  # the weights need not sum to 1 to the last bit
            out[0] = 1
            return
        for i in range(self.n_bases):
            base = &self.bases[i]
            w = self.weight(base.path)
            if not base.uncertain:
                w += self.weight(base.can)
            if i == 0:
                weigh(base.r, w, out, self.m)
            else:
                add_weighed(base.r, w, out, self.m)
            if base.uncertain:
                add_weighed(base.normalised, self.weight(base.can), out, self.m)

    cdef void observe(self) noexcept nogil:
        """The row at hand went by: column sums of the confident rows, EM counts."""
        cdef Py_ssize_t i
        cdef Base *base
        for i in range(self.n_bases):
            base = &self.bases[i]
            if base.can >= 0 and not base.uncertain:
                decay_add(base.S, self.g, base.r, self.m)
            if base.Q != NULL:
                decay_add(base.Q, EM_DECAY, base.r, self.m)
                base.Q[self.m] = EM_DECAY * base.Q[self.m] + 1
        self.counts[0] += 1

    cdef void learn_label(self, Py_ssize_t y) noexcept nogil:
        """The prior's share of a label."""
        scale(self.labels, self.g, self.m)
        self.labels[y] += 1
        self.counts[1] += 1
        self.refresh_prior()

    cdef void reweigh(self, Py_ssize_t y) noexcept nogil:
        """Bayes' rule over the paths, with a share 1 / (n + 2) back to where they began."""
        cdef Py_ssize_t i
        cdef Base *base
        cdef double total, share, after = 0, likelihood
        for i in range(self.n_bases):
            base = &self.bases[i]
            if base.path >= 0:
                after += self.weights[base.path] * base.r[y]
                self.weights[base.path] *= max(base.r[y], LIKELIHOOD_FLOOR)
            if base.can >= 0:
                likelihood = base.normalised[y] if base.uncertain else base.r[y]
                after += self.weights[base.can] * likelihood
                self.weights[base.can] *= max(likelihood, LIKELIHOOD_FLOOR)
        self.recent[0] = self.g * self.recent[0] - log(max(self.p[y], LIKELIHOOD_FLOOR))
        self.recent[1] = self.g * self.recent[1] - log(max(after, LIKELIHOOD_FLOOR))
        self.recent[2] = self.g * self.recent[2] + 1
        self.counts[2] += 1
        if self.n_paths == 1:
            self.weights[0] = 1
            return
        share = 1.0 / (self.counts[2] + 2)
        total = sum_of(self.weights, self.n_paths)
        for i in range(self.n_paths):
            self.weights[i] = (1 - share) * (self.weights[i] / total) + share * self.start_weights[i]

    cdef void step(self, Base *base, Py_ssize_t y) noexcept nogil:
        """One diagonal Newton step of a base on the log loss of the row at hand."""
        cdef Py_ssize_t j, row, m = self.m
        cdef double E, E2, log_b = base.b[0], b = exp(log_b)
        moments(base.r, self.x, &E, &E2, m)
        base.b[1] = 10 + self.g * (base.b[1] - 10) + b * b * (E2 - E * E)
        log_b -= (b * (E - self.x[y]) + (1 - self.g) * 10 * log_b) / (base.b[1] + 1e-9)
        base.b[0] = -2 if log_b < -2 else 2 if log_b > 2 else log_b
        if base.c == NULL:
            return
        memcpy(self.residual, base.r, m * sizeof(double))
        self.residual[y] -= 1
        step_offsets(base.c, base.H, self.residual, base.r, self.g, self.a, m)
        if base.A == NULL:
            return
        self.weigh_speakers(base.exponent)
        for j in range(self.n_top):
            row = self.speaker[j] * m
            step_row(base.A + row, base.G + row, self.residual, base.r, self.speak[j], self.g, self.a, m)

    cdef void learn_row(self, const double *p, Py_ssize_t y) noexcept nogil:
        cdef Py_ssize_t i
        self.forward(p)
        self.reweigh(y)
        for i in range(self.n_bases):
            if self.bases[i].learns:
                self.step(&self.bases[i], y)
        self.learn_label(y)

    # ---- many rows

    cdef void loop(self, const double *P, Py_ssize_t first, Py_ssize_t n, double *mixed, double *paths, bint observes,
                   const long long *ys, const long long *rows, const long long *due, Py_ssize_t n_labels) noexcept nogil:
        """Each row from `first` on: forward, out to `mixed` and `paths` where not NULL, observe; before it what is due."""
        cdef Py_ssize_t i, j, learned = 0, m = self.m
        cdef Base *base
        for i in range(n):
            while learned < n_labels and due[learned] <= i:
                self.learn(P, rows[learned], ys[learned])
                learned += 1
            self.forward(P + (first + i) * m)
            if mixed != NULL:
                self.mix(mixed + i * m)
            if paths != NULL:
                for j in range(self.n_bases):
                    base = &self.bases[j]
                    if base.path >= 0:
                        memcpy(paths + (base.path * n + i) * m, base.r, m * sizeof(double))
                    if base.can >= 0:
                        memcpy(paths + (base.can * n + i) * m, base.normalised if base.uncertain else base.r, m * sizeof(double))
            if observes:
                self.observe()
        while learned < n_labels:
            self.learn(P, rows[learned], ys[learned])
            learned += 1

    cdef void learn(self, const double *P, long long row, long long y) noexcept nogil:
        """A label of a row of P, or, for row -1, one whose prediction is gone."""
        if row < 0:
            self.learn_label(y)
        else:
            self.learn_row(P + row * self.m, y)

    cdef void learn_loop(self, const double *P, Py_ssize_t n, const long long *ys) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(n):
            if P == NULL:
                self.learn_label(ys[i])
            else:
                self.learn_row(P + i * self.m, ys[i])

    cdef inline int check_idle(self) except -1:
        if self.busy:
            raise RuntimeError("this Corrector is at work in another thread; one Corrector belongs to one thread")
        return 0

    def rows(self, P, int ndim, Mode mode):
        """Run rows, shape (m,) or (n, m), through `mode`; a new array, (n_paths, n, m) for EXPLAIN."""
        cdef Py_buffer view
        cdef Py_ssize_t n
        cdef double *out = NULL
        P = open_rows(P, ndim, self.m, &view, self.index)
        n = view.len // (8 * self.m)
        try:
            self.check_idle()
            result = None
            if mode != OBSERVE:
                result = np.empty((self.n_paths, *P.shape) if mode == EXPLAIN else P.shape)
                out = memory(result)
            self.run(<const double *>view.buf, 0, n, NULL if mode == EXPLAIN else out, out if mode == EXPLAIN else NULL,
                     mode == PROCESS or mode == OBSERVE, NULL, NULL, NULL, 0)
        finally:
            PyBuffer_Release(&view)
        return result

    def replay(self, P, Py_ssize_t first, const long long[::1] ys, const long long[::1] rows, const long long[::1] due,
               bint explain):
        """Process the rows of P from `first` on, learning on the way.

        P, shape (first + n, m), begins with rows that came by earlier and whose labels are due now. The
        labels ys, shape (k,), are of the `rows` of P, -1 where the prediction is gone; each is learned
        before the processed row that `due` counts from 0, ascending, and those of n after the last. Returns
        the corrected rows, shape (n, m), and, to `explain`, what each path made of each row when it came
        by, shape (n_paths, n, m).
        """
        cdef Py_buffer view
        cdef Py_ssize_t i, n, k = ys.shape[0], before = 0
        P = open_rows(P, 2, self.m, &view, self.index)
        n = len(P) - first
        try:
            self.check_idle()
            if not 0 <= first <= len(P) or rows.shape[0] != k or due.shape[0] != k:
                raise ValueError(f"{len(P)} rows from {first} on, {k} labels, {rows.shape[0]} rows of labels, {due.shape[0]} places")
            for i in range(k):
                if not (0 <= ys[i] < self.m and -1 <= rows[i] < first + due[i] and before <= due[i] <= n):
                    raise ValueError(f"label {i}: class {ys[i]} of row {rows[i]} before row {due[i]}: out of range")
                before = due[i]
            mixed = np.empty((n, self.m))
            paths = np.empty((self.n_paths, n, self.m)) if explain else None
            self.run(<const double *>view.buf, first, n, memory(mixed), NULL if paths is None else memory(paths), True,
                     &ys[0] if k else NULL, &rows[0] if k else NULL, &due[0] if k else NULL, k)
        finally:
            PyBuffer_Release(&view)
        return mixed, paths

    cdef int run(self, const double *P, Py_ssize_t first, Py_ssize_t n, double *mixed, double *paths, bint observes,
                 const long long *ys, const long long *rows, const long long *due, Py_ssize_t n_labels) except -1:
        """The loop; without the GIL where it is long enough to be worth it."""
        if n + n_labels <= 1:
            self.loop(P, first, n, mixed, paths, observes, ys, rows, due, n_labels)
            return 0
        self.busy = True
        with nogil:
            self.loop(P, first, n, mixed, paths, observes, ys, rows, due, n_labels)
        self.busy = False
        return 0

    def learn_one(self, p, long long y):
        """One label, already an index; p is None where the prediction is gone."""
        cdef Py_buffer view
        if p is None:
            self.check_idle()
            self.learn_label(y)
            return
        p = open_rows(p, 1, self.m, &view, self.index)
        try:
            self.check_idle()
            self.learn_row(<const double *>view.buf, y)
        finally:
            PyBuffer_Release(&view)

    def learn_many(self, P, const long long[::1] ys):
        """Labels, already indices, of the rows P, shape (n, m), or None."""
        cdef Py_buffer view
        cdef const double *data = NULL
        cdef Py_ssize_t n = ys.shape[0]
        if P is not None:
            P = open_rows(P, 2, self.m, &view, self.index)
            data = <const double *>view.buf
        try:
            if P is not None and len(P) != n:
                raise InvalidPrediction(f"{len(P)} predictions but {n} labels; give one label per row")
            self.check_idle()
            if n > 0:
                self.busy = True
                with nogil:
                    self.learn_loop(data, n, &ys[0])
                self.busy = False
        finally:
            if P is not None:
                PyBuffer_Release(&view)
