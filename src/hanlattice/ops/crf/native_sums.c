/* Likelihood with its gradient, and marginals. native_chain.h has the steps that they are made of. */
#include "native_chain.h"

static double gold_score(const crf_batch *batch, int64_t b, const int64_t *tags) {
    const int64_t K = batch->K, n = batch->lengths[b];
    const real *emissions = batch->emissions + b * batch->T * K;
    double sum = (double)batch->start[tags[0]] + batch->end[tags[n - 1]];
    for (int64_t t = 0; t < n; t++) sum += emissions[t * K + tags[t]];
    for (int64_t t = 1; t < n; t++) sum += batch->transitions[tags[t - 1] * K + tags[t]];
    return sum;
}

/* value [B]: log Z, or with tags [B, T] their log likelihood. alphas [B, T, K] are kept for crf_backward, if given. */
EXPORT int64_t NAME(crf_forward)(const crf_batch *batch) {
    chain c;
    const int64_t T = batch->T, K = batch->K;
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    if (make_chain(&c, batch, 0)) return NO_MEMORY;
    for (int64_t b = batch->low; b < batch->high; b++) {
        double partition = go_ahead(&c, batch, b, batch->alphas ? batch->alphas + b * T * K : 0, K, 0, 0);
        batch->value[b] = (real)(batch->tags ? gold_score(batch, b, batch->tags + b * T) - partition : partition);
    }
    free(c.memory);
    return GOOD;
}

/* The gradients that all sentences of a call share. */
typedef struct {
    real *outer; /* [K from, V to]: to be multiplied by the weights of the steps, at the end */
    real *exact; /* [K from, V to]: from entries that `exactly` computed, and from gold tags */
    real *terms, *marginal, *alpha; /* [V] */
} gradients;

/* The expected number of each step from one character to the next, `times`; chain c has just gone back over it. */
static void add_steps(chain *c, gradients *g, real times) {
    const int64_t K = c->K, P = c->P;
    for (int64_t from = 0; from < K; from++) {
        const real part = times * g->marginal[from];
        if (part == 0) continue;
        if (c->total[from] > SMALL) {
            const real ratio = part / c->total[from];
            real *row = g->outer + from * P;
            for (int64_t k = 0; k < P; k += LANES) store(row + k, load(row + k) + load(c->a + k) * ratio);
        } else {
            exactly(c, &c->back, from, g->terms);
            vec sum = {0};
            for (int64_t k = 0; k < P; k += LANES) sum += load(g->terms + k);
            const real ratio = part / add_up(sum);
            real *row = g->exact + from * P;
            for (int64_t k = 0; k < P; k += LANES) store(row + k, load(row + k) + load(g->terms + k) * ratio);
        }
    }
}

/* g->marginal from the alphas of a character and its betas. */
INLINE void weigh_tags(gradients *g, const real *alphas, const real *beta, int64_t K, int64_t P) {
    real sum;
    widen(g->alpha, alphas, K, 1, NOWHERE);
    for (int64_t k = 0; k < P; k += LANES) store(g->alpha + k, load(g->alpha + k) + load(beta + k));
    weigh_all(g->alpha, g->marginal, K, P, &sum);
    for (int64_t k = 0; k < P; k += LANES) store(g->marginal + k, load(g->marginal + k) / sum);
}

static void go_back(chain *c, gradients *g, const crf_batch *batch, int64_t b, const int64_t *tags) {
    const int64_t K = c->K, P = c->P, n = batch->lengths[b], row = b * batch->T * K;
    const real *emissions = batch->emissions + row, *alphas = batch->alphas + row;
    real *by_emission = batch->by_emission + row;
    const real gradient = batch->gradient[b], times = tags ? -gradient : gradient;
    widen(c->y, batch->end, K, 1, NOWHERE);
    for (int64_t t = n - 1;; t--) {
        weigh_tags(g, alphas + t * K, c->y, K, P);
        for (int64_t k = 0; k < K; k++) by_emission[t * K + k] = times * g->marginal[k];
        if (tags) by_emission[t * K + tags[t]] += gradient;
        if (t < n - 1 && batch->by_score) {
            add_steps(c, g, times);
            if (tags) g->exact[tags[t] * P + tags[t + 1]] += gradient;
        }
        if (t == 0) break;
        memcpy(c->x, c->y, (size_t)P * sizeof(real));
        add_row(c->x, emissions + t * K, K);
        centre(c->x, K, P);
        arrive(c, &c->back, g->terms);
    }
    memset(by_emission + n * K, 0, (size_t)((batch->T - n) * K) * sizeof(real));
}

/* What all sentences of a call give to the transitions, to the start and to the end. */
static void add_scores(const chain *c, const gradients *g, const crf_batch *batch) {
    const int64_t K = c->K, P = c->P;
    real *by_score = batch->by_score;
    for (int64_t at = 0; at < K * K; at++) {
        const int64_t from = at / K, to = at % K;
        by_score[at] = g->outer[from * P + to] * c->back.weight[to * P + from] + g->exact[from * P + to];
    }
    real *start = by_score + K * K, *end = start + K;
    memset(start, 0, (size_t)(2 * K) * sizeof(real));
    for (int64_t b = batch->low; b < batch->high; b++) {
        const real *first = batch->by_emission + b * batch->T * K, *last = first + (batch->lengths[b] - 1) * K;
        for (int64_t k = 0; k < K; k++) start[k] += first[k], end[k] += last[k];
    }
}

/* From the gradient [B] of crf_forward's value: by_emission [B, T, K] and, unless it is 0, by_score [K + 2, K], for
   transitions, start and end, this call's sentences added up. A gradient of ones, without tags, gives the marginals. */
EXPORT int64_t NAME(crf_backward)(const crf_batch *batch) {
    chain c;
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    if (make_chain(&c, batch, 1)) return NO_MEMORY;
    const int64_t K = c.K, P = c.P, T = batch->T;
    real *memory = numbers(c.V * (2 * K + 3));
    if (!memory) return free(c.memory), NO_MEMORY;
    memset(memory, 0, (size_t)(2 * K * P) * sizeof(real));
    real *rest = memory + 2 * K * P;
    gradients g = {memory, memory + K * P, rest, rest + P, rest + 2 * P};
    for (int64_t b = batch->low; b < batch->high; b++)
        go_back(&c, &g, batch, b, batch->tags ? batch->tags + b * T : 0);
    if (batch->by_score) add_scores(&c, &g, batch);
    free(memory);
    free(c.memory);
    return GOOD;
}
