# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The loop over rows of several labels: O(m) a row. The formulas are in docs/multilabel.md."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, sqrt
from libc.string cimport memcpy, memset

from stream_can.method.checks cimport memory, memory32
from stream_can.method.judging cimport one_sided, share_back, trusted
from stream_can.method.lock cimport Lock, a_fork_waits, enter_rows, leave_rows
from stream_can.method.newton cimport step_by
from stream_can.method.vectormath cimport add_weighed, decay_add, times, to_single, weigh

import numpy as np

cdef extern from "labels.h" nogil:
    void logits(const double *p, double floor, double *x, Py_ssize_t m)
    void mean_logits(const double *M, double N, const double *q, double evidence,
                     const double *f2, double *f1, Py_ssize_t m)
    void sigmoids(const double *x, double b, double *r, Py_ssize_t m)
    void platt(const double *x, const double *f1, const double *f2, const double *c,
               const double *s, const double *u, double b, double *r, Py_ssize_t m)
    void alternate(const double *r, double low, const double *L, const double *LN,
                   const double *train, double strength, double kappa, const double *S1,
                   const double *S0, double *out, Py_ssize_t m)
    void count_confident(const double *r, double low, double g, double *S1, double *S0,
                         Py_ssize_t m)
    double count_high(const double *p, Py_ssize_t m)
    void send(const double *a, double u, const double *b, double v, const double *p,
              const double *trust, const double *negatives, const double *against, double spare,
              double *out, Py_ssize_t m)
    double split(const signed char *y, double *known, double *yes, Py_ssize_t m)
    double log_given(const double *r, const double *known, const double *yes, double floor,
                     Py_ssize_t m)
    double gain_of(const float *anchor, const float *mixture, const double *known,
                   const double *yes, double floor, Py_ssize_t m)
    int says_all(const float *receipt, const double *known, Py_ssize_t m)
    void count_labels(const double *p, const double *known, const double *yes, double *negatives,
                      double *against, double *sums, Py_ssize_t m)
    void gather(const double *r, const double *known, const double *yes, const double *F, int n,
                double *d, double *v, double *gradient, double *curvature, double *sums,
                Py_ssize_t m)
    void step_labels(double *c, double *H, double *s, double *Hs, const double *d,
                     const double *v, const double *x, const double *f2, const double *known,
                     double g, double a, double a_s, Py_ssize_t m)
    void count_mix(double *L, double *LN, const double *known, const double *yes, double g,
                   Py_ssize_t m)
    Py_ssize_t first_outside(const double *p, Py_ssize_t n)
    void count_bins(const double *out, double weight, double *counts, double *sums,
                    Py_ssize_t bins, Py_ssize_t m)
    double half_of_best_f1(const double *counts, const double *sums, Py_ssize_t bins)
    void decide(const double *out, double threshold, unsigned char *yes, Py_ssize_t m)

cdef enum:
    PATHS = 3
    SHARED = 4          # log b, t0, t1, t2 of vector
    HALVED = 1000       # rows, after which the bins count half
    ANEW = 100          # rows, after which the threshold is found again; at first earlier
    BINS_ = 1024

BINS = BINS_

cdef Py_ssize_t WORK = 400_000          # labels of rows, between two looks for Ctrl-C
cdef double LIKELIHOOD_FLOOR = 1e-6     # what a row is given at least for a label
cdef double FLOOR = 1e-4                # how near to 0 or 1 a p is taken at its word
cdef double LOW = 0.31601934632360756   # two classes (LOW, 1 - LOW) have 0.9 bits
cdef double EVIDENCE = 20.0             # rows that the training share weighs in f1
cdef double STRENGTH_ = 20.0            # labels that it weighs in q: s, and kappa
cdef double SPARE = 5.0                 # of evidence, before what does not come back is a choice
cdef double DEPENDENT = 10.0            # how firmly D is held at sqrt(K)
cdef double OFFSET = 5.0                # a and a_s: how firmly c and s are held at 0
cdef double SLOPE = 20.0
cdef double[1] OF_B = [10.0]            # the prior of log b, and where it is clipped
cdef double[1] MOST_B = [2.0]
cdef double[4] OF_SHARED = [10.0, 3.0, 3.0, 3.0]
cdef double[4] MOST_SHARED = [2.0, 5.0, 5.0, 5.0]
cdef double[3] START = [0.998, 0.001, 0.001]    # w0 of temperature, vector, vector+can

STRENGTH = STRENGTH_
PRECISIONS = {"temperature": tuple(OF_B), "vector": tuple(OF_SHARED), "c": OFFSET, "s": SLOPE}


cdef struct Numbers:    # doubles alone: NUMBERS names them
    double rows         # N
    double sides[2]     # N_side of p < 0.5 and p >= 0.5, n_side
    double known_sides[2]
    double squares      # the sums of G^2 and of C
    double spread
    double negatives    # known labels, and what rows said against and for them
    double positives
    double against
    double favour
    double n_predictions
    double n_labels
    double n_learned    # those that came with their rows
    double temperature[1]   # u, then its curvature
    double temperature_Q[1]
    double vector[4]
    double vector_Q[10]
    double weights[3]   # w
    double odds         # G
    double threshold    # of decisions


NUMBERS = {
    "rows": 1, "sides": 2, "known_sides": 2, "squares": 1, "spread": 1, "negatives": 1,
    "positives": 1, "against": 1, "favour": 1, "n_predictions": 1, "n_labels": 1, "n_learned": 1,
    "temperature": 1, "temperature_Q": 1, "vector": 4, "vector_Q": 10, "weights": 3, "odds": 1,
    "threshold": 1,
}
assert sum(NUMBERS.values()) * sizeof(double) == sizeof(Numbers)

OF_LABELS = ("M", "c", "H", "s", "H_s", "L", "L_N", "S1", "S0", "negatives", "against")


cdef struct Labels:     # of each label, see OF_LABELS
    double *M
    double *c
    double *H
    double *s
    double *Hs
    double *L
    double *LN
    double *S1
    double *S0
    double *negatives
    double *against


cdef struct Job:        # of one call
    const double *P     # rows that went by before, then n to process
    Py_ssize_t first
    Py_ssize_t n
    bint observes
    double *out         # (n, m) and (n, 2 m); NULL where not wanted
    float *receipts
    unsigned char *yes  # (n, m)
    Py_ssize_t n_labels
    const signed char *Y    # (n_labels, m)
    const long long *rows   # which row of P each belongs to, -1 for none
    const long long *due    # before which of the n rows it is learned
    const float *known      # their receipts, NaN where they do not say; NULL for none
    Py_ssize_t at           # rows and labels that are done
    Py_ssize_t label


@cython.final
cdef class Model:
    """The state of m labels; calls on it run one at a time.

    Parameters
    ----------
    q_train
        Share of training rows with each label, shape (m,), in (0, 1).
    half_life
        In events.
    """

    cdef readonly Py_ssize_t m
    cdef Lock lock
    cdef double g
    cdef Numbers of
    cdef Labels labels
    cdef double[:, ::1] of_labels, work, bins
    cdef double[::1] train, f2
    cdef double *x
    cdef double *F
    cdef double *r[3]
    cdef double *mixed
    cdef double *out
    cdef double *known
    cdef double *yes
    cdef double *d
    cdef double *v

    def __cinit__(self, const double[::1] q_train, double half_life):
        cdef int i
        cdef double **into
        self.lock = Lock()
        self.m, self.g = q_train.shape[0], 2.0 ** (-1.0 / half_life)
        self.of_labels = np.zeros((len(OF_LABELS), self.m))
        self.bins = np.zeros((2, BINS))
        self.train = np.array(q_train)
        self.f2 = np.log(self.train.base) - np.log1p(-self.train.base)
        into = <double **>&self.labels
        for i in range(<int>(sizeof(Labels) // sizeof(double *))):
            into[i] = &self.of_labels[i, 0]
        self.work = np.zeros((13, self.m))
        self.x, self.F = &self.work[0, 0], &self.work[0, 0]     # b x, 1, f1, f2 are features
        for i in range(PATHS):
            self.r[i] = &self.work[4 + i, 0]
            self.of.weights[i] = START[i]
        self.of.threshold = 0.5
        self.mixed, self.out = &self.work[7, 0], &self.work[8, 0]
        self.known, self.yes = &self.work[9, 0], &self.work[10, 0]
        self.d, self.v = &self.work[11, 0], &self.work[12, 0]
        self.work.base[1] = 1
        self.work.base[3] = self.f2.base

    # No Python below here.

    cdef inline double *f1(self) noexcept nogil:
        return self.F + 2 * self.m

    cdef void evaluate(self, const double *p) noexcept nogil:
        """Compute the three paths and their mixture."""
        cdef Py_ssize_t m = self.m
        cdef Numbers *of = &self.of
        cdef Labels *k = &self.labels
        logits(p, FLOOR, self.x, m)
        mean_logits(k.M, of.rows, &self.train[0], EVIDENCE, &self.f2[0], self.f1(), m)
        sigmoids(self.x, exp(of.temperature[0]), self.r[0], m)
        platt(self.x, self.f1(), &self.f2[0], k.c, k.s, of.vector, exp(of.vector[0]),
              self.r[1], m)
        alternate(self.r[1], LOW, k.L, k.LN, &self.train[0], STRENGTH_, STRENGTH_, k.S1, k.S0,
                  self.r[2], m)
        weigh(self.r[0], of.weights[0], self.mixed, m)
        add_weighed(self.r[1], of.weights[1], self.mixed, m)
        add_weighed(self.r[2], of.weights[2], self.mixed, m)

    cdef double of_mixture(self) noexcept nogil:
        """Final weight of the mixture; the anchor has the rest."""
        return 1 / (1 + exp(-self.of.odds))

    cdef void trust(self, double *by) noexcept nogil:
        """Compute lambda for p < 0.5 and p >= 0.5, except for labels without known negatives."""
        cdef Numbers *of = &self.of
        cdef double N = of.sides[0] + of.sides[1], n = of.known_sides[0] + of.known_sides[1]
        cdef int i
        for i in range(2):
            by[i] = trusted(of.known_sides[i], n * of.sides[i] / N) if N > 0 else 1.0
            if one_sided(of.negatives, of.against, of.positives, of.favour, SPARE):
                by[i] = 0

    cdef void take_row(self, Job *job) noexcept nogil:
        cdef Py_ssize_t m = self.m
        cdef const double *p = job.P + (job.first + job.at) * m
        cdef double share = self.of_mixture()
        cdef double by[2]
        cdef double *out = self.out if job.out == NULL else job.out + job.at * m
        cdef Labels *k = &self.labels
        self.evaluate(p)
        self.trust(by)
        send(self.r[0], 1 - share, self.mixed, share, p, by, k.negatives, k.against, SPARE, out, m)
        if job.yes != NULL:
            decide(out, self.of.threshold, job.yes + job.at * m, m)
        if job.receipts != NULL:
            to_single(self.r[0], job.receipts + 2 * job.at * m, m)
            to_single(self.mixed, job.receipts + (2 * job.at + 1) * m, m)
        if job.observes:
            self.observe(p, out)
        job.at += 1

    cdef void observe(self, const double *p, const double *out) noexcept nogil:
        """Observe the row."""
        cdef Numbers *of = &self.of
        cdef Labels *k = &self.labels
        cdef double g = self.g, high = count_high(p, self.m)
        cdef Py_ssize_t i
        cdef long long n
        count_confident(self.r[1], LOW, g, k.S1, k.S0, self.m)
        decay_add(k.M, g, p, self.m)
        of.rows = g * of.rows + 1
        of.sides[0] = g * of.sides[0] + (self.m - high)
        of.sides[1] = g * of.sides[1] + high
        of.known_sides[0] *= g
        of.known_sides[1] *= g
        of.n_predictions += 1
        count_bins(out, 1, &self.bins[0, 0], &self.bins[1, 0], BINS_, self.m)
        n = <long long>of.n_predictions
        if n % ANEW == 0 or (n < ANEW and n & (n - 1) == 0):
            of.threshold = half_of_best_f1(&self.bins[0, 0], &self.bins[1, 0], BINS_)
        if n % HALVED == 0:
            for i in range(BINS_):
                self.bins[0, i] *= 0.5
                self.bins[1, i] *= 0.5

    cdef void take_label(self, Job *job) noexcept nogil:
        cdef Py_ssize_t m = self.m, row = job.rows[job.label] if job.rows != NULL else -1
        cdef const float *receipt = NULL
        cdef double K = split(job.Y + job.label * m, self.known, self.yes, m)
        if K > 0:
            if row >= 0:
                if row >= job.first and job.receipts != NULL:
                    receipt = job.receipts + 2 * (row - job.first) * m
                elif job.known != NULL:
                    receipt = job.known + 2 * job.label * m
                self.learn_row(job.P + row * m, receipt, K)
            count_mix(self.labels.L, self.labels.LN, self.known, self.yes, self.g, m)
            self.of.n_labels += 1
        job.label += 1

    cdef void learn_row(self, const double *p, const float *receipt, double K) noexcept nogil:
        """Learn K known labels of a row, and what it was mixed from or NULL."""
        cdef Py_ssize_t m = self.m
        cdef Numbers *of = &self.of
        cdef Labels *k = &self.labels
        cdef double D, most, total = 0, gain
        cdef double gave[3]
        cdef double sums[5]
        cdef double gradient[4]
        cdef double curvature[10]
        cdef int i
        self.evaluate(p)
        count_labels(p, self.known, self.yes, k.negatives, k.against, sums, m)
        of.negatives += sums[0] - sums[1]
        of.positives += sums[1]
        of.favour += sums[2]
        of.against += sums[3]
        of.known_sides[0] += K - sums[4]
        of.known_sides[1] += sums[4]
        D = max(1.0, (DEPENDENT * sqrt(K) + of.squares) / (DEPENDENT + of.spread))

        for i in range(PATHS):
            gave[i] = log_given(self.r[i], self.known, self.yes, LIKELIHOOD_FLOOR, m)
        if receipt != NULL and says_all(receipt, self.known, m):
            gain = gain_of(receipt, receipt + m, self.known, self.yes, LIKELIHOOD_FLOOR, m)
        else:
            gain = log_given(self.mixed, self.known, self.yes, LIKELIHOOD_FLOOR, m) - gave[0]
        of.odds = self.g * of.odds + gain / D
        most = max(gave[0], gave[1], gave[2])
        for i in range(PATHS):
            of.weights[i] *= exp((gave[i] - most) / D)
            total += of.weights[i]
        of.n_learned += 1
        share_back(of.weights, total, 1 / (of.n_learned + 2), START, PATHS)

        times(self.x, exp(of.temperature[0]), self.out, m)
        gather(self.r[0], self.known, self.yes, self.out, 1, self.d, self.v, gradient, curvature,
               sums, m)
        self.step(of.temperature, of.temperature_Q, 1, gradient, curvature, D, OF_B, MOST_B)
        of.squares = self.g * of.squares + sums[0] * sums[0]
        of.spread = self.g * of.spread + sums[1]
        memcpy(self.out, self.x, m * sizeof(double))
        times(self.out, exp(of.vector[0]), self.x, m)
        gather(self.r[1], self.known, self.yes, self.F, SHARED, self.d, self.v, gradient,
               curvature, sums, m)
        self.step(of.vector, of.vector_Q, SHARED, gradient, curvature, D, OF_SHARED, MOST_SHARED)
        step_labels(k.c, k.H, k.s, k.Hs, self.d, self.v, self.out, &self.f2[0], self.known, self.g,
                    OFFSET, SLOPE, m)

    cdef void step(self, double *u, double *Q, int n, double *gradient, const double *curvature,
                   double D, const double *precision, const double *limit) noexcept nogil:
        """Take a Newton step of n shared numbers, with a prior of D times `precision`."""
        cdef double left[16]
        cdef int i, j, at = 0
        for i in range(n):
            gradient[i] += (1 - self.g) * D * precision[i] * u[i]
            for j in range(i, n):
                Q[at] = self.g * Q[at] + curvature[at]
                left[i * n + j] = left[j * n + i] = Q[at]
                at += 1
            left[i * n + i] += D * precision[i] + 1e-9
        step_by(u, gradient, left, n, limit, n)

    cdef Py_ssize_t go_on(self, Job *job, Py_ssize_t steps) noexcept nogil:
        """Process rows and labels in order, while no fork waits."""
        while steps > 0 and not a_fork_waits():
            if job.label < job.n_labels and (job.due == NULL or job.due[job.label] <= job.at):
                self.take_label(job)
            elif job.at < job.n:
                self.take_row(job)
            else:
                break
            steps -= 1
        return 0

    cdef int run(self, Job *job) except -1:
        """Run the whole job in parts; between two of them handlers find a consistent state."""
        cdef Py_ssize_t steps = max(<Py_ssize_t>1, WORK // self.m)
        if job.n + job.n_labels == 1 and self.m < 1000:
            if job.n == 1:
                self.take_row(job)
            else:
                self.take_label(job)
            return 0
        while job.at < job.n or job.label < job.n_labels:
            with nogil:
                enter_rows()
                self.go_on(job, steps)
                leave_rows()
            if job.at < job.n or job.label < job.n_labels:
                PyErr_CheckSignals()
        return 0

    # ---- the calls

    def play(self, P, Py_ssize_t first, Y, rows, due, known, bint observes, bint sends,
             bint receipt, bint decides=False):
        """Process the rows of P from `first` on and learn labels between them.

        Arguments are checked, C-contiguous and owned: P float64 (first + n, m) or None, Y int8 (k,
        m) or None, rows and due int64 (k,) or None, known float32 (k, 2 m) or None. Returns the
        sent rows, (n, m), receipts, float32 (n, 2 m), and decisions, uint8 (n, m), as requested.
        """
        cdef Job job
        cdef const signed char[:, ::1] labels
        cdef const double[:, ::1] given
        cdef const float[:, ::1] receipts
        cdef const long long[::1] of_rows, of_due
        memset(&job, 0, sizeof(Job))
        job.first, job.observes = first, observes
        cdef unsigned char[:, ::1] decisions
        out = kept = yes = None
        if P is not None and len(P):
            given = P
            job.P, job.n = &given[0, 0], given.shape[0] - first
        if Y is not None and len(Y):
            labels = Y
            job.Y, job.n_labels = &labels[0, 0], labels.shape[0]
            if rows is not None:
                of_rows = rows
                job.rows = &of_rows[0]
            if due is not None:
                of_due = due
                job.due = &of_due[0]
            if known is not None:
                receipts = known
                job.known = &receipts[0, 0]
        if sends:
            out = np.empty((job.n, self.m))
            job.out = memory(out)
        if receipt:
            kept = np.empty((job.n, 2 * self.m), np.float32)
            job.receipts = memory32(kept)
        if decides:
            yes = np.empty((job.n, self.m), np.uint8)
            if job.n > 0:
                decisions = yes
                job.yes = &decisions[0, 0]
        self.lock.acquire(observes or job.n_labels > 0)
        try:
            self.run(&job)
        finally:
            self.lock.release()
        return out, kept, yes

    # ---- the state

    @property
    def n_predictions(self):
        """Number of rows observed, also during a call."""
        return <long long>self.of.n_predictions

    @property
    def n_labels(self):
        """Number of rows of labels learned, also during a call."""
        return <long long>self.of.n_labels

    def dump(self):
        """A copy of the state between two rows, {name: array}."""
        cdef double[::1] numbers = np.empty(sizeof(Numbers) // sizeof(double))
        self.lock.acquire(False)
        memcpy(&numbers[0], &self.of, sizeof(Numbers))
        labels, bins = self.of_labels.base.copy(), self.bins.base.copy()
        self.lock.release()
        return {"numbers": numbers.base, "labels": labels, "bins": bins}

    def load(self, dict arrays):
        """Load a checked :meth:`dump` into a new object."""
        cdef const double[::1] numbers = arrays["numbers"]
        memcpy(&self.of, &numbers[0], sizeof(Numbers))
        self.of_labels.base[...] = arrays["labels"]
        self.bins.base[...] = arrays["bins"]


def outside(const double[:, ::1] P):
    """The first entry of rows, (row, column), that is no probability; None without one."""
    cdef Py_ssize_t at, m = P.shape[1]
    if P.shape[0] == 0 or m == 0:
        return None
    with nogil:
        at = first_outside(&P[0, 0], P.shape[0] * m)
    return None if at < 0 else (at // m, at % m)
