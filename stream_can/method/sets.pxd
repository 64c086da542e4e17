cdef extern from "sets.h" nogil:
    enum:
        SET_BINS
        OF_ALL
        OF_CLASS
    ctypedef struct Sets:
        double *labels
        double *belief
        double *numbers
        long long *counts
        double *groups
        int groups_of
        double miss
        double growth
    ctypedef struct Theta:
        float theta
        float all
        float group
    double set_score(double p)
    void set_count(Sets *of, const float *row, double row_growth, Py_ssize_t m)
    Theta set_theta(const Sets *of, const float *row, Py_ssize_t m, const double *group,
                    float likeliest)
    void set_learn(Sets *of, double *group, double p, Theta sent, double row, double label_weight,
                   double share)
