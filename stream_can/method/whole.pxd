cdef extern from "whole.h" nogil:
    ctypedef struct Whole:
        float *A
        float *C
        float *P
        double *s
        long long *n
        double *phi
        double *Pphi
        double *square
        double prior
        double ridge
    void find_phi(Whole *w, const double *y, Py_ssize_t m)
    void add_whole(const Whole *w, double *z, Py_ssize_t m)
    void learn_whole(Whole *w, const double *y, const double *d, const double *r, double right,
                     double weight, const double *H, double g, double most, Py_ssize_t m)
