cdef extern from "class_mix.h" nogil:
    ctypedef struct Chain:
        int n
        double *Q[3]
        double *decay
        double *strength
        double *W
        double *inverse
        double *ratio
        const double *v
        double *r[3]
        double *l
        double *row
    void inverse_mean(const double *V, double *inverse, Py_ssize_t m)
    void follow_mix(Chain *c, const double *v, Py_ssize_t m)
    const double *counted(Chain *c, int i, Py_ssize_t m)
    void observe_mix(Chain *c, Py_ssize_t m)
    void fold_mix(double *W, int experts, const double *E, double n)
