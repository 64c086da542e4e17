cdef extern from "sets.h" nogil:
    enum:
        SET_BINS
    ctypedef struct Sets:
        double *labels
        double *belief
        double *numbers
        long long *counts
        double miss
        double growth
    double set_score(double p)
    void set_count(Sets *of, const float *row, double row_growth, Py_ssize_t m)
    float set_theta(const Sets *of, const float *row, Py_ssize_t m)
    void set_learn(Sets *of, double p, double theta, double row)
