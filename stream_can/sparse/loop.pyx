# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The loop over rows of the k likeliest classes: O(k) per row, however many classes there are.

docs/method.md has the formulas, docs/sparse.md the differences. A class has a cell of 64 bytes, and
a block of 192 if it was among the five largest of a labelled row.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, log, sqrt
from libc.stdint cimport int64_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from stream_can.method.judging cimport one_sided, share_back, trusted
from stream_can.method.lock cimport Lock, a_fork_waits, enter_rows, leave_rows
from stream_can.method.newton cimport newton
from stream_can.method.uncertain cimport uncertainty_of
from stream_can.method.vectormath cimport *

import numpy as np

from stream_can.method.bases import MOST_C, MOST_LOG_B, MOST_T
from stream_can.method.rows import TOLERANCE
from stream_can.method.uncertain import UNCERTAINTIES

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define FETCH(p) __builtin_prefetch(p)
    #else
    #define FETCH(p)
    #endif
    """
    void fetch "FETCH"(const void *p) nogil

cdef enum:
    MOST = 128          # classes that a row may list
    WIDTH = 136         # and the rest
    TOP = 5             # of them speak in the matrix base
    PARTNERS = 15
    FRONT = 5
    PATHS = 4
    SENT = 3            # rows that what is sent is mixed from
    TAILS = 3
    PAGE = 4096         # blocks that are allocated together
    HASHED = 512        # a power of 2
    BITS = 9            # that power
    TOPK_ENTROPY = 0

MOST_LISTED = MOST
assert UNCERTAINTIES[TOPK_ENTROPY] == "topk_entropy"

cdef Py_ssize_t WORK = 400_000          # of rows times their length, between two looks for Ctrl-C
cdef double LIKELIHOOD_FLOOR = 1e-6     # what a row is given at least for the label
cdef double FLOOR_MASS = 0.01           # what the floors of all classes hold together at the most
cdef double PRECISION = 2.0             # a: how firmly c and A are held at 0
cdef double THRESHOLD = 0.9             # of CAN
cdef double SPARE = 5.0                 # of evidence, before what does not come back is a choice
cdef double LARGEST_C = MOST_C
cdef double TRAINED = 10.0              # labels that the training set weighs in the third tail
cdef double NOTHING = 1e-30             # a sum that has decayed so far is 0
cdef double most_sum = 1 + TOLERANCE
cdef double MOST_OF_REST = 50   # so many classes the rest is to temperature, at most
cdef double[4] PRECISIONS = [10.0, 3.0, 3.0, 1.0]   # Lambda of log b, t1, t2, e
cdef double[4] LIMITS = [MOST_LOG_B, MOST_T, MOST_T, 8.0]
cdef double[2] LAST_PRECISIONS = [10.0, 1.0]        # of log b and e
cdef double[2] LAST_LIMITS = [MOST_LOG_B, 8.0]
cdef double[3] PRIOR = [0.5, 0.25, 0.25]            # pi of the rows that are sent
cdef double[4] START = [0.997, 0.001, 0.001, 0.001]     # w0 of the paths


cpdef enum Fault:       # what is wrong with a row
    NONE
    EMPTY
    LONG
    GAP
    RANGE
    TWICE
    NEGATIVE
    PAD
    MASS
    ZERO


cdef struct Cell:       # of a class; sums are stored times a scale that grows as they decay
    float M             # what rows gave it,
    float N             # how many rows were predicted as it, and how many of these have labels
    float n
    float L             # labels; those that came unlisted
    float O
    float S             # what confident rows gave it
    float trained       # log of its training rows + 1
    float c[2]          # offsets of vector and of matrix, and their curvature, as at `stamp`
    float H[2]
    uint32_t heard
    int64_t stamp       # how many labelled rows had been learned
    int block           # its number, from 1 on; 0 without one
    int unused


cdef struct Block:      # what a class says of others where it is among the largest
    int owner
    int partner[PARTNERS]       # id + 1, 0 where there is none
    float A[PARTNERS + 1]       # the last is that of the rest
    float G[PARTNERS + 1]


cdef struct Numbers:    # of the state, but for cells and blocks; doubles alone: NUMBERS names them
    double rows         # N, n, N_R, n_R
    double labelled
    double rest
    double rest_labelled
    double labels       # the sums of L, O and S
    double outside
    double confident
    double agree        # over all labelled rows
    double differ
    double sure
    double unlisted
    double missing
    double n_predictions
    double n_labels
    double rest_silent
    double scale        # of M, N, n; then of L, O, S
    double scale_labels
    double scale_outside
    double scale_confident
    double untrained    # log(m q_train) of a class without training rows
    double weights[4]   # w
    double odds[3]      # G
    double tails[3]     # V
    double temperature[1]   # u, then its curvature
    double temperature_Q[1]
    double last[2]
    double last_Q[3]
    double vector[4]
    double vector_Q[10]
    double matrix[4]
    double matrix_Q[10]


NUMBERS = {
    "rows": 1, "labelled": 1, "rest": 1, "rest_labelled": 1, "labels": 1, "outside": 1,
    "confident": 1, "agree": 1, "differ": 1, "sure": 1, "unlisted": 1, "missing": 1,
    "n_predictions": 1, "n_labels": 1, "rest_silent": 1, "scale": 1, "scale_labels": 1,
    "scale_outside": 1, "scale_confident": 1, "untrained": 1, "weights": 4, "odds": 3, "tails": 3,
    "temperature": 1, "temperature_Q": 1, "last": 2, "last_Q": 3, "vector": 4, "vector_Q": 10,
    "matrix": 4, "matrix_Q": 10,
}
assert sum(NUMBERS.values()) * sizeof(double) == sizeof(Numbers)
assert sizeof(Cell) == 64 and sizeof(Block) == 192


# ---- which of the classes of a row a class is

cdef struct Table:
    int ids[HASHED]     # id + 1, 0 where free
    short places[HASHED]


cdef inline uint32_t hashed(int i) noexcept nogil:
    return (<uint32_t>i * <uint32_t>2654435761u) >> (32 - BITS)


cdef inline bint insert(Table *table, int i, int place) noexcept nogil:
    """Insert a class; return False if it is there already."""
    cdef uint32_t at = hashed(i)
    while table.ids[at] != 0:
        if table.ids[at] == i + 1:
            return False
        at = (at + 1) & (HASHED - 1)
    table.ids[at], table.places[at] = i + 1, <short>place
    return True


cdef inline int place_of(const Table *table, int i) noexcept nogil:
    """Position of a class, -1 if it is not listed."""
    cdef uint32_t at = hashed(i)
    while table.ids[at] != 0:
        if table.ids[at] == i + 1:
            return table.places[at]
        at = (at + 1) & (HASHED - 1)
    return -1


cdef void clear(Table *table, const int *ids, int k) noexcept nogil:
    """Remove k inserted classes."""
    cdef uint32_t at
    cdef int i
    if k > 32:
        memset(table.ids, 0, sizeof(table.ids))
        return
    for i in range(k):
        at = hashed(ids[i])
        while table.ids[at] != 0:
            table.ids[at] = 0
            at = (at + 1) & (HASHED - 1)


# ---- the row at hand

cdef struct Row:
    int k
    int width           # k, and the rest where there are more classes
    long long n_rest
    const int *ids
    double p[WIDTH]     # behind the k classes comes the rest, in all of these
    double x[WIDTH]
    double x_rest       # x of the rest as temperature takes it: of at most MOST_OF_REST classes
    double log_few      # logarithm of their number
    double y[WIDTH]     # x - f2
    double f1[WIDTH]    # f1 - f2 of the method
    double f2[WIDTH]
    double share[WIDTH]     # m q_train
    double q[WIDTH]
    double S[WIDTH]
    double work[WIDTH]
    double c[2][WIDTH]
    double H[2][WIDTH]
    double r[PATHS][WIDTH]
    double mixed[WIDTH]
    double xo[WIDTH]
    double tempered[WIDTH]
    Cell *cells[WIDTH]
    bint silent[WIDTH]
    bint any_silent
    bint uncertain
    int n_top
    int speaker[TOP]    # J, as places in the row; the first is the likeliest class
    double speak[TOP]
    Block *blocks[TOP]
    int places[TOP][PARTNERS]
    double F[4 * WIDTH]
    double steps[20 + WIDTH]


cdef struct Job:        # of one call
    const int *ids      # (n, width), -1 where there is none
    const double *P
    const int *ks
    Py_ssize_t n
    Py_ssize_t width
    bint observes
    int *sent_ids       # (n, room)
    double *sent
    double *rest        # (n,)
    float *receipts     # (n, 3, width + 1), NULL where not wanted
    Py_ssize_t room
    const long long *ys     # labels, NULL for rows alone
    const double *known     # (n, 3): what receipts gave them, NaN where they do not say
    Py_ssize_t at


@cython.final
cdef class Model:
    """Cells, blocks and numbers of a sparse corrector; calls on it run one at a time.

    Parameters
    ----------
    m
        Number of classes.
    half_life
        In events.
    """

    cdef readonly long long m
    cdef readonly Py_ssize_t n_blocks
    cdef readonly double renormalise_at
    cdef Lock lock
    cdef void *memory
    cdef Cell *cells
    cdef Block **pages
    cdef Py_ssize_t n_pages
    cdef Numbers of
    cdef int front[FRONT]
    cdef int n_front
    cdef Row row
    cdef Table table
    cdef double g, rate, floor
    cdef double final[SENT]

    def __cinit__(self, long long m, double half_life, double renormalise_at=1e18):
        cdef int i
        self.lock = Lock()
        self.m, self.g, self.rate = m, 2.0 ** (-1.0 / half_life), log(2.0) / half_life
        self.floor, self.renormalise_at = FLOOR_MASS / m, renormalise_at
        self.memory = calloc(m + 1, sizeof(Cell))
        self.pages = <Block **>calloc(m // PAGE + 1, sizeof(Block *))
        if self.memory == NULL or self.pages == NULL:
            raise MemoryError(f"{m} classes need {m * sizeof(Cell)} bytes")
        # A cell is a line of the cache.
        self.cells = <Cell *>((<uintptr_t>self.memory + 63) & ~<uintptr_t>63)
        self.of.scale = self.of.scale_labels = 1
        self.of.scale_outside = self.of.scale_confident = 1
        for i in range(PATHS):
            self.of.weights[i] = START[i]
        self.weigh_final()

    def __dealloc__(self):
        cdef Py_ssize_t i
        free(self.memory)
        if self.pages != NULL:
            for i in range(self.n_pages):
                free(self.pages[i])
            free(self.pages)

    # No Python below here.

    cdef inline Block *block(self, int number) noexcept nogil:
        return &self.pages[(number - 1) // PAGE][(number - 1) % PAGE]

    cdef void weigh_final(self) noexcept nogil:
        """pi exp(G), divided by its sum."""
        cdef double most = max(self.of.odds[0], self.of.odds[1], self.of.odds[2]), total = 0
        cdef int i
        for i in range(SENT):
            self.final[i] = PRIOR[i] * exp(self.of.odds[i] - most)
            total += self.final[i]
        for i in range(SENT):
            self.final[i] /= total

    # ---- the present row

    cdef void read(self, const int *ids, const double *p, int k) noexcept nogil:
        """Read which classes are listed, their probabilities, and the five largest."""
        cdef Row *row = &self.row
        cdef double total = sum_of(p, k)
        cdef double best[TOP]
        cdef int i, j, n
        clear(&self.table, row.ids, row.k)
        row.k, row.ids, row.n_rest = k, ids, self.m - k
        row.width = k + (row.n_rest > 0)
        if total > 1 or row.n_rest == 0:
            divide(p, total, row.p, k)
        else:
            memcpy(row.p, p, k * sizeof(double))
        row.p[k] = max(0.0, 1 - sum_of(row.p, k)) if row.n_rest > 0 else 0.0
        for i in range(k):
            row.cells[i] = &self.cells[ids[i]]
            fetch(row.cells[i])
            insert(&self.table, ids[i], i)
        n = row.n_top = min(k, <int>TOP)
        for j in range(n):
            best[j] = -1
        for i in range(k):
            total = row.p[i]
            if total > best[n - 1]:
                j = n - 1
                while j > 0 and best[j - 1] < total:
                    best[j] = best[j - 1]
                    row.speaker[j] = row.speaker[j - 1]
                    j -= 1
                best[j] = total
                row.speaker[j] = i
        for j in range(n):
            row.speak[j] = sqrt(sqrt(best[j] if best[j] > self.floor else self.floor))
            i = row.cells[row.speaker[j]].block
            row.blocks[j] = NULL if i == 0 else self.block(i)
            if i != 0:
                fetch(row.blocks[j])
                fetch(row.blocks[j].A)
                fetch(row.blocks[j].G)

    cdef void evaluate(self, double learned) noexcept nogil:
        """Compute the four paths, after `learned` labelled rows."""
        cdef Row *row = &self.row
        cdef Numbers *of = &self.of
        cdef Cell *cell
        cdef int i, k = row.k, b
        cdef double per = 1 / of.scale, e, by, H, few
        cdef bint aged = False
        row.any_silent = False
        for i in range(k):
            cell = row.cells[i]
            row.work[i] = cell.M * per
            row.f2[i] = of.untrained + cell.trained
            row.silent[i] = False
            if not cell.heard and of.rows > 0:
                e = of.labelled * (cell.N * per) / of.rows
                row.silent[i] = cell.n * per < e - sqrt(e)
                row.any_silent |= row.silent[i]
        log_mean(row.work, log((of.rows + self.m) / self.m), row.f1, k)
        row.f1[k] = row.f2[k] = 0
        for i in range(k):
            row.f1[i] -= row.f2[i]
        row.share[k] = 1
        if of.untrained == 0:
            for i in range(k):
                row.share[i] = 1
        else:
            memcpy(row.share, row.f2, k * sizeof(double))
            exp_all(row.share, k)
        e = row.p[k]
        row.p[k] = e / row.n_rest if row.n_rest > 0 else 0.0
        log_clipped(row.p, self.floor, row.x, k + 1)
        row.p[k] = e
        few = row.n_rest if row.n_rest < MOST_OF_REST else MOST_OF_REST
        row.log_few = log(few) if few > 0 else 0.0
        row.x_rest = log(max(e / few, self.floor)) if few > 0 else 0.0
        for i in range(k):
            cell = row.cells[i]
            by = (learned - cell.stamp) * self.rate
            row.work[i] = -by if by < 690 else -690
            aged |= by > 0 and (cell.H[0] != 0 or cell.H[1] != 0)
            for b in range(2):
                row.c[b][i], row.H[b][i] = cell.c[b], cell.H[b]
        if aged:  # D steps with r = 0 at once
            exp_all(row.work, k)
            for i in range(k):
                by = row.work[i]
                for b in range(2):
                    H = row.H[b][i]
                    row.c[b][i] *= (H + PRECISION) / (H + PRECISION / by)
                    row.H[b][i] = H * by
        if row.any_silent:
            for i in range(k):
                if row.silent[i]:
                    for b in range(2):
                        row.c[b][i] = row.H[b][i] = 0
        self.recalibrate()
        self.alternate()

    cdef void recalibrate(self) noexcept nogil:
        """Compute the rows of temperature, vector and matrix."""
        cdef Row *row = &self.row
        cdef Numbers *of = &self.of
        cdef Block *block
        cdef double *z
        cdef double log_rest = log(<double>row.n_rest) if row.n_rest > 0 else 0.0, w
        cdef int i, j, s, n = row.width, k = row.k
        times(row.x, exp(of.temperature[0]), row.r[0], n)
        row.r[0][k] = exp(of.temperature[0]) * row.x_rest + row.log_few
        for i in range(n):
            row.y[i] = row.x[i] - row.f2[i]
        row.c[0][k], row.c[1][k] = of.vector[3] + log_rest, of.matrix[3] + log_rest
        combine(row.y, row.f1, row.f2, row.c[0], exp(of.vector[0]), of.vector[1], 1 + of.vector[2],
                row.r[1], n)
        z = row.r[2]
        combine(row.y, row.f1, row.f2, row.c[1], exp(of.matrix[0]), of.matrix[1], 1 + of.matrix[2],
                z, n)
        for j in range(row.n_top):
            block = row.blocks[j]
            if block == NULL:
                continue
            w = row.speak[j]
            for s in range(PARTNERS):
                if block.partner[s] == 0:
                    row.places[j][s] = -1
                    continue
                i = row.places[j][s] = place_of(&self.table, block.partner[s] - 1)
                if i >= 0:
                    z[i] += w * block.A[s]
            z[k] += w * block.A[PARTNERS]
        for i in range(3):
            exp_shifted(row.r[i], n)
            scale(row.r[i], 1 / sum_of(row.r[i], n), n)
            if n == k:
                row.r[i][k] = 0

    cdef void alternate(self) noexcept nogil:
        """Compute the row of matrix after CAN, if uncertain."""
        cdef Row *row = &self.row
        cdef Numbers *of = &self.of
        cdef int i, k = row.k
        cdef double total, q = 0, S = 0, m = self.m, below = of.labels + m
        cdef double top[32]
        row.uncertain = False
        memcpy(row.r[3], row.r[2], (k + 1) * sizeof(double))
        total = sum_of(row.r[2], k)
        if k == 1 or not total > 0:
            return
        divide(row.r[2], total, row.work, k)
        if uncertainty_of(row.work, k, TOPK_ENTROPY, 3, top, NULL) < THRESHOLD:
            return
        row.uncertain = True
        for i in range(k):
            row.q[i] = (row.cells[i].L / of.scale_labels + row.share[i]) / below
            if row.silent[i]:
                row.q[i] = row.share[i] / m
            row.S[i] = row.cells[i].S / of.scale_confident
            q += row.q[i]
            S += row.S[i]
        row.q[k] = max(1e-9, 1 - q)
        row.S[k] = max(0.0, of.confident - S)
        normalise_columns(row.r[2], row.q, row.S, m, row.r[3], row.width)
        total = sum_of(row.r[3], row.width)
        if total > 1e-300:
            scale(row.r[3], 1 / total, row.width)
        else:
            memcpy(row.r[3], row.r[2], (k + 1) * sizeof(double))

    cdef void mix(self) noexcept nogil:
        """Compute the mixture of the paths."""
        cdef int i
        weigh(self.row.r[0], self.of.weights[0], self.row.mixed, self.row.k + 1)
        for i in range(1, PATHS):
            add_weighed(self.row.r[i], self.of.weights[i], self.row.mixed, self.row.k + 1)

    cdef void temper(self) noexcept nogil:
        """Compute the mixture at its own temperature, with an offset of the rest."""
        cdef Row *row = &self.row
        cdef int k = row.k, n = row.width
        log_clipped(row.mixed, self.floor, row.xo, n)
        scale(row.xo, exp(self.of.last[0]), n)
        memcpy(row.tempered, row.xo, n * sizeof(double))
        row.tempered[k] = row.tempered[k] + self.of.last[1] if n > k else 0.0
        exp_shifted(row.tempered, n)
        scale(row.tempered, 1 / sum_of(row.tempered, n), n)

    cdef const double *sent_row(self, int i) noexcept nogil:
        """Compute anchor, mixture, tempered; the mixture itself until the last has learned."""
        if i == 0:
            return self.row.r[0]
        if i == 1 or (self.of.last[0] == 0 and self.of.last[1] == 0):
            return self.row.mixed
        return self.row.tempered

    cdef double trust(self) noexcept nogil:
        """Lambda."""
        cdef Numbers *of = &self.of
        cdef Cell *cell = self.row.cells[self.row.speaker[0]]
        if one_sided(of.agree, of.sure, of.differ, of.agree - of.sure, SPARE):
            return 0.0
        return trusted(cell.n / of.scale,
                       of.labelled * (cell.N / of.scale) / of.rows if of.rows > 0 else 0.0)

    # ---- the tail: shares of unlisted classes

    cdef void tails_of(self, const Cell *cell, double *T) noexcept nogil:
        cdef double q = exp(self.of.untrained + cell.trained) / self.m
        T[0] = 1 / <double>self.m
        T[1] = q
        T[2] = (cell.O / self.of.scale_outside + TRAINED * q) / (self.of.outside + TRAINED)

    cdef void weigh_tails(self, double *by) noexcept nogil:
        """v_c / z_c for the classes of the present row."""
        cdef Row *row = &self.row
        cdef double q = 0, came = 0, total = 0
        cdef double z[TAILS]
        cdef int i
        for i in range(row.k):
            q += row.share[i]
            came += row.cells[i].O
        q /= self.m
        z[0] = row.k / <double>self.m
        z[1] = q
        z[2] = (came / self.of.scale_outside + TRAINED * q) / (self.of.outside + TRAINED)
        for i in range(TAILS):
            total += self.of.tails[i]
        for i in range(TAILS):
            by[i] = (self.of.tails[i] + 1) / (total + TAILS) / max(1 - z[i], 1e-6)

    cdef double tail(self, const Cell *cell, const double *by) noexcept nogil:
        cdef double T[TAILS]
        self.tails_of(cell, T)
        return by[0] * T[0] + by[1] * T[1] + by[2] * T[2]

    # ---- rows

    cdef void send(self, Job *job) noexcept nogil:
        """Compute the output row, with promoted classes that are likelier than the least listed."""
        cdef Row *row = &self.row
        cdef int i, j, k = row.k
        cdef int *ids = job.sent_ids + job.at * job.room
        cdef double *out = job.sent + job.at * job.room
        cdef double trust, total, least, share, rest
        cdef double work[WIDTH]
        cdef double by[TAILS]
        cdef float *receipt
        self.mix()
        if self.of.last[0] != 0 or self.of.last[1] != 0:
            self.temper()
        if row.width == k:
            row.mixed[k] = row.tempered[k] = 0
        mix_three(self.sent_row(0), self.final[0], self.sent_row(1), self.final[1],
                  self.sent_row(2), self.final[2], work, k + 1)
        trust = self.trust()
        if trust < 1:
            shrink(work, trust, row.p, k + 1)
        if self.of.rest_silent != 0 and row.p[k] < 1:
            total = sum_of(work, k)
            if total > 0:
                scale(work, (1 - row.p[k]) / total, k)
                work[k] = row.p[k]
        memcpy(ids, row.ids, k * sizeof(int))
        memcpy(out, work, k * sizeof(double))
        rest = work[k]
        if self.n_front > 0 and row.n_rest > 0:
            least = work[0]
            for i in range(1, k):
                least = min(least, work[i])
            self.weigh_tails(by)
            j = k
            for i in range(self.n_front):
                if place_of(&self.table, self.front[i]) >= 0:
                    continue
                share = work[k] * self.tail(&self.cells[self.front[i]], by)
                if share > least:
                    ids[j], out[j] = self.front[i], share
                    rest -= share
                    j += 1
        job.rest[job.at] = rest if rest > 0 else 0.0
        if job.receipts != NULL:
            for i in range(SENT):
                receipt = job.receipts + (job.at * SENT + i) * (job.width + 1)
                to_single(self.sent_row(i), receipt, k)
                receipt[job.width] = <float>self.sent_row(i)[k]

    cdef void observe(self) noexcept nogil:
        """Observe the row."""
        cdef Row *row = &self.row
        cdef Numbers *of = &self.of
        cdef int i, k = row.k
        cdef double g = self.g
        of.scale /= g
        if of.scale > self.renormalise_at:
            self.renormalise_rows()
        of.rows = g * of.rows + 1
        of.labelled *= g
        of.rest = g * of.rest + row.p[k]
        of.rest_labelled *= g
        for i in range(k):
            row.cells[i].M += <float>(row.p[i] * of.scale)
        row.cells[row.speaker[0]].N += <float>of.scale
        if not row.uncertain:
            of.scale_confident /= g
            if of.scale_confident > self.renormalise_at:
                self.renormalise(&of.scale_confident, 2)
            of.confident = g * of.confident + 1
            for i in range(k):
                row.cells[i].S += <float>(row.r[2][i] * of.scale_confident)
        of.n_predictions += 1

    cdef void renormalise_rows(self) noexcept nogil:
        cdef long long i
        cdef double by = 1 / self.of.scale
        for i in range(self.m):
            shrunk(&self.cells[i].M, by)
            shrunk(&self.cells[i].N, by)
            shrunk(&self.cells[i].n, by)
        self.of.scale = 1

    cdef void renormalise(self, double *of, int which) noexcept nogil:
        """Normalise the scale of L, O or S to 1."""
        cdef long long i
        cdef double by = 1 / of[0]
        for i in range(self.m):
            if which == 0:
                shrunk(&self.cells[i].L, by)
            elif which == 1:
                shrunk(&self.cells[i].O, by)
            else:
                shrunk(&self.cells[i].S, by)
        of[0] = 1

    # ---- labels

    cdef void mask(self, double *r) noexcept nogil:
        """Set silent entries to 0 and normalise the others."""
        cdef int i
        cdef double total
        for i in range(self.row.width):
            if self.row.silent[i]:
                r[i] = 0
        total = sum_of(r, self.row.width)
        if total > 0:
            for i in range(self.row.width):
                r[i] /= total

    cdef void learn_row(self, long long y, const double *known) noexcept nogil:
        """Learn the label of the present row; known is NULL or what its receipt gave it."""
        cdef Row *row = &self.row
        cdef Numbers *of = &self.of
        cdef int i, k = row.k, n = row.width, entry = place_of(&self.table, <int>y)
        cdef double learned = of.agree + of.differ, e, total = 0, h
        cdef double given[SENT]
        cdef double R = row.p[k]
        cdef bint listed = entry >= 0
        if not listed:
            entry = k
        row.cells[row.speaker[0]].n += <float>of.scale
        of.labelled += 1
        of.rest_labelled += R
        of.missing += R
        of.unlisted += not listed
        if entry == row.speaker[0]:
            of.agree += 1
        else:
            of.differ += 1
        of.sure += row.p[row.speaker[0]]
        e = of.labelled * of.rest / of.rows if of.rows > 0 else 0.0
        of.rest_silent = (of.unlisted == 0 and of.missing > SPARE
                          and of.rest_labelled < e - sqrt(e))
        self.evaluate(learned)
        row.silent[k] = of.rest_silent != 0
        row.any_silent |= row.silent[k]
        if row.any_silent:
            for i in range(PATHS):
                self.mask(row.r[i])
        self.mix()
        self.temper()
        if row.any_silent:
            self.mask(row.tempered)
        if n == k:
            row.mixed[k] = row.tempered[k] = 0
        for i in range(SENT):
            h = self.sent_row(i)[entry] if known == NULL else known[i]
            given[i] = h if h > LIKELIHOOD_FLOOR else LIKELIHOOD_FLOOR
        for i in range(SENT):
            of.odds[i] = self.g * of.odds[i] + log(given[i] / given[0])
        self.weigh_final()

        memcpy(row.F, row.xo, n * sizeof(double))
        self.mark_rest(row.F + n)
        newton(of.last, of.last_Q, row.F, 2, row.tempered, entry, 1, self.g, row.steps, n,
               LAST_PRECISIONS, LAST_LIMITS, 2)
        for i in range(PATHS):
            of.weights[i] *= max(row.r[i][entry], LIKELIHOOD_FLOOR)
            total += of.weights[i]
        share_back(of.weights, total, 1 / (of.agree + of.differ + 2), START, PATHS)
        self.step(of.temperature, of.temperature_Q, 1, row.r[0], entry)
        self.step(of.vector, of.vector_Q, 4, row.r[1], entry)
        self.step(of.matrix, of.matrix_Q, 4, row.r[2], entry)
        self.step_cells(entry)
        self.step_blocks(<int>y, entry, listed)
        if not listed:
            self.learn_tail(<int>y)

    cdef void mark_rest(self, double *f) noexcept nogil:
        memset(f, 0, self.row.width * sizeof(double))
        if self.row.width > self.row.k:
            f[self.row.k] = 1

    cdef void step(self, double *u, double *Q, int n_u, const double *r, int entry) noexcept nogil:
        """Take a Newton step of log b, or of log b, t1, t2 and e."""
        cdef Row *row = &self.row
        cdef int n = row.width
        if n_u == 1:
            times(row.x, exp(u[0]), row.F, n)
            if n > row.k:
                row.F[row.k] = exp(u[0]) * row.x_rest
        else:
            times(row.y, exp(u[0]), row.F, n)
            memcpy(row.F + n, row.f1, n * sizeof(double))
            memcpy(row.F + 2 * n, row.f2, n * sizeof(double))
            self.mark_rest(row.F + 3 * n)
        newton(u, Q, row.F, n_u, r, entry, 1, self.g, row.steps, n, PRECISIONS, LIMITS, 4)

    cdef void step_cells(self, int entry) noexcept nogil:
        """Update c and H of the listed classes, of vector and matrix."""
        cdef Row *row = &self.row
        cdef Cell *cell
        cdef int i, b, k = row.k
        for b in range(2):
            memcpy(row.work, row.r[b + 1], k * sizeof(double))
            if entry < k:
                row.work[entry] -= 1
            step_offsets(row.c[b], row.H[b], row.work, row.r[b + 1], 1, self.g, PRECISION,
                         LARGEST_C, k)
        for i in range(k):
            cell = row.cells[i]
            cell.stamp = <int64_t>(self.of.agree + self.of.differ)
            for b in range(2):
                cell.c[b] = 0 if row.silent[i] else <float>row.c[b][i]
                cell.H[b] = 0 if row.silent[i] else <float>row.H[b][i]

    cdef void step_blocks(self, int y, int entry, bint listed) noexcept nogil:
        """Update A and G of the blocks of the largest; y becomes a partner."""
        cdef Row *row = &self.row
        cdef Block *block
        cdef double *of = row.r[2]
        cdef double r[PARTNERS + 1]
        cdef double d[PARTNERS + 1]
        cdef float new_A, new_G
        cdef double one
        cdef int i, j, s, weakest, k = row.k
        cdef bint known
        for j in range(row.n_top):
            block = row.blocks[j]
            known = False
            if block == NULL:
                self.n_blocks += 1
                row.cells[row.speaker[j]].block = <int>self.n_blocks
                block = self.block(<int>self.n_blocks)
                block.owner = row.ids[row.speaker[j]]
                for s in range(PARTNERS):
                    row.places[j][s] = -1
            for s in range(PARTNERS):
                i = row.places[j][s]
                r[s] = d[s] = 0
                if i >= 0:
                    r[s] = of[i]
                    d[s] = of[i] - (i == entry)
                    known |= i == entry
            r[PARTNERS] = of[k]
            d[PARTNERS] = of[k] - (entry == k)
            step_row(block.A, block.G, d, r, 1, row.speak[j], self.g, PRECISION, LARGEST_C,
                     PARTNERS + 1)
            if self.of.rest_silent != 0:
                block.A[PARTNERS] = block.G[PARTNERS] = 0
            if known or not listed:
                continue
            weakest = 0
            for s in range(PARTNERS):
                if block.partner[s] == 0:
                    weakest = s
                    break
                if block.G[s] < block.G[weakest]:
                    weakest = s
            new_A, new_G, one = 0, 0, of[entry] - 1
            step_row(&new_A, &new_G, &one, of + entry, 1, row.speak[j], self.g, PRECISION,
                     LARGEST_C, 1)
            block.partner[weakest] = y + 1
            block.A[weakest], block.G[weakest] = new_A, new_G

    cdef void learn_tail(self, int y) noexcept nogil:
        """Learn an unlisted label: shares of the tails, O, promoted classes."""
        cdef Numbers *of = &self.of
        cdef Cell *cell = &self.cells[y]
        cdef double total = 0
        cdef double T[TAILS]
        cdef double by[TAILS]
        cdef int i, weakest = 0
        self.tails_of(cell, T)
        self.weigh_tails(by)
        for i in range(TAILS):
            T[i] *= by[i]
            total += T[i]
        for i in range(TAILS):
            of.tails[i] = self.g * of.tails[i] + T[i] / total
        of.scale_outside /= self.g
        if of.scale_outside > self.renormalise_at:
            self.renormalise(&of.scale_outside, 1)
        of.outside = self.g * of.outside + 1
        cell.O += <float>of.scale_outside
        for i in range(self.n_front):
            if self.front[i] == y:
                return
            if self.cells[self.front[i]].O < self.cells[self.front[weakest]].O:
                weakest = i
        if self.n_front < FRONT:
            self.front[self.n_front] = y
            self.n_front += 1
        elif self.cells[self.front[weakest]].O < cell.O:
            self.front[weakest] = y

    cdef void learn_label(self, long long y) noexcept nogil:
        """Learn what a label teaches without its row."""
        cdef Numbers *of = &self.of
        of.scale_labels /= self.g
        if of.scale_labels > self.renormalise_at:
            self.renormalise(&of.scale_labels, 0)
        of.labels = self.g * of.labels + 1
        self.cells[y].L += <float>of.scale_labels
        of.n_labels += 1

    # ---- many rows

    cdef void take(self, Job *job) noexcept nogil:
        """Process the next row or label."""
        cdef Py_ssize_t i = job.at, j
        cdef const double *known = NULL
        cdef const int *after
        if job.ys != NULL:
            self.cells[job.ys[i]].heard = 1
        if job.ids != NULL:
            self.read(job.ids + i * job.width, job.P + i * job.width, job.ks[i])
            if i + 1 < job.n:
                after = job.ids + (i + 1) * job.width
                for j in range(job.ks[i + 1]):
                    fetch(&self.cells[after[j]])
            if job.ys == NULL:
                self.evaluate(self.of.agree + self.of.differ)
                self.send(job)
                if job.observes:
                    self.observe()
            else:
                if job.known != NULL and job.known[SENT * i] == job.known[SENT * i]:
                    known = job.known + SENT * i
                self.learn_row(job.ys[i], known)
            clear(&self.table, self.row.ids, self.row.k)
            self.row.k = 0
        if job.ys != NULL:
            self.learn_label(job.ys[i])
        job.at += 1

    cdef Py_ssize_t go_on(self, Job *job, Py_ssize_t until) noexcept nogil:
        while job.at < until and not a_fork_waits():
            self.take(job)
        return job.at

    cdef int run(self, Job *job) except -1:
        """Run the whole job in parts; between two of them handlers find a consistent state."""
        cdef Py_ssize_t until, step = max(<Py_ssize_t>1, WORK // (job.width + 10))
        while job.at < job.n:
            until = min(job.n, job.at + step)
            if job.ys != NULL and job.ids != NULL:
                self.reserve(self.n_blocks + TOP * (until - job.at))
            if job.n == 1:
                self.take(job)
                return 0
            with nogil:
                enter_rows()
                self.go_on(job, until)
                leave_rows()
            if job.at < job.n:
                PyErr_CheckSignals()
        return 0

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Make room for blocks."""
        n = min(n, <Py_ssize_t>self.m)
        while self.n_pages * PAGE < n:
            self.pages[self.n_pages] = <Block *>calloc(min(<long long>PAGE, self.m), sizeof(Block))
            if self.pages[self.n_pages] == NULL:
                raise MemoryError(f"no memory for {PAGE} blocks of {sizeof(Block)} bytes")
            self.n_pages += 1
        return 0

    # ---- the calls

    def rows(self, const int[:, ::1] ids, const double[:, ::1] P, const int[::1] ks, bint observes,
             bint receipt):
        """Correct rows checked by :func:`check` and owned by the caller.

        Returns ids, int32, and probabilities, (n, k + at most 5); rests, (n,); receipts, float32 of
        shape (n, 3, k + 1), or None.
        """
        cdef Job job
        cdef int[:, ::1] sent_ids
        cdef double[:, ::1] sent
        cdef double[::1] rest
        cdef float[:, :, ::1] receipts
        cdef Py_ssize_t n = ids.shape[0], width = ids.shape[1]
        memset(&job, 0, sizeof(Job))
        job.n, job.width, job.observes = n, width, observes
        job.room = min(width + FRONT, <Py_ssize_t>max(self.m, <long long>width))
        sent_ids = np.full((n, job.room), -1, np.int32)
        sent, rest = np.zeros((n, job.room)), np.empty(n)
        kept = np.zeros((n, SENT, width + 1), np.float32) if receipt else None
        if n > 0:
            job.ids, job.P, job.ks = &ids[0, 0], &P[0, 0], &ks[0]
            job.sent_ids, job.sent, job.rest = &sent_ids[0, 0], &sent[0, 0], &rest[0]
            if receipt:
                receipts = kept
                job.receipts = &receipts[0, 0, 0]
        self.lock.acquire(observes)
        try:
            self.run(&job)
        finally:
            self.lock.release()
        return sent_ids.base, sent.base, rest.base, kept

    def learn(self, ids, P, ks, const long long[::1] ys, known):
        """Learn labels, with checked rows and what receipts gave; or without rows."""
        cdef Job job
        cdef const int[:, ::1] listed
        cdef const double[:, ::1] rows
        cdef const double[:, ::1] given
        cdef const int[::1] lengths
        memset(&job, 0, sizeof(Job))
        job.n = ys.shape[0]
        if job.n == 0:
            return
        job.ys = &ys[0]
        if ids is not None:
            listed, rows, lengths = ids, P, ks
            job.ids, job.P, job.ks = &listed[0, 0], &rows[0, 0], &lengths[0]
            job.width = listed.shape[1]
        if known is not None:
            given = known
            job.known = &given[0, 0]
        self.lock.acquire(True)
        try:
            self.run(&job)
        finally:
            self.lock.release()

    def tail_of(self, long long y, const int[::1] ids):
        """Share of the rest of an unlisted class."""
        cdef double found = 0, total = 0
        cdef double T[TAILS]
        cdef double z[TAILS]
        cdef double v[TAILS]
        cdef Py_ssize_t i, j
        self.lock.acquire(False)
        memset(z, 0, sizeof(z))
        for i in range(ids.shape[0]):
            self.tails_of(&self.cells[ids[i]], T)
            for j in range(TAILS):
                z[j] += T[j]
        self.tails_of(&self.cells[y], T)
        for j in range(TAILS):
            v[j] = self.of.tails[j] + 1
            total += v[j]
        for j in range(TAILS):
            found += v[j] / total * T[j] / max(1 - z[j], 1e-6)
        self.lock.release()
        return found

    def train(self, const double[::1] counts):
        """Set the training rows of the first classes; the others have none."""
        cdef double total = self.m
        cdef Py_ssize_t i
        for i in range(counts.shape[0]):
            total += counts[i]
            self.cells[i].trained = <float>log(counts[i] + 1)
        self.of.untrained = log(self.m / total)

    @property
    def n_predictions(self):
        """Number of rows observed, also during a call."""
        return <long long>self.of.n_predictions

    @property
    def n_labels(self):
        """Number of labels learned, also during a call."""
        return <long long>self.of.n_labels

    @property
    def final_weights(self):
        """Final weights of anchor, mixture and tempered."""
        self.lock.acquire(False)
        found = (self.final[0], self.final[1], self.final[2])
        self.lock.release()
        return found

    def numbers(self):
        """The state besides cells and blocks, {name: number or list}, between two rows."""
        cdef double[::1] numbers = np.empty(sizeof(Numbers) // sizeof(double))
        self.lock.acquire(False)
        memcpy(&numbers[0], &self.of, sizeof(Numbers))
        self.lock.release()
        found, at = {}, 0
        for name, size in NUMBERS.items():
            found[name] = numbers.base[at] if size == 1 else numbers.base[at:at + size]
            at += size
        return found

    # ---- snapshots

    def dump(self):
        """Arrays of the state: cells with content, and blocks."""
        self.lock.acquire(False)
        try:
            return self.dumped()
        finally:
            self.lock.release()

    cdef dict dumped(self):
        cdef Cell nothing
        cdef Cell *cell
        cdef Block *block
        cdef Py_ssize_t i, j, s, n = 0
        memset(&nothing, 0, sizeof(Cell))
        for i in range(self.m):
            n += memcmp(&self.cells[i], &nothing, sizeof(Cell)) != 0
        cdef int[::1] ids = np.empty(n, np.int32), heard = np.empty(n, np.int32)
        cdef long long[::1] stamps = np.empty(n, np.int64)
        cdef float[:, ::1] cells = np.empty((n, 11), np.float32)
        cdef Py_ssize_t n_blocks = self.n_blocks
        cdef int[::1] owners = np.empty(n_blocks, np.int32)
        cdef int[:, ::1] partners = np.empty((n_blocks, PARTNERS), np.int32)
        cdef float[:, ::1] A = np.empty((n_blocks, PARTNERS + 1), np.float32)
        cdef float[:, ::1] G = np.empty((n_blocks, PARTNERS + 1), np.float32)
        cdef double[::1] numbers = np.empty(sizeof(Numbers) // sizeof(double))
        cdef int[::1] front = np.empty(self.n_front, np.int32)
        j = 0
        for i in range(self.m):
            cell = &self.cells[i]
            if memcmp(cell, &nothing, sizeof(Cell)) != 0:
                ids[j], heard[j], stamps[j] = <int>i, cell.heard, cell.stamp
                memcpy(&cells[j, 0], cell, 11 * sizeof(float))
                j += 1
        for i in range(n_blocks):
            block = self.block(<int>(i + 1))
            owners[i] = block.owner
            for s in range(PARTNERS):
                partners[i, s] = block.partner[s] - 1
            memcpy(&A[i, 0], block.A, sizeof(block.A))
            memcpy(&G[i, 0], block.G, sizeof(block.G))
        memcpy(&numbers[0], &self.of, sizeof(Numbers))
        for i in range(self.n_front):
            front[i] = self.front[i]
        return {
            "ids": ids.base, "heard": heard.base, "stamps": stamps.base, "cells": cells.base,
            "owners": owners.base, "partners": partners.base, "A": A.base, "G": G.base,
            "numbers": numbers.base, "front": front.base,
        }

    def load(self, dict arrays):
        """Load a checked :meth:`dump` into a new object."""
        cdef Cell *cell
        cdef Block *block
        cdef Py_ssize_t i, s
        cdef const int[::1] ids = arrays["ids"], heard = arrays["heard"]
        cdef const long long[::1] stamps = arrays["stamps"]
        cdef const float[:, ::1] cells = arrays["cells"]
        cdef const int[::1] owners = arrays["owners"], front = arrays["front"]
        cdef const int[:, ::1] partners = arrays["partners"]
        cdef const float[:, ::1] A = arrays["A"]
        cdef const float[:, ::1] G = arrays["G"]
        cdef const double[::1] numbers = arrays["numbers"]
        self.reserve(owners.shape[0])
        for i in range(ids.shape[0]):
            cell = &self.cells[ids[i]]
            memcpy(cell, &cells[i, 0], 11 * sizeof(float))
            cell.heard, cell.stamp = heard[i], stamps[i]
        self.n_blocks = owners.shape[0]
        for i in range(self.n_blocks):
            block = self.block(<int>(i + 1))
            block.owner = owners[i]
            self.cells[owners[i]].block = <int>(i + 1)
            for s in range(PARTNERS):
                block.partner[s] = partners[i, s] + 1
            memcpy(block.A, &A[i, 0], sizeof(block.A))
            memcpy(block.G, &G[i, 0], sizeof(block.G))
        memcpy(&self.of, &numbers[0], sizeof(Numbers))
        self.n_front = <int>front.shape[0]
        for i in range(self.n_front):
            self.front[i] = front[i]
        self.weigh_final()


cdef inline void shrunk(float *v, double by) noexcept nogil:
    """v times by; decayed values become 0, and pages of zeros are not written."""
    cdef double found
    if v[0] != 0:
        found = v[0] * by
        v[0] = <float>found if found > NOTHING else 0


# ---- what comes in

cdef Fault fault_of(const int *ids, const double *p, Py_ssize_t width, long long m,
                    long long known, Table *table, int *k, Py_ssize_t *column) noexcept nogil:
    """Find what is wrong with a row of k classes, and in which column."""
    cdef Py_ssize_t j
    cdef double total = 0
    k[0] = 0
    for j in range(width):
        column[0] = j
        if ids[j] == -1:
            if p[j] > 0 or p[j] < 0:
                return Fault.PAD
            continue
        if k[0] != j:
            return Fault.GAP
        if ids[j] < 0 or ids[j] >= known:
            return Fault.RANGE
        if k[0] == MOST:
            return Fault.LONG
        if not insert(table, ids[j], <int>j):
            return Fault.TWICE
        k[0] += 1
        if not 0 <= p[j] < 1e300:
            return Fault.NEGATIVE
        total += p[j]
    if k[0] == 0:
        return Fault.EMPTY
    if total > most_sum:
        return Fault.MASS
    if k[0] == m and total <= 0:
        return Fault.ZERO
    return Fault.NONE


def check(const int[:, ::1] ids, const double[:, ::1] P, long long m, long long known):
    """Count the classes of each row, (n,) int32; find the first fault, its row and column."""
    cdef Table table
    cdef Py_ssize_t i = 0, n = ids.shape[0], width = ids.shape[1], column = 0
    cdef int[::1] ks = np.empty(n, np.int32)
    cdef Fault found = Fault.NONE
    memset(&table, 0, sizeof(Table))
    with nogil:
        for i in range(n):
            found = fault_of(&ids[i, 0], &P[i, 0], width, m, known, &table, &ks[i], &column)
            if found != Fault.NONE:
                break
            clear(&table, &ids[i, 0], ks[i])
    return ks.base, found, i if found != Fault.NONE else -1, column


def given_by(const float[:, :, ::1] receipts, const int[:, ::1] ids, const int[::1] ks,
             const long long[::1] ys):
    """What receipts gave their labels, (n, 3); NaN where unknown."""
    cdef Py_ssize_t i, j, s, n = ids.shape[0], width = ids.shape[1]
    cdef double[:, ::1] known = np.empty((n, SENT))
    cdef double NaN = float("nan")
    for i in range(n):
        for j in range(ks[i]):
            if ids[i, j] == ys[i]:
                break
        else:
            j = width
        for s in range(SENT):
            known[i, s] = receipts[i, s, j]
        if not known[i, 0] + known[i, 1] + known[i, 2] >= 0:
            known[i, 0] = known[i, 1] = known[i, 2] = NaN
    return known.base


@cython.final
cdef class Names:
    """Names numbered in the order of appearance; no Python bytecode runs here.

    So no other thread or signal handler comes between two of them.
    """

    cdef dict known
    cdef list names
    cdef Py_ssize_t most

    def __cinit__(self, Py_ssize_t most, list names=None):
        self.most, self.known, self.names = most, {}, []
        self.add([] if names is None else names)

    def __len__(self):
        return len(self.names)

    def find(self, str name):
        """Number of a name, -1 without one."""
        found = self.known.get(name)
        return -1 if found is None else found

    def add(self, list names):
        """Number names; new ones are added, all or none of them."""
        cdef set new = set()
        cdef list found = []
        cdef str name
        for name in names:
            if name not in self.known:
                new.add(name)
        if len(self.names) + len(new) > self.most:
            raise ValueError(self.full(len(new)))
        for name in names:
            number = self.known.get(name)
            if number is None:
                number = len(self.names)
                self.known[name] = number
                self.names.append(name)
            found.append(number)
        return found

    def full(self, Py_ssize_t new):
        """Text of the error of too many names."""
        return (f"{len(self.names) + new} names, max_classes is {self.most}, which is settled"
                " where a corrector, a state or an application begins: begin anew with more, or let"
                " rare names share one")

    def of(self, list ids):
        """Names of numbers."""
        cdef Py_ssize_t i
        return [self.names[i] for i in ids]

    def copy(self):
        """All names in order."""
        return self.names[:]
