/* A Newton step on the log loss, whatever the features are. */
#ifndef STREAM_CAN_NEWTON_H
#define STREAM_CAN_NEWTON_H

#include "vectormath.h"

/* u less what solves left step = gradient, each clipped at its limit; both are used up. */
static void step_by(double *u, double *gradient, double *left, int n, const double *limit, int given) {
    for (int i = 0; i < n; i++) /* positive definite: no pivots */
        for (int j = i + 1; j < n; j++) {
            double by = left[j * n + i] / left[i * n + i];
            for (int k = i; k < n; k++) left[j * n + k] -= by * left[i * n + k];
            gradient[j] -= by * gradient[i];
        }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++) gradient[i] -= left[i * n + j] * gradient[j];
        gradient[i] /= left[i * n + i];
    }
    for (int i = 0; i < n; i++) {
        double most = limit[i < given ? i : given - 1], v = u[i] - gradient[i];
        u[i] = v < -most ? -most : v > most ? most : v;
    }
}

/* One Newton step of u, whose n features are the rows of F, shape (n, m), which are centred here.
 *
 * K is the upper triangle of the decayed curvature, row by row; work holds n (n + 1) + m numbers. How firmly each u is held
 * at 0, and where it is clipped, is said of the first `given`; the others are held as the last of these. Residual and
 * curvature count `right`: how likely the label is right, times its weight. */
static void newton(double *u, double *K, double *F, int n, const double *r, len_t y, double right, double g,
                   double *work, len_t m, const double *precision, const double *limit, int given) {
    double *gradient = work, *left = work + n, *weighted = left + n * n;
    for (int i = 0; i < n; i++) {
        double *f = F + i * m, mean, unused;
        moments(r, f, &mean, &unused, m);
        for (len_t k = 0; k < m; k++) f[k] -= mean;
        gradient[i] = (1 - g) * precision[i < given ? i : given - 1] * u[i] - right * f[y];
    }
    for (int i = 0; i < n; i++) {
        for (len_t k = 0; k < m; k++) weighted[k] = r[k] * F[i * m + k];
        for (int j = i; j < n; j++, K++) {
            double covariance, unused;
            moments(weighted, F + j * m, &covariance, &unused, m);
            *K = g * *K + right * covariance;
            left[i * n + j] = left[j * n + i] = *K;
        }
        left[i * n + i] += precision[i < given ? i : given - 1] + 1e-9;
    }
    step_by(u, gradient, left, n, limit, given);
}

#endif
