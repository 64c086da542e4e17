cdef extern from "class_mix.h" nogil:
    ctypedef struct Chain:
        int n
        double *Q[3]
        double *decay
        double *strength
        double *W
        double *inverse
        double *ratio
        const double *ref
        const double *held
        double *rival
        double l_rival
        const double *v
        double *r[3]
        double *l
        double *row
    void inverse_mean(const double *V, double *inverse, Py_ssize_t m)
    void follow_mix(Chain *c, const double *v, Py_ssize_t m)
    const double *counted(Chain *c, int i, Py_ssize_t m)
    void observe_mix(Chain *c, Py_ssize_t m)
    void fold_mix(double *W, int experts, const double *E, double *rival, const double *of_rival,
                  double n)
    ctypedef struct Cells:
        double *counts[3]
        const double *prior
        const double *edges
        double strength
        Py_ssize_t best
        int third
    double cell_likelihood(Cells *c, const double *v, Py_ssize_t m)
    void count_cell(const Cells *c, int third, double *counts, double g, Py_ssize_t m)
