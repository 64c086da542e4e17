/* What the labels of a column's values say, for each value in a slot; docs/method.md, "Segments".
 *
 * Slot 0 stands for every value without labels: its numbers are 0 for ever, and it is both ends of the ring that
 * keeps the others in the order of their last label. A slot outside the ring has after < 0, and numbers that are 0. */
#ifndef STREAM_CAN_SEGMENTS_H
#define STREAM_CAN_SEGMENTS_H

#include <math.h>

#include "vectormath.h"

typedef struct {
    double *numbers; /* of each slot 4 m + 3: L slow, E slow, L fast, E fast, S, and two of its sets */
    long long *before, *after;
    long long *next_dropped; /* a chain of slots that were dropped, from totals[DROPPED] to 0; -1 where not in it */
    long long *sizes, *totals;
    len_t m;
} Values;

enum { USED, LIMIT, DROPPED, EVICTED }; /* totals: bytes, most bytes, the chain, how often a value was dropped */

/* 2^(-1/5000), 2^(-1/20), 2^(-1/500) */
static const double VALUE_DECAYS[2] = {0.9998613801725043, 0.9659363289248456}, ODDS_DECAY = 0.9986146661010289;

static inline double *numbers_of(const Values *v, long long slot) { return v->numbers + slot * (4 * v->m + 3); }

/* i of its sets, and how many labels moved that; see sets.h */
static inline double *set_group_of(const Values *v, long long slot) { return numbers_of(v, slot) + 4 * v->m + 1; }

static inline double odds_of(const Values *v, long long slot) { return numbers_of(v, slot)[4 * v->m]; }

/* f = log((L + 20 q) / (E + 20 q)); 1e-290, because q may be as small as a number can be */
CLONES static void observed_over_expected(const double *restrict L, const double *restrict E, const double *restrict q,
                                          double *restrict f, len_t m) {
    for (len_t i = 0; i < m; i++) {
        double s = 20 * q[i] + 1e-290;
        f[i] = log_of((L[i] + s) / (E[i] + s));
    }
}

/* The two features of a column, slow and fast, shape (2, m). */
static void features_of(const Values *v, long long slot, const double *q, double *f) {
    double *sums = numbers_of(v, slot);
    for (int i = 0; i < 2; i++, sums += 2 * v->m, f += v->m)
        if (slot > 0)
            observed_over_expected(sums, sums + v->m, q, f, v->m);
        else
            memset(f, 0, v->m * sizeof(double));
}

/* S of the row's values: the smallest, 0 where it gives none. */
static double smallest_odds(const Values *v, const long long *slots, int columns) {
    double least = INFINITY;
    for (int i = 0; i < columns; i++)
        if (slots[i] >= 0 && odds_of(v, slots[i]) < least) least = odds_of(v, slots[i]);
    return least == INFINITY ? 0.0 : least;
}

static void leave(Values *v, long long slot) {
    v->after[v->before[slot]] = v->after[slot];
    v->before[v->after[slot]] = v->before[slot];
    v->after[slot] = v->before[slot] = -1;
    v->totals[USED] -= v->sizes[slot];
}

/* It has a label now: it goes to the end of the ring. */
static void enter(Values *v, long long slot) {
    if (v->after[slot] >= 0) leave(v, slot);
    v->before[slot] = v->before[0];
    v->after[slot] = 0;
    v->after[v->before[0]] = slot;
    v->before[0] = slot;
    v->totals[USED] += v->sizes[slot];
}

/* S = g S + rho for each value of the row */
static void judge_values(Values *v, const long long *slots, int columns, double rho) {
    for (int i = 0; i < columns; i++)
        if (slots[i] > 0) {
            double *S = numbers_of(v, slots[i]) + 4 * v->m, now = ODDS_DECAY * *S + rho;
            *S = fabs(now) < 1e-300 ? 0.0 : now;
        }
}

/* S = left S for each value that has labels: a label weighs more than any before. */
static void shrink_odds(Values *v, double left) {
    for (long long slot = v->after[0]; slot > 0; slot = v->after[slot]) numbers_of(v, slot)[4 * v->m] *= left;
}

/* L = g L + w [k = y], E = g E + w r for each value of the row; then the oldest go, until all fit. */
static void values_learn(Values *v, const long long *slots, int columns, const double *r, len_t y, double w) {
    for (int i = 0; i < columns; i++) {
        if (slots[i] <= 0) continue;
        double *sums = numbers_of(v, slots[i]);
        for (int speed = 0; speed < 2; speed++, sums += 2 * v->m) {
            decay(sums, VALUE_DECAYS[speed], v->m);
            sums[y] += w;
            decay_add_weighted(sums + v->m, VALUE_DECAYS[speed], r, w, v->m);
        }
        enter(v, slots[i]);
    }
    while (v->totals[USED] > v->totals[LIMIT]) {
        long long oldest = v->after[0];
        leave(v, oldest);
        memset(numbers_of(v, oldest), 0, (4 * v->m + 3) * sizeof(double));
        if (v->next_dropped[oldest] < 0) {
            v->next_dropped[oldest] = v->totals[DROPPED];
            v->totals[DROPPED] = oldest;
        }
        v->totals[EVICTED]++;
    }
}

#endif
