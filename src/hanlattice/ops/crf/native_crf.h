/* What Viterbi and the sums share: a batch of sentences and the scores of a chain. README.md has the equations. */
#ifndef HANLATTICE_NATIVE_CRF_H
#define HANLATTICE_NATIVE_CRF_H

#include <stdlib.h>

#include "native.h"

#define FORBIDDEN ((real)-1e6) /* values.py */
#define IMPOSSIBLE ((real)-1e9) /* no tagging with a score below it is looked at, however often it does what is forbidden */
#define NOWHERE ((real)-1e30)  /* the score of what only fills a vector; finite, so that no difference is NaN */

enum { GOOD = 0, OTHER_SIZE = -1, NO_MEMORY = -2 };

/* The sentences from `low` to `high` of a batch, and what is asked about them; native.py has the twin. */
typedef struct {
    int64_t size; /* of this structure, as Python sees it */
    int64_t low, high, T, K;
    int64_t n;       /* nbest: how many */
    int64_t longest; /* spans: tags of each */
    const real *emissions;                 /* [B, T, K] */
    const int64_t *lengths;                /* [B], from 1 to T */
    const real *start, *transitions, *end; /* [K], [K, K] from, to, [K] */
    int64_t *tags;                         /* [B, T], [B, n, T] of nbest: given to the sums, found by Viterbi and nbest */
    real *value;                           /* [B], [B, n] of nbest, [S] of spans */
    real *alphas;                          /* [B, T, K] */
    const real *gradient;                  /* [B] */
    real *by_emission, *by_score;          /* [B, T, K], [K + 2, K] */
    const int64_t *first;                  /* [B + 1]: the spans of sentence b are first[b] to first[b + 1] */
    const int64_t *span_start, *span_end;  /* [S] */
    const int64_t *span_tags;              /* [S, longest] */
    const uint8_t *blocked;                /* [S, K]: tags that must not follow */
    const float *single;                   /* spans: the emissions, where they are not `real` */
    const int64_t *arcs;                   /* [B + 1]: the arcs of sentence b are arcs[b] to arcs[b + 1]; 0: there are none */
    const int64_t *arc_start, *arc_end;    /* [A]: the characters of each; the arcs of a sentence come by their starts */
    const int64_t *arc_first, *arc_last;   /* [A]: the tags that its neighbours see */
    const int64_t *arc_by_end;             /* [A]: the arcs of each sentence once more, by their ends */
    const real *arc_score;                 /* [A] */
    real *arc_value;                       /* [A]: the log probability of each */
} crf_batch;

/* The arcs low to high of a sentence that start at one character. */
typedef struct {
    int64_t low, high;
} arc_range;

/* Walking from right to left: the arcs that start at t, where `left` is the first one that the walk has passed. */
INLINE arc_range arcs_from(const crf_batch *batch, int64_t b, int64_t t, int64_t left) {
    arc_range found = {left, left};
    while (found.low > batch->arcs[b] && batch->arc_start[found.low - 1] == t) found.low--;
    return found;
}

INLINE int64_t arc_count(const crf_batch *batch) {
    return batch->arcs ? batch->arcs[batch->high] - batch->arcs[batch->low] : 0;
}

INLINE int64_t whole_vectors(int64_t K) { return (K + LANES - 1) / LANES; }

/* K numbers into whole vectors, `fill` after them. */
INLINE void widen(real *wide, const real *from, int64_t K, int64_t stride, real fill) {
    const int64_t P = whole_vectors(K) * LANES;
    for (int64_t k = 0; k < K; k++) wide[k] = from[k * stride];
    for (int64_t k = K; k < P; k++) wide[k] = fill;
}

/* wide = K numbers + what wide holds already; what fills a vector is left as it is. */
INLINE void add_row(real *wide, const real *row, int64_t K) {
    int64_t k = 0;
    for (; k + LANES <= K; k += LANES) store(wide + k, load(wide + k) + load(row + k));
    for (; k < K; k++) wide[k] += row[k];
}

/* The largest of K numbers in whole vectors; what fills the last one must be lower. NaN is not looked for. */
INLINE real largest(const real *wide, int64_t K) {
    real lanes[LANES];
    vec top = load(wide);
    for (int64_t k = LANES; k < K; k += LANES) {
        vec v = load(wide + k);
        top = choose((ivec)(v > top), v, top);
    }
    store(lanes, top);
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++) lanes[k] = lanes[k + half] > lanes[k] ? lanes[k + half] : lanes[k];
    return lanes[0];
}

/* Memory for numbers, of which a caller takes pieces in whole vectors. */
static inline real *numbers(int64_t vectors) {
    return aligned_alloc(VECTOR_BYTES, (size_t)(vectors > 0 ? vectors : 1) * VECTOR_BYTES);
}

#endif
