/* Sets of classes that hold the true one in a promised share of the labelled rows; docs/sets.md. */
#ifndef STREAM_CAN_SETS_H
#define STREAM_CAN_SETS_H

#include <math.h>

#include "vectormath.h"

#define SET_BINS 560
#define SET_EDGE 14.0
#define SET_PER_BIN (SET_BINS / 28.0)
#define SET_ALL 1e-4      /* below this level all classes are sent */
#define SET_MOST 1e200    /* of a weight, before all are divided by it */

enum { OF_ALL = -2, OF_CLASS = -1 }; /* groups: none, rows of a likeliest class, of a value of this segment */

typedef struct {
    double *labels, *belief; /* histograms of scores; NULL without sets */
    double *numbers;         /* weight of the next label, of the next row, sum of the belief, i, sum of the labels,
                                mean number of labels on their way */
    long long *counts;       /* rows, labels */
    double *groups;          /* of each class, where it is the group: i, and how many labels; (m, 2) */
    int groups_of;           /* OF_ALL, OF_CLASS, or the number of a segment */
    double miss;             /* the share that may be missed */
    double growth;           /* of the weight of labels */
} Sets;

/* -logit of a probability, kept within the histogram. */
static double set_score(double p) {
    double s;
    if (p <= 0) return SET_EDGE;
    if (p >= 1) return -SET_EDGE;
    s = log1p(-p) - log(p);
    return s > SET_EDGE ? SET_EDGE : s < -SET_EDGE ? -SET_EDGE : s;
}

static len_t set_bin(double s) {
    len_t b = (len_t)((s + SET_EDGE) * SET_PER_BIN);
    return b >= SET_BINS ? SET_BINS - 1 : b;
}

static void set_divide(double *bins, double w) {
    for (int b = 0; b < SET_BINS; b++) bins[b] /= w;
}

/* theta: the 1 - level quantile of labels and pseudo-labels together, the latter of weight 1 / miss. */
static double set_quantile(const double *labels, double label_weight, double label_sum, const double *belief,
                           double belief_sum, double miss, double level) {
    double a = 1 / label_weight, c = 1 / (miss * belief_sum), below = 0, here;
    double wanted = (1 - level) * (a * label_sum + 1 / miss);
    if (level < SET_ALL) return INFINITY;
    for (int b = 0; b < SET_BINS; b++) {
        here = a * labels[b] + c * belief[b];
        if (here > 0 && below + here >= wanted) return (b + (wanted - below) / here) / SET_PER_BIN - SET_EDGE;
        below += here;
    }
    return SET_EDGE;
}

/* logit(lambda) = logit(miss) + i */
static double set_level(double miss, double i) { return 1 / (1 + exp(-(log(miss / (1 - miss)) + i))); }

/* A row counts in what rows believe in. */
static void set_count(Sets *of, const float *row, double row_growth, len_t m) {
    double w = of->numbers[1] * row_growth;
    for (len_t k = 0; k < m; k++) {
        of->belief[set_bin(set_score(row[k]))] += w * row[k];
        of->numbers[2] += w * row[k];
    }
    of->numbers[1] = w;
    if (w > SET_MOST) {
        set_divide(of->belief, w);
        of->numbers[2] /= w;
        of->numbers[1] = 1;
    }
    of->counts[0]++;
}

/* theta of this i, by what is known now; before any row went by, as if this one had. */
static float set_theta_of(const Sets *of, const float *row, len_t m, double i) {
    double level = set_level(of->miss, i), own[SET_BINS] = {0}, sum = 0;
    if (of->numbers[2] > 0)
        return (float)set_quantile(of->labels, of->numbers[0], of->numbers[4], of->belief, of->numbers[2], of->miss,
                                   level);
    for (len_t k = 0; k < m; k++) {
        own[set_bin(set_score(row[k]))] += row[k];
        sum += row[k];
    }
    return (float)set_quantile(of->labels, of->numbers[0], of->numbers[4], own, sum, of->miss, level);
}

/* By what the set of a row is made. */
typedef struct {
    float theta; /* of its group */
    float all;   /* of all rows */
    float group; /* the class that is its group, if classes are */
} Theta;

/* Theta of a row; `group` is that of its numbers, NULL without one. */
static Theta set_theta(const Sets *of, const float *row, len_t m, const double *group, float likeliest) {
    Theta found = {0, set_theta_of(of, row, m, of->numbers[3]), likeliest};
    found.theta = group != NULL && group[1] > 0 ? set_theta_of(of, row, m, group[0]) : found.all;
    return found;
}

/* A group's i moves by its own labels, and starts where i of all rows stands. */
static void set_learn_group(const Sets *of, double *group, int missed, double share) {
    if (!(group[1] > 0)) group[0] = of->numbers[3], group[1] = 0;
    group[1] += 1;
    double under_way = of->numbers[5] * group[1] / of->counts[1];
    group[0] += share * (0.5 / (under_way + 2 / of->miss)) * (of->miss - missed) / (of->miss * (1 - of->miss));
}

/* The label of a row of this number, sent with these thetas, that gave it p; its weight, and the share of that in the
   largest. */
static void set_learn(Sets *of, double *group, double p, Theta sent, double row, double label_weight, double share) {
    double s = set_score(p), under_way, weight;
    int missed = s > sent.all;
    row = row < of->counts[0] ? row : of->counts[0];
    of->counts[1]++;
    under_way = (of->counts[0] - row) * of->counts[1] / (row + 1);
    weight = 1.0 / of->counts[1] > 0.01 ? 1.0 / of->counts[1] : 0.01;
    of->numbers[5] += weight * (under_way - of->numbers[5]);
    if (group != NULL) set_learn_group(of, group, s > sent.theta, share);
    of->numbers[3] += share * (0.5 / (of->numbers[5] + 100)) * (of->miss - missed) / (of->miss * (1 - of->miss));
    of->numbers[0] *= of->growth;
    of->labels[set_bin(s)] += label_weight * of->numbers[0];
    of->numbers[4] += label_weight * of->numbers[0];
    if (of->numbers[0] > SET_MOST) {
        set_divide(of->labels, of->numbers[0]);
        of->numbers[4] /= of->numbers[0];
        of->numbers[0] = 1;
    }
}

#endif
