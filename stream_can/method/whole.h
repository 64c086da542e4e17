/* A whole matrix A on the inputs phi of a row, its curvature in Kronecker factors; docs/method.md, "The full base". */
#ifndef STREAM_CAN_WHOLE_H
#define STREAM_CAN_WHOLE_H

#include <math.h>

#include "vectormath.h"

typedef struct {
    float *A, *C, *P;   /* m x m: the matrix, row k for class k; moments of phi, below the diagonal alone; (C / n_C + ridge I)^-1 */
    double *s;          /* S, n_S, n_C */
    long long *n;       /* labels, and those at the last inverse */
    double *phi, *Pphi; /* of the row at hand, and P times it */
    double *square;     /* what is inverted, m x m */
    double prior, ridge; /* how firmly A is held at 0; what is added to the variances of phi */
} Whole;

enum { FEWEST_TO_INVERT = 20, MOST_BETWEEN = 500 };
static const double LEAST_SPREAD = 1e-4;

/* Long sums in sixteen lanes, so that an addition need not wait for the one before. */
#define LANES 16
#define SUM_OF_LANES(s) \
    for (int l = 8; l > 0; l /= 2) \
        for (int k = 0; k < l; k++) s[k] += s[k + l];

/* out += A v, four rows at a time. */
CLONES static void add_product(const float *restrict A, const double *restrict v, double *restrict out, len_t m) {
    len_t k = 0;
    for (; k + 4 <= m; k += 4) {
        const float *a = A + k * m, *b = a + m, *c = b + m, *d = c + m;
        double r[4] = {0}, s[4] = {0}, t[4] = {0}, u[4] = {0};
        len_t i = 0;
        for (; i + 4 <= m; i += 4)
            for (int l = 0; l < 4; l++) {
                r[l] += (double)a[i + l] * v[i + l];
                s[l] += (double)b[i + l] * v[i + l];
                t[l] += (double)c[i + l] * v[i + l];
                u[l] += (double)d[i + l] * v[i + l];
            }
        for (int l = 0; i < m; i++, l++) {
            r[l] += (double)a[i] * v[i];
            s[l] += (double)b[i] * v[i];
            t[l] += (double)c[i] * v[i];
            u[l] += (double)d[i] * v[i];
        }
        out[k] += (r[0] + r[1]) + (r[2] + r[3]);
        out[k + 1] += (s[0] + s[1]) + (s[2] + s[3]);
        out[k + 2] += (t[0] + t[1]) + (t[2] + t[3]);
        out[k + 3] += (u[0] + u[1]) + (u[2] + u[3]);
    }
    for (; k < m; k++) {
        double s = 0;
        for (len_t i = 0; i < m; i++) s += (double)A[k * m + i] * v[i];
        out[k] += s;
    }
}

CLONES static double long_dot(const double *restrict p, const double *restrict q, len_t m) {
    double s[LANES] = {0};
    len_t i = 0;
    for (; i + LANES <= m; i += LANES)
        for (int l = 0; l < LANES; l++) s[l] += p[i + l] * q[i + l];
    for (int l = 0; i < m; i++, l++) s[l] += p[i] * q[i];
    SUM_OF_LANES(s)
    return s[0];
}

static double mean_of(const double *y, len_t m) { return sum_of(y, m) / (double)m; }

/* phi = (y - mean y) / sqrt(S / n_S) */
CLONES static void shift_scale(const double *restrict y, double mean, double by, double *restrict phi, len_t m) {
    for (len_t i = 0; i < m; i++) phi[i] = (y[i] - mean) * by;
}

static void find_phi(Whole *w, const double *y, len_t m) {
    double spread = w->s[0] / w->s[1];
    shift_scale(y, mean_of(y, m), 1 / sqrt(spread > LEAST_SPREAD ? spread : LEAST_SPREAD), w->phi, m);
}

/* z += A phi */
static void add_whole(const Whole *w, double *z, len_t m) { add_product(w->A, w->phi, z, m); }

/* a <- clip(kept a - by s) */
CLONES static void step_whole_row(float *restrict a, double kept, double by, const double *restrict s, float most, len_t m) {
    for (len_t j = 0; j < m; j++) {
        float v = (float)(kept * (double)a[j] - by * s[j]);
        v = v < -most ? -most : v;
        a[j] = v > most ? most : v;
    }
}

/* c <- g c + v phi */
CLONES static void count_moment(float *restrict c, double g, double v, const double *restrict phi, len_t m) {
    for (len_t j = 0; j < m; j++) c[j] = (float)(g * (double)c[j] + v * phi[j]);
}

/* x -= by y */
CLONES static void take_off(double *restrict x, double by, const double *restrict y, len_t m) {
    for (len_t i = 0; i < m; i++) x[i] -= by * y[i];
}

/* P <- (C / n_C + ridge I)^-1, by Cholesky's L L^T: L^-1 row by row, then its square. */
static void invert_moments(Whole *w, len_t m) {
    double *M = w->square, n = w->s[2];
    for (len_t i = 0; i < m; i++) {
        for (len_t j = 0; j <= i; j++) M[i * m + j] = (double)w->C[i * m + j] / n;
        M[i * m + i] += w->ridge;
    }
    for (len_t i = 0; i < m; i++) {
        for (len_t j = 0; j < i; j++) M[i * m + j] = (M[i * m + j] - long_dot(M + i * m, M + j * m, j)) / M[j * m + j];
        double pivot = M[i * m + i] - long_dot(M + i * m, M + i * m, i); /* less than the ridge is rounding */
        M[i * m + i] = sqrt(pivot > w->ridge / 2 ? pivot : w->ridge / 2);
    }
    for (len_t i = 0; i < m; i++) { /* row i of L^-1, in place: those above it are done */
        double d = 1 / M[i * m + i];
        for (len_t j = 0; j < i; j++) w->Pphi[j] = M[i * m + j];
        for (len_t j = 0; j < i; j++) M[i * m + j] = 0;
        for (len_t k = 0; k < i; k++) take_off(M + i * m, d * w->Pphi[k], M + k * m, k + 1);
        M[i * m + i] = d;
    }
    for (len_t i = 0; i < m; i++) { /* P = L^-T L^-1: row i is the sum over k >= i of L^-1_ki times row k */
        for (len_t j = 0; j <= i; j++) w->Pphi[j] = 0;
        for (len_t k = i; k < m; k++) take_off(w->Pphi, -M[k * m + i], M + k * m, i + 1);
        for (len_t j = 0; j <= i; j++) w->P[i * m + j] = w->P[j * m + i] = (float)w->Pphi[j];
    }
}

/* A label of this weight came: residual d = right (r - [k = y]), H after its step, phi of the row, y = x - f2. */
static void learn_whole(Whole *w, const double *y, const double *d, const double *r, double right, double weight,
                        const double *H, double g, double most, len_t m) {
    double q, spread = 0, mean = mean_of(y, m);
    memset(w->Pphi, 0, m * sizeof(double));
    add_product(w->P, w->phi, w->Pphi, m);
    q = dot(w->phi, w->Pphi, m);
    q = q > 0 ? q : 0;
    for (len_t k = 0; k < m; k++) {
        double h = right * (r[k] * (1 - r[k])), below = H[k] + w->prior;
        step_whole_row(w->A + k * m, 1 - (1 - g) * w->prior / below, d[k] / (below + h * q), w->Pphi, (float)most, m);
    }
    for (len_t k = 0; k < m; k++) spread += (y[k] - mean) * (y[k] - mean);
    w->s[0] = g * w->s[0] + weight * (spread / (double)m);
    w->s[1] = g * w->s[1] + weight;
    for (len_t k = 0; k < m; k++) count_moment(w->C + k * m, g, weight * w->phi[k], w->phi, k + 1); /* symmetric */
    w->s[2] = g * w->s[2] + weight;
    w->n[0]++;
    if (w->n[0] >= FEWEST_TO_INVERT && (4 * w->n[0] >= 5 * w->n[1] || w->n[0] >= w->n[1] + MOST_BETWEEN)) {
        invert_moments(w, m);
        w->n[1] = w->n[0];
    }
}

#endif
