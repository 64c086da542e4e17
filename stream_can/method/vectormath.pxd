cdef extern from "vectormath.h" nogil:
    double log_of(double x)
    int bad_row(const double *p, Py_ssize_t m, double *total)
    double sum_of(const double *p, Py_ssize_t m)
    double dot(const double *p, const double *q, Py_ssize_t m)
    void invert(const double *p, double *r, Py_ssize_t m)
    void divide(const double *p, double by, double *r, Py_ssize_t m)
    void scale(double *r, double by, Py_ssize_t m)
    void log_clipped(const double *p, double floor, double *x, Py_ssize_t m)
    void log_mean(const double *M, double log_total, double *f, Py_ssize_t m)
    void times(const double *x, double b, double *z, Py_ssize_t m)
    void subtract(const double *x, const double *f2, double *y, Py_ssize_t m)
    void stretch(const double *y, double b, const double *f2, double *z, Py_ssize_t m)
    void combine(const double *x, const double *f1, const double *f2, const double *c, double b,
                 double t1, double t2, double *z, Py_ssize_t m)
    void add_row(const float *a, double w, double *z, Py_ssize_t m)
    void exp_all(double *z, Py_ssize_t m)
    void exp_shifted(double *z, Py_ssize_t m)
    void normalise_columns(const double *r, const double *q, const double *S, double kappa,
                           double *out, Py_ssize_t m)
    void decay_add(double *S, double g, const double *r, Py_ssize_t m)
    void decay_add_weighted(double *S, double g, const double *r, double w, Py_ssize_t m)
    void count_row(double *S, double g, const double *r, Py_ssize_t m)
    void decay(double *S, double g, Py_ssize_t m)
    void shrink(double *out, double by, const double *p, Py_ssize_t m)
    void mix_three(const double *a, double u, const double *b, double v, const double *c,
                   double w, double *out, Py_ssize_t m)
    void to_single_scaled(const double *r, double b, float *out, Py_ssize_t m)
    void to_single(const double *r, float *out, Py_ssize_t m)
    void weigh(const double *r, double w, double *out, Py_ssize_t m)
    void add_weighed(const double *r, double w, double *out, Py_ssize_t m)
    void posterior(const double *L, double strength, const double *train, double total, double *q,
                   Py_ssize_t m)
    void moments(const double *r, const double *x, double *E, double *E2, Py_ssize_t m)
    void moments_of_three(const double *r, const double *x, const double *f1, const double *f2,
                          double *E, double *V, Py_ssize_t m)
    void step_offsets(double *c, double *H, const double *d, const double *r, double right,
                      double g, double a, double most, Py_ssize_t m)
    void step_row(float *A, float *G, const double *d, const double *r, double right, double w,
                  double g, double a, double most, Py_ssize_t m)
    void three_largest(const double *p, Py_ssize_t m, double *top)
    void five_largest(const double *p, Py_ssize_t m, Py_ssize_t n, Py_ssize_t *at)
    void count_squares(double *S, double g, const double *p, Py_ssize_t m)
    double apart(const double *A, const double *B, const double *V, const double *M, double floor,
                 Py_ssize_t m)
