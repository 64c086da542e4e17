# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loop over rows: check, paths, mixture, observe, learn; plain arrays in and out.

The formulas, with their sources, are in docs/method.md; the state arrays belong to the Corrector.
"""

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_release_lock,
    PyThread_type_lock,
)
from libc.math cimport INFINITY, exp, fabs, isinf, log, sqrt
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcpy

import numpy as np

from stream_can.errors import InvalidPrediction
from stream_can.method.paths import anchor, split
from stream_can.method.rows import TOLERANCE, as_float64, reason
from stream_can.method.sums import EM_DECAY as em_decay

cdef extern from "vectormath.h" nogil:
    double log_of(double x)
    int bad_row(const double *p, Py_ssize_t m, double *total)
    double sum_of(const double *p, Py_ssize_t m)
    void divide(const double *p, double by, double *r, Py_ssize_t m)
    void scale(double *r, double by, Py_ssize_t m)
    void log_clipped(const double *p, double floor, double *x, Py_ssize_t m)
    void log_mean(const double *M, double log_total, double *f, Py_ssize_t m)
    void times(const double *x, double b, double *z, Py_ssize_t m)
    void times_plus(const double *x, double b, const double *c, double *z, Py_ssize_t m)
    void combine(const double *x, const double *f1, const double *f2, const double *c, double b, double t1, double t2, double *z, Py_ssize_t m)
    void add_row(const float *a, double w, double *z, Py_ssize_t m)
    void exp_all(double *z, Py_ssize_t m)
    void exp_shifted(double *z, Py_ssize_t m)
    void normalise_columns(const double *r, const double *q, const double *S, double kappa, double *out, Py_ssize_t m)
    void shift_prior(double *r, const double *Q, const double *ref, double strength, double total, Py_ssize_t m)
    void decay_add(double *S, double g, const double *r, Py_ssize_t m)
    void decay(double *S, double g, Py_ssize_t m)
    void shrink(double *out, double by, const double *p, Py_ssize_t m)
    void mix_three(const double *a, double u, const double *b, double v, const double *c, double w, double *out, Py_ssize_t m)
    void to_single(const double *r, float *out, Py_ssize_t m)
    void weigh(const double *r, double w, double *out, Py_ssize_t m)
    void add_weighed(const double *r, double w, double *out, Py_ssize_t m)
    void posterior(const double *L, double strength, const double *train, double total, double *q, Py_ssize_t m)
    void moments(const double *r, const double *x, double *E, double *E2, Py_ssize_t m)
    void moments_of_three(const double *r, const double *x, const double *f1, const double *f2, double *E, double *V, Py_ssize_t m)
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

cdef Py_ssize_t WORK = 400_000          # of rows times their length, between two looks for Ctrl-C

cdef double tolerance = TOLERANCE
cdef double LIKELIHOOD_FLOOR = 1e-6     # what a path is given at least for the label
cdef double FLOOR_MASS = 0.01           # what the floors of a row hold together at the most
cdef double CURVATURE_B = 10.0          # Lambda: how firmly log b is held at 0, and t1 and t2
cdef double CURVATURE_T = 3.0
cdef double LARGEST_B = exp(2.0)        # where log b is clipped
cdef double LARGEST_T = 3.0
cdef double SPARE = 5.0                 # of the sum of what comes back before agreement alone is held to be a choice
cdef double EM_STRENGTH = 20.0          # times m: pseudo-rows behind the prior of the fitted base
cdef double EM_DECAY = em_decay


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
    double *u           # log b, then t1 and t2 where the base has c; NULL for raw
    double *K           # their curvature: 1 number, or the 6 of a symmetric 3 x 3
    double *c           # offsets, NULL where there are none
    double *H
    float *A            # m x m, NULL where there is none
    float *G
    double *S           # decayed column sums of its confident rows, NULL without CAN
    double *Q           # EM counts of the fitted base, then N in one more entry; NULL without EM
    const double *ref
    double exponent
    bint learns
    bint shares         # has the shared features f1, f2
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


cdef long long *integers(array, Py_ssize_t size) except? NULL:
    cdef long long[::1] view = array
    if view.shape[0] != size:
        raise ValueError(f"state array has {view.shape[0]} entries, expected {size}")
    return &view[0]


cdef float *memory32(array) except NULL:
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
    PyBuffer_Release(&view)
    return <float *>view.buf


cdef float *pointer32(array, Py_ssize_t size) except? NULL:
    cdef float[::1] view = array.reshape(-1)
    if view.shape[0] != size:
        raise ValueError(f"state array has {view.shape[0]} entries, expected {size}")
    return &view[0]


cdef class Lock:
    """One call at a time. threading.Lock does the same, at three times the price of one uncontended ``with``."""

    cdef PyThread_type_lock lock

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef inline void acquire(self) noexcept:
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            with nogil:
                PyThread_acquire_lock(self.lock, WAIT_LOCK)

    cdef inline void release(self) noexcept:
        PyThread_release_lock(self.lock)

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


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
    lock
        Of the Corrector: held by each call here. A kernel that was replaced while a call waited for
        it hands the call on to its `successor`.
    """

    cdef readonly Py_ssize_t m, n_paths
    cdef Py_ssize_t n_bases, k
    cdef Base *bases
    cdef Base last                      # the temperature of the mixture: u, K and r of the tempered mixture
    cdef Base *fitted                   # NULL where there is none
    cdef Base *anchor
    cdef bint anchor_can                # the anchor is that base's row after CAN
    cdef double *weights
    cdef double *start_weights
    cdef double *labels
    cdef double *train
    cdef double *q
    cdef double *recent                 # decayed log loss before and after, and their weight
    cdef long long *counts              # predictions, labels, labels with their prediction
    cdef double *mean                   # M, then N
    cdef double *predicted              # N_j
    cdef double *labelled               # n_j, then n
    cdef long long *heard               # 1 a label has come, 0 none has, -1 none has and it is silent
    cdef double *agreement              # labels that are the argmax, that are not, sum of their p_j
    cdef double *odds                   # log odds of mixture and tempered mixture against the anchor
    cdef double final[3]                # their weights, and the anchor's in front
    cdef double *p
    cdef double *x
    cdef double *f1                     # log of the mean prediction
    cdef double *f2                     # log of the training prior
    cdef double *xo                     # log of the mixture
    cdef double *mixed
    cdef double *top
    cdef double *residual
    cdef long long *silent
    cdef Py_ssize_t n_silent, n_unheard
    cdef Py_ssize_t best                # the likeliest class of the row at hand, the lowest of equals
    cdef double speak[TOP]              # w_j of the row at hand, to the exponent in use
    cdef Py_ssize_t speaker[TOP]        # J of the row at hand
    cdef Py_ssize_t n_top
    cdef readonly double g              # what a decayed sum keeps at each event
    cdef double threshold, pseudo_count, strength, a, curvature_b, floor, widest
    cdef int kind
    cdef bint logs, tops, shares, guarded
    cdef bint stale                     # f1 is older than M
    cdef bint wide                      # sums of logits may leave the range of exp
    cdef Lock lock
    cdef public Kernel successor
    cdef object prior_row               # the array behind q
    cdef object index                   # class -> column, for rows that come with names
    cdef object keep                    # every array that a pointer goes into

    def __cinit__(self, Py_ssize_t m, tuple paths, dict state, *, Lock lock=None, index=None, train, double half_life,
                  str uncertainty, Py_ssize_t k,
                  double threshold, double pseudo_count, double prior_strength, start_weights,
                  double precision=5.0, double exponent=0.25, double passes=1.0, bint shared_features=True):
        cdef Base *base
        cdef Py_ssize_t i
        names = list(dict.fromkeys(split(path)[0] for path in paths))
        self.lock, self.index = Lock() if lock is None else lock, index
        self.m, self.n_paths, self.n_bases = m, len(paths), len(names)
        self.g = 2.0 ** (-1.0 / half_life)
        self.kind, self.k, self.threshold = UNCERTAINTIES.index(uncertainty), k, threshold
        self.pseudo_count, self.strength = pseudo_count, prior_strength
        self.a, self.curvature_b = precision, passes * CURVATURE_B
        self.floor = FLOOR_MASS / m
        self.n_top = min(<Py_ssize_t>TOP, m)
        self.guarded = self.n_paths > 1
        self.bases = <Base *>calloc(self.n_bases, sizeof(Base))
        if self.bases == NULL:
            raise MemoryError
        width = max(m, FEW)
        work = np.zeros((9 + 2 * self.n_bases, width))
        prior, silent = np.empty(m), np.empty(m, np.int64)
        logs = np.log(np.maximum(train, 1e-300))
        self.prior_row = prior
        self.keep = (*state.values(), train, start_weights, work, silent, logs)
        rows = iter(work)
        self.p, self.x, self.f1, self.xo, self.mixed, self.top, self.residual, self.last.r, self.last.normalised = (
            pointer(next(rows), width), pointer(next(rows), width), pointer(next(rows), width),
            pointer(next(rows), width), pointer(next(rows), width), pointer(next(rows), width),
            pointer(next(rows), width), pointer(next(rows), width), pointer(next(rows), width))
        self.f2 = pointer(logs, m)
        self.silent = integers(silent, m)
        self.weights = pointer(state["weights"], self.n_paths)
        self.start_weights = pointer(start_weights, self.n_paths)
        self.labels = pointer(state["labels"], m)
        self.train = pointer(train, m)
        self.q = pointer(prior, m)
        self.recent = pointer(state["recent"], 3)
        self.counts = integers(state["counts"], 3)
        self.mean = pointer(state["mean"], m + 1)
        self.predicted = pointer(state["predicted"], m)
        self.labelled = pointer(state["labelled"], m + 1)
        self.heard = integers(state["heard"], m)
        self.agreement = pointer(state["agreement"], 3)
        self.odds = pointer(state["odds"], 2)
        self.last.u, self.last.K = pointer(state["u.last"], 1), pointer(state["K.last"], 1)
        anchored, self.anchor_can = split(anchor(paths))
        for i, name in enumerate(names):
            base = &self.bases[i]
            base.path = paths.index(name) if name in paths else -1
            can = "can" if name == "raw" else f"{name}+can"
            base.can = paths.index(can) if can in paths else -1
            base.r = pointer(next(rows), width)
            base.normalised = pointer(next(rows), width)
            base.learns = name in ("temperature", "vector", "matrix")
            base.exponent = 0.5 if name == "fitted" else exponent
            if base.can >= 0:
                base.S = pointer(state[f"S.{name}"], m)
            if f"c.{name}" in state:
                base.c = pointer(state[f"c.{name}"], m)
                base.shares = base.learns and shared_features
                self.shares = self.shares or base.shares
            if name != "raw":
                wide = base.learns and base.c != NULL
                base.u = pointer(state[f"u.{name}"], 3 if wide else 1)
                if base.learns:
                    base.K = pointer(state[f"K.{name}"], 6 if wide else 1)
                self.logs = True
            if f"A.{name}" in state:
                base.A = pointer32(state[f"A.{name}"], m * m)
                self.tops = True
            if base.learns and base.c != NULL:
                base.H = pointer(state[f"H.{name}"], m)
            if base.learns and base.A != NULL:
                base.G = pointer32(state[f"G.{name}"], m * m)
            if name == "fitted":
                self.fitted = base
                if "Q" in state:
                    base.Q = pointer(state["Q"], m + 1)
                    base.ref = pointer(state["ref"], m)
            if name == anchored:
                self.anchor = base
        # |z| without the part of f1, which grows with N
        self.widest = -LARGEST_B * log(self.floor) + LARGEST_T * float(-logs.min()) + 30
        self.stale = True
        for i in range(m):
            self.n_unheard += self.heard[i] != 1
            if self.heard[i] == -1:
                self.silent[self.n_silent] = i
                self.n_silent += 1
        self.refresh_prior()
        self.weigh_final()

    def __dealloc__(self):
        free(self.bases)

    @property
    def prior(self):
        """The class prior in use now, shape (m,)."""
        return self.prior_row.copy()

    @property
    def final_weights(self):
        """Weights of anchor, mixture and tempered mixture in the row that goes out; they sum to 1."""
        return (1.0, 0.0, 0.0) if not self.guarded else (self.final[0], self.final[1], self.final[2])

    @property
    def coverage(self):
        """Mean of the share of the correction that goes out, over the predictions of late."""
        cdef Py_ssize_t j
        cdef double total = 0
        if not self.guarded or self.mean[self.m] <= 0:
            return 1.0
        for j in range(self.m):
            total += self.predicted[j] * self.trust(j)
        return min(1.0, total / self.mean[self.m])

    # ---- one row, no Python below here

    cdef void refresh_prior(self) noexcept nogil:
        """q: the labels' counts over the training prior; a silent class keeps its share of that."""
        cdef Py_ssize_t i, j = 0, m = self.m
        cdef double total, rest = 1
        if isinf(self.strength):
            memcpy(self.q, self.train, m * sizeof(double))
            return
        total = sum_of(self.labels, m)
        for i in range(self.n_silent):
            total -= self.labels[self.silent[i]]
            rest -= self.train[self.silent[i]]
        if self.n_silent == 0:
            posterior(self.labels, self.strength, self.train, total + self.strength, self.q, m)
            return
        rest = rest if rest > 0 else 0.0
        posterior(self.labels, self.strength, self.train, (total + self.strength * rest) / rest if rest > 0 else INFINITY, self.q, m)
        for i in range(self.n_silent):
            j = self.silent[i]
            self.q[j] = self.train[j]

    cdef void weigh_final(self) noexcept nogil:
        """The weights of anchor, mixture and tempered mixture: 1/2, 1/4, 1/4 times their odds."""
        cdef double most = max(0.0, max(self.odds[0], self.odds[1])), total
        self.final[0] = 0.5 * exp(-most)
        self.final[1] = 0.25 * exp(self.odds[0] - most)
        self.final[2] = 0.25 * exp(self.odds[1] - most)
        total = self.final[0] + self.final[1] + self.final[2]
        self.final[0] /= total
        self.final[1] /= total
        self.final[2] /= total

    cdef void refresh_features(self) noexcept nogil:
        """f1 = log((M + 1) / (N + m)), where predictions went by since."""
        cdef double log_total = log(self.mean[self.m] + self.m)
        log_mean(self.mean, log_total, self.f1, self.m)
        self.wide = self.widest + LARGEST_T * log_total > 690
        self.stale = False

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

    cdef void find_best(self) noexcept nogil:
        """The likeliest class, the lowest of equals."""
        cdef Py_ssize_t i
        self.best = 0
        if self.tops:
            self.best = self.speaker[0]
            return
        for i in range(1, self.m):
            if self.p[i] > self.p[self.best]:
                self.best = i

    cdef void weigh_speakers(self, double exponent) noexcept nogil:
        """w: max(p_j, floor) to the power of 1/2 or 1/4."""
        cdef Py_ssize_t j
        cdef double v
        for j in range(self.n_top):
            v = self.p[self.speaker[j]]
            v = sqrt(v if v > self.floor else self.floor)
            self.speak[j] = v if exponent == 0.5 else sqrt(v)

    cdef void recalibrate(self, Base *base) noexcept nogil:
        """base.r: the row p, recalibrated."""
        cdef Py_ssize_t j, m = self.m
        cdef double b
        if base.u == NULL or m == 1:
            memcpy(base.r, self.p, m * sizeof(double))
            return
        b = exp(base.u[0])
        if base.c == NULL:
            times(self.x, b, base.r, m)
        elif base.shares:
            combine(self.x, self.f1, self.f2, base.c, b, base.u[1], base.u[2], base.r, m)
        else:
            times_plus(self.x, b, base.c, base.r, m)
        if base.A != NULL:
            self.weigh_speakers(base.exponent)
            for j in range(self.n_top):
                add_row(base.A + self.speaker[j] * m, self.speak[j], base.r, m)
        if base.shares and self.wide:
            exp_shifted(base.r, m)
        else:
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
            log_clipped(self.p, self.floor, self.x, self.m)
        if self.shares and self.stale:
            self.refresh_features()
        if self.tops:
            self.find_speakers()
        if self.guarded:
            self.find_best()
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

    cdef void temper(self) noexcept nogil:
        """last.r: the mixture at its own temperature."""
        log_clipped(self.mixed, self.floor, self.xo, self.m)
        times(self.xo, exp(self.last.u[0]), self.last.r, self.m)
        exp_all(self.last.r, self.m)
        scale(self.last.r, 1 / sum_of(self.last.r, self.m), self.m)

    cdef const double *anchor_row(self) noexcept nogil:
        return self.anchor.normalised if self.anchor_can and self.anchor.uncertain else self.anchor.r

    cdef const double *tempered_row(self) noexcept nogil:
        """The tempered mixture; while nothing has been learned of its temperature, the mixture."""
        return self.mixed if self.last.u[0] == 0 else self.last.r

    cdef const double *fallback(self) noexcept nogil:
        """What goes out where labels cannot be trusted: the row as it came, or as validation data mend it."""
        return self.p if self.fitted == NULL else self.fitted.r

    cdef double trust(self, Py_ssize_t j) noexcept nogil:
        """Lambda: how much of the correction goes out for a row whose likeliest class is j."""
        cdef double agree = self.agreement[0], differ = self.agreement[1], sure = self.agreement[2], expected, by
        if (agree == 0 and sure > SPARE) or (differ == 0 and agree - sure > SPARE):
            return 0.0  # only corrections come back, or only confirmations
        expected = self.labelled[self.m] * self.predicted[j] / self.mean[self.m] if self.mean[self.m] > 0 else 0.0
        by = 4 * (self.labelled[j] + 1) / (expected + 1)
        return by if by < 1 else 1.0

    cdef void send(self, double *out, float *receipt) noexcept nogil:
        """The row that goes out; into the receipt, where not NULL, what it is mixed from."""
        cdef Py_ssize_t i, m = self.m
        cdef const double *tempered
        cdef double by
        if m == 1 or not self.guarded:
            if m == 1:
                out[0] = 1  # the weights need not sum to 1 to the last bit
            else:
                self.mix(out)
            if receipt != NULL:
                for i in range(3):
                    to_single(out, receipt + i * m, m)
            return
        self.mix(self.mixed)
        if self.last.u[0] != 0:
            self.temper()
        tempered = self.tempered_row()
        mix_three(self.anchor_row(), self.final[0], self.mixed, self.final[1], tempered, self.final[2], out, m)
        by = self.trust(self.best)
        if by < 1:
            shrink(out, by, self.fallback(), m)
        if receipt != NULL:
            to_single(self.anchor_row(), receipt, m)
            to_single(self.mixed, receipt + m, m)
            to_single(tempered, receipt + 2 * m, m)

    cdef void observe(self) noexcept nogil:
        """The row at hand went by: column sums of the confident rows, EM counts, the guards' counts."""
        cdef Py_ssize_t i, m = self.m
        cdef Base *base
        for i in range(self.n_bases):
            base = &self.bases[i]
            if base.can >= 0 and not base.uncertain:
                decay_add(base.S, self.g, base.r, m)
            if base.Q != NULL:
                decay_add(base.Q, EM_DECAY, base.r, m)
                base.Q[m] = EM_DECAY * base.Q[m] + 1
        if self.guarded or self.shares:
            decay_add(self.mean, self.g, self.p, m)
            self.mean[m] = self.g * self.mean[m] + 1
            self.stale = True
        if self.guarded:
            decay(self.predicted, self.g, m)
            self.predicted[self.best] += 1
            decay(self.labelled, self.g, m + 1)
        self.counts[0] += 1

    cdef void sum_up(self, double *sums) noexcept nogil:
        """What observing the row at hand adds, into sums as :mod:`stream_can.method.sums` has them."""
        cdef Py_ssize_t i, m = self.m, width = self.m + 1
        cdef Base *base
        if self.guarded or self.shares:
            decay_add(sums, self.g, self.p, m)
            sums[m] = self.g * sums[m] + 1
        sums += width
        if self.guarded:
            decay(sums, self.g, m)
            sums[self.best] += 1
        sums[m] += 1
        for i in range(self.n_bases):
            base = &self.bases[i]
            if base.can >= 0:
                sums += width
                if not base.uncertain:
                    decay_add(sums, self.g, base.r, m)
                    sums[m] += 1
        if self.fitted != NULL and self.fitted.Q != NULL:
            sums += width
            decay_add(sums, EM_DECAY, self.fitted.r, m)
            sums[m] = EM_DECAY * sums[m] + 1

    # ---- a label

    cdef void hear(self, Py_ssize_t y) noexcept nogil:
        """A label of this class has come: from now on it is heard, and takes part."""
        cdef Py_ssize_t i, n = 0
        if self.heard[y] == 1 or not self.guarded:
            return
        self.heard[y] = 1
        self.n_unheard -= 1
        for i in range(self.n_silent):
            if self.silent[i] != y:
                self.silent[n] = self.silent[i]
                n += 1
        self.n_silent = n

    cdef void find_silent(self) noexcept nogil:
        """Classes of which no label has ever come, though rows predicted as them should have had some."""
        cdef Py_ssize_t k
        cdef double expected, n = self.labelled[self.m], N = self.mean[self.m]
        self.n_silent = 0
        if self.n_unheard == 0:
            return
        for k in range(self.m):
            if self.heard[k] == 1:
                continue
            expected = n * self.predicted[k] / N if N > 0 else 0.0
            self.heard[k] = -1 if self.labelled[k] < expected - sqrt(expected) else 0
            if self.heard[k] == -1:
                self.silent[self.n_silent] = k
                self.n_silent += 1

    cdef void mask(self, double *r) noexcept nogil:
        """Silent classes take no part: their entries are 0, the others sum to 1 unless all are 0."""
        cdef Py_ssize_t i
        cdef double total
        for i in range(self.n_silent):
            r[self.silent[i]] = 0
        total = sum_of(r, self.m)
        if total > 0:
            for i in range(self.m):
                r[i] /= total  # not times 1 / total: that of a denormal number is infinite

    cdef void judge(self, Py_ssize_t y, const float *receipt, Py_ssize_t stride) noexcept nogil:
        """What was sent, or would be now: its log loss, the odds of what it is mixed from, its temperature."""
        cdef Py_ssize_t i
        cdef double by = self.trust(self.best), sent, below
        cdef double three[3]
        self.labelled[self.best] += 1
        self.labelled[self.m] += 1
        self.hear(y)
        self.agreement[0 if y == self.best else 1] += 1
        self.agreement[2] += self.p[self.best]
        self.find_silent()
        if self.n_silent > 0:
            for i in range(self.n_bases):
                self.mask(self.bases[i].r)
                if self.bases[i].uncertain:
                    self.mask(self.bases[i].normalised)
        self.mix(self.mixed)
        self.temper()
        if self.n_silent > 0:
            self.mask(self.last.r)
        if receipt == NULL or not (receipt[0] >= 0 and receipt[stride] >= 0 and receipt[2 * stride] >= 0):  # NaN: not known
            three[0], three[1], three[2] = self.anchor_row()[y], self.mixed[y], self.tempered_row()[y]
        else:
            three[0], three[1], three[2] = receipt[0], receipt[stride], receipt[2 * stride]
        sent = self.final[0] * three[0] + self.final[1] * three[1] + self.final[2] * three[2]
        if by < 1:
            sent = by * sent + (1 - by) * self.fallback()[y]
        self.note_loss(sent, y)
        below = max(three[0], LIKELIHOOD_FLOOR)
        for i in range(2):
            self.odds[i] = self.g * self.odds[i] + log(max(three[i + 1], LIKELIHOOD_FLOOR) / below)
        self.weigh_final()
        self.step_scalar(&self.last, self.xo, y, CURVATURE_B)

    cdef void note_loss(self, double sent, Py_ssize_t y) noexcept nogil:
        self.recent[0] = self.g * self.recent[0] - log(max(self.p[y], LIKELIHOOD_FLOOR))
        self.recent[1] = self.g * self.recent[1] - log(max(sent, LIKELIHOOD_FLOOR))
        self.recent[2] = self.g * self.recent[2] + 1

    cdef void learn_label(self, Py_ssize_t y) noexcept nogil:
        """The prior's share of a label."""
        decay(self.labels, self.g, self.m)
        self.labels[y] += 1
        self.counts[1] += 1
        self.refresh_prior()

    cdef void reweigh(self, Py_ssize_t y) noexcept nogil:
        """Bayes' rule over the paths, with a share 1 / (n + 2) back to where they began."""
        cdef Py_ssize_t i
        cdef Base *base
        cdef double total, share, likelihood
        self.counts[2] += 1
        if self.n_paths == 1:
            self.weights[0] = 1
            return
        for i in range(self.n_bases):
            base = &self.bases[i]
            if base.path >= 0:
                self.weights[base.path] *= max(base.r[y], LIKELIHOOD_FLOOR)
            if base.can >= 0:
                likelihood = base.normalised[y] if base.uncertain else base.r[y]
                self.weights[base.can] *= max(likelihood, LIKELIHOOD_FLOOR)
        share = 1.0 / (self.counts[2] + 2)
        total = sum_of(self.weights, self.n_paths)
        for i in range(self.n_paths):
            self.weights[i] = (1 - share) * (self.weights[i] / total) + share * self.start_weights[i]

    cdef void step_scalar(self, Base *base, const double *x, Py_ssize_t y, double curvature) noexcept nogil:
        """A Newton step of log b on the log loss of base.r, a row at that temperature."""
        cdef double E, E2, log_b = base.u[0], b = exp(log_b)
        moments(base.r, x, &E, &E2, self.m)
        base.K[0] = self.g * base.K[0] + b * b * (E2 - E * E)
        log_b -= (b * (E - x[y]) + (1 - self.g) * curvature * log_b) / max(base.K[0] + curvature + 1e-9, curvature / 2)
        base.u[0] = -2 if log_b < -2 else 2 if log_b > 2 else log_b

    cdef void step_three(self, Base *base, Py_ssize_t y) noexcept nogil:
        """A Newton step of log b, t1 and t2 together."""
        cdef Py_ssize_t i
        cdef double b = exp(base.u[0]), pull = 1 - self.g
        cdef double E[3]
        cdef double V[6]
        cdef double step[3]
        moments_of_three(base.r, self.x, self.f1, self.f2, E, V, self.m)
        base.K[0] = self.g * base.K[0] + b * b * (V[0] - E[0] * E[0])
        base.K[1] = self.g * base.K[1] + b * (V[1] - E[0] * E[1])
        base.K[2] = self.g * base.K[2] + b * (V[2] - E[0] * E[2])
        base.K[3] = self.g * base.K[3] + (V[3] - E[1] * E[1])
        base.K[4] = self.g * base.K[4] + (V[4] - E[1] * E[2])
        base.K[5] = self.g * base.K[5] + (V[5] - E[2] * E[2])
        step[0] = b * (E[0] - self.x[y]) + pull * self.curvature_b * base.u[0]
        step[1] = (E[1] - self.f1[y]) + pull * CURVATURE_T * base.u[1]
        step[2] = (E[2] - self.f2[y]) + pull * CURVATURE_T * base.u[2]
        solve_three(base.K, self.curvature_b + 1e-9, CURVATURE_T + 1e-9, step)
        base.u[0] = min(max(base.u[0] - step[0], -2.0), 2.0)
        for i in range(1, 3):
            base.u[i] = min(max(base.u[i] - step[i], -LARGEST_T), LARGEST_T)

    cdef void step(self, Base *base, Py_ssize_t y) noexcept nogil:
        """One Newton step of a base on the log loss of the row at hand."""
        cdef Py_ssize_t i, j, row, m = self.m
        if base.shares:
            self.step_three(base, y)
        else:
            self.step_scalar(base, self.x, y, self.curvature_b)
        if base.c == NULL:
            return
        memcpy(self.residual, base.r, m * sizeof(double))
        self.residual[y] -= 1
        step_offsets(base.c, base.H, self.residual, base.r, self.g, self.a, m)
        for i in range(self.n_silent):
            base.c[self.silent[i]] = 0
            base.H[self.silent[i]] = 0
        if base.A == NULL:
            return
        self.weigh_speakers(base.exponent)
        for j in range(self.n_top):
            row = self.speaker[j] * m
            step_row(base.A + row, base.G + row, self.residual, base.r, self.speak[j], self.g, self.a, m)
            for i in range(self.n_silent):
                base.A[row + self.silent[i]] = 0
                base.G[row + self.silent[i]] = 0

    cdef void learn_row(self, const double *p, Py_ssize_t y, const float *receipt, Py_ssize_t stride) noexcept nogil:
        """A label with its prediction; receipt[0], [stride], [2 stride] is what the three rows gave it, where known."""
        cdef Py_ssize_t i
        self.forward(p)
        if self.guarded:
            self.judge(y, receipt, stride)
        else:
            self.mix(self.mixed)
            self.note_loss(receipt[0] if receipt != NULL and receipt[0] >= 0 and receipt[stride] >= 0 and receipt[2 * stride] >= 0 else self.mixed[y], y)
        self.reweigh(y)
        for i in range(self.n_bases):
            if self.bases[i].learns:
                self.step(&self.bases[i], y)
        self.learn_label(y)

    # ---- many rows

    cdef int loop(self, const double *P, Py_ssize_t first, Py_ssize_t n, double *mixed, double *paths, bint observes,
                  double *sums, float *receipts, const long long *ys, const long long *rows, const long long *due,
                  const float *known, Py_ssize_t n_labels) except -1 nogil:
        """Each row from `first` on: forward, out to what is not NULL, observe or sum up; before it the labels that are due."""
        cdef Py_ssize_t i = 0, j, learned = 0, m = self.m, work = 0
        cdef Base *base
        while i < n or learned < n_labels:
            work += m + 10
            if work > WORK:  # so that Ctrl-C is heard
                work = 0
                with gil:
                    PyErr_CheckSignals()
            if learned < n_labels and (i == n or due[learned] <= i):
                j = rows[learned]
                if j < 0:
                    self.hear(ys[learned])
                    self.learn_label(ys[learned])
                elif j >= first and receipts != NULL:
                    self.learn_row(P + j * m, ys[learned], receipts + 3 * (j - first) * m + ys[learned], m)
                else:
                    self.learn_row(P + j * m, ys[learned], NULL if known == NULL else known + 3 * learned, 1)
                learned += 1
                continue
            self.forward(P + (first + i) * m)
            if mixed != NULL:
                self.send(mixed + i * m, NULL if receipts == NULL else receipts + 3 * i * m)
            if paths != NULL:
                for j in range(self.n_bases):
                    base = &self.bases[j]
                    if base.path >= 0:
                        memcpy(paths + (base.path * n + i) * m, base.r, m * sizeof(double))
                    if base.can >= 0:
                        memcpy(paths + (base.can * n + i) * m, base.normalised if base.uncertain else base.r, m * sizeof(double))
            if observes:
                self.observe()
            if sums != NULL:
                self.sum_up(sums)
            i += 1
        return 0

    def rows(self, P, int ndim, Mode mode, bint receipt=False):
        """Run rows, shape (m,) or (n, m), through `mode`; a new array, (n_paths, n, m) for EXPLAIN.

        With `receipt` a second array, shape (3, m) or (n, 3, m), float32.
        """
        self.lock.acquire()
        try:
            if self.successor is None:
                return self.run_rows(P, ndim, mode, receipt)
        finally:
            self.lock.release()
        return self.successor.rows(P, ndim, mode, receipt)

    cdef run_rows(self, P, int ndim, Mode mode, bint receipt):
        cdef Py_buffer view
        cdef Py_ssize_t n
        cdef double *out = NULL
        cdef float *receipts = NULL
        P = open_rows(P, ndim, self.m, &view, self.index)
        n = view.len // (8 * self.m)
        try:
            result = None
            if mode != OBSERVE:
                result = np.empty((self.n_paths, *P.shape) if mode == EXPLAIN else P.shape)
                out = memory(result)
            if receipt:
                kept = np.empty((*P.shape[:ndim - 1], 3, self.m), np.float32)
                receipts = memory32(kept)
            self.run(<const double *>view.buf, 0, n, NULL if mode == EXPLAIN else out, out if mode == EXPLAIN else NULL,
                     mode == PROCESS or mode == OBSERVE, NULL, receipts, NULL, NULL, NULL, NULL, 0)
        finally:
            PyBuffer_Release(&view)
        return (result, kept) if receipt else result

    def play(self, P, Py_ssize_t first, const long long[::1] ys, const long long[::1] rows, const long long[::1] due,
             known, bint receipt, bint explain):
        """Process the rows of P from `first` on, learning on the way; see :meth:`stream_can.Corrector.play`."""
        self.lock.acquire()
        try:
            if self.successor is None:
                return self.run_play(P, first, ys, rows, due, known, receipt, explain)
        finally:
            self.lock.release()
        return self.successor.play(P, first, ys, rows, due, known, receipt, explain)

    cdef run_play(self, P, Py_ssize_t first, const long long[::1] ys, const long long[::1] rows, const long long[::1] due,
                  known, bint receipt, bint explain):
        cdef Py_buffer view
        cdef const float[:, ::1] three
        cdef Py_ssize_t i, n, k = ys.shape[0], before = 0
        P = open_rows(P, 2, self.m, &view, self.index)
        n = len(P) - first
        try:
            if not 0 <= first <= len(P) or rows.shape[0] != k or due.shape[0] != k:
                raise ValueError(f"{len(P)} rows from {first} on, {k} labels, {rows.shape[0]} rows of labels, {due.shape[0]} places")
            for i in range(k):
                if not (0 <= ys[i] < self.m and -1 <= rows[i] < first + due[i] and before <= due[i] <= n):
                    raise ValueError(f"label {i}: class {ys[i]} of row {rows[i]} before row {due[i]}: out of range")
                before = due[i]
            if known is not None:
                three = known
                if three.shape[0] != k or three.shape[1] != 3:
                    raise ValueError(f"known: shape ({three.shape[0]}, {three.shape[1]}), expected ({k}, 3)")
            mixed = np.empty((n, self.m))
            kept = np.empty((n, 3, self.m), np.float32) if receipt else None
            paths = np.empty((self.n_paths, n, self.m)) if explain else None
            self.run(<const double *>view.buf, first, n, memory(mixed), NULL if paths is None else memory(paths), True, NULL,
                     NULL if kept is None else memory32(kept), &ys[0] if k else NULL, &rows[0] if k else NULL,
                     &due[0] if k else NULL, &three[0, 0] if known is not None and k else NULL, k)
        finally:
            PyBuffer_Release(&view)
        return mixed, kept, paths

    cdef int run(self, const double *P, Py_ssize_t first, Py_ssize_t n, double *mixed, double *paths, bint observes,
                 double *sums, float *receipts, const long long *ys, const long long *rows, const long long *due, const float *known,
                 Py_ssize_t n_labels) except -1:
        """The loop; without the GIL where it is long enough to be worth it."""
        if n + n_labels <= 1:
            self.loop(P, first, n, mixed, paths, observes, sums, receipts, ys, rows, due, known, n_labels)
            return 0
        with nogil:
            self.loop(P, first, n, mixed, paths, observes, sums, receipts, ys, rows, due, known, n_labels)
        return 0

    def correct_and_sum(self, P, sums, bint receipt):
        """The corrected rows of P, shape (n, m), with `receipt` theirs too; what observing adds goes into `sums`."""
        self.lock.acquire()
        try:
            if self.successor is None:
                return self.run_sums(P, sums, receipt)
        finally:
            self.lock.release()
        return self.successor.correct_and_sum(P, sums, receipt)

    cdef run_sums(self, P, double[:, ::1] sums, bint receipt):
        cdef Py_buffer view
        P = open_rows(P, 2, self.m, &view, self.index)
        try:
            mixed = np.empty(P.shape)
            kept = np.empty((len(P), 3, self.m), np.float32) if receipt else None
            self.run(<const double *>view.buf, 0, len(P), memory(mixed), NULL, False, &sums[0, 0],
                     NULL if kept is None else memory32(kept), NULL, NULL, NULL, NULL, 0)
        finally:
            PyBuffer_Release(&view)
        return mixed if kept is None else (mixed, kept)

    def changed(self):
        """The arrays were changed from outside; whoever did holds the lock."""
        self.stale = True

    def learn_one(self, p, long long y, known):
        """One label, already an index; p is None where the prediction is gone; known is float32 (3,) or None."""
        self.lock.acquire()
        try:
            if self.successor is None:
                self.run_learn_one(p, y, known)
                return
        finally:
            self.lock.release()
        self.successor.learn_one(p, y, known)

    cdef run_learn_one(self, p, long long y, known):
        cdef Py_buffer view
        cdef const float[::1] three
        if p is None:
            self.hear(y)
            self.learn_label(y)
            return
        p = open_rows(p, 1, self.m, &view, self.index)
        try:
            if known is not None:
                three = known
            self.learn_row(<const double *>view.buf, y, NULL if known is None else &three[0], 1)
        finally:
            PyBuffer_Release(&view)

    def learn_many(self, P, const long long[::1] ys, known):
        """Labels, already indices, of the rows P, shape (n, m), or None; known is float32 (n, 3) or None."""
        k = ys.shape[0]
        due = np.zeros(k, np.int64)
        if P is None:
            self.play(np.empty((0, self.m)), 0, ys, due - 1, due, None, False, False)
            return
        P = as_float64(P, self.index)
        if P.ndim == 2 and len(P) != k:
            raise InvalidPrediction(f"{len(P)} predictions but {k} labels; give one label per row")
        self.play(P, k, ys, np.arange(k), due, known, False, False)


cdef void solve_three(const double *K, double lambda_b, double lambda_t, double *v) noexcept nogil:
    """v <- (K + diag(lambda_b, lambda_t, lambda_t))^-1 v by Cholesky's LDL^T; K as its upper triangle, row by row."""
    # The pivots are lambda at least; less is rounding in sums that were ever so large.
    cdef double a = max(K[0] + lambda_b, lambda_b / 2), d, f, l1 = K[1] / a, l2 = K[2] / a, l3
    d = max(K[3] + lambda_t - l1 * K[1], lambda_t / 2)
    l3 = (K[4] - l2 * K[1]) / d
    f = K[5] + lambda_t - l2 * K[2] - l3 * l3 * d
    f = max(f, lambda_t / 2)
    v[1] -= l1 * v[0]
    v[2] -= l2 * v[0] + l3 * v[1]
    v[2] /= f
    v[1] = v[1] / d - l3 * v[2]
    v[0] = v[0] / a - l1 * v[1] - l2 * v[2]
