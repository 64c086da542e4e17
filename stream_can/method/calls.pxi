# Calls of a Corrector on its Model; included by kernel.pyx.

@cython.final
cdef class Kernel:
    """Calls of a Corrector: arguments are checked, then the call has the current model to itself.

    Under the lock no Python bytecode runs, except signal handlers between two rows; see
    :mod:`stream_can.method.lock`.

    Parameters
    ----------
    model
        The model to run.
    state
        The arrays of the model.
    content
        Further data replaced together with the model, owned by the Corrector.
    index
        Class -> column, for rows given by name.
    """

    cdef Model model
    cdef readonly dict state
    cdef readonly object content, index
    cdef Lock lock

    def __cinit__(self, Model model, dict state, content=None, index=None):
        self.lock = Lock()
        self.model, self.state, self.content, self.index = model, state, content, index

    # ---- rows

    def rows(self, P, int ndim, Mode mode, bint receipt=False, list texts=None):
        """Run rows, shape (m,) or (n, m), through `mode`; return a new array.

        With `receipt` also return an array of shape (r,) or (n, r), float32; see
        :mod:`stream_can.method.receipts`. EXPLAIN returns (n_paths, n, m) and the content, which
        names the paths.
        """
        cdef Py_buffer view
        cdef Job job
        cdef Model model
        result = kept = None
        memset(&job, 0, sizeof(Job))
        job.observes = mode == PROCESS or mode == OBSERVE
        while True:
            model = self.model
            P = open_rows(P, ndim, model.m, &view, self.index)
            try:
                job.P, job.n = <const double *>view.buf, view.len // (8 * model.m)
                if mode == EXPLAIN:
                    result = np.empty((model.n_paths, *P.shape))
                    job.paths = memory(result)
                elif mode != OBSERVE:
                    result = np.empty(P.shape)
                    job.out = memory(result)
                if receipt:
                    kept = np.empty((*P.shape[:ndim - 1], model.receipt_size), np.float32)
                    job.receipts = memory32(kept)
                if self.ran(model, &job, texts):
                    if mode == EXPLAIN:
                        return result, self.content
                    return (result, kept) if receipt else result
            finally:
                PyBuffer_Release(&view)

    cdef bint ran(self, Model model, Job *job, list texts=None) except -1:
        """Run a job; return False, having done nothing, if its model was replaced meanwhile.

        `texts` are the column values of the job's rows.
        """
        if texts is not None and model.values is not None:
            return self.ran_with(model, job, texts)
        self.lock.acquire(job.observes or job.n_labels > 0)
        try:
            if self.model is not model:
                return False
            model.run(job)
            return True
        finally:
            self.lock.release()

    cdef bint ran_with(self, Model model, Job *job, list texts) except -1:
        """:meth:`ran` with slots for the column values."""
        cdef Py_ssize_t i
        cdef Values values = model.values
        cdef long long[:, ::1] slots
        values.warn()
        for i, column in enumerate(texts):
            if column is not None and len(column) != job.first + job.n:
                raise ValueError(
                    f"segments: column {values.columns[i]!r} has {len(column)} values for"
                    f" {job.first + job.n} rows")
        slots = np.empty((job.first + job.n + 1, model.n_columns), np.int64)
        job.slots = &slots[0, 0]
        self.lock.acquire(job.observes or job.n_labels > 0)
        try:
            if self.model is not model:
                return False
            try:
                for i in range(job.n_labels):
                    if job.rows[i] >= 0:
                        values.claim(texts, job.rows[i])
                values.look_up(texts, job.first + job.n, &slots[0, 0])
                model.run(job)
            finally:
                if job.n_labels > 0:
                    values.sweep()
            return True
        finally:
            self.lock.release()

    def play(self, P, Py_ssize_t first, const long long[::1] ys, const long long[::1] rows,
             const long long[::1] due, known, bint receipt, bint explain, list texts=None,
             weights=None):
        """Process the rows of P from `first` on, and learn; see :meth:`Corrector.play`."""
        cdef Py_buffer view
        cdef Job job
        cdef Model model
        cdef const float[:, ::1] of_labels
        cdef const double[::1] weight_of_label
        memset(&job, 0, sizeof(Job))
        job.observes, job.first, job.n_labels = True, first, ys.shape[0]
        if job.n_labels > 0 and rows.shape[0] == due.shape[0] == job.n_labels:
            job.ys, job.rows, job.due = &ys[0], &rows[0], &due[0]
        if known is not None:
            of_labels = known
        if weights is not None:
            weight_of_label = weights
            if weight_of_label.shape[0] != job.n_labels:
                raise ValueError(f"{weight_of_label.shape[0]} weights, {job.n_labels} labels")
            if job.n_labels > 0:
                job.weights = &weight_of_label[0]
        while True:
            model = self.model
            if known is not None:
                check_known(of_labels, job.n_labels, model.n_sent, model.n_known)
                if job.n_labels > 0:
                    job.known = &of_labels[0, 0]
            P = open_rows(P, 2, model.m, &view, self.index)
            try:
                job.P, job.n = <const double *>view.buf, len(P) - first
                check_labels(&job, len(P), model.m, rows.shape[0], due.shape[0])
                out = np.empty((job.n, model.m))
                job.out = memory(out)
                kept = paths = None
                if receipt:
                    kept = np.empty((job.n, model.receipt_size), np.float32)
                    job.receipts = memory32(kept)
                if explain:
                    paths = np.empty((model.n_paths, job.n, model.m))
                    job.paths = memory(paths)
                if self.ran(model, &job, texts):
                    return out, kept, paths
            finally:
                PyBuffer_Release(&view)

    # ---- sums

    def correct_and_sum(self, P, double[:, ::1] sums, bint receipt, list texts=None):
        """Correct the rows of P, shape (n, m), with `receipt` also return receipts.

        The contribution of observing them is added to `sums`.
        """
        cdef Py_buffer view
        cdef Job job
        cdef Model model
        memset(&job, 0, sizeof(Job))
        while True:
            model = self.model
            require_sums(model, sums)
            P = open_rows(P, 2, model.m, &view, self.index)
            try:
                job.P, job.n, job.sums = <const double *>view.buf, len(P), &sums[0, 0]
                out = np.empty(P.shape)
                job.out = memory(out)
                kept = None
                if receipt:
                    kept = np.empty((len(P), model.receipt_size), np.float32)
                    job.receipts = memory32(kept)
                if self.ran(model, &job, texts):
                    return (out, kept) if receipt else out
            finally:
                PyBuffer_Release(&view)

    def add_sums(self, const double[:, ::1] sums, const double[::1] decays):
        """Merge sums of rows; :mod:`stream_can.method.sums` defines the decay of each part."""
        self.lock.acquire(True)
        try:
            require_sums(self.model, sums)
            if decays.shape[0] != self.model.n_parts:
                raise ValueError(f"{decays.shape[0]} decays, expected {self.model.n_parts}")
            self.model.add(sums, decays)
        finally:
            self.lock.release()

    # ---- labels

    def learn_one(self, p, long long y, known, list texts=None, double weight=1):
        """Learn a label, given as an index, of this weight; p is None if the prediction is gone.

        `known` is float32 (n_known,) or None.
        """
        cdef Py_buffer view
        cdef Job job
        cdef Model model
        cdef const float[::1] of_label
        cdef long long row = -1, due = 0
        memset(&job, 0, sizeof(Job))
        job.n_labels, job.ys, job.rows, job.due, job.weights = 1, &y, &row, &due, &weight
        if p is None:
            while True:
                model = self.model
                check_labels(&job, 0, model.m, 1, 1)
                if self.ran(model, &job):
                    return
        row, job.first = 0, 1
        if known is not None:
            of_label = known
            if of_label.shape[0] != self.model.n_known:
                raise ValueError(
                    f"known: shape ({of_label.shape[0]},), expected ({self.model.n_known},)")
            job.known = &of_label[0]
        while True:
            model = self.model
            p = open_rows(p, 1, model.m, &view, self.index)
            try:
                job.P = <const double *>view.buf
                check_labels(&job, 1, model.m, 1, 1)
                if self.ran(model, &job, texts):
                    return
            finally:
                PyBuffer_Release(&view)

    def learn_many(self, P, const long long[::1] ys, known, list texts=None, weights=None):
        """Learn labels, given as indices, of rows P, shape (n, m), or None; known is (n,
        n_known)."""
        k = ys.shape[0]
        due = np.zeros(k, np.int64)
        if P is None:
            self.play(np.empty((0, self.model.m)), 0, ys, due - 1, due, None, False, False, None,
                      weights)
            return
        P = as_float64(P, self.index)
        if P.ndim == 2 and len(P) != k:
            raise InvalidPrediction(f"{len(P)} predictions but {k} labels; give one label per row")
        self.play(P, k, ys, np.arange(k), due, known, False, False, texts, weights)

    # ---- the whole

    def copied(self, names=None):
        """The content, copies of the arrays (these, or all), and their number of changes.

        Last a copy of the column values, None without columns or if names are given.
        """
        cdef dict found = {}
        cdef Values values = None if names is not None else self.model.values
        self.lock.acquire(False)
        try:
            for name in self.state if names is None else names:
                found[name] = self.state[name].copy()
            if values is not None:
                values = self.model.values.copy()
            return self.content, found, self.lock.changes, values
        finally:
            self.lock.release()

    def replace(self, Model model, dict state, content, index, unsigned long long changes):
        """Replace the model; return False, having done nothing, after more than `changes`."""
        self.lock.acquire(True)
        try:
            if self.lock.changes != changes + 1:
                return False
            self.model, self.state, self.content, self.index = model, state, content, index
            return True
        finally:
            self.lock.release()

    def load(self, const unsigned char[::1] data, const unsigned char[::1] like,
             const long long[:, ::1] places):
        """Take the numbers of the arrays from `data`, which differs from `like` in those alone.

        Array k of the state lies from ``places[k, 0]`` to ``places[k, 1]``. Return False, having
        done nothing, where other bytes differ, or where there are column values.
        """
        cdef Py_buffer view
        cdef Py_ssize_t i, n = places.shape[0], at = 0
        if data.shape[0] != like.shape[0] or n != len(self.state) or self.model.values is not None:
            return False
        for i, array in enumerate(self.state.values()):
            if memcmp(&data[at], &like[at], places[i, 0] - at) != 0:
                return False
            at = places[i, 1]
            if array.nbytes != at - places[i, 0]:
                return False
        if at < data.shape[0] and memcmp(&data[at], &like[at], data.shape[0] - at) != 0:
            return False
        self.lock.acquire(True)
        try:
            for i, array in enumerate(self.state.values()):
                PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS)
                memcpy(view.buf, &data[places[i, 0]], view.len)
                PyBuffer_Release(&view)
            self.model.refresh()
        finally:
            self.lock.release()
        return True

    def dump(self, bytes like, const long long[:, ::1] places):
        """Copy `like`, which `load` took, with the numbers of the arrays as they are."""
        cdef Py_buffer view
        cdef Py_ssize_t i
        cdef bytes found = PyBytes_FromStringAndSize(<char *>like, len(like))
        cdef char *to = found
        self.lock.acquire(False)
        try:
            for i, array in enumerate(self.state.values()):
                PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS)
                memcpy(to + places[i, 0], view.buf, min(view.len, places[i, 1] - places[i, 0]))
                PyBuffer_Release(&view)
        finally:
            self.lock.release()
        return found

    @property
    def n_sent(self):
        """Number of rows in a receipt."""
        return self.model.n_sent

    def theta(self, const float[::1] row, float likeliest, list texts=None):
        """Theta by which the set of a sent row, of any number of classes, would be made now;
        `likeliest` is the index of a class, -1 where it is none of the corrector's."""
        cdef Model model
        cdef double *group
        cdef long long[:, ::1] slots = np.empty((2, self.model.n_columns + 1), np.int64)
        self.lock.acquire(False)
        try:
            model = self.model
            if texts is not None and model.values is not None:
                model.values.look_up(texts, 1, &slots[0, 0])
                group = model.group_of(&slots[0, 0], likeliest)
            else:
                group = model.group_of(NULL, likeliest)
            return set_theta(&model.sets, &row[0], row.shape[0], group, likeliest).theta
        finally:
            self.lock.release()

    @property
    def set_counts(self):
        """Numbers of rows and labels seen by prediction sets."""
        self.lock.acquire(False)
        try:
            return self.model.sets.counts[0], self.model.sets.counts[1]
        finally:
            self.lock.release()

    @property
    def g(self):
        """Decay factor per event."""
        return self.model.g

    @property
    def prior(self):
        """Current class prior, shape (m,)."""
        self.lock.acquire(False)
        try:
            return self.model.prior_row.copy()
        finally:
            self.lock.release()

    @property
    def final_weights(self):
        """Weights of the rows in the output; they sum to 1."""
        cdef Model model
        cdef Second *of
        cdef double share = 0, others
        self.lock.acquire(False)
        model = self.model
        model.row.slots = NULL
        of = &model.second
        found = (1.0, 0.0, 0.0)
        if model.guarded:
            if of.n > 1:
                share = model.share()
            others = 1 - of.final[of.n_sent - 1]
            found = tuple([
                of.final[i] * (others * (1 - share if i < of.n_without else share))
                for i in range(of.n_sent - 1)]) + (of.final[of.n_sent - 1],)
        self.lock.release()
        return found

    @property
    def sent_weights(self):
        """Weights of the rows in the output without columns, but for the calibrated one, among each
        other; they sum to 1 also where theirs in the output are too small for a number."""
        cdef Second *of
        self.lock.acquire(False)
        of = &self.model.second
        found = tuple([of.final[i] for i in range(of.n_without)])
        self.lock.release()
        return found

    @property
    def follows_mix(self):
        """Share of the fitted base's row that follows the class mix; None where it does not."""
        self.lock.acquire(False)
        found = self.model.follows_mix()
        self.lock.release()
        return found

    @property
    def coverage(self):
        """Mean share of the correction that is sent, over recent predictions."""
        self.lock.acquire(False)
        found = self.model.coverage()
        self.lock.release()
        return found


def inside(const float[:, ::1] rows, const float[::1] thetas):
    """Whether each class is in the set of each sent row, (n, m) bool; the likeliest always is."""
    cdef Py_ssize_t i, k, best, n = rows.shape[0], m = rows.shape[1]
    cdef unsigned char[:, ::1] found = np.empty((n, m), np.uint8)
    if thetas.shape[0] != n:
        raise ValueError(f"{n} rows, {thetas.shape[0]} thresholds")
    for i in range(n):
        best = 0
        for k in range(m):
            found[i, k] = set_score(rows[i, k]) <= thetas[i]
            if rows[i, k] > rows[i, best]:
                best = k
        found[i, best] = 1
    return found.base.view(np.bool_)


def given_by_each(const float[:, ::1] receipts, const long long[::1] ys, Py_ssize_t rows,
                  bint sets=False):
    """Numbers that each receipt gave its label, float32 of shape (n, rows + 1), with sets 6 more:
    what is *known* of it."""
    cdef Py_ssize_t more = TAIL if sets else 0, each = rows + sets
    cdef Py_ssize_t i, n = ys.shape[0], m = (receipts.shape[1] - 1 - more) // each
    if (receipts.shape[0] != n or receipts.shape[1] != each * m + 1 + more
            or rows + 1 + OF_SET > MOST_KNOWN):
        raise ValueError(f"{receipts.shape[0]} receipts of {receipts.shape[1]} numbers, {n} labels")
    cdef float[:, ::1] known = np.empty((n, rows + 1 + (OF_SET if sets else 0)), np.float32)
    for i in range(n):
        if not 0 <= ys[i] < m:
            raise ValueError(f"label {i}: class {ys[i]} of {m}")
        given_to(&receipts[i, 0], ys[i], rows, m, &known[i, 0])
        if sets:
            set_given_to(&receipts[i, 0], ys[i], rows, m, &known[i, 0])
    return known.base


def given_by_own(receipt, Py_ssize_t y, Py_ssize_t m, Py_ssize_t rows, bint sets, double most):
    """The same for a receipt of m classes, as float32 of shape (rows + 1,), with sets 6 more; None
    where it is no such array of single numbers, or gave the label what is no probability up to
    `most`, nor NaN."""
    cdef Py_buffer view
    cdef Py_ssize_t i, n = rows * m + 1 + (m + TAIL if sets else 0)
    cdef float[::1] known
    if rows + 1 + OF_SET > MOST_KNOWN or not 0 <= y < m:
        raise ValueError(f"class {y} of {m}, {rows} rows")
    try:
        PyObject_GetBuffer(receipt, &view, PyBUF_FORMAT | PyBUF_ND | PyBUF_C_CONTIGUOUS)
    except (TypeError, ValueError, BufferError):
        return None
    try:
        if view.ndim != 1 or view.shape[0] != n or view.format != b"f":
            return None
        known = np.empty(rows + 1 + (OF_SET if sets else 0), np.float32)
        given_to(<const float *>view.buf, y, rows, m, &known[0])
        if sets:
            set_given_to(<const float *>view.buf, y, rows, m, &known[0])
        for i in range(rows + 2 if sets else rows + 1):
            if fabs(known[i]) > most or (known[i] < 0 and i != rows):
                return None
        return known.base
    finally:
        PyBuffer_Release(&view)


def given_by_one(bytes receipt, Py_ssize_t y, Py_ssize_t rows):
    """The same for a receipt stored as bytes, as bytes."""
    cdef Py_ssize_t n = len(receipt) // sizeof(float), m = (n - 1) // rows
    cdef float known[MOST_KNOWN]
    if n != rows * m + 1 or rows >= MOST_KNOWN or not 0 <= y < m:
        raise ValueError(f"a receipt of {n} numbers, class {y}")
    given_to(<const float *><const char *>receipt, y, rows, m, known)
    return (<char *>known)[:(rows + 1) * sizeof(float)]


cdef int require_sums(Model model, const double[:, ::1] sums) except -1:
    if sums.shape[0] != model.n_parts or sums.shape[1] != model.m + 1:
        raise ValueError(
            f"sums: shape {sums.shape[0], sums.shape[1]}, expected {model.n_parts, model.m + 1}")
    return 0


cdef int check_known(const float[:, ::1] known, Py_ssize_t k, Py_ssize_t n,
                     Py_ssize_t n_known) except -1:
    """Check known numbers: shape (k, n_known), n + 1 probabilities or NaN, the last possibly
    negative; then the sent row's probability or NaN, theta, and the row's number."""
    cdef Py_ssize_t i, j
    cdef float least
    if known.shape[0] != k or known.shape[1] != n_known:
        raise ValueError(
            f"known: shape ({known.shape[0]}, {known.shape[1]}), expected ({k}, {n_known})")
    for i in range(k):
        for j in range(n + 1 if n_known == n + 1 else n + 2):
            least = -1.001 if j == n else 0
            if known[i, j] < least or known[i, j] > 1.001:
                raise ValueError(
                    f"known: {known[i, j]} of label {i}, expected a probability, or NaN")
    return 0


cdef int check_labels(Job *job, Py_ssize_t given, Py_ssize_t m, Py_ssize_t n_rows,
                      Py_ssize_t n_due) except -1:
    """Check that labels have classes and refer to earlier rows, in the order they are due."""
    cdef Py_ssize_t i, k = job.n_labels
    cdef long long before = 0
    if not 0 <= job.first <= given or n_rows != k or n_due != k:
        raise ValueError(
            f"{given} rows from {job.first} on, {k} labels, {n_rows} rows of labels, "
            f"{n_due} places")
    for i in range(k):
        if not (before <= job.due[i] <= job.n and 0 <= job.ys[i] < m
                and -1 <= job.rows[i] < job.first + job.due[i]):
            raise ValueError(
                f"label {i}: class {job.ys[i]} of row {job.rows[i]} before row {job.due[i]}:"
                " out of range")
        before = job.due[i]
    return 0
