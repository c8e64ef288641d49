/* The probability of spans and of arcs: the sums from both sides meet around each of them. */
#include "native_chain.h"

typedef struct {
    real *alphas, *onward;    /* [T, V]; onward: the emissions and betas of a character */
    real *terms;              /* [V] */
    real *betas;              /* [T, V], or 0: nobody needs them */
    double *taken, *taken_on; /* [T]: what was taken out of them */
    double *before, *after;   /* [arcs of a sentence]: the sums over all that leads to an arc, and over all after it */
} span_space;

/* From the end of the sentence to `stop`, the first character that somebody asks about. */
static void go_back_for_spans(chain *c, const crf_batch *one, int64_t stop, span_space *s) {
    const int64_t K = c->K, P = c->P;
    const int64_t low = one->arcs ? one->arcs[0] : 0;
    int64_t opened = one->arcs ? one->arcs[1] : 0, closed = opened;
    double sum = 0;
    widen(c->y, one->end, K, 1, NOWHERE);
    for (int64_t t = one->lengths[0] - 1; t >= stop; t--) {
        if (s->betas) memcpy(s->betas + t * P, c->y, (size_t)P * sizeof(real));
        for (; closed > low && one->arc_end[one->arc_by_end[closed - 1]] == t + 1; closed--) {
            const int64_t a = one->arc_by_end[closed - 1];
            s->after[a - low] = c->y[one->arc_last[a]] + sum;
        }
        memcpy(c->x, c->y, (size_t)P * sizeof(real));
        add_row(c->x, one->emissions + t * K, K);
        for (; opened > low && one->arc_start[opened - 1] == t; opened--) {
            const int64_t a = opened - 1, first = one->arc_first[a];
            c->x[first] = (real)log_add(c->x[first], one->arc_score[a] + s->after[a - low] - sum);
        }
        sum += s->before ? centre_possible(c->x, K, P) : centre(c->x, K, P);
        memcpy(s->onward + t * P, c->x, (size_t)P * sizeof(real));
        s->taken_on[t] = sum;
        if (t > stop) arrive(c, &c->back, s->terms);
    }
}

static real span_one(const chain *c, const crf_batch *one, int64_t at, double partition, span_space *s) {
    const int64_t K = c->K, P = c->P, start = one->span_start[at], end = one->span_end[at];
    const int64_t *tags = one->span_tags + at * one->longest;
    double sum = s->alphas[start * P + tags[0]];
    for (int64_t t = start + 1; t < end; t++) {
        const int64_t tag = tags[t - start];
        sum += (double)one->emissions[t * K + tag] + one->transitions[tags[t - start - 1] * K + tag];
    }
    const int64_t last = tags[end - start - 1];
    if (end == one->lengths[0]) return (real)((s->taken[start] - partition) + (sum + one->end[last]));
    widen(s->terms, one->transitions + last * K, K, 1, NOWHERE);
    add_row(s->terms, s->onward + end * P, K);
    for (int64_t k = 0; k < K; k++)
        if (one->blocked[at * K + k]) s->terms[k] += FORBIDDEN;
    const double right = log_sum(s->terms, s->terms, K, P);
    return (real)((s->taken[start] + s->taken_on[end] - partition) + (sum + right));
}

/* Sentence b as a batch of its own, in which it has the number 0. */
static crf_batch alone(const crf_batch *batch, int64_t b, real *widened) {
    crf_batch one = *batch;
    const int64_t row = b * batch->T * batch->K;
    one.lengths += b;
    if (one.arcs) one.arcs += b;
    one.emissions = batch->single ? widened : batch->emissions + row;
    for (int64_t at = 0; batch->single && at < one.lengths[0] * batch->K; at++) widened[at] = batch->single[row + at];
    return one;
}

/* The chain and the space of one call; with `betas`, room for them. */
static int make_span_space(chain *c, span_space *s, const crf_batch *batch, int betas) {
    const int64_t T = batch->T, A = arc_count(batch);
    if (make_chain(c, batch, 1)) return NO_MEMORY;
    const int64_t square = T * c->P;
    s->alphas = numbers(c->V * ((betas ? 4 : 3) * T + 1));
    s->taken = malloc((size_t)(2 * T + 2 * A) * sizeof(double));
    if (!s->alphas || !s->taken) return free(s->alphas), free(s->taken), free(c->memory), NO_MEMORY;
    s->onward = s->alphas + square;
    s->terms = s->onward + square; /* and then room for emissions that are made wider */
    s->betas = betas ? s->terms + c->P + square : 0;
    s->taken_on = s->taken + T;
    s->before = A ? s->taken_on + T : 0;
    s->after = A ? s->before + A : 0;
    return GOOD;
}

static void free_span_space(chain *c, span_space *s) {
    free(s->alphas);
    free(s->taken);
    free(c->memory);
}

/* value [S]: the log probability of each span. The spans are sorted by sentence. */
EXPORT int64_t NAME(crf_spans)(const crf_batch *batch) {
    chain c;
    span_space s;
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    if (make_span_space(&c, &s, batch, 0)) return NO_MEMORY;
    for (int64_t b = batch->low; b < batch->high; b++) {
        if (batch->first[b] == batch->first[b + 1]) continue; /* a sentence that nobody asks about costs nothing */
        int64_t stop = batch->T;
        for (int64_t at = batch->first[b]; at < batch->first[b + 1]; at++)
            if (batch->span_end[at] < stop) stop = batch->span_end[at];
        const crf_batch one = alone(batch, b, s.terms + c.P);
        const double partition = go_ahead(&c, &one, 0, s.alphas, c.P, s.taken, s.before);
        go_back_for_spans(&c, &one, stop, &s);
        for (int64_t at = batch->first[b]; at < batch->first[b + 1]; at++)
            batch->value[at] = span_one(&c, &one, at, partition, &s);
    }
    free_span_space(&c, &s);
    return GOOD;
}

/* value [B]: log Z with all arcs. arc_value [A]: the log probability of each. by_emission [B, T, K]: the probability
   of each tag at each character, where an arc stands at its last character alone. */
EXPORT int64_t NAME(crf_arcs)(const crf_batch *batch) {
    chain c;
    span_space s;
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    if (make_span_space(&c, &s, batch, 1)) return NO_MEMORY;
    const int64_t K = c.K, P = c.P, T = batch->T;
    for (int64_t b = batch->low; b < batch->high; b++) {
        const crf_batch one = alone(batch, b, 0);
        const int64_t n = one.lengths[0];
        const double partition = go_ahead(&c, &one, 0, s.alphas, P, s.taken, s.before);
        go_back_for_spans(&c, &one, 0, &s);
        batch->value[b] = (real)partition;
        for (int64_t a = one.arcs[0]; a < one.arcs[1]; a++) {
            const double around = s.before[a - one.arcs[0]] + s.after[a - one.arcs[0]] - partition;
            batch->arc_value[a] = (real)(around + one.arc_score[a]);
        }
        real *marginals = batch->by_emission + b * T * K;
        for (int64_t t = 0; t < n; t++) {
            const real around = (real)(s.taken[t] + (t + 1 < n ? s.taken_on[t + 1] : 0) - partition);
            for (int64_t k = 0; k < P; k += LANES)
                store(s.terms + k, weigh((load(s.alphas + t * P + k) + load(s.betas + t * P + k)) + around));
            memcpy(marginals + t * K, s.terms, (size_t)K * sizeof(real));
        }
        memset(marginals + n * K, 0, (size_t)((T - n) * K) * sizeof(real));
    }
    free_span_space(&c, &s);
    return GOOD;
}
