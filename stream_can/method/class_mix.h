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
    const double *ref, *held;    /* that mix, and by which factor each class may be off it; NULL without bounds */
    const double *v;             /* the row at hand, as it came */
    double *r[MOST_EXPERTS];     /* what each expert makes of it, times l */
    double l[MOST_EXPERTS];      /* how likely each expert held it to be, against ref */
    double *rival;               /* weight of what explains rows without a mix; NULL without it */
    double l_rival;              /* how likely that held the row to be */
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

/* The ratio within 1 / held ... held, and q divided by its sum; r = v q / ref */
CLONES static void hold_within(const double *restrict held, const double *restrict ref, const double *restrict v,
                               double *restrict ratio, double *restrict r, len_t m) {
    double total;
    for (len_t i = 0; i < m; i++) {
        double least = 1 / held[i], q = ratio[i] < least ? least : ratio[i] > held[i] ? held[i] : ratio[i];
        ratio[i] = q;
        r[i] = q * ref[i];
    }
    total = sum_of(r, m);
    for (len_t i = 0; i < m; i++) {
        ratio[i] /= total;
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
        if (c->held) hold_within(c->held, c->ref, v, c->ratio, c->r[i], m);
        c->l[i] = sum_of(c->r[i], m);
        c->total += c->W[i + 1] * c->l[i];
    }
    if (c->rival) c->total += *c->rival * c->l_rival;
    weigh(v, c->W[0] / c->total, c->row, m);
    for (int i = 0; i < c->n; i++) add_weighed(c->r[i], c->W[i + 1] / c->total, c->row, m);
    if (c->rival) add_weighed(v, *c->rival * c->l_rival / c->total, c->row, m);
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
    double even = (1 - SHARE_KEPT) / (c->n + 1 + (c->rival != NULL));
    if (c->rival) *c->rival = SHARE_KEPT * (*c->rival * c->l_rival / c->total) + even;
    c->W[0] = SHARE_KEPT * (c->W[0] / c->total) + even;
    for (int i = 0; i < c->n; i++) {
        c->W[i + 1] = SHARE_KEPT * (c->W[i + 1] * c->l[i] / c->total) + even;
        count_row(c->Q[i], c->decay[i], counted(c, i, m), m);
    }
}

/* W after n rows with the evidence E, sums of log l, as if each of them had brought an nth of it; likewise the weight
 * of the rival, which may be NULL. */
static void fold_mix(double *W, int experts, const double *E, double *rival, const double *of_rival, double n) {
    double factor[MOST_EXPERTS], even = (1 - SHARE_KEPT) / (experts + 1 + (rival != NULL));
    double unmixed = rival ? exp_of(clipped(*of_rival / n, 600.0)) : 0;
    for (int i = 0; i < experts; i++) factor[i] = exp_of(clipped(E[i] / n, 600.0));
    for (int turn = 0; turn < MOST_TURNS && turn < n; turn++) { /* after so many they stand still */
        double total = W[0];
        for (int i = 0; i < experts; i++) total += W[i + 1] *= factor[i];
        if (rival) total += *rival *= unmixed;
        for (int i = 0; i <= experts; i++) W[i] = SHARE_KEPT * (W[i] / total) + even;
        if (rival) *rival = SHARE_KEPT * (*rival / total) + even;
    }
}

/* What explains rows without a mix: they fall into cells otherwise than those of validation did. A cell is the
 * likeliest class and the third of validation's rows in which the top lies. */
typedef struct {
    double *counts[3];   /* H of each third: m decayed counts, then their number; NULL without them */
    const double *prior; /* p0, m x 3 */
    const double *edges; /* of the thirds */
    double strength;
    len_t best;          /* the cell of the row at hand */
    int third;
} Cells;

/* l of the row at hand, which is put into its cell. */
static double cell_likelihood(Cells *c, const double *v, len_t m) {
    double top, p0;
    c->best = 0;
    for (len_t i = 1; i < m; i++)
        if (v[i] > v[c->best]) c->best = i;
    top = (double)(float)v[c->best];
    c->third = (top >= c->edges[0]) + (top >= c->edges[1]);
    p0 = c->prior[3 * c->best + c->third];
    return (c->counts[c->third][c->best] + c->strength * p0) / (c->counts[0][m] + c->strength) / p0;
}

/* Count it: each third decays with all rows. */
static void count_cell(const Cells *c, int third, double *counts, double g, len_t m) {
    decay(counts, g, m);
    counts[m] = g * counts[m] + 1;
    if (third == c->third) counts[c->best] += 1;
}

#endif
