/* The class mix as it moves, estimated without labels by a chain of experts; docs/method.md, "The moving class mix". */
#ifndef STREAM_CAN_CLASS_MIX_H
#define STREAM_CAN_CLASS_MIX_H

#include "vectormath.h"

enum { MOST_EXPERTS = 3, MOST_TURNS = 20000 };

typedef struct {
    int n;                   /* experts; before them stands one that changes nothing */
    double *Q[MOST_EXPERTS]; /* what each has counted: m sums, then the number of rows N */
    double decay[MOST_EXPERTS], strength[MOST_EXPERTS];
    double *W;                   /* weights, n + 1, that of the one which changes nothing first */
    double *inverse;             /* 1 / ref */
    double *ratio;               /* q / ref of the expert at hand */
    const double *v;             /* the row at hand, as it came */
    double *r[MOST_EXPERTS];     /* what each expert makes of it, times l */
    double l[MOST_EXPERTS];      /* how likely each expert held it to be, against ref */
    double total;                /* sum of W l */
    double *row;                 /* what they make of it together */
} Chain;

static const double SHARE_KEPT = 0.997; /* of the weights, at each row; the rest is dealt out evenly */

/* 1 / ref, ref = (V + 1) / (N + m): V and behind it N */
CLONES static void inverse_mean(const double *restrict V, double *restrict inverse, len_t m) {
    double total = V[m] + (double)m;
    for (len_t i = 0; i < m; i++) inverse[i] = total / (V[i] + 1.0);
}

/* q = (Q + s base) / (N + s), as ratio to ref; r = v q / ref */
CLONES static void expert_row(const double *restrict Q, const double *restrict inverse, double s,
                              const double *restrict v, double *restrict ratio, double *restrict r, len_t m) {
    double total = Q[m] + s;
    for (len_t i = 0; i < m; i++) {
        ratio[i] = (Q[i] * inverse[i] + s * ratio[i]) / total;
        r[i] = v[i] * ratio[i];
    }
}

/* What each expert makes of v, and all together; the base of each expert is the q of the one before it. */
static void follow_mix(Chain *c, const double *v, len_t m) {
    c->v = v;
    c->total = c->W[0];
    for (len_t i = 0; i < m; i++) c->ratio[i] = 1.0;
    for (int i = 0; i < c->n; i++) {
        expert_row(c->Q[i], c->inverse, c->strength[i], v, c->ratio, c->r[i], m);
        c->l[i] = sum_of(c->r[i], m);
        c->total += c->W[i + 1] * c->l[i];
    }
    weigh(v, c->W[0] / c->total, c->row, m);
    for (int i = 0; i < c->n; i++) add_weighed(c->r[i], c->W[i + 1] / c->total, c->row, m);
}

/* The posterior that expert i counts: its own for the first, that of the one before it for the others. To be asked
 * for once a row and expert, in their order. */
static const double *counted(Chain *c, int i, len_t m) {
    int of = i > 0 ? i - 1 : 0;
    if (i != 1) scale(c->r[of], 1 / c->l[of], m); /* the second counts what the first did */
    return c->r[of];
}

/* The row went by: W <- .997 W' + .003 / (n + 1), W' being W l divided by its sum; Q <- g Q + r, N <- g N + 1. */
static void observe_mix(Chain *c, len_t m) {
    double even = (1 - SHARE_KEPT) / (c->n + 1);
    c->W[0] = SHARE_KEPT * (c->W[0] / c->total) + even;
    for (int i = 0; i < c->n; i++) {
        c->W[i + 1] = SHARE_KEPT * (c->W[i + 1] * c->l[i] / c->total) + even;
        count_row(c->Q[i], c->decay[i], counted(c, i, m), m);
    }
}

/* W after n rows with the evidence E, sums of log l, as if each of them had brought an nth of it. */
static void fold_mix(double *W, int experts, const double *E, double n) {
    double factor[MOST_EXPERTS], even = (1 - SHARE_KEPT) / (experts + 1);
    for (int i = 0; i < experts; i++) factor[i] = exp_of(clipped(E[i] / n, 600.0));
    for (int turn = 0; turn < MOST_TURNS && turn < n; turn++) { /* after so many they stand still */
        double total = W[0];
        for (int i = 0; i < experts; i++) total += W[i + 1] *= factor[i];
        for (int i = 0; i <= experts; i++) W[i] = SHARE_KEPT * (W[i] / total) + even;
    }
}

#endif
