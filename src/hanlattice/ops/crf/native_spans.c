/* The probability of spans: the sums from both sides meet around each of them. */
#include "native_chain.h"

typedef struct {
    real *alphas, *onward;    /* [T, V]; onward: the emissions and betas of a character */
    double *taken, *taken_on; /* [T]: what was taken out of them */
    real *terms;              /* [V] */
} span_space;

/* From the end of the sentence to the first character that a span of it needs to know about. */
static void go_back_for_spans(chain *c, const crf_batch *one, int64_t stop, span_space *s) {
    const int64_t K = c->K, P = c->P;
    double sum = 0;
    widen(c->y, one->end, K, 1, NOWHERE);
    for (int64_t t = one->lengths[0] - 1; t >= stop; t--) {
        memcpy(c->x, c->y, (size_t)P * sizeof(real));
        add_row(c->x, one->emissions + t * K, K);
        sum += centre(c->x, K, P);
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
    one.emissions = batch->single ? widened : batch->emissions + row;
    for (int64_t at = 0; batch->single && at < one.lengths[0] * batch->K; at++) widened[at] = batch->single[row + at];
    return one;
}

/* value [S]: the log probability of each span. The spans are sorted by sentence. */
EXPORT int64_t NAME(crf_spans)(const crf_batch *batch) {
    chain c;
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    if (make_chain(&c, batch, 1)) return NO_MEMORY;
    const int64_t T = batch->T;
    real *memory = numbers(c.V * (3 * T + 1));
    double *taken = malloc((size_t)(2 * T) * sizeof(double));
    if (!memory || !taken) return free(memory), free(taken), free(c.memory), NO_MEMORY;
    span_space s = {memory, memory + T * c.P, taken, taken + T, memory + 2 * T * c.P};
    for (int64_t b = batch->low; b < batch->high; b++) {
        if (batch->first[b] == batch->first[b + 1]) continue; /* a sentence that nobody asks about costs nothing */
        int64_t stop = T;
        for (int64_t at = batch->first[b]; at < batch->first[b + 1]; at++)
            if (batch->span_end[at] < stop) stop = batch->span_end[at];
        const crf_batch one = alone(batch, b, s.terms + c.P);
        const double partition = go_ahead(&c, &one, 0, s.alphas, c.P, s.taken);
        go_back_for_spans(&c, &one, stop, &s);
        for (int64_t at = batch->first[b]; at < batch->first[b + 1]; at++)
            batch->value[at] = span_one(&c, &one, at, partition, &s);
    }
    free(memory);
    free(taken);
    free(c.memory);
    return GOOD;
}
