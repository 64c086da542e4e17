/* How far labels are trusted, and how weights follow them: the same in every corrector. */
#ifndef STREAM_CAN_JUDGING_H
#define STREAM_CAN_JUDGING_H

#include "vectormath.h"

/* Whether labels of one kind alone come back, though more than `spare` of the other were due. */
static inline int one_sided(double n, double due, double others, double others_due, double spare) {
    return (n == 0 && due > spare) || (others == 0 && others_due > spare);
}

/* lambda = min(1, 4 (n + 1) / (e + 1)): n labels came where a fair sample has e */
static inline double trusted(double n, double expected) {
    double by = 4 * (n + 1) / (expected + 1);
    return by < 1 ? by : 1.0;
}

/* w = (1 - h) w / total + h start */
static inline void share_back(double *w, double total, double h, const double *start, len_t n) {
    for (len_t i = 0; i < n; i++) w[i] = (1 - h) * (w[i] / total) + h * start[i];
}

#endif
