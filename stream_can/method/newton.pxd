cdef extern from "newton.h" nogil:
    void newton(double *u, double *K, double *F, int n, const double *r, Py_ssize_t y,
                double right, double g, double *work, Py_ssize_t m,
                const double *precision, const double *limit, int given)
    void step_by(double *u, double *gradient, double *left, int n, const double *limit, int given)
