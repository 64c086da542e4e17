/* The row whose top says how often it is right; docs/method.md, "The calibrated row". */
#ifndef STREAM_CAN_CALIBRATED_H
#define STREAM_CAN_CALIBRATED_H

#include "vectormath.h"

typedef struct {
    len_t bins;              /* of the top, in equal steps; for two classes so many of each */
    double *n, *hits, *sure; /* of each bin decayed sums over its labels: of 1, of the right ones, of their top;
                                NULL of a single path */
    len_t best;              /* of the row at hand the class on top, */
    float top;               /* and what that has before the shift */
    double v, rest;          /* what it has after it, and by what all others are multiplied */
} Calibrated;

/* The largest, ties to the lower index, and the second largest. */
static len_t two_largest(const double *s, len_t m, double *second) {
    len_t best = 0;
    double first = s[0], next = 0;
    for (len_t i = 1; i < m; i++) {
        best = s[i] > first ? i : best;
        keep_larger(&next, keep_larger(&first, s[i]));
    }
    *second = next;
    return best;
}

static inline len_t bin_of(const Calibrated *c, float top, len_t best, len_t m) {
    len_t b = (len_t)((double)c->bins * (double)top);
    return (b < c->bins ? b : c->bins - 1) + (m == 2 ? c->bins * best : 0);
}

/* v = s_j + (hits - sure) / (n + 100), at most 1 - 1e-4, and j stays on top, in float32 too */
static void calibrate(Calibrated *c, const double *s, len_t m) {
    double second, most, least;
    len_t j = two_largest(s, m, &second), b;
    c->best = j;
    c->top = (float)s[j];
    c->v = s[j];
    c->rest = 1;
    if (1 - s[j] < 1e-9 || s[j] <= 0 || !c->n) return;
    b = bin_of(c, c->top, j, m);
    most = s[j] + (c->hits[b] - c->sure[b]) / (c->n[b] + 100);
    most = most < 1 - 1e-4 ? most : 1 - 1e-4;
    least = (1 + 1e-6) * second / (1 - s[j] + second);
    c->v = most > least ? most : least;
    c->rest = (1 - c->v) / (1 - s[j]);
}

/* out = (1 - share) s + share (the calibrated row of s), in place */
static void take_share(const Calibrated *c, double share, double *out, len_t m) {
    double top = (1 - share) * out[c->best] + share * c->v;
    scale(out, (1 - share) + share * c->rest, m);
    out[c->best] = top;
}

/* A label of this weight came for a row whose top was this: whether it was right. */
static void count_label(Calibrated *c, float top, len_t best, int right, double weight, double g, len_t m) {
    len_t b = bin_of(c, top, best, m);
    c->n[b] = g * c->n[b] + weight;
    c->hits[b] = g * c->hits[b] + weight * right;
    c->sure[b] = g * c->sure[b] + weight * (double)top;
}

#endif
