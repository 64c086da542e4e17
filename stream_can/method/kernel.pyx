# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The loop over rows: check, paths, mixture, observe, learn; plain arrays in and out.

docs/method.md has the formulas and their sources; the state arrays belong to the Corrector.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND, Py_buffer, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, NAN, exp, fabs, floor, isinf, log, nextafter, signbit, sqrt
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from stream_can.method.calibrated cimport (
    Calibrated, calibrate, count_label, take_share,
)
from stream_can.method.checks cimport memory, memory32, open_rows
from stream_can.method.class_mix cimport (
    Cells, Chain, cell_likelihood, count_cell, counted, fold_mix, follow_mix, inverse_mean,
    observe_mix,
)
from stream_can.method.judging cimport one_sided, share_back, trusted
from stream_can.method.lock cimport Lock, a_fork_waits, enter_rows, leave_rows
from stream_can.method.newton cimport newton
from stream_can.method.sets cimport (
    OF_ALL, OF_CLASS, SET_BINS, Sets, Theta, set_count, set_learn, set_score, set_theta,
)
from stream_can.method.uncertain cimport FEW, Sure, find_sure_shares, uncertainty_of
from stream_can.method.values cimport (
    Slots, Values, features_of, judge_values, set_group_of, shrink_odds, smallest_odds,
    values_learn,
)
from stream_can.method.vectormath cimport *
from stream_can.method.whole cimport Whole, add_whole, find_phi, learn_whole


import numpy as np

from stream_can.errors import InvalidPrediction
from stream_can.method.bases import (
    BASES, MOST_C, MOST_LOG_B, MOST_T, WHOLE_PRECISION, WHOLE_RIDGE,
)
from stream_can.method.paths import anchor, split
from stream_can.method.rows import as_float64
from stream_can.method.state import MOST_EVENTS as most_events
from stream_can.method.sums import EXPERTS, LATE_LABELS_HALF_LIFE, MOVING_EXPERTS, THIRDS
from stream_can.method.sums import parts as parts_of_sums
from stream_can.method.uncertain import UNCERTAINTIES

# What to do with each row.
cpdef enum Mode:
    CORRECT
    OBSERVE
    PROCESS
    EXPLAIN

cdef enum:
    TOP = 5                             # the classes that speak in a matrix base
    MOST_KNOWN = 16                     # of a label: what nine rows gave it, their top, its set
    OF_SET = 6                          # of its set: what the row sent gave it, the tail
    TAIL = 5                            # of a receipt, behind the row sent: three of Theta, the row

cdef Py_ssize_t WORK = 400_000          # of rows times their length, between two looks for Ctrl-C

cdef long long MOST_EVENTS = most_events
cdef double LIKELIHOOD_FLOOR = 1e-6     # what a path is given at least for the label
cdef double FLOOR_MASS = 0.01           # what the floors of a row hold together at the most
cdef double CURVATURE_B = 10.0          # Lambda: how firmly log b is held at 0, and t1 and t2
cdef double CURVATURE_T = 3.0
cdef double LARGEST_LOG_B = MOST_LOG_B  # where they are clipped
cdef double LARGEST_T = MOST_T
cdef double LARGEST_C = MOST_C
cdef double[2] PRECISIONS = [CURVATURE_B, CURVATURE_T]
cdef double[2] LIMITS = [MOST_LOG_B, MOST_T]
cdef double MOST_ODDS = 1.5             # of the rows with columns against those without
# Of the sum of what comes back before agreement alone is held to be a choice.
cdef double SPARE = 5.0
cdef double MOST_UNHEARD = 0.4          # of labelled rows, for classes that had no label; it counts
cdef double MOST_LABELLED = 0.9         # where fewer rows have labels
cdef double MOVING_PRIOR = 0.02         # pi of the row that follows the class mix,
cdef double PLAIN_PRIOR = 0.01          # of the tempered one where the mix is not stale,
cdef double RAW_PRIOR = 0.5             # and of the row as it came;
cdef double KNOWN_PRIOR = 4.06          # twice the others, of the anchor at a known mix
cdef double LEAST_SHARE = 1e-290        # of the rows but raw, below which they are nothing
cdef double FEW_LATE = 20               # so many rows and labels tell whether a mix is stale,
cdef double FRESH_BELOW = 8             # which is not believed in from here on,
cdef double FRESH_RANGE = 4             # and wholly so much below
cdef double LEAST_VARIANCE = 0.001      # of a class in the rows, times m
cdef double ROWS_GROWTH = 2.0 ** 0.001  # of the weight of rows in what sets believe in
cdef double NOT_COUNTED = -1            # the row's number where a set was made and not counted,
cdef double NOT_FAIR = -2               # and where its label teaches no sets
cdef double LEAST_FLAT = 0.04           # how much flatter rows are before the guard of the mix acts
cdef double MOST_FLAT = 0.08            # and where nothing of the mix is left
cdef double RIVAL_ROWS = 200            # of validation, that the cells of the rival weigh,
cdef double RIVAL_ROWS_OF_CLASS = 30    # or so many a class


# ---- the rows ----------------------------------------------------------------------------------

cdef struct Base:
    double *u           # log b, then t1 and t2 where the base has c; NULL for raw
    double *K           # their curvature: 1 number, or the 6 of a symmetric 3 x 3
    double *c           # offsets, NULL where there are none
    double *H
    float *A            # m x m, NULL where there is none
    float *G
    double *S           # decayed column sums of its confident rows, NULL without CAN
    Py_ssize_t part     # which of the sums its confident rows go into
    double exponent
    bint learns
    bint centred        # stretches y and not x
    bint shares         # has the shared features f1 - f2 and f2
    bint counts         # and f3
    int n_t             # and features of the columns behind them
    Whole *whole        # has a whole matrix; NULL else
    bint uncertain      # of the row at hand
    Py_ssize_t path     # where its own row goes among the paths, -1 for nowhere
    Py_ssize_t can      # where the row after CAN goes
    double *r           # the row at hand, of this base
    double *normalised  # and after CAN


cdef struct Row:        # the row at hand
    double *p           # divided by its sum
    double *x           # its logarithms
    double *y           # and what they say beyond the training prior, x - f2
    double *residual
    const long long *slots      # of the values of its columns, NULL where it gives none
    double *top         # to find the largest in
    Py_ssize_t best     # the likeliest class, the lowest of equals
    Py_ssize_t n_top
    Py_ssize_t speaker[TOP]     # J
    double speak[TOP]   # w_j, to the exponent in use


cdef struct Features:   # shared by all classes
    double *f1          # log of the mean prediction, less f2
    double *f2          # log of the training prior
    double *f3          # log of how often a class is the likeliest, against the mean prediction
    double *values      # of the columns: slow and fast of each
    double *work        # for the step of a base that has them
    double widest       # |z| without the part of N, which grows
    bint stale          # f1 is older than M
    bint wide           # sums of logits may leave the range of exp


cdef struct Prior:      # of the classes
    double *labels      # L
    double *train
    double *q
    double strength


cdef struct Mixture:    # of the paths, as it is and at a temperature of its own
    double *weights     # of the paths
    double *start
    double *mixed       # the mixture of the row at hand
    double *xo          # its logarithms
    Base last           # its temperature: u, K, and r at that temperature
    double log_mass     # of its group of rows, before the odds of a row's values


cdef struct Second:     # the second mixture: what is sent is mixed from these
    Mixture of[2]       # mixtures without and with columns
    int n               # 2 with columns
    int n_sent          # the rows: anchor, mixture, tempered, [moving], plain, [raw], [mixture and
    int n_without       # tempered with columns], calibrated; how many of them know no columns,
    int moving          # and which is that of the moving mix, 0 without it,
    int plain
    int known           # that at the known mix of the stream, 0 without one
    int raw             # and 0 without it
    const double *ratio     # of the known mix to that of training, NULL without one
    double *at_known        # the anchor's row at the known mix
    double prior[9]     # pi
    double *odds[9]     # G; NULL for the anchor
    double final[9]     # the weight of each in its group; of the calibrated row against all others
    const double *came  # the row "raw" of the row at hand
    double *masked      # and room for it without the silent classes
    double *guarded[2]  # mixture and tempered, as they are sent where the mix is stale
    double fresh        # f: how far what labels taught of the mix is believed in
    double *recent      # decayed log loss before and after, their weight, that of the anchor's row


cdef struct Moving:     # the class mix without labels: behind the fitted base, or the anchor
    Chain chain         # without experts where there is none
    double *V           # decayed sum of the anchor's rows, then their number; NULL after fit
    const double *ref   # the mix that the fitted base's start from; NULL without one
    double *frozen      # the fitted base's row as it was before
    const double *sharp     # mean |r|^2 of the validation rows of each class; NULL without a guard
    double *D           # decayed sum of how much flatter rows are, then their number
    double flatter      # and of the row at hand
    Cells cells         # of the rival of the chain behind the fitted base
    Py_ssize_t of_cells[3]
    Py_ssize_t of_rival
    Py_ssize_t of_Q[3]  # which part of sums each is
    Py_ssize_t of_V
    Py_ssize_t of_W
    Py_ssize_t of_D


cdef struct Late:       # what was predicted of late, of all rows and of those with labels
    double *rows        # decayed sum of the last rows, then their number; NULL of a single path
    double *labels      # and over the last labels
    double *rows_squares        # sum of the squares of their weights
    double *labels_squares
    double *n_labels    # how many those are, without their weights
    double *squares     # decayed sum of the rows' squares, then their number
    double kept         # what rows keep of theirs,
    double kept_labels  # and labels
    Py_ssize_t of_rows  # which part of sums each is
    Py_ssize_t of_rows_squares
    Py_ssize_t of_squares


cdef struct Guards:
    double *predicted   # N_j
    double *labelled    # n_j, then n
    double *agreement   # labels that are the argmax, that are not, sum of their p_j
    long long *heard    # 1 a label has come, 0 none has, -1 none has and it is silent
    long long *silent   # the silent classes
    Py_ssize_t n_silent
    Py_ssize_t n_unheard


cdef struct Part:       # of sums: see stream_can.method.sums
    double *array       # of the state, that it is added to
    Py_ssize_t size
    double decay        # what sums and state keep at each row
    bint counted        # its number of rows is no part of the array


cdef double *pointer(array, Py_ssize_t size) except? NULL:
    if not array.flags.c_contiguous:
        raise ValueError("state array is not C-contiguous")  # its reshape would be a copy
    cdef double[::1] view = array.reshape(-1)
    if view.shape[0] != size:
        raise ValueError(f"state array has {view.shape[0]} entries, expected {size}")
    return &view[0]


cdef double *workspace(rows) except? NULL:
    """Take the next of these arrays."""
    row = next(rows)
    return pointer(row, len(row))


cdef object on_cache_lines(Py_ssize_t rows, Py_ssize_t width):
    """Zeros of which each row begins a cache line: vectors of four then never lie across two, where
    by chance of the allocation half of them would. `width` is a multiple of 8."""
    room = np.zeros(rows * width + 7)
    return room[-(room.ctypes.data // 8) % 8:][:rows * width].reshape(rows, width)


cdef long long *integers(array, Py_ssize_t size) except? NULL:
    cdef long long[::1] view = array
    if view.shape[0] != size:
        raise ValueError(f"state array has {view.shape[0]} entries, expected {size}")
    return &view[0]


cdef float *pointer32(array, Py_ssize_t size) except? NULL:
    if not array.flags.c_contiguous:
        raise ValueError("state array is not C-contiguous")
    cdef float[::1] view = array.reshape(-1)
    if view.shape[0] != size:
        raise ValueError(f"state array has {view.shape[0]} entries, expected {size}")
    return &view[0]


cdef struct Job:        # of one call: rows to go through, labels to learn between them
    const double *P         # rows; `first` were processed before, then come `n`
    Py_ssize_t first
    Py_ssize_t n
    bint observes           # whether the rows are learned as they go by
    double *out             # shape (n, m): what is sent; what is not wanted is NULL, here and below
    float *receipts         # (n, n_sent m + 1), with sets m + 5 more
    double *paths           # (n_paths, n, m)
    double *sums            # what observing the rows adds, see stream_can.method.sums
    Py_ssize_t n_labels
    const long long *ys     # of each label its class,
    const long long *rows   # its row, -1 where that is gone,
    const long long *due    # and before which of the n rows it is learned
    const double *weights   # and its weight; 1 where NULL
    const float *known      # (n_labels, n_sent + 1, with sets 6 more): what its receipt gave it
    const long long *slots  # (first + n, columns): of the values that rows give
    Py_ssize_t at           # how many rows are done
    Py_ssize_t learned      # and labels


@cython.final
cdef class Model:
    """The mathematics of a Corrector: pointers into its arrays, workspace for a row, and the loop.

    Parameters
    ----------
    m, paths
        Number of classes; names of the paths in their order.
    state
        Arrays of :mod:`stream_can.method.state`, checked by the caller, changed in place.
    train
        Prior of the training set, shape (m,).
    start_weights
        Initial weights of the paths, shape (mixtures, paths); the second mixture has columns.
    values
        Label statistics of column values, if any.
    monotone
        Whether every row keeps its likeliest class; none of `paths` changes it.
    ratio
        The known class mix of the stream divided by `train`, shape (m,).
    """

    cdef Py_ssize_t m, n_paths, n_bases, n_parts, k
    cdef Base *bases
    cdef Base *fitted                   # NULL where there is none
    cdef Base *anchor
    cdef bint anchor_can                # the anchor is that base's row after CAN
    cdef readonly Values values
    cdef Slots *slots                   # of the values, NULL without columns
    cdef int n_columns
    cdef Py_ssize_t n_sent              # rows that what is sent is mixed from
    cdef Py_ssize_t receipt_size        # and the numbers of a receipt
    cdef Py_ssize_t n_known             # and what of it is known of a label
    cdef Sets sets
    cdef double *sent                   # where sets are made of rows that nobody asked for
    cdef float *single                  # and as they are sent, in float32
    cdef Base *expected                 # the base whose rows a value is compared with
    cdef double *mean                   # M, then N
    cdef long long *counts              # predictions, labels, labels with their prediction
    cdef Row row
    cdef Features features
    cdef Prior prior
    cdef Second second
    cdef Moving moving
    cdef Calibrated top
    cdef Guards guards
    cdef Late late
    cdef Whole whole
    cdef Part *parts
    cdef Py_ssize_t of_mean, of_predicted   # which parts those are
    cdef double g                       # what a decayed sum keeps at each event
    cdef double threshold, pseudo_count, a, curvature_b, floor
    cdef double kept, wrong             # (1-eps) and eps/m: of a label, kept u + wrong
    cdef double weight                  # of the label at hand,
    cdef double *heaviest               # and the largest, at least 1
    cdef int kind
    cdef Sure sure                      # where no logarithms are needed to tell certain rows
    cdef bint logs, tops, centred, shares, counts_best, guarded, monotone
    cdef object prior_row               # the array behind q
    cdef object keep                    # every array that a pointer goes into

    def __cinit__(self, Py_ssize_t m, tuple paths, dict state, *, train, double half_life,
                  str uncertainty, Py_ssize_t k,
                  double threshold, double pseudo_count, double prior_strength, double label_noise,
                  start_weights,
                  double precision=5.0, double exponent=0.25, double passes=1.0,
                  bint shared_features=True, Values values=None, double miss=0,
                  bint monotone=False, ratio=None, int set_groups=OF_ALL):
        cdef Base *base
        cdef Mixture *mixture
        cdef Py_ssize_t i
        names = list(dict.fromkeys(split(path)[0] for path in paths))
        self.m, self.n_paths, self.n_bases = m, len(paths), len(names)
        self.g = 2.0 ** (-1.0 / half_life)
        self.kind, self.k, self.threshold = UNCERTAINTIES.index(uncertainty), k, threshold
        find_sure_shares(&self.sure, m, self.kind, k, threshold)
        self.pseudo_count, self.prior.strength = pseudo_count, prior_strength
        self.a, self.curvature_b = precision, passes * CURVATURE_B
        self.floor = FLOOR_MASS / m
        self.kept, self.wrong = 1 - label_noise, label_noise / m
        self.row.n_top = min(<Py_ssize_t>TOP, m)
        self.guarded = self.n_paths > 1
        self.monotone = monotone
        self.bases = <Base *>calloc(self.n_bases, sizeof(Base))
        if self.bases == NULL:
            raise MemoryError
        width = (max(m, FEW) + 7) // 8 * 8
        self.values, self.n_columns = values, 0 if values is None else len(values.columns)
        self.slots = NULL if values is None else &values.slots
        self.second.n = 1 if values is None else 2
        n_features = max(4, 3 + 2 * self.n_columns)
        work = on_cache_lines(20 + 3 * self.second.n + 2 * self.n_bases, width)
        more = np.zeros((2 * n_features + 1) * m + n_features * (n_features + 1))
        prior, silent = np.empty(m), np.empty(m, np.int64)
        logs = np.log(np.maximum(train, 1e-300))
        self.prior_row = prior
        self.keep = (*state.values(), train, start_weights, work, more, silent, logs)
        rows = iter(work)
        self.row.p, self.row.x = pointer(next(rows), width), pointer(next(rows), width)
        self.row.top, self.row.residual = pointer(next(rows), width), pointer(next(rows), width)
        self.row.y = pointer(next(rows), width)
        self.features.f1, self.features.f3 = pointer(next(rows), width), pointer(next(rows), width)
        self.whole.phi, self.whole.Pphi = pointer(next(rows), width), pointer(next(rows), width)
        self.second.masked = pointer(next(rows), width)
        self.second.guarded[0] = pointer(next(rows), width)
        self.second.guarded[1] = pointer(next(rows), width)
        self.features.values = pointer(more, len(more))
        self.features.work = self.features.values + 2 * self.n_columns * m
        for i in range(self.second.n):
            mixture = &self.second.of[i]
            mixture.mixed, mixture.xo = pointer(next(rows), width), pointer(next(rows), width)
            mixture.last.r = pointer(next(rows), width)
            of = ".segmented" if i else ""
            mixture.weights = pointer(state[f"weights{of}"], self.n_paths)
            mixture.start = pointer(start_weights[i], self.n_paths)
            mixture.last.u = pointer(state[f"u.last{of}"], 1)
            mixture.last.K = pointer(state[f"K.last{of}"], 1)
        self.features.f2 = pointer(logs, m)
        self.guards.silent = integers(silent, m)
        self.prior.labels = pointer(state["labels"], m)
        self.prior.train = pointer(train, m)
        self.prior.q = pointer(prior, m)
        self.second.recent = pointer(state["recent"], 4)
        self.counts = integers(state["counts"], 3)
        self.mean = pointer(state["mean"], m + 1)
        self.guards.predicted = pointer(state["predicted"], m)
        self.guards.labelled = pointer(state["labelled"], m + 1)
        self.guards.heard = integers(state["heard"], m)
        self.guards.agreement = pointer(state["agreement"], 3)
        self.weight, self.heaviest = 1, pointer(state["heaviest"], 1)
        anchored, self.anchor_can = split(anchor(paths))
        for i, name in enumerate(names):
            base = &self.bases[i]
            about = BASES[name]
            can = about.path_with_can
            base.path = paths.index(name) if name in paths else -1
            base.can = paths.index(can) if can in paths else -1
            base.r = pointer(next(rows), width)
            base.normalised = pointer(next(rows), width)
            base.learns, base.shares = about.learns, about.features > 1 and shared_features
            base.centred = about.centred
            base.exponent = exponent if about.learns else 0.5
            base.counts = about.features == 4
            self.counts_best = self.guarded or self.counts_best or base.counts
            self.shares = self.shares or base.shares
            self.centred = self.centred or base.centred
            self.logs = self.logs or about.features > 0
            if base.can >= 0:
                base.S = pointer(state[f"S.{name}"], m)
            base.n_t = 2 * self.n_columns if about.segmented else 0
            if "P" in about.arrays:
                base.whole = &self.whole
                self.lay_out_whole(state)
            n_features = about.features + base.n_t
            if about.features > 0:
                base.u = pointer(state[f"u.{name}"], n_features)
                if about.learns:
                    base.K = pointer(state[f"K.{name}"], n_features * (n_features + 1) // 2)
            if f"c.{name}" in state:
                base.c = pointer(state[f"c.{name}"], m)
            if f"A.{name}" in state and base.whole == NULL:
                base.A = pointer32(state[f"A.{name}"], m * m)
                self.tops = True
            if base.learns and base.c != NULL:
                base.H = pointer(state[f"H.{name}"], m)
            if base.learns and base.A != NULL:
                base.G = pointer32(state[f"G.{name}"], m * m)
            if name == "fitted":
                self.fitted = base
            if name == "vector":
                self.expected = base
            if name == anchored:
                self.anchor = base
        self.lay_out_sums(state, names)
        self.lay_out_mix(state, rows)
        self.lay_out_sent(state, rows, ratio)
        if miss > 0:
            self.lay_out_sets(state, miss, half_life, set_groups)
        furthest = float(-logs.min())
        self.features.widest = exp(LARGEST_LOG_B) * (furthest - log(self.floor))
        self.features.widest += (1 + 2 * LARGEST_T) * furthest + 30
        self.features.wide = self.features.widest > 690
        self.refresh()

    cdef void refresh(self) noexcept nogil:
        """Compute what follows from the arrays of the state."""
        cdef Py_ssize_t i
        self.features.stale = True
        self.guards.n_unheard = self.guards.n_silent = 0
        for i in range(self.m):
            self.guards.n_unheard += self.guards.heard[i] != 1
            if self.guards.heard[i] == -1:
                self.guards.silent[self.guards.n_silent] = i
                self.guards.n_silent += 1
        if self.moving.ref != NULL:
            invert(self.moving.ref, self.moving.chain.inverse, self.m)
        self.refresh_prior()
        self.weigh_final()

    cdef int lay_out_sums(self, dict state, list names) except -1:
        """Index of each state array's part in sums."""
        cdef Py_ssize_t i
        layout = parts_of_sums(state)
        order = {part.array: i for i, part in enumerate(layout)}
        self.of_mean, self.of_predicted = order["mean"], order["predicted"]
        self.moving.of_V, self.moving.of_D = order.get("V", -1), order.get("D", -1)
        self.moving.of_rival = order.get("W.rival", -1)
        for i, name in enumerate(THIRDS):
            self.moving.of_cells[i] = order.get(name, -1)
        self.late.of_rows = order.get("late.rows", -1)
        self.late.of_rows_squares = order.get("late.rows.squares", -1)
        self.late.of_squares = order.get("squares", -1)
        self.moving.of_W = order.get("W", order.get("W.moving", -1))
        for i, name in enumerate(EXPERTS if "Q" in order else MOVING_EXPERTS):
            self.moving.of_Q[i] = order.get(name, -1)
        for i, name in enumerate(names):
            if self.bases[i].S != NULL:
                self.bases[i].part = order[f"S.{name}"]
        self.n_parts = len(layout)
        self.parts = <Part *>calloc(self.n_parts, sizeof(Part))
        if self.parts == NULL:
            raise MemoryError
        for i, part in enumerate(layout):
            array = state[part.array]
            self.parts[i].array, self.parts[i].size = pointer(array, len(array)), len(array)
            self.parts[i].decay = self.g if part.decay is None else part.decay
            self.parts[i].counted = part.counted
        return 0

    cdef int lay_out_whole(self, dict state) except -1:
        """Set up the whole matrix of the base full."""
        cdef Py_ssize_t m = self.m
        square = np.empty(m * m)
        self.whole.A, self.whole.C = (
            pointer32(state["A.full"], m * m), pointer32(state["C.full"], m * m))
        self.whole.P, self.whole.s = pointer32(state["P.full"], m * m), pointer(state["s.full"], 3)
        self.whole.n, self.whole.square = integers(state["n.full"], 2), pointer(square, m * m)
        self.whole.prior, self.whole.ridge = WHOLE_PRECISION, WHOLE_RIDGE
        self.keep = (*self.keep, square)
        return 0

    cdef int lay_out_mix(self, dict state, rows) except -1:
        """Set up the chain of the class mix, if there is one."""
        cdef Py_ssize_t i, m = self.m
        cdef Chain *chain = &self.moving.chain
        experts = [name for name in (*EXPERTS, *MOVING_EXPERTS) if name in state]
        chain.n = len(experts)
        if not experts:
            return 0
        chain.W = pointer(state["W.moving" if "V" in state else "W"], chain.n + 1)
        chain.inverse, chain.ratio = workspace(rows), workspace(rows)
        for i, name in enumerate(experts):
            chain.Q[i], chain.r[i] = pointer(state[name], m + 1), workspace(rows)
            chain.decay[i] = self.parts[self.moving.of_Q[i]].decay
            chain.strength[i] = (EXPERTS | MOVING_EXPERTS)[name].strength * m
        if "V" in state:
            self.moving.V = pointer(state["V"], m + 1)
            chain.row = workspace(rows)
            return 0
        self.moving.ref = pointer(state["ref"], m)
        self.moving.frozen, chain.row = workspace(rows), self.fitted.r
        chain.ref, chain.held = self.moving.ref, pointer(state["held"], m)
        chain.rival = pointer(state["W.rival"], 1)
        for i, name in enumerate(THIRDS):
            self.moving.cells.counts[i] = pointer(state[name], m + 1)
        self.moving.cells.prior = pointer(state["cells"], 3 * m)
        self.moving.cells.edges = pointer(state["edges"], 2)
        self.moving.cells.strength = max(RIVAL_ROWS, RIVAL_ROWS_OF_CLASS * m)
        if "sharp" in state:
            self.moving.sharp, self.moving.D = pointer(state["sharp"], m), pointer(state["D"], 2)
        return 0

    cdef int lay_out_sent(self, dict state, rows, ratio) except -1:
        """Set up the rows from which the output is mixed, in the order of receipts."""
        cdef Second *of = &self.second
        cdef double tail = 0.25 if of.n == 1 else 0.125
        pi, odds = [0.5, tail, tail], [None, *state["odds"].reshape(2, 1)]
        of.fresh = 1
        if self.guarded:
            if "V" in state:
                of.moving = 3
                pi.append(MOVING_PRIOR)
                odds.append(state["odds.moving"])
            of.plain = len(pi)
            pi.append(PLAIN_PRIOR)
            odds.append(state["odds.plain"])
            if ratio is not None:
                of.known, of.ratio, of.at_known = len(pi), pointer(ratio, self.m), workspace(rows)
                pi.append(KNOWN_PRIOR)
                odds.append(state["odds.known"])
                self.keep = (*self.keep, ratio)
            if "V" in state:
                of.raw = len(pi)
                pi.append(RAW_PRIOR)
                odds.append(state["odds.raw"])
            of.n_without = len(pi)
            self.lay_out_late(state)
            if of.n == 2:
                pi += [tail, tail]
                odds += [*state["odds.segmented"].reshape(2, 1)]
            pi.append(0.5)
            odds.append(state["odds.calibrated"])
            bins = state["bins"].shape[1]
            self.top.bins = bins // 2 if self.m == 2 else bins
            self.top.n = pointer(state["bins"][0], bins)
            self.top.hits = pointer(state["bins"][1], bins)
            self.top.sure = pointer(state["bins"][2], bins)
        for i, (prior, array) in enumerate(zip(pi, odds)):
            of.prior[i], of.odds[i] = prior, NULL if array is None else pointer(array, 1)
        of.n_sent = self.n_sent = len(pi)
        self.receipt_size, self.n_known = self.n_sent * self.m + 1, self.n_sent + 1
        return 0

    cdef int lay_out_late(self, dict state) except -1:
        """Set up what tells whether the mix that labels taught is stale."""
        cdef Py_ssize_t m = self.m
        self.late.rows, self.late.labels = (
            pointer(state["late.rows"], m + 1), pointer(state["late.labels"], m + 1))
        self.late.squares = pointer(state["squares"], m + 1)
        self.late.rows_squares = pointer(state["late.rows.squares"], 1)
        self.late.labels_squares = pointer(state["late.labels.squares"], 1)
        self.late.n_labels = pointer(state["late.labels.number"], 1)
        self.late.kept = self.parts[self.late.of_rows].decay
        self.late.kept_labels = 2.0 ** (-1.0 / LATE_LABELS_HALF_LIFE)
        return 0

    cdef int lay_out_sets(self, dict state, double miss, double half_life,
                          int groups_of) except -1:
        """Set up the histogram of prediction sets, if they are made."""
        cdef float[::1] single
        labels, belief = state["sets.labels"], state["sets.belief"]
        self.sets.labels, self.sets.belief = pointer(labels, SET_BINS), pointer(belief, SET_BINS)
        self.sets.numbers = pointer(state["sets.numbers"], 6)
        self.sets.counts = integers(state["sets.counts"], 2)
        self.sets.groups = pointer(state["sets.groups"], 2 * self.m)
        self.sets.groups_of = groups_of
        self.sets.miss, self.sets.growth = miss, 2.0 ** (1 / half_life)
        self.receipt_size += self.m + TAIL
        self.n_known += OF_SET
        sent, single = np.empty(self.m), np.empty(self.m, np.float32)
        self.sent, self.single = pointer(sent, self.m), &single[0]
        self.keep = (*self.keep, sent, single)
        return 0

    def __dealloc__(self):
        free(self.bases)
        free(self.parts)

    cdef double coverage(self):
        """Mean share of the correction that is sent, over recent predictions."""
        cdef Py_ssize_t j
        cdef double total = 0
        if not self.guarded or self.mean[self.m] <= 0:
            return 1.0
        for j in range(self.m):
            total += self.guards.predicted[j] * self.trust(j)
        return min(1.0, total / self.mean[self.m])

    cdef object follows_mix(self):
        """Share of the fitted base's row that follows the class mix; None where it does not."""
        cdef Py_ssize_t i
        cdef double share = 0
        if self.moving.chain.rival == NULL:
            return None
        for i in range(self.moving.chain.n):
            share += self.moving.chain.W[i + 1]
        return self.mix_believed() * share

    # No Python below here. The sections are those of docs/method.md.

    # ---- CAN: the prior q = (L + s q_train) / (sum L + s)

    cdef void refresh_prior(self) noexcept nogil:
        """q: counts of labels added to the training prior; a silent class keeps its share of
        that."""
        cdef Py_ssize_t i, j = 0, m = self.m
        cdef Prior *of = &self.prior
        cdef double total, rest = 1
        if isinf(of.strength):
            memcpy(of.q, of.train, m * sizeof(double))
            return
        total = sum_of(of.labels, m)
        for i in range(self.guards.n_silent):
            total -= of.labels[self.guards.silent[i]]
            rest -= of.train[self.guards.silent[i]]
        if self.guards.n_silent == 0:
            posterior(of.labels, of.strength, of.train, total + of.strength, of.q, m)
            return
        total = (total + of.strength * rest) / rest if rest > 0 else INFINITY
        posterior(of.labels, of.strength, of.train, total, of.q, m)
        for i in range(self.guards.n_silent):
            j = self.guards.silent[i]
            of.q[j] = of.train[j]

    # ---- What was sent is judged: weight_i proportional to pi_i exp(G_i)

    cdef void weigh_final(self) noexcept nogil:
        """Compute the weights of the rows without columns, of those with, and of the calibrated
        row."""
        cdef Second *of = &self.second
        cdef int last = of.n_sent - 1
        cdef double mass, other
        if not self.guarded:
            of.final[0], of.final[1], of.final[2] = 1, 0, 0
            return
        mass = self.weigh_group(0, of.n_without)
        of.of[0].log_mass = mass
        if of.n > 1:
            other = of.of[1].log_mass = self.weigh_group(of.n_without, last)
            mass = max(mass, other) + log(1 + exp(-abs(mass - other)))
        of.final[last] = sigmoid(log(of.prior[last]) + self.log_odds(last) - mass)

    cdef double log_odds(self, int i) noexcept nogil:
        return 0.0 if self.second.odds[i] == NULL else self.second.odds[i][0]

    cdef double weigh_group(self, int first, int end) noexcept nogil:
        """Compute weights that sum to 1 within a group of rows, and the log of their total."""
        cdef double most = self.log_odds(first), total = 0
        cdef double *final = self.second.final
        cdef int i
        for i in range(first + 1, end):
            most = max(most, self.log_odds(i))
        for i in range(first, end):
            final[i] = self.second.prior[i] * exp(self.log_odds(i) - most)
            total += final[i]
        for i in range(first, end):
            final[i] /= total
        return most + log(total)

    cdef double share(self) noexcept nogil:
        """Share of the output that comes from the two rows with columns."""
        cdef double x = min(self.second.of[1].log_mass - self.second.of[0].log_mass, MOST_ODDS)
        if self.row.slots != NULL:
            x += smallest_odds(self.slots, self.row.slots, self.n_columns)
        return sigmoid(x)

    # ---- Bases: r = softmax(f2 + b y + t1 (f1 - f2) + t2 f2 + c + sum of w_k A_k over k in J)

    cdef void refresh_features(self) noexcept nogil:
        """Update f1 - f2, f1 = log((M + 1) / (N + m)), if predictions were observed since."""
        cdef double log_total = log(self.mean[self.m] + self.m)
        log_mean(self.mean, log_total, self.features.f1, self.m)
        if self.counts_best:
            log_mean(self.guards.predicted, log_total, self.features.f3, self.m)
            add_weighed(self.features.f1, -1, self.features.f3, self.m)
        add_weighed(self.features.f2, -1, self.features.f1, self.m)
        self.features.wide = self.features.widest + 2 * LARGEST_T * log_total > 690
        self.features.stale = False

    cdef void find_speakers(self) noexcept nogil:
        """Find J: the largest entries of p, ties to the lower index."""
        five_largest(self.row.p, self.m, self.row.n_top, self.row.speaker)

    cdef void find_best(self, const double *p) noexcept nogil:
        """Index of the likeliest class of the row p, the lowest of equals."""
        cdef Py_ssize_t i
        self.row.best = 0
        if self.tops:
            self.row.best = self.row.speaker[0]
            return
        for i in range(1, self.m):
            if p[i] > p[self.row.best]:
                self.row.best = i

    cdef void weigh_speakers(self, double exponent) noexcept nogil:
        """w: max(p_j, floor) to the power of 1/2 or 1/4."""
        cdef Py_ssize_t j
        cdef double v
        for j in range(self.row.n_top):
            v = self.row.p[self.row.speaker[j]]
            v = sqrt(v if v > self.floor else self.floor)
            self.row.speak[j] = v if exponent == 0.5 else sqrt(v)

    cdef void recalibrate(self, Base *base) noexcept nogil:
        """Compute base.r: the row p, recalibrated."""
        cdef Py_ssize_t j, m = self.m
        cdef double b
        if base.u == NULL or m == 1:
            memcpy(base.r, self.row.p, m * sizeof(double))
            return
        b = exp(base.u[0])
        if base.counts:
            stretch(self.row.y, b, self.features.f2, base.r, m)
            add_weighed(self.features.f1, base.u[1], base.r, m)
            add_weighed(self.features.f2, base.u[2], base.r, m)
            add_weighed(self.features.f3, base.u[3], base.r, m)
        elif base.shares:
            combine(self.row.y, self.features.f1, self.features.f2, base.c, b, base.u[1],
                    1 + base.u[2], base.r, m)
        elif base.centred:
            stretch(self.row.y, b, self.features.f2, base.r, m)
            if base.c != NULL:
                add_weighed(base.c, 1, base.r, m)
        else:
            times(self.row.x, b, base.r, m)
        if base.n_t > 0 and self.row.slots != NULL:
            for j in range(base.n_t):
                if self.row.slots[j // 2] > 0:
                    add_weighed(self.features.values + j * m, base.u[3 + j], base.r, m)
        if base.A != NULL:
            self.weigh_speakers(base.exponent)
            for j in range(self.row.n_top):
                add_row(base.A + self.row.speaker[j] * m, self.row.speak[j], base.r, m)
        if base.whole != NULL:
            find_phi(base.whole, self.row.y, m)
            add_whole(base.whole, base.r, m)
        if base.n_t > 0 or base.whole != NULL or base.centred and self.features.wide:
            exp_shifted(base.r, m)
        else:
            exp_all(base.r, m)
        scale(base.r, 1 / sum_of(base.r, m), m)
        if base == self.fitted and self.moving.chain.n > 0:
            self.follow_fitted()

    # ---- The moving class mix: q = (Q + s base) / (N + s), base being the q of a slower expert

    cdef double mix_believed(self) noexcept nogil:
        """0 where rows are sharper or flatter than validation rows of such classes were, else 1."""
        cdef double *D = self.moving.D
        cdef double by = (MOST_FLAT - abs(D[0]) / (D[1] + 100)) / (MOST_FLAT - LEAST_FLAT)
        return min(max(by, 0.0), 1.0)

    cdef void follow_fitted(self) noexcept nogil:
        """Adjust the fitted base's row to the recent class mix; less where rows have changed."""
        cdef Moving *mix = &self.moving
        cdef double *r = self.fitted.r
        cdef double by
        memcpy(mix.frozen, r, self.m * sizeof(double))
        mix.chain.l_rival = cell_likelihood(&mix.cells, mix.frozen, self.m)
        follow_mix(&mix.chain, mix.frozen, self.m)
        if mix.sharp == NULL:
            return
        mix.flatter = dot(mix.frozen, mix.frozen, self.m) - dot(r, mix.sharp, self.m)
        by = self.mix_believed()
        if by < 1:
            shrink(r, by, mix.frozen, self.m)

    cdef void follow_anchor(self) noexcept nogil:
        """Adjust the anchor's row to the recent class mix relative to the long-run mix."""
        inverse_mean(self.moving.V, self.moving.chain.inverse, self.m)
        follow_mix(&self.moving.chain, self.anchor_row(), self.m)
        if self.monotone:
            memcpy(self.moving.chain.row, self.anchor_row(), self.m * sizeof(double))

    cdef void observe_class_mix(self) noexcept nogil:
        """Count the present row in the class mix."""
        cdef Moving *mix = &self.moving
        cdef int i
        if mix.chain.n == 0:
            return
        observe_mix(&mix.chain, self.m)
        if mix.chain.rival != NULL:
            for i in range(3):
                count_cell(&mix.cells, i, mix.cells.counts[i], self.parts[mix.of_cells[i]].decay,
                           self.m)
        if mix.V != NULL:
            count_row(mix.V, self.g, mix.chain.v, self.m)
        elif mix.sharp != NULL:
            mix.D[0] = self.parts[mix.of_D].decay * mix.D[0] + mix.flatter
            mix.D[1] = self.parts[mix.of_D].decay * mix.D[1] + 1

    cdef void sum_up_class_mix(self, double *sums) noexcept nogil:
        """Compute the sums that :meth:`observe_class_mix` would add; of weights the sum of log
        l."""
        cdef Moving *mix = &self.moving
        cdef Py_ssize_t m = self.m, width = self.m + 1
        cdef double *to
        cdef int i
        for i in range(mix.chain.n):
            sums[mix.of_W * width + i] += log_of(mix.chain.l[i])
            count_row(sums + mix.of_Q[i] * width, mix.chain.decay[i], counted(&mix.chain, i, m), m)
        if mix.chain.rival != NULL:
            sums[mix.of_rival * width] += log_of(mix.chain.l_rival)
            for i in range(3):
                count_cell(&mix.cells, i, sums + mix.of_cells[i] * width,
                           self.parts[mix.of_cells[i]].decay, m)
        if mix.V != NULL:
            count_row(sums + mix.of_V * width, self.g, mix.chain.v, m)
        elif mix.sharp != NULL:
            to = sums + mix.of_D * width
            to[0] = self.parts[mix.of_D].decay * to[0] + mix.flatter
            to[m] = self.parts[mix.of_D].decay * to[m] + 1

    # ---- CAN: where U(r) >= threshold, r_i q_i / (S_i + kappa q_i + r_i), divided by its sum

    cdef void alternate(self, Base *base) noexcept nogil:
        """Set base.uncertain and, if true, base.normalised: the row after CAN."""
        cdef double total
        base.uncertain = False
        if base.can < 0:
            return
        if uncertainty_of(base.r, self.m, self.kind, self.k, self.row.top,
                          &self.sure) < self.threshold:
            return
        normalise_columns(base.r, self.prior.q, base.S, self.pseudo_count, base.normalised, self.m)
        total = sum_of(base.normalised, self.m)
        base.uncertain = True
        if total > 1e-300:
            scale(base.normalised, 1 / total, self.m)
        else:  # a sum that underflowed has no information: the row is unchanged
            memcpy(base.normalised, base.r, self.m * sizeof(double))

    cdef void forward(self, const double *p, const long long *slots) noexcept nogil:
        """Compute every path of a row with the column values in these slots."""
        cdef Py_ssize_t i
        self.row.slots = slots
        if slots != NULL:
            for i in range(self.n_columns):
                features_of(self.slots, slots[i], self.prior.q,
                            self.features.values + 2 * i * self.m)
        divide(p, sum_of(p, self.m), self.row.p, self.m)
        if self.logs:
            log_clipped(self.row.p, self.floor, self.row.x, self.m)
        if self.centred:
            subtract(self.row.x, self.features.f2, self.row.y, self.m)
        if self.shares and self.features.stale:
            self.refresh_features()
        if self.tops:
            self.find_speakers()
        if self.monotone:
            self.find_best(p)  # and not of the row divided by its sum: rounding may make equals
        elif self.counts_best:
            self.find_best(self.row.p)
        for i in range(self.n_bases):
            self.recalibrate(&self.bases[i])
            self.alternate(&self.bases[i])

    # ---- The mixture of the paths: sum of w_k r_k; sent: lambda x the three + (1 - lambda) p

    cdef void mix(self, const double *weights, double *out) noexcept nogil:
        """Compute the weighted mean of the paths."""
        cdef Py_ssize_t i
        cdef Base *base
        cdef double w
        for i in range(self.n_bases):
            base = &self.bases[i]
            w = weight(weights, base.path)
            if not base.uncertain:
                w += weight(weights, base.can)
            if i == 0:
                weigh(base.r, w, out, self.m)
            else:
                add_weighed(base.r, w, out, self.m)
            if base.uncertain:
                add_weighed(base.normalised, weight(weights, base.can), out, self.m)

    cdef void temper(self, Mixture *mixture) noexcept nogil:
        """Compute last.r: the mixture at its own temperature."""
        cdef double *r = mixture.last.r
        log_clipped(mixture.mixed, self.floor, mixture.xo, self.m)
        times(mixture.xo, exp(mixture.last.u[0]), r, self.m)
        exp_all(r, self.m)
        scale(r, 1 / sum_of(r, self.m), self.m)

    cdef const double *anchor_row(self) noexcept nogil:
        cdef bint normalised = self.anchor_can and self.anchor.uncertain
        return self.anchor.normalised if normalised else self.anchor.r

    cdef const double *fallback(self) noexcept nogil:
        """The row sent where labels cannot be trusted: raw, or `fitted`."""
        return self.row.p if self.fitted == NULL else self.fitted.r

    cdef double trust(self, Py_ssize_t j) noexcept nogil:
        """Lambda: the share of the correction that is sent for a row whose likeliest class is j."""
        cdef double agree = self.guards.agreement[0], differ = self.guards.agreement[1]
        cdef double sure = self.guards.agreement[2], n = self.guards.labelled[self.m]
        cdef double N = self.mean[self.m]
        if one_sided(agree, sure, differ, agree - sure, SPARE):
            return 0.0  # only corrections come back, or only confirmations
        if self.guards.n_unheard > 0 and n < MOST_LABELLED * N and self.unheard_share() > (
            MOST_UNHEARD if self.guards.n_unheard < self.m - 1 else 0
        ):
            return 0.0  # labels come of some classes alone
        return trusted(self.guards.labelled[j],
                       n * self.guards.predicted[j] / N if N > 0 else 0.0)

    cdef double unheard_share(self) noexcept nogil:
        """What the last labelled rows gave to classes of which, by that, labels would have come."""
        cdef Py_ssize_t k
        cdef double total = 0, labels = self.late.labels[self.m]
        cdef double each = self.late.n_labels[0] / labels if labels > 0 else 0.0
        for k in range(self.m):
            if self.guards.heard[k] != 1 and each * self.late.labels[k] > SPARE:
                total += self.late.labels[k]
        return total / labels if total > 0 else 0.0

    cdef const double *sent_row(self, int i) noexcept nogil:
        """Compute one of the rows of the output, except the calibrated one."""
        cdef Mixture *mixture
        if i == 0:
            return self.anchor_row()
        if i == self.second.moving:
            return self.moving.chain.row
        if i == self.second.plain:
            return tempered_row(&self.second.of[0])
        if i == self.second.raw:
            return self.second.came
        if i == self.second.known:
            return self.second.at_known
        if i <= 2 and self.second.fresh < 1:
            return self.second.guarded[i - 1]
        mixture = &self.second.of[0 if i < self.second.n_without else 1]
        return mixture.mixed if i == 1 or i == self.second.n_without else tempered_row(mixture)

    cdef void adjust_to_known(self) noexcept nogil:
        """Compute the anchor's row at the known mix, if there is one."""
        cdef Py_ssize_t i
        cdef double total
        cdef const double *row = self.anchor_row()
        cdef double *out = self.second.at_known
        if self.second.known > 0:
            for i in range(self.m):
                out[i] = row[i] * self.second.ratio[i]
            total = sum_of(out, self.m)
            if total > 0:  # 0 where all that the row holds are silent classes
                for i in range(self.m):
                    out[i] /= total

    cdef double freshness(self) noexcept nogil:
        """f: 0 where the last rows are others than those that had the last labels."""
        cdef Late *late = &self.late
        cdef Py_ssize_t m = self.m
        cdef double T, rows = late.rows[m], labels = late.labels[m]
        if rows <= FEW_LATE or late.n_labels[0] <= FEW_LATE:
            return 1
        T = apart(late.rows, late.labels, late.squares, self.mean, LEAST_VARIANCE / m, m) / m
        T /= late.rows_squares[0] / (rows * rows) + late.labels_squares[0] / (labels * labels)
        T = (FRESH_BELOW - T) / FRESH_RANGE
        return max(T, 0.0) if T < 1 else 1.0

    cdef void guard_mixtures(self, double fresh) noexcept nogil:
        """Set f, and the mixture and the tempered one as they are sent with it."""
        cdef const double *back
        cdef Second *of = &self.second
        of.fresh = fresh
        if fresh == 1:
            return
        back = self.anchor_row() if of.moving == 0 else self.moving.chain.row
        memcpy(of.guarded[0], of.of[0].mixed, self.m * sizeof(double))
        memcpy(of.guarded[1], tempered_row(&of.of[0]), self.m * sizeof(double))
        shrink(of.guarded[0], fresh, back, self.m)
        shrink(of.guarded[1], fresh, back, self.m)

    cdef double mix_sent(self, double *out) noexcept nogil:
        """Mix the rows of :meth:`sent_row` but the row as it came, and calibrate the result; return
        their share in what is sent.

        It is summed, and not what is left beside the row as it came: where that has nearly all,
        nothing of a difference is right."""
        cdef Second *of = &self.second
        cdef double share = 0, others = of.final[0] + of.final[1] + of.final[2], w
        cdef int i
        mix_three(self.anchor_row(), of.final[0], self.sent_row(1), of.final[1],
                  self.sent_row(2), of.final[2], out, self.m)
        for i in range(3, of.n_without):
            if i != of.raw:
                add_weighed(self.sent_row(i), of.final[i], out, self.m)
                others += of.final[i]
        if of.n > 1:
            share = self.share()
            scale(out, 1 - share, self.m)
            others *= 1 - share
            for i in range(of.n_without, of.n_sent - 1):
                w = share * of.final[i]
                add_weighed(self.sent_row(i), w, out, self.m)
                others += w
        others = min(others, 1.0)
        if of.raw != 0:
            if others > LEAST_SHARE:
                scale(out, 1 / others, self.m)
            else:
                others = 0
                memcpy(out, of.came, self.m * sizeof(double))
        self.keep_likeliest(out)
        calibrate(&self.top, out, self.m)
        return others

    cdef void keep_likeliest(self, double *out) noexcept nogil:
        """Where rows keep their likeliest class: put it back on top, from which only rounding can
        have taken it; a silent class that is left out stays at 0."""
        cdef Py_ssize_t i, top = 0, best = self.row.best
        if not self.monotone or out[best] == 0:
            return
        for i in range(1, self.m):
            if out[i] > out[top]:
                top = i
        if top < best:
            out[best] = nextafter(out[top], INFINITY)
        elif top > best:
            out[best] = out[top]

    cdef void send(self, double *out, float *receipt) noexcept nogil:
        """Compute the output row; write its rows to the receipt, where not NULL."""
        cdef Py_ssize_t i, m = self.m
        cdef int last = self.n_sent - 1
        cdef double by, others, share
        if m == 1 or not self.guarded:
            if m == 1:
                out[0] = 1  # the weights need not sum to 1 to the last bit
            else:
                self.mix(self.second.of[0].weights, out)
                self.keep_likeliest(out)
            if receipt != NULL:
                for i in range(self.n_sent):
                    to_single(out, receipt + i * m, m)
                calibrate(&self.top, out, m)
                receipt[self.n_sent * m] = self.top.top
            return
        for i in range(self.second.n):
            self.mix(self.second.of[i].weights, self.second.of[i].mixed)
            if self.second.of[i].last.u[0] != 0:
                self.temper(&self.second.of[i])
        self.second.came = self.row.p
        self.adjust_to_known()
        self.guard_mixtures(self.freshness())
        others = self.mix_sent(out)
        if receipt != NULL:
            for i in range(last):
                to_single(self.sent_row(i), receipt + i * m, m)
            to_single_scaled(out, self.top.rest, receipt + last * m, m)
            receipt[last * m + self.top.best] = <float>self.top.v
            receipt[self.n_sent * m] = self.top.top
        share = self.second.final[last]
        if self.second.raw == 0:
            take_share(&self.top, share, out, m)
        else:  # of what is sent a part is raw, of which none was calibrated
            by = share + (1 - share) * others
            if by > 0:
                take_share(&self.top, share / by, out, m)
            scale(out, by, m)
            add_weighed(self.second.came, (1 - share) * (1 - others), out, m)
        by = self.trust(self.row.best)
        if by < 1:
            shrink(out, by, self.fallback(), m)
        self.keep_likeliest(out)

    # ---- A row goes by: S <- g S + r where confident; M <- g M + p, N <- g N + 1; N_j; n_j

    cdef void observe(self) noexcept nogil:
        """Observe the present row: sums of confident rows, EM counts, counts of the guards."""
        cdef Py_ssize_t i, m = self.m
        cdef Base *base
        for i in range(self.n_bases):
            base = &self.bases[i]
            if base.can >= 0 and not base.uncertain:
                decay_add(base.S, self.g, base.r, m)
        self.observe_class_mix()
        if self.guarded or self.shares:
            count_row(self.mean, self.g, self.row.p, m)
            self.features.stale = True
        if self.counts_best:
            decay(self.guards.predicted, self.g, m)
            self.guards.predicted[self.row.best] += 1
        if self.guarded:
            decay(self.guards.labelled, self.g, m + 1)
            count_row(self.late.rows, self.late.kept, self.row.p, m)
            count_one(self.late.rows_squares, self.late.kept * self.late.kept)
            count_squares(self.late.squares, self.g, self.row.p, m)
        self.counts[0] += 1

    cdef void sum_up(self, double *sums) noexcept nogil:
        """Compute the sums (:mod:`stream_can.method.sums`) that observing the row adds."""
        cdef Py_ssize_t i, m = self.m, width = self.m + 1
        cdef Base *base
        cdef double *to = sums + self.of_predicted * width
        if self.guarded or self.shares:
            count_row(sums + self.of_mean * width, self.g, self.row.p, m)
        if self.counts_best:
            decay(to, self.g, m)
            to[self.row.best] += 1
        to[m] += 1
        if self.guarded:
            count_row(sums + self.late.of_rows * width, self.late.kept, self.row.p, m)
            count_one(sums + self.late.of_rows_squares * width + m,
                      self.late.kept * self.late.kept)
            count_squares(sums + self.late.of_squares * width, self.g, self.row.p, m)
        for i in range(self.n_bases):
            base = &self.bases[i]
            if base.can >= 0 and not base.uncertain:
                to = sums + base.part * width
                decay_add(to, self.g, base.r, m)
                to[m] += 1
        self.sum_up_class_mix(sums)

    # ---- Guards: k is silent where n_k < e_k - sqrt(e_k), e_k = n N_k / N, and no label came

    cdef void hear(self, Py_ssize_t y) noexcept nogil:
        """Note that a class has a label: from now on it takes part."""
        cdef Py_ssize_t i, n = 0
        if self.guards.heard[y] == 1 or not self.guarded:
            return
        self.guards.heard[y] = 1
        self.guards.n_unheard -= 1
        for i in range(self.guards.n_silent):
            if self.guards.silent[i] != y:
                self.guards.silent[n] = self.guards.silent[i]
                n += 1
        self.guards.n_silent = n

    cdef void find_silent(self) noexcept nogil:
        """Find classes without labels, though rows predicted as them should have had some."""
        cdef Py_ssize_t k
        cdef double expected, n = self.guards.labelled[self.m], N = self.mean[self.m]
        self.guards.n_silent = 0
        if self.guards.n_unheard == 0:
            return
        for k in range(self.m):
            if self.guards.heard[k] == 1:
                continue
            expected = n * self.guards.predicted[k] / N if N > 0 else 0.0
            self.guards.heard[k] = -1 if self.guards.labelled[k] < expected - sqrt(expected) else 0
            if self.guards.heard[k] == -1:
                self.guards.silent[self.guards.n_silent] = k
                self.guards.n_silent += 1

    cdef void mask(self, double *r) noexcept nogil:
        """Exclude silent classes: their entries become 0, the others sum to 1 unless all are 0."""
        cdef Py_ssize_t i
        cdef double total
        for i in range(self.guards.n_silent):
            r[self.guards.silent[i]] = 0
        total = sum_of(r, self.m)
        if total > 0:
            for i in range(self.m):
                r[i] /= total  # not times 1 / total: that of a denormal number is infinite

    # ---- A label: G_i <- g G_i + log(row_i[y] / anchor[y]); w_k <- w_k r_k[y], (1-h) w + h w0

    cdef void judge(self, Py_ssize_t y, const double *known) noexcept nogil:
        """Judge the row that was sent, or would be now: log loss, odds of its rows, top, b_o.

        `known` is what the sent rows gave the label and their top, NULL if unknown.
        """
        cdef int i, last = self.n_sent - 1
        cdef Second *of = &self.second
        cdef double by = self.trust(self.row.best), sent = 0, with_columns = 0, share, gained
        cdef double left = self.heaviest[0] / max(self.heaviest[0], self.weight), share_of_weight
        cdef double given[MOST_KNOWN]
        cdef bint right
        self.heaviest[0] = max(self.heaviest[0], self.weight)
        share_of_weight = self.weight / self.heaviest[0]
        self.guards.labelled[self.row.best] += 1
        self.guards.labelled[self.m] += 1
        self.hear(y)
        self.guards.agreement[0 if y == self.row.best else 1] += 1
        self.guards.agreement[2] += self.row.p[self.row.best]
        self.find_silent()
        if self.guards.n_silent > 0:
            for i in range(self.n_bases):
                self.mask(self.bases[i].r)
                if self.bases[i].uncertain:
                    self.mask(self.bases[i].normalised)
        for i in range(of.n):
            self.mix(of.of[i].weights, of.of[i].mixed)
            self.temper(&of.of[i])
            if self.guards.n_silent > 0:
                self.mask(of.of[i].last.r)
        if known == NULL:
            self.give_now(y, given)
            known = given
        for i in range(of.n_without):
            sent += of.final[i] * known[i]
        if of.n > 1:
            for i in range(of.n_without, last):
                with_columns += of.final[i] * known[i]
            gained = log(self.likelihood(with_columns) / self.likelihood(sent))
            share = self.share()
            sent = (1 - share) * sent + share * with_columns
            if left < 1:
                shrink_odds(self.slots, left)
            if self.row.slots != NULL:
                judge_values(self.slots, self.row.slots, self.n_columns, share_of_weight * gained)
        sent = (1 - of.final[last]) * sent + of.final[last] * known[last]
        if by < 1:
            sent = by * sent + (1 - by) * self.fallback()[y]
        self.note_loss(sent, known[0], y)
        for i in range(1, self.n_sent):
            gained = share_of_weight * log(self.likelihood(known[i]) / self.likelihood(known[0]))
            of.odds[i][0] = self.g * (left * of.odds[i][0]) + gained
        # The sign says whether the label was on top, and so, of two classes, which of them was.
        right = not signbit(known[last + 1])
        count_label(&self.top, <float>abs(known[last + 1]), y if right else 1 - y, right,
                    self.weight, self.g, self.m)
        self.weigh_final()
        for i in range(of.n):
            self.step_scalar(&of.of[i].last, of.of[i].xo, y, CURVATURE_B)

    cdef void give_now(self, Py_ssize_t y, double *given) noexcept nogil:
        """Compute the probabilities that sent rows now give a label, without silent classes; their
        top."""
        cdef int i, last = self.n_sent - 1
        if self.second.moving > 0:
            self.follow_anchor()
            if self.guards.n_silent > 0:
                self.mask(self.moving.chain.row)
        self.second.came = self.row.p
        if self.guards.n_silent > 0:
            memcpy(self.second.masked, self.row.p, self.m * sizeof(double))
            self.mask(self.second.masked)
            self.second.came = self.second.masked
        self.adjust_to_known()
        self.guard_mixtures(1)
        self.mix_sent(self.row.residual)
        for i in range(last):
            given[i] = self.sent_row(i)[y]
        given[last] = self.top.v if y == self.top.best else self.row.residual[y] * self.top.rest
        given[last + 1] = self.top.top if y == self.top.best else -self.top.top

    cdef void note_loss(self, double sent, double by_anchor, Py_ssize_t y) noexcept nogil:
        cdef double *recent = self.second.recent
        recent[0] = self.g * recent[0] - log(max(self.row.p[y], LIKELIHOOD_FLOOR))
        recent[1] = self.g * recent[1] - log(max(sent, LIKELIHOOD_FLOOR))
        recent[2] = self.g * recent[2] + 1
        recent[3] = self.g * recent[3] - log(max(by_anchor, LIKELIHOOD_FLOOR))

    cdef void learn_label(self, Py_ssize_t y) noexcept nogil:
        """Share of the prior in a label."""
        decay(self.prior.labels, self.g, self.m)
        self.prior.labels[y] += self.weight
        self.counts[1] += 1
        self.refresh_prior()

    cdef void reweigh(self, double *weights, const double *start, Py_ssize_t y) noexcept nogil:
        """Apply Bayes' rule to the paths, with a share 1 / (n + 2) back to their initial
        weights."""
        cdef Py_ssize_t i
        cdef Base *base
        if self.n_paths == 1:
            weights[0] = 1
            return
        for i in range(self.n_bases):
            base = &self.bases[i]
            if base.path >= 0:
                weights[base.path] *= self.likely(base.r[y])
            if base.can >= 0:
                weights[base.can] *= self.likely(
                    base.normalised[y] if base.uncertain else base.r[y])
        share_back(weights, sum_of(weights, self.n_paths), 1.0 / (self.counts[2] + 2), start,
                   self.n_paths)

    # ---- Labels of which a share eps is wrong: (1-eps) u + eps/m for u

    cdef double likelihood(self, double u) noexcept nogil:
        """Likelihood of a label to which a row gives u, not below the floor."""
        return max(self.kept * u + self.wrong, LIKELIHOOD_FLOOR)

    cdef double likely(self, double u) noexcept nogil:
        """The likelihood to the power of the label's weight."""
        return self.likelihood(u) if self.weight == 1 else self.likelihood(u) ** self.weight

    cdef double believed(self, double u) noexcept nogil:
        """What weighs a label's residual and curvature: its weight, times the probability that such
        a label is right."""
        return self.weight * (
            1.0 if self.wrong == 0 else self.kept * u / (self.kept * u + self.wrong))

    # ---- Newton steps: u <- u - (K + Lambda)^-1 (E_r F - F_y + (1-g) Lambda u), clipped

    cdef void step_scalar(self, Base *base, const double *x, Py_ssize_t y,
                          double curvature) noexcept nogil:
        """Take a Newton step of log b on the log loss of base.r, a row at that temperature."""
        cdef double E, E2, log_b = base.u[0], b = exp(log_b), slope
        cdef double right = self.believed(base.r[y])
        moments(base.r, x, &E, &E2, self.m)
        base.K[0] = self.g * base.K[0] + right * (b * b * (E2 - E * E))
        slope = right * (b * (E - x[y])) + (1 - self.g) * curvature * log_b
        log_b -= slope / max(base.K[0] + curvature + 1e-9, curvature / 2)
        base.u[0] = min(max(log_b, -LARGEST_LOG_B), LARGEST_LOG_B)

    cdef void step_three(self, Base *base, Py_ssize_t y) noexcept nogil:
        """Take a Newton step of log b, t1 and t2."""
        cdef Py_ssize_t i
        cdef double b = exp(base.u[0]), pull = 1 - self.g, right = self.believed(base.r[y])
        cdef double E[3]
        cdef double V[6]
        cdef double step[3]
        moments_of_three(base.r, self.row.y, self.features.f1, self.features.f2, E, V, self.m)
        base.K[0] = self.g * base.K[0] + right * (b * b * (V[0] - E[0] * E[0]))
        base.K[1] = self.g * base.K[1] + right * (b * (V[1] - E[0] * E[1]))
        base.K[2] = self.g * base.K[2] + right * (b * (V[2] - E[0] * E[2]))
        base.K[3] = self.g * base.K[3] + right * (V[3] - E[1] * E[1])
        base.K[4] = self.g * base.K[4] + right * (V[4] - E[1] * E[2])
        base.K[5] = self.g * base.K[5] + right * (V[5] - E[2] * E[2])
        step[0] = right * (b * (E[0] - self.row.y[y])) + pull * self.curvature_b * base.u[0]
        step[1] = right * (E[1] - self.features.f1[y]) + pull * CURVATURE_T * base.u[1]
        step[2] = right * (E[2] - self.features.f2[y]) + pull * CURVATURE_T * base.u[2]
        solve_three(base.K, self.curvature_b + 1e-9, CURVATURE_T + 1e-9, step)
        base.u[0] = min(max(base.u[0] - step[0], -LARGEST_LOG_B), LARGEST_LOG_B)
        for i in range(1, 3):
            base.u[i] = min(max(base.u[i] - step[i], -LARGEST_T), LARGEST_T)

    cdef void step_all(self, Base *base, Py_ssize_t y) noexcept nogil:
        """Take a Newton step of log b, t1, t2 and the t of the columns."""
        cdef Py_ssize_t m = self.m
        cdef int n = 3 + base.n_t + base.counts
        cdef double *F = self.features.work
        times(self.row.y, exp(base.u[0]), F, m)
        memcpy(F + m, self.features.f1, m * sizeof(double))
        memcpy(F + 2 * m, self.features.f2, m * sizeof(double))
        memset(F + 3 * m, 0, base.n_t * m * sizeof(double))
        if base.counts:
            memcpy(F + 3 * m, self.features.f3, m * sizeof(double))
        elif self.row.slots != NULL:
            memcpy(F + 3 * m, self.features.values, base.n_t * m * sizeof(double))
        newton(base.u, base.K, F, n, base.r, y, self.believed(base.r[y]), self.g, F + n * m, m,
               PRECISIONS, LIMITS, 2)

    cdef void step(self, Base *base, Py_ssize_t y) noexcept nogil:
        """Take a Newton step of a base on the log loss of the present row."""
        cdef Py_ssize_t i, j, row, m = self.m
        cdef double right = self.believed(base.r[y])
        if base.n_t > 0 or base.counts:
            self.step_all(base, y)
        elif base.shares:
            self.step_three(base, y)
        else:
            self.step_scalar(base, self.row.y if base.centred else self.row.x, y, self.curvature_b)
        if base.c == NULL:
            return
        memcpy(self.row.residual, base.r, m * sizeof(double))
        self.row.residual[y] -= 1
        if right != 1:
            scale(self.row.residual, right, m)
        step_offsets(base.c, base.H, self.row.residual, base.r, right, self.g, self.a, LARGEST_C, m)
        for i in range(self.guards.n_silent):
            base.c[self.guards.silent[i]] = 0
            base.H[self.guards.silent[i]] = 0
        if base.whole != NULL:
            learn_whole(base.whole, self.row.y, self.row.residual, base.r, right, self.weight,
                        base.H, self.g, LARGEST_C, m)
            for i in range(self.guards.n_silent):
                memset(base.whole.A + self.guards.silent[i] * m, 0, m * sizeof(float))
        if base.A == NULL:
            return
        self.weigh_speakers(base.exponent)
        for j in range(self.row.n_top):
            row = self.row.speaker[j] * m
            step_row(base.A + row, base.G + row, self.row.residual, base.r, right,
                     self.row.speak[j], self.g, self.a, LARGEST_C, m)
            for i in range(self.guards.n_silent):
                base.A[row + self.guards.silent[i]] = 0
                base.G[row + self.guards.silent[i]] = 0

    cdef void learn_row(self, const double *p, const long long *slots, Py_ssize_t y,
                        const double *known) noexcept nogil:
        """Learn a label with its prediction and the slots of that prediction's column values.

        `known` is what the sent rows gave it and their top, NULL if unknown.
        """
        cdef Py_ssize_t i
        cdef double sent
        cdef Mixture *mixture = &self.second.of[0]
        self.forward(p, slots)
        if self.guarded:
            self.judge(y, known)
        else:
            self.mix(mixture.weights, mixture.mixed)
            sent = mixture.mixed[y] if known == NULL else known[0]
            self.note_loss(sent, sent, y)
        self.counts[2] += 1
        for i in range(self.second.n):
            self.reweigh(self.second.of[i].weights, self.second.of[i].start, y)
        for i in range(self.n_bases):
            if self.bases[i].learns:
                self.step(&self.bases[i], y)
        if slots != NULL:
            values_learn(self.slots, slots, self.n_columns, self.expected.r, y,
                         self.weight)
        self.learn_label(y)
        if self.guarded:
            decay_add_weighted(
                self.late.labels, self.late.kept_labels, self.row.p, self.weight, self.m)
            count_one(&self.late.labels[self.m], self.late.kept_labels, self.weight)
            count_one(self.late.labels_squares, self.late.kept_labels * self.late.kept_labels,
                      self.weight * self.weight)
            count_one(self.late.n_labels, self.late.kept_labels)

    # ---- Many rows

    cdef void take_row(self, Job *job) noexcept nogil:
        """Process the next row: forward, write what is requested, observe or add to sums."""
        cdef Py_ssize_t i = job.at, j, m = self.m
        cdef Base *base
        cdef double *path
        self.forward(job.P + (job.first + i) * m, self.slots_of(job, job.first + i))
        if self.second.moving > 0 and (job.out != NULL or job.observes):
            self.follow_anchor()
        if job.out != NULL:
            self.send(job.out + i * m,
                      NULL if job.receipts == NULL else job.receipts + self.receipt_size * i)
        if self.sets.labels != NULL:
            self.make_set(job, i)
        if job.paths != NULL:
            for j in range(self.n_bases):
                base = &self.bases[j]
                if base.path >= 0:
                    memcpy(job.paths + (base.path * job.n + i) * m, base.r, m * sizeof(double))
                if base.can >= 0:
                    path = job.paths + (base.can * job.n + i) * m
                    memcpy(path, base.normalised if base.uncertain else base.r, m * sizeof(double))
        if job.observes:
            self.observe()
        if job.sums != NULL:
            self.sum_up(job.sums)
        job.at += 1

    # ---- Prediction sets: k is in the set of a row where -logit(r_k) <= theta

    cdef void make_set(self, Job *job, Py_ssize_t i) noexcept nogil:
        """Count the present row for sets if it is observed; write its set's data to the receipt."""
        cdef float *receipt
        cdef double number = NOT_COUNTED
        cdef Theta theta
        if not job.observes and job.receipts == NULL:
            return
        if job.out == NULL:
            self.send(self.sent, NULL)
        to_single(self.sent if job.out == NULL else job.out + i * self.m, self.single, self.m)
        if job.observes:
            number = <double>self.sets.counts[0]
            set_count(&self.sets, self.single, ROWS_GROWTH, self.m)
        if job.receipts == NULL:
            return
        receipt = job.receipts + self.receipt_size * i + self.n_sent * self.m + 1
        memcpy(receipt, self.single, self.m * sizeof(float))
        theta = self.theta_of(self.slots_of(job, job.first + i))
        memcpy(receipt + self.m, &theta, sizeof(Theta))
        write_number(number, receipt + self.m + 3)

    cdef Theta theta_of(self, const long long *slots) noexcept nogil:
        """Theta of the row `single`, by what is known now."""
        cdef Py_ssize_t k, best = -1
        if self.sets.groups_of == OF_CLASS:
            best = 0
            for k in range(1, self.m):
                if self.single[k] > self.single[best]:
                    best = k
        return set_theta(&self.sets, self.single, self.m, self.group_of(slots, <float>best),
                         <float>best)

    cdef double *group_of(self, const long long *slots, float likeliest) noexcept nogil:
        """What sets keep of a row's group; NULL where it has none."""
        if self.sets.groups_of == OF_CLASS:
            return self.sets.groups + 2 * <Py_ssize_t>likeliest if 0 <= likeliest < self.m else NULL
        if self.sets.groups_of == OF_ALL or slots == NULL or slots[self.sets.groups_of] <= 0:
            return NULL
        return set_group_of(self.slots, slots[self.sets.groups_of])

    cdef void learn_set(self, const double *p, const long long *slots, Py_ssize_t y,
                        const float *known) noexcept nogil:
        """Learn the label of a row for sets: judged by the set that was sent; if that is unknown or
        was not counted, count the row now, and judge the set with which it would be sent."""
        cdef Theta theta = Theta(NAN, NAN, -1)
        cdef double number = NOT_COUNTED
        if known != NULL:
            number = read_number(known + 4)
            memcpy(&theta, known + 1, sizeof(Theta))
        if number == NOT_FAIR:
            return
        if number >= 0 and known[0] == known[0] and is_known(theta):
            self.move_sets(slots, known[0], theta, number)
            return
        self.forward(p, slots)
        if self.second.moving > 0:
            self.follow_anchor()
        self.send(self.sent, NULL)
        to_single(self.sent, self.single, self.m)
        self.learn_set_of(slots, y, theta)

    cdef void learn_set_of(self, const long long *slots, Py_ssize_t y, Theta theta) noexcept nogil:
        """Count the row `single` now, with its label at once."""
        set_count(&self.sets, self.single, ROWS_GROWTH, self.m)
        if not is_known(theta):
            theta = self.theta_of(slots)
        self.move_sets(slots, self.single[y], theta, <double>(self.sets.counts[0] - 1))

    cdef void move_sets(self, const long long *slots, double p, Theta theta,
                        double number) noexcept nogil:
        set_learn(&self.sets, self.group_of(slots, theta.group), p, theta, number, self.weight,
                  self.weight / max(self.heaviest[0], self.weight))

    def teach_sets(self, const double[:, ::1] rows, const long long[::1] ys, list texts=None):
        """Process rows as they would be sent, each with its label at once."""
        cdef Py_ssize_t i
        cdef long long[:, ::1] slots = None
        if texts is not None and self.values is not None:
            slots = np.empty((rows.shape[0] + 1, self.n_columns), np.int64)
            self.values.look_up(texts, rows.shape[0], &slots[0, 0])
        self.weight = 1
        for i in range(rows.shape[0]):
            to_single(&rows[i, 0], self.single, self.m)
            self.learn_set_of(NULL if slots is None else &slots[i, 0], ys[i], Theta(NAN, NAN, -1))

    cdef const long long *slots_of(self, Job *job, Py_ssize_t row) noexcept nogil:
        return NULL if job.slots == NULL else job.slots + row * self.n_columns

    cdef void take_label(self, Job *job) noexcept nogil:
        """Learn the next label, judged by the receipt of its row: this call's, or a known one."""
        cdef Py_ssize_t i = job.learned, j = job.rows[i], y = job.ys[i]
        cdef double known[MOST_KNOWN]
        cdef float single[MOST_KNOWN]
        cdef const float *given
        self.weight = 1.0 if job.weights == NULL else job.weights[i]
        if j < 0:
            self.hear(y)
            self.learn_label(y)
        else:
            given = self.given(job, i, single)
            if self.sets.labels != NULL:
                self.learn_set(job.P + j * self.m, self.slots_of(job, j), y,
                               NULL if given == NULL else given + self.n_sent + 1)
            self.learn_row(job.P + j * self.m, self.slots_of(job, j), y,
                           known if self.is_known(given, known) else NULL)
        job.learned += 1

    cdef const float *given(self, Job *job, Py_ssize_t i, float *room) noexcept nogil:
        """What the receipt of a label's row gave the label: this call's, or a known one; NULL
        without one."""
        cdef Py_ssize_t j = job.rows[i] - job.first
        if j >= 0 and job.receipts != NULL:
            given_to(job.receipts + self.receipt_size * j, job.ys[i], self.n_sent, self.m, room)
            if self.sets.labels != NULL:
                set_given_to(job.receipts + self.receipt_size * j, job.ys[i], self.n_sent, self.m,
                             room)
            return room
        return NULL if job.known == NULL else job.known + self.n_known * i

    cdef bint is_known(self, const float *given, double *known) noexcept nogil:
        """Whether it is known what was sent of a label's row, and what that gave the label.

        Last comes the top, negative if the label was not on it.
        """
        cdef Py_ssize_t k, n = self.n_sent
        if given == NULL:
            return False
        for k in range(n):
            if not given[k] >= 0:  # NaN
                return False
            known[k] = given[k]
        known[n] = given[n]
        return known[n] == known[n]

    cdef bint go_on(self, Job *job) noexcept nogil:
        """Process due labels and rows until all are done; return True when signals must be
        checked."""
        cdef Py_ssize_t work = 0
        while job.at < job.n or job.learned < job.n_labels:
            if work > WORK or a_fork_waits():
                return True
            work += self.m + 10
            if job.learned < job.n_labels and (job.at == job.n or job.due[job.learned] <= job.at):
                self.take_label(job)
            else:
                self.take_row(job)
        return False

    cdef int run(self, Job *job) except -1:
        """Run the whole job; without the GIL if it is long enough."""
        cdef bint more = True
        if job.n + job.n_labels == 1:
            if job.n == 1:
                self.take_row(job)
            else:
                self.take_label(job)
            return 0
        while more:
            with nogil:
                enter_rows()
                more = self.go_on(job)
                leave_rows()
            if more:
                PyErr_CheckSignals()  # between two rows: handlers find a consistent state
        return 0

    cdef int add(self, const double[:, ::1] sums, const double[::1] decays) except -1:
        """Merge sums of rows; `decays` are the factors of each part of the state."""
        cdef Py_ssize_t i, j, k, size
        cdef double *array
        cdef long long n = <long long>sums[self.of_predicted, self.m]
        if self.counts[0] > MOST_EVENTS - n:
            raise ValueError(f"sums: {n} rows more would be more than can be counted")
        for i in range(self.n_parts):
            array, size = self.parts[i].array, self.parts[i].size
            if i == self.moving.of_W:
                fold_mix(array, self.moving.chain.n, &sums[i, 0], self.moving.chain.rival,
                         &sums[max(self.moving.of_rival, 0), 0], n)
                continue
            if i == self.moving.of_rival:
                continue
            for j in range(size):  # where a number of rows decays too it comes last, in both
                k = self.m if j == size - 1 and not self.parts[i].counted else j
                array[j] = array[j] * decays[i] + sums[i, k]
        for j in range(self.m + 1):
            self.guards.labelled[j] *= decays[self.of_predicted]
        self.counts[0] += n
        self.features.stale = True
        return 0


cdef void given_to(const float *receipt, Py_ssize_t y, Py_ssize_t rows, Py_ssize_t m,
                   float *known) noexcept nogil:
    """The probability that a receipt gave a class, and its top, negative if the class was not on
    it.

    NaN if the receipt is unknown.
    """
    cdef const float *calibrated = receipt + (rows - 1) * m
    cdef float top = receipt[rows * m]
    cdef bint on_top = True
    cdef Py_ssize_t k
    for k in range(rows):
        known[k] = receipt[k * m + y]
    for k in range(m):
        if calibrated[k] != calibrated[k]:
            top = calibrated[k]
        on_top &= not (calibrated[k] > calibrated[y] or calibrated[k] == calibrated[y] and k < y)
    known[rows] = top if on_top else -top


cdef void set_given_to(const float *receipt, Py_ssize_t y, Py_ssize_t rows, Py_ssize_t m,
                       float *known) noexcept nogil:
    """Append, after :func:`given_to`, what the sent row gave the class, theta, the row's number."""
    cdef const float *tail = receipt + rows * m + 1
    known[rows + 1] = tail[y]
    memcpy(known + rows + 2, tail + m, TAIL * sizeof(float))


cdef bint is_known(Theta theta) noexcept nogil:
    return theta.theta == theta.theta and theta.all == theta.all


cdef void write_number(double number, float *to) noexcept nogil:
    """Split a whole number into two of float32: enough for thousands of millions of rows."""
    cdef double high = floor(number / 16777216.0)
    if number < 0:
        to[0], to[1] = <float>number, 0
        return
    to[0], to[1] = <float>high, <float>(number - 16777216.0 * high)


cdef double read_number(const float *number) noexcept nogil:
    """Join such a number; NOT_COUNTED where it is none."""
    if not number[0] >= 0:
        return NOT_FAIR if number[0] == NOT_FAIR else NOT_COUNTED
    return 16777216.0 * number[0] + number[1]


cdef void count_one(double *n, double g, double by=1) noexcept nogil:
    n[0] = g * n[0] + by


cdef double sigmoid(double x) noexcept nogil:
    cdef double e = exp(-abs(x))
    return 1 / (1 + e) if x > 0 else e / (1 + e)


cdef double weight(const double *weights, Py_ssize_t path) noexcept nogil:
    return weights[path] if path >= 0 else 0.0


cdef const double *tempered_row(Mixture *mixture) noexcept nogil:
    """Compute the tempered mixture; the mixture itself until its temperature has learned."""
    return mixture.mixed if mixture.last.u[0] == 0 else mixture.last.r


cdef void solve_three(const double *K, double lambda_b, double lambda_t, double *v) noexcept nogil:
    """v <- (K + diag(lambda_b, lambda_t, lambda_t))^-1 v by Cholesky's LDL^T.

    K is its upper triangle, row by row.
    """
    # Pivots are at least lambda; anything less is rounding in very large sums.
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


include "calls.pxi"
