/* The loops over the m labels of one row; docs/multilabel.md has the formulas. */
#ifndef STREAM_CAN_LABELS_H
#define STREAM_CAN_LABELS_H

#include "newton.h"

static inline double within(double v, double least, double most) { return v < least ? least : v > most ? most : v; }

static inline double sigmoid_of(double z) { return 1 / (1 + exp_of(-within(z, -700.0, 700.0))); }

/* x = logit(p), of p within floor of 0 and 1 */
CLONES static void logits(const double *restrict p, double floor, double *restrict x, len_t m) {
    for (len_t k = 0; k < m; k++) {
        double v = within(p[k], floor, 1 - floor);
        x[k] = log_of(v) - log_of(1 - v);
    }
}

/* f1 = logit((M + e q) / (N + e)) - f2 */
CLONES static void mean_logits(const double *restrict M, double N, const double *restrict q, double evidence,
                               const double *restrict f2, double *restrict f1, len_t m) {
    for (len_t k = 0; k < m; k++) {
        double v = within((M[k] + evidence * q[k]) / (N + evidence), 1e-6, 1 - 1e-6);
        f1[k] = log_of(v) - log_of(1 - v) - f2[k];
    }
}

/* The row of temperature. */
CLONES static void sigmoids(const double *restrict x, double b, double *restrict r, len_t m) {
    for (len_t k = 0; k < m; k++) r[k] = sigmoid_of(b * x[k]);
}

/* The row of vector. */
CLONES static void platt(const double *restrict x, const double *restrict f1, const double *restrict f2,
                         const double *restrict c, const double *restrict s, const double *u, double b,
                         double *restrict r, len_t m) {
    for (len_t k = 0; k < m; k++)
        r[k] = sigmoid_of(b * x[k] + u[1] + u[2] * f1[k] + u[3] * f2[k] + c[k] + s[k] * (x[k] - f2[k]));
}

/* CAN on the two classes (r, 1 - r) of each label that is uncertain: low < r < 1 - low. */
CLONES static void alternate(const double *restrict r, double low, const double *restrict L,
                             const double *restrict LN, const double *restrict train, double strength, double kappa,
                             const double *restrict S1, const double *restrict S0, double *restrict out, len_t m) {
    for (len_t k = 0; k < m; k++) {
        double q = (L[k] + strength * train[k]) / (LN[k] + strength), v = r[k];
        double yes = v / (S1[k] + kappa * q + v) * q;
        double no = (1 - v) / (S0[k] + kappa * (1 - q) + (1 - v)) * (1 - q);
        out[k] = v > low && v < 1 - low ? yes / (yes + no) : v;
    }
}

/* S1, S0: what confident rows gave the label, and its absence. */
CLONES static void count_confident(const double *restrict r, double low, double g, double *restrict S1,
                                   double *restrict S0, len_t m) {
    for (len_t k = 0; k < m; k++) {
        int confident = !(r[k] > low && r[k] < 1 - low);
        S1[k] = confident ? kept(g * S1[k] + r[k]) : S1[k];
        S0[k] = confident ? kept(g * S0[k] + (1 - r[k])) : S0[k];
    }
}

/* How many are >= 0.5. */
CLONES static double count_high(const double *restrict p, len_t m) {
    double n = 0;
    for (len_t k = 0; k < m; k++) n += p[k] >= 0.5;
    return n;
}

/* out = lambda (u a + v b) + (1 - lambda) p, at most 1: rounding may exceed it. lambda by the side of p; 0 where no
   negative of a label is ever known. */
CLONES static void send(const double *restrict a, double u, const double *restrict b, double v,
                        const double *restrict p, const double *trust, const double *restrict negatives,
                        const double *restrict against, double spare, double *restrict out, len_t m) {
    for (len_t k = 0; k < m; k++) {
        double by = p[k] >= 0.5 ? trust[1] : trust[0];
        by = negatives[k] == 0 && against[k] > spare ? 0.0 : by;
        double row = by * (u * a[k] + v * b[k]) + (1 - by) * p[k];
        out[k] = row > 1 ? 1 : row;
    }
}

/* Labels of 1, 0 and -1 as 1 where known, and 1 where yes. */
static double split(const signed char *y, double *restrict is, double *restrict yes, len_t m) {
    double n = 0;
    for (len_t k = 0; k < m; k++) {
        is[k] = y[k] >= 0;
        yes[k] = y[k] > 0;
        n += is[k];
    }
    return n;
}

/* The sum of log max(r[y], floor) over the known labels. */
CLONES static double log_given(const double *restrict r, const double *restrict is, const double *restrict yes,
                               double floor, len_t m) {
    double a[4] = {0, 0, 0, 0};
    len_t k = 0;
    for (; k + 4 <= m; k += 4)
        for (int l = 0; l < 4; l++) {
            double v = yes[k + l] != 0 ? r[k + l] : 1 - r[k + l];
            a[l] += is[k + l] != 0 ? log_of(v > floor ? v : floor) : 0.0;
        }
    for (int l = 0; k < m; k++, l++) {
        double v = yes[k] != 0 ? r[k] : 1 - r[k];
        a[l] += is[k] != 0 ? log_of(v > floor ? v : floor) : 0.0;
    }
    return (a[0] + a[1]) + (a[2] + a[3]);
}

/* The same of two rows in single precision, as a receipt has them: that of the second less that of the first. */
CLONES static double gain_of(const float *restrict anchor, const float *restrict mixture, const double *restrict is,
                             const double *restrict yes, double floor, len_t m) {
    double a[4] = {0, 0, 0, 0};
    for (len_t k = 0; k < m; k++) {
        double u = anchor[k], v = mixture[k];
        u = yes[k] != 0 ? u : 1 - u;
        v = yes[k] != 0 ? v : 1 - v;
        a[k & 3] += is[k] != 0 ? log_of(v > floor ? v : floor) - log_of(u > floor ? u : floor) : 0.0;
    }
    return (a[0] + a[1]) + (a[2] + a[3]);
}

/* Whether the receipt says of all known labels what it gave them. */
CLONES static int says_all(const float *restrict receipt, const double *restrict is, len_t m) {
    int all = 1;
    for (len_t k = 0; k < m; k++) all &= is[k] == 0 || (receipt[k] == receipt[k] && receipt[m + k] == receipt[m + k]);
    return all;
}

/* Known labels, known ones that are yes, what rows said for and against them; of each its known negatives and what was
 * said against it; how many are >= 0.5. sums: 5 numbers. */
CLONES static void count_labels(const double *restrict p, const double *restrict is, const double *restrict yes,
                                double *restrict negatives, double *restrict against, double *sums, len_t m) {
    double n = 0, positive = 0, f = 0, high = 0;
    for (len_t k = 0; k < m; k++) {
        double no = is[k] * (1 - p[k]);
        negatives[k] += is[k] - yes[k];
        against[k] += no;
        n += is[k];
        positive += yes[k];
        f += is[k] * p[k];
        high += p[k] >= 0.5 ? is[k] : 0.0;
    }
    sums[0] = n;
    sums[1] = positive;
    sums[2] = f;
    sums[3] = n - f;
    sums[4] = high;
}

/* Over the known labels: gradient = sum (r - y) F, curvature = sum r (1 - r) F F', its upper triangle row by row, of the
 * n features F, (n, m); and behind them the sums of r - y and of r (1 - r). */
CLONES static void gather(const double *restrict r, const double *restrict is, const double *restrict yes,
                          const double *restrict F, int n, double *restrict d, double *restrict v,
                          double *restrict gradient, double *restrict curvature, double *sums, len_t m) {
    for (len_t k = 0; k < m; k++) {
        d[k] = is[k] * r[k] - yes[k];
        v[k] = is[k] * (r[k] * (1 - r[k]));
    }
    for (int i = 0; i < n; i++) {
        gradient[i] = dot(d, F + i * m, m);
        for (int j = i; j < n; j++) {
            double a[4] = {0, 0, 0, 0};
            const double *f = F + i * m, *h = F + j * m;
            len_t k = 0;
            for (; k + 4 <= m; k += 4)
                for (int l = 0; l < 4; l++) a[l] += v[k + l] * f[k + l] * h[k + l];
            for (int l = 0; k < m; k++, l++) a[l] += v[k] * f[k] * h[k];
            *curvature++ = (a[0] + a[1]) + (a[2] + a[3]);
        }
    }
    sums[0] = sum_of(d, m);
    sums[1] = sum_of(v, m);
}

/* c, H and s, H^s of the known labels: one Newton step each. */
CLONES static void step_labels(double *restrict c, double *restrict H, double *restrict s, double *restrict Hs,
                               const double *restrict d, const double *restrict v, const double *restrict x,
                               const double *restrict f2, const double *restrict is, double g, double a, double a_s,
                               len_t m) {
    for (len_t k = 0; k < m; k++) {
        double z = x[k] - f2[k], h = g * H[k] + v[k], hs = g * Hs[k] + v[k] * z * z;
        double by = within(c[k] - (d[k] + (1 - g) * a * c[k]) / (h + a), -6.0, 6.0);
        double slope = within(s[k] - (d[k] * z + (1 - g) * a_s * s[k]) / (hs + a_s), -0.8, 1.5);
        c[k] = is[k] != 0 ? by : c[k];
        H[k] = is[k] != 0 ? h : H[k];
        s[k] = is[k] != 0 ? slope : s[k];
        Hs[k] = is[k] != 0 ? hs : Hs[k];
    }
}

/* L, L^N: of the known labels how many came, and how many were yes. */
CLONES static void count_mix(double *restrict L, double *restrict LN, const double *restrict is,
                             const double *restrict yes, double g, len_t m) {
    for (len_t k = 0; k < m; k++) {
        L[k] = is[k] != 0 ? kept(g * L[k] + yes[k]) : L[k];
        LN[k] = is[k] != 0 ? g * LN[k] + 1 : LN[k];
    }
}

/* The first that is no probability, -1 for none. */
static len_t first_outside(const double *p, len_t n) {
    for (len_t k = 0; k < n; k++)
        if (!(p[k] >= 0 && p[k] <= 1)) return k;
    return -1;
}

/* Each entry counted in its bin, of a thousand or so in equal steps, with this weight. */
static void count_bins(const double *out, double weight, double *counts, double *sums, len_t bins, len_t m) {
    for (len_t k = 0; k < m; k++) {
        len_t b = (len_t)((double)bins * out[k]);
        b = b < bins ? b : bins - 1;
        counts[b] += weight;
        sums[b] += weight * out[k];
    }
}

/* Half of the largest F1 that entries in these bins can be expected to give, whatever the bin above which all are yes. */
static double half_of_best_f1(const double *counts, const double *sums, len_t bins) {
    double total = 0, above = 0, expected = 0, best = 0;
    for (len_t b = 0; b < bins; b++) total += sums[b];
    for (len_t b = bins - 1; b >= 0; b--) {
        above += counts[b];
        expected += sums[b];
        if (above > 0 && expected / (above + total) > best) best = expected / (above + total);
    }
    return best;
}

static void decide(const double *out, double threshold, unsigned char *yes, len_t m) {
    for (len_t k = 0; k < m; k++) yes[k] = out[k] >= threshold;
}

#endif
