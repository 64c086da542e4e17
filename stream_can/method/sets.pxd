cdef extern from "sets.h" nogil:
    enum:
        SET_BINS
    double SET_EDGE
    double SET_MOST
    ctypedef struct Sets:
        double *labels
        double *belief
        double *numbers
        long long *counts
        double miss
        double growth
    double set_score(double p)
    Py_ssize_t set_bin(double s)
    void set_divide(double *bins, double w)
    double set_level(double miss, double i)
    double set_quantile(const double *labels, double label_weight, double label_sum,
                        const double *belief, double belief_sum, double miss, double level)
    void set_count(Sets *of, const float *row, double row_growth, Py_ssize_t m)
    float set_theta(const Sets *of, const float *row, Py_ssize_t m)
    void set_learn(Sets *of, double p, double theta, double row, double label_weight,
                   double share)
