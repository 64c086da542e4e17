/* The loops over the m entries of one row, written so that a C compiler turns them into vector code.
 *
 * Every function does the same additions in the same order whatever vector unit runs it: elementwise
 * operations are rounded one by one (no fused multiply-add, see pyproject.toml) and sums run in four fixed
 * lanes. So the two clones below give the same bits, and only their speed differs.
 */
#ifndef STREAM_CAN_VECTORMATH_H
#define STREAM_CAN_VECTORMATH_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

typedef ptrdiff_t len_t;

/* exp for -700 < x < 700, within 1 ulp or so: x = n ln 2 + r with |r| <= ln 2 / 2, Taylor series of exp(r). */
static inline double exp_of(double x) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    double t = x * 1.4426950408889634 + shift, n = t - shift;
    double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double s = 1.6059043836821613e-10;
    s = s * r + 2.0876756987868100e-09;
    s = s * r + 2.5052108385441720e-08;
    s = s * r + 2.7557319223985893e-07;
    s = s * r + 2.7557319223985888e-06;
    s = s * r + 2.4801587301587302e-05;
    s = s * r + 1.9841269841269841e-04;
    s = s * r + 1.3888888888888889e-03;
    s = s * r + 8.3333333333333332e-03;
    s = s * r + 4.1666666666666664e-02;
    s = s * r + 1.6666666666666666e-01;
    s = s * r + 0.5;
    s = s * r + 1.0;
    s = s * r + 1.0;
    uint64_t bits;
    double scale;
    memcpy(&bits, &t, 8);
    bits = (bits + 1023) << 52;
    memcpy(&scale, &bits, 8);
    return s * scale;
}

/* log for a normal x > 0, within 1 ulp or so: x = 2^n (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), then
 * log(1 + f) by the series in s = f / (2 + f) with the minimax coefficients of Sun's fdlibm. */
static inline double log_of(double x) {
    uint64_t bits, exponent, part;
    double n, y;
    memcpy(&bits, &x, 8);
    exponent = (bits + (0x3ff0000000000000ULL - 0x3fe6a09e667f3bcdULL)) >> 52;
    part = exponent | 0x4330000000000000ULL;
    memcpy(&n, &part, 8);
    n -= 4503599627370496.0 + 1023.0;
    bits -= (exponent - 1023) << 52;
    memcpy(&y, &bits, 8);
    double f = y - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double w = 1.479819860511658591e-01;
    w = w * z + 1.531383769920937332e-01;
    w = w * z + 1.818357216161805012e-01;
    w = w * z + 2.222219843214978396e-01;
    w = w * z + 2.857142874366239149e-01;
    w = w * z + 3.999999999940941908e-01;
    w = w * z + 6.666666666666735130e-01;
    w = w * z;
    return n * 6.93147180369123816490e-01 - ((half - (s * (half + w) + n * 1.90821492927058770002e-10)) - f);
}

/* 1 unless every entry is >= 0 (so NaN counts as bad too); *sum gets the sum, inf or NaN included. */
CLONES static int bad_row(const double *restrict p, len_t m, double *sum) {
    double a[4] = {0, 0, 0, 0};
    int good = 1;
    len_t i = 0;
    for (; i + 4 <= m; i += 4)
        for (int l = 0; l < 4; l++) {
            a[l] += p[i + l];
            good &= p[i + l] >= 0;
        }
    for (int l = 0; i < m; i++, l++) {
        a[l] += p[i];
        good &= p[i] >= 0;
    }
    *sum = (a[0] + a[1]) + (a[2] + a[3]);
    return !good;
}

CLONES static double sum_of(const double *restrict p, len_t m) {
    double a[4] = {0, 0, 0, 0};
    len_t i = 0;
    for (; i + 4 <= m; i += 4)
        for (int l = 0; l < 4; l++) a[l] += p[i + l];
    for (int l = 0; i < m; i++, l++) a[l] += p[i];
    return (a[0] + a[1]) + (a[2] + a[3]);
}

CLONES static double dot(const double *restrict p, const double *restrict q, len_t m) {
    double a[4] = {0, 0, 0, 0};
    len_t i = 0;
    for (; i + 4 <= m; i += 4)
        for (int l = 0; l < 4; l++) a[l] += p[i + l] * q[i + l];
    for (int l = 0; i < m; i++, l++) a[l] += p[i] * q[i];
    return (a[0] + a[1]) + (a[2] + a[3]);
}

/* r = 1 / p */
CLONES static void invert(const double *restrict p, double *restrict r, len_t m) {
    for (len_t i = 0; i < m; i++) r[i] = 1 / p[i];
}

CLONES static void divide(const double *restrict p, double by, double *restrict r, len_t m) {
    for (len_t i = 0; i < m; i++) r[i] = p[i] / by;
}

CLONES static void scale(double *restrict r, double by, len_t m) {
    for (len_t i = 0; i < m; i++) r[i] *= by;
}

/* x = log max(p, floor), floor > 0 */
CLONES static void log_clipped(const double *restrict p, double floor, double *restrict x, len_t m) {
    for (len_t i = 0; i < m; i++) x[i] = log_of(p[i] > floor ? p[i] : floor);
}

/* f = log((M + 1) / (N + m)) */
CLONES static void log_mean(const double *restrict M, double log_total, double *restrict f, len_t m) {
    for (len_t i = 0; i < m; i++) f[i] = log_of(M[i] + 1.0) - log_total;
}

/* y = x - f2 */
CLONES static void subtract(const double *restrict x, const double *restrict f2, double *restrict y, len_t m) {
    for (len_t i = 0; i < m; i++) y[i] = x[i] - f2[i];
}

/* z = f2 + b y */
CLONES static void stretch(const double *restrict y, double b, const double *restrict f2, double *restrict z, len_t m) {
    for (len_t i = 0; i < m; i++) z[i] = f2[i] + b * y[i];
}

/* z = b x, b y + t1 f1 + t2 f2 + c */
CLONES static void times(const double *restrict x, double b, double *restrict z, len_t m) {
    for (len_t i = 0; i < m; i++) z[i] = b * x[i];
}

CLONES static void combine(const double *restrict x, const double *restrict f1, const double *restrict f2,
                           const double *restrict c, double b, double t1, double t2, double *restrict z, len_t m) {
    for (len_t i = 0; i < m; i++) z[i] = b * x[i] + t1 * f1[i] + t2 * f2[i] + c[i];
}

/* z += w a for one row a of A */
CLONES static void add_row(const float *restrict a, double w, double *restrict z, len_t m) {
    for (len_t i = 0; i < m; i++) z[i] += w * (double)a[i];
}

/* exp in place, for -700 < z < 700. */
CLONES static void exp_all(double *restrict z, len_t m) {
    for (len_t i = 0; i < m; i++) z[i] = exp_of(z[i]);
}

/* The same after the maximum has been subtracted, for any finite z: what is 700 below it is as good as nothing. */
CLONES static void exp_shifted(double *restrict z, len_t m) {
    double most = z[0];
    for (len_t i = 1; i < m; i++) most = z[i] > most ? z[i] : most;
    for (len_t i = 0; i < m; i++) {
        double v = z[i] - most;
        z[i] = exp_of(v > -700.0 ? v : -700.0);
    }
}

/* r / (S + kappa q + r) q, 0/0 is 0; divided first, since r q may underflow where the quotient is near 1 */
CLONES static void normalise_columns(const double *restrict r, const double *restrict q, const double *restrict S,
                                     double kappa, double *restrict out, len_t m) {
    for (len_t i = 0; i < m; i++) {
        double below = S[i] + kappa * q[i] + r[i];
        out[i] = r[i] / (below > 0 ? below : 1.0) * q[i];
    }
}

/* A sum that has decayed to nothing is nothing: denormal numbers would stay, and are slow. */
static inline double kept(double v) { return v < 1e-300 ? 0.0 : v; }

/* S = g S + r */
CLONES static void decay_add(double *restrict S, double g, const double *restrict r, len_t m) {
    for (len_t i = 0; i < m; i++) S[i] = g < 1 ? kept(g * S[i] + r[i]) : S[i] + r[i];
}

/* S = g S + w r */
CLONES static void decay_add_weighted(double *restrict S, double g, const double *restrict r, double w, len_t m) {
    for (len_t i = 0; i < m; i++) S[i] = g < 1 ? kept(g * S[i] + w * r[i]) : S[i] + w * r[i];
}

/* The first, and N = g N + 1, the number of rows, behind the m sums. */
static inline void count_row(double *S, double g, const double *r, len_t m) {
    decay_add(S, g, r, m);
    S[m] = g * S[m] + 1;
}

/* S = g S */
CLONES static void decay(double *restrict S, double g, len_t m) {
    for (len_t i = 0; i < m; i++) S[i] = kept(g * S[i]);
}

/* out = lambda out + (1 - lambda) p */
CLONES static void shrink(double *restrict out, double lambda, const double *restrict p, len_t m) {
    for (len_t i = 0; i < m; i++) out[i] = lambda * out[i] + (1 - lambda) * p[i];
}

/* out = u a + v b + w c */
CLONES static void mix_three(const double *restrict a, double u, const double *restrict b, double v,
                             const double *restrict c, double w, double *restrict out, len_t m) {
    for (len_t i = 0; i < m; i++) out[i] = u * a[i] + v * b[i] + w * c[i];
}

/* out = b r in single precision */
CLONES static void to_single_scaled(const double *restrict r, double b, float *restrict out, len_t m) {
    for (len_t i = 0; i < m; i++) out[i] = (float)(b * r[i]);
}

CLONES static void to_single(const double *restrict r, float *restrict out, len_t m) {
    for (len_t i = 0; i < m; i++) out[i] = (float)r[i];
}

/* out = w r, out += w r */
CLONES static void weigh(const double *restrict r, double w, double *restrict out, len_t m) {
    for (len_t i = 0; i < m; i++) out[i] = w * r[i];
}

CLONES static void add_weighed(const double *restrict r, double w, double *restrict out, len_t m) {
    for (len_t i = 0; i < m; i++) out[i] += w * r[i];
}

/* q = (L + strength q_train) / total */
CLONES static void posterior(const double *restrict L, double strength, const double *restrict train, double total,
                             double *restrict q, len_t m) {
    for (len_t i = 0; i < m; i++) q[i] = (L[i] + strength * train[i]) / total;
}

/* E = sum r x and the sum of r x^2 */
CLONES static void moments(const double *restrict r, const double *restrict x, double *E, double *E2, len_t m) {
    double a[4] = {0, 0, 0, 0}, b[4] = {0, 0, 0, 0};
    len_t i = 0;
    for (; i + 4 <= m; i += 4)
        for (int l = 0; l < 4; l++) {
            double t = r[i + l] * x[i + l];
            a[l] += t;
            b[l] += t * x[i + l];
        }
    for (int l = 0; i < m; i++, l++) {
        double t = r[i] * x[i];
        a[l] += t;
        b[l] += t * x[i];
    }
    *E = (a[0] + a[1]) + (a[2] + a[3]);
    *E2 = (b[0] + b[1]) + (b[2] + b[3]);
}

/* E = (sum r x, sum r f1, sum r f2) and V = the sums of r x^2, r x f1, r x f2, r f1^2, r f1 f2, r f2^2 */
CLONES static void moments_of_three(const double *restrict r, const double *restrict x, const double *restrict f1,
                                    const double *restrict f2, double *restrict E, double *restrict V, len_t m) {
    double a[9][4] = {{0}};
    len_t i = 0;
    for (; i + 4 <= m; i += 4)
        for (int l = 0; l < 4; l++) {
            double p = r[i + l], u = p * x[i + l], v = p * f1[i + l], w = p * f2[i + l];
            a[0][l] += u;
            a[1][l] += v;
            a[2][l] += w;
            a[3][l] += u * x[i + l];
            a[4][l] += u * f1[i + l];
            a[5][l] += u * f2[i + l];
            a[6][l] += v * f1[i + l];
            a[7][l] += v * f2[i + l];
            a[8][l] += w * f2[i + l];
        }
    for (int l = 0; i < m; i++, l++) {
        double p = r[i], u = p * x[i], v = p * f1[i], w = p * f2[i];
        a[0][l] += u;
        a[1][l] += v;
        a[2][l] += w;
        a[3][l] += u * x[i];
        a[4][l] += u * f1[i];
        a[5][l] += u * f2[i];
        a[6][l] += v * f1[i];
        a[7][l] += v * f2[i];
        a[8][l] += w * f2[i];
    }
    for (int j = 0; j < 3; j++) E[j] = (a[j][0] + a[j][1]) + (a[j][2] + a[j][3]);
    for (int j = 0; j < 6; j++) V[j] = (a[j + 3][0] + a[j + 3][1]) + (a[j + 3][2] + a[j + 3][3]);
}

/* S = g S + p p, and N = g N + 1 behind the m sums */
CLONES static void count_squares(double *restrict S, double g, const double *restrict p, len_t m) {
    for (len_t i = 0; i < m; i++) S[i] = kept(g * S[i] + p[i] * p[i]);
    S[m] = g * S[m] + 1;
}

/* The sum over classes of (A / N_A - B / N_B)^2 / (max(V / N - (M / N)^2, 0) + floor); N stands behind the m sums. */
CLONES static double apart(const double *restrict A, const double *restrict B, const double *restrict V,
                           const double *restrict M, double floor, len_t m) {
    double a[4] = {0, 0, 0, 0}, u = 1 / A[m], v = 1 / B[m], n = 1 / M[m];
    len_t i = 0;
    for (; i + 4 <= m; i += 4)
        for (int l = 0; l < 4; l++) {
            double off = A[i + l] * u - B[i + l] * v, mean = M[i + l] * n, var = V[i + l] * n - mean * mean;
            a[l] += off * off / ((var > 0 ? var : 0) + floor);
        }
    for (int l = 0; i < m; i++, l++) {
        double off = A[i] * u - B[i] * v, mean = M[i] * n, var = V[i] * n - mean * mean;
        a[l] += off * off / ((var > 0 ? var : 0) + floor);
    }
    return (a[0] + a[1]) + (a[2] + a[3]);
}

/* The larger of both stays; the other goes on. Written so that neither is a branch: where rows differ, a branch is
 * foretold wrongly, which takes longer than all else here. */
static inline double keep_larger(double *kept, double v) {
    double before = *kept;
    *kept = v > before ? v : before;
    return v < before ? v : before;
}

/* The three largest in descending order; -1 where there are fewer */
static inline void three_largest(const double *restrict p, len_t m, double *restrict top) {
    double first = -1, second = -1, third = -1;
    for (len_t i = 0; i < m; i++) keep_larger(&third, keep_larger(&second, keep_larger(&first, p[i])));
    top[0] = first;
    top[1] = second;
    top[2] = third;
}

/* Where the n <= 5 largest are, in descending order, ties to the lower index; p >= 0 */
static void five_largest(const double *restrict p, len_t m, len_t n, len_t *restrict at) {
    double top[5] = {-1, -1, -1, -1, -1};
    len_t first[5] = {0};
    for (len_t i = 0; i < m; i++) {
        double v = p[i];
        for (int j = 0; j < 5; j++) v = keep_larger(&top[j], v);
    }
    for (len_t i = m - 1; i >= 0; i--)
        for (int j = 0; j < 5; j++) first[j] = p[i] == top[j] ? i : first[j];
    for (len_t j = 0; j < n; j++) {
        at[j] = first[j];
        if (j > 0 && top[j] == top[j - 1])
            for (at[j] = at[j - 1] + 1; at[j] < m - 1 && p[at[j]] != top[j];) at[j]++;
    }
}

static inline double clipped(double v, double most) { return v < -most ? -most : v > most ? most : v; }

/* One diagonal Newton step of the offsets c; d = r - [k = y] is passed in. */
CLONES static void step_offsets(double *restrict c, double *restrict H, const double *restrict d,
                                const double *restrict r, double right, double g, double a, double most, len_t m) {
    double forget = (1 - g) * a;
    for (len_t i = 0; i < m; i++) {
        double h = g * H[i] + right * (r[i] * (1 - r[i]));
        H[i] = h;
        c[i] = clipped(c[i] - (d[i] + forget * c[i]) / (h + a), most);
    }
}

/* The same for one row of A, stored in single and computed in double precision. */
CLONES static void step_row(float *restrict A, float *restrict G, const double *restrict d, const double *restrict r,
                            double right, double w, double g, double a, double most, len_t m) {
    double forget = (1 - g) * a, w2 = right * (w * w);
    for (len_t i = 0; i < m; i++) {
        double v = (double)A[i], h = g * (double)G[i] + w2 * (r[i] * (1 - r[i]));
        G[i] = (float)h;
        A[i] = (float)clipped(v - (w * d[i] + forget * v) / (h + a), most);
    }
}

#endif
