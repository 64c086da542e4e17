cdef extern from "judging.h" nogil:
    int one_sided(double n, double due, double others, double others_due, double spare)
    double trusted(double n, double expected)
    void share_back(double *w, double total, double h, const double *start, Py_ssize_t n)
