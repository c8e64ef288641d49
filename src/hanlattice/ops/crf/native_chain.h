/* The sums over all taggings, character by character: what likelihood, marginals and spans are made of.

   A step is a product with a matrix of exponentials, so it needs K of them and not K * K. Scores are kept relative to
   the largest of their character, the rest is added up in double. An entry whose sum came out so small that terms may
   have been lost to underflow is computed again from its logarithms (`exactly`): README.md says why that is exact. */
#ifndef HANLATTICE_NATIVE_CHAIN_H
#define HANLATTICE_NATIVE_CHAIN_H

#include <math.h>

#include "native_crf.h"

#if REAL_IS_DOUBLE
#define SMALL 1e-280 /* sums above it have not felt the terms that underflow */
#else
#define SMALL 1e-28f
#endif

/* e^x, and an exact 0 where that is too small for a normal number. */
INLINE vec weigh(vec x) {
    ivec lost = (ivec)(x < -LARGEST_EXPONENT);
    return (vec)(~lost & (ivec)vec_exp(x));
}

/* log x for normal x > 0: x = 2^n m with m around 1, and log m = 2 artanh((m - 1) / (m + 1)). */
INLINE vec vec_log(vec x) {
#if REAL_IS_DOUBLE
    const whole one = 0x3ff0000000000000, root_half = 0x3fe6a09e667f3bcd;
    const int mantissa = 52, terms = 11;
    const real high = 0x1.62e42fefa0000p-1, low = 0x1.cf79abc9e3b3ap-40, magic = 0x1.8p52;
#else
    const whole one = 0x3f800000, root_half = 0x3f3504f3;
    const int mantissa = 23, terms = 5;
    const real high = 0x1.62e400p-1f, low = 0x1.7f7d1cp-20f, magic = 0x1.8p23f;
#endif
    ivec bits = (ivec)x;
    ivec power = (bits - root_half) >> mantissa;             /* so that m is from sqrt(1/2) to sqrt(2) */
    vec m = (vec)(bits - (power << mantissa));
    vec n = (vec)(power + (ivec)same(magic)) - magic;        /* whole numbers to real ones, for any instruction set */
    vec s = (m - (vec)((ivec){0} + one)) / (m + (vec)((ivec){0} + one)), square = s * s;
    vec series = same((real)2 / (2 * terms + 1));
    for (int k = terms - 1; k > 0; k--) series = series * square + (real)2 / (2 * k + 1);
    return n * high + ((series * square) * s + (s + s) + n * low);
}

/* One direction of time: from a source tag to a target tag. */
typedef struct {
    real *weight; /* [K source, V target]: e^(score - shift) */
    real *shift;  /* [V target]: its largest score */
    real *score;  /* [K target, V source] */
} direction;

typedef struct {
    int64_t K, V, P;
    direction ahead, back;
    real *x, *a, *total, *y; /* [V]: what `arrive` is given; e^x; the sums; their logarithms */
    real *memory;
} chain;

static void make_direction(direction *d, const crf_batch *batch, int64_t P, int64_t by_source, int64_t by_target) {
    const int64_t K = batch->K;
    for (int64_t k = 0; k < P; k++) d->shift[k] = 0;
    for (int64_t target = 0; target < K; target++) {
        real *scores = d->score + target * P;
        widen(scores, batch->transitions + target * by_target, K, by_source, NOWHERE);
        d->shift[target] = largest(scores, K);
    }
    for (int64_t source = 0; source < K; source++) {
        real *row = d->weight + source * P;
        widen(row, batch->transitions + source * by_source, K, by_target, 0); /* what fills a row weighs 1 */
        for (int64_t k = 0; k < P; k += LANES) store(row + k, weigh(load(row + k) - load(d->shift + k)));
    }
}

static int make_chain(chain *c, const crf_batch *batch, int both) {
    const int64_t K = c->K = batch->K, V = c->V = whole_vectors(K), P = c->P = V * LANES, square = K * P;
    real *at = c->memory = numbers(V * (4 * K + 6));
    if (!at) return NO_MEMORY;
    c->ahead = (direction){at, at + square, at + square + P};
    c->back = (direction){at + 2 * square + P, at + 3 * square + P, at + 3 * square + 2 * P};
    at += 4 * square + 2 * P;
    c->x = at, c->a = at + P, c->total = at + 2 * P, c->y = at + 3 * P;
    make_direction(&c->ahead, batch, P, K, 1);
    if (both) make_direction(&c->back, batch, P, 1, K);
    return GOOD;
}

/* x less its largest number, which is given back; what fills its last vector is nowhere again. */
INLINE real centre(real *x, int64_t K, int64_t P) {
    for (int64_t k = K; k < P; k++) x[k] = NOWHERE;
    const real top = largest(x, K);
    for (int64_t k = 0; k < P; k += LANES) store(x + k, load(x + k) - top);
    return top;
}

/* The same where arcs may pass a character of which every tag is impossible: what is so low is left as it is, or what
   arrives behind it would be a small difference of huge numbers. */
INLINE real centre_possible(real *x, int64_t K, int64_t P) {
    for (int64_t k = K; k < P; k++) x[k] = NOWHERE;
    return largest(x, K) < IMPOSSIBLE ? 0 : centre(x, K, P);
}

INLINE real add_up(vec v) {
    real lanes[LANES];
    store(lanes, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++) lanes[k] += lanes[k + half];
    return lanes[0];
}

/* Into `weights` e^x as parts of the largest, and their sum; gives the largest x. */
INLINE real weigh_all(const real *x, real *weights, int64_t K, int64_t P, real *sum) {
    const real top = largest(x, K);
    vec sums = {0};
    for (int64_t k = 0; k < P; k += LANES) {
        vec w = weigh(load(x + k) - top);
        store(weights + k, w);
        sums += w;
    }
    *sum = add_up(sums);
    return top;
}

static double log_sum(const real *x, real *weights, int64_t K, int64_t P) {
    real sum, top = weigh_all(x, weights, K, P, &sum);
    return top + log(sum);
}

/* y[target] from x and the scores themselves: no term is lost, however far behind all of them are. */
static double exactly(chain *c, const direction *d, int64_t target, real *terms) {
    for (int64_t k = 0; k < c->P; k += LANES) store(terms + k, load(c->x + k) + load(d->score + target * c->P + k));
    return log_sum(terms, terms, c->K, c->P);
}

#define BLOCK 6 /* vectors of targets whose sums stay in registers */

INLINE void multiply(const chain *c, const real *weight, int64_t at, int width) {
    vec sum[BLOCK];
    for (int v = 0; v < width; v++) sum[v] = (vec){0};
    for (int64_t source = 0; source < c->K; source++) {
        const real *row = weight + source * c->P + at;
        for (int v = 0; v < width; v++) sum[v] += load(row + v * LANES) * c->a[source];
    }
    for (int v = 0; v < width; v++) store(c->total + at + v * LANES, sum[v]);
}

/* y[target] = log sum over sources of e^(x[source] + score): x is centred. a and total are kept for the gradient. */
INLINE void arrive(chain *c, const direction *d, real *terms) {
    for (int64_t k = 0; k < c->P; k += LANES) store(c->a + k, weigh(load(c->x + k)));
    int64_t at = 0;
    for (; at + BLOCK * LANES <= c->P; at += BLOCK * LANES) multiply(c, d->weight, at, BLOCK);
    switch ((c->P - at) / LANES) {
        case 5: multiply(c, d->weight, at, 5); break;
        case 4: multiply(c, d->weight, at, 4); break;
        case 3: multiply(c, d->weight, at, 3); break;
        case 2: multiply(c, d->weight, at, 2); break;
        case 1: multiply(c, d->weight, at, 1); break;
    }
    ivec fine = ~(ivec){0};
    for (int64_t k = 0; k < c->P; k += LANES) {
        vec total = load(c->total + k);
        fine &= (ivec)(total > SMALL);
        store(c->y + k, vec_log(total) + load(d->shift + k));
    }
    int all = 1;
    for (int k = 0; k < LANES; k++) all &= fine[k] != 0;
    if (all) return;
    for (int64_t target = 0; target < c->K; target++)
        if (!(c->total[target] > SMALL)) c->y[target] = (real)exactly(c, d, target, terms);
}

INLINE double log_add(double x, double y) {
    const double top = x > y ? x : y;
    return top + log1p(exp(-fabs(x - y)));
}

/* alphas [n, stride], each less the largest so far, which are added up in taken [n]; gives log Z. Where there are arcs,
   before [arcs of the sentence] is the sum over all that leads to each. */
static double go_ahead(chain *c, const crf_batch *batch, int64_t b, real *alphas, int64_t stride, double *taken,
                       double *before) {
    const int64_t K = c->K, P = c->P, n = batch->lengths[b];
    const real *emissions = batch->emissions + b * batch->T * K;
    const int64_t low = before ? batch->arcs[b] : 0, high = before ? batch->arcs[b + 1] : 0;
    int64_t opened = low, closed = low;
    double sum = 0;
    widen(c->x, batch->start, K, 1, NOWHERE);
    for (int64_t t = 0; t < n; t++) {
        if (t) {
            arrive(c, &c->ahead, c->a); /* nobody needs a after it */
            memcpy(c->x, c->y, (size_t)P * sizeof(real));
        }
        for (; opened < high && batch->arc_start[opened] == t; opened++)
            before[opened - low] = c->x[batch->arc_first[opened]] + sum;
        add_row(c->x, emissions + t * K, K);
        for (; closed < high && batch->arc_end[batch->arc_by_end[closed]] == t + 1; closed++) {
            const int64_t a = batch->arc_by_end[closed], last = batch->arc_last[a];
            c->x[last] = (real)log_add(c->x[last], before[a - low] + batch->arc_score[a] - sum);
        }
        sum += before ? centre_possible(c->x, K, P) : centre(c->x, K, P);
        if (alphas) memcpy(alphas + t * stride, c->x, (size_t)stride * sizeof(real));
        if (taken) taken[t] = sum;
    }
    add_row(c->x, batch->end, K);
    return sum + log_sum(c->x, c->a, K, P);
}

#endif
