cdef extern from "calibrated.h" nogil:
    ctypedef struct Calibrated:
        Py_ssize_t bins
        double *n
        double *hits
        double *sure
        Py_ssize_t best
        float top
        double v
        double rest
    void calibrate(Calibrated *c, const double *s, Py_ssize_t m)
    void take_share(const Calibrated *c, double share, double *out, Py_ssize_t m)
    void count_label(Calibrated *c, float top, Py_ssize_t best, int right, double weight,
                     double g, Py_ssize_t m)
