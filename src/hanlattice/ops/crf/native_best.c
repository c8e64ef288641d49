/* Viterbi and the n best taggings. The maxima run from right to left, the tags are read from left to right: of equals,
   the first in the order of the tags. Every sum is taken in the order of batched.py: the scores are the same bits. */
#include "native_crf.h"

typedef struct {
    int64_t V;       /* vectors that K tags fill */
    real *onward;    /* [K to, V from]: the transitions, turned */
    real *best;      /* [V]: of all that may follow a tag */
    real *arriving;  /* [V]: the same with the next character's emission */
    whole *choices;  /* [T, V]: the tag that follows best */
} best_space;

static int make_space(best_space *space, const crf_batch *batch) {
    const int64_t V = space->V = whole_vectors(batch->K), P = V * LANES;
    space->onward = numbers(V * (batch->K + 2) + V * batch->T);
    if (!space->onward) return NO_MEMORY;
    space->best = space->onward + batch->K * P;
    space->arriving = space->best + P;
    space->choices = (whole *)(space->arriving + P);
    for (int64_t to = 0; to < batch->K; to++)
        widen(space->onward + to * P, batch->transitions + to, batch->K, batch->K, NOWHERE);
    return GOOD;
}

#define BLOCK 4 /* vectors of tags whose maxima stay in registers while all that may follow are tried */

INLINE void step_back(const best_space *space, int64_t K, int64_t at, int width, whole *choices) {
    vec best[BLOCK];
    ivec choice[BLOCK];
    for (int v = 0; v < width; v++) {
        best[v] = load(space->onward + (at + v) * LANES) + space->arriving[0];
        choice[v] = (ivec){0};
    }
    for (int64_t to = 1; to < K; to++) {
        const real *row = space->onward + (to * space->V + at) * LANES;
        for (int v = 0; v < width; v++) {
            vec way = load(row + v * LANES) + space->arriving[to];
            ivec better = (ivec)(way > best[v]);
            best[v] = choose(better, way, best[v]);
            choice[v] = (better & ((ivec){0} + (whole)to)) | (~better & choice[v]);
        }
    }
    for (int v = 0; v < width; v++) {
        store(space->best + (at + v) * LANES, best[v]);
        memcpy(choices + (at + v) * LANES, &choice[v], sizeof(ivec));
    }
}

static void viterbi_one(const crf_batch *batch, int64_t b, best_space *space, int64_t *tags, real *score) {
    const int64_t K = batch->K, V = space->V, n = batch->lengths[b];
    const real *emissions = batch->emissions + b * batch->T * K;
    widen(space->best, batch->end, K, 1, NOWHERE);
    for (int64_t t = n - 1; t > 0; t--) {
        memcpy(space->arriving, space->best, (size_t)V * VECTOR_BYTES);
        add_row(space->arriving, emissions + t * K, K);
        whole *choices = space->choices + (t - 1) * V * LANES;
        int64_t at = 0;
        for (; at + BLOCK <= V; at += BLOCK) step_back(space, K, at, BLOCK, choices);
        switch (V - at) {
            case 3: step_back(space, K, at, 3, choices); break;
            case 2: step_back(space, K, at, 2, choices); break;
            case 1: step_back(space, K, at, 1, choices); break;
        }
    }
    int64_t tag = 0;
    for (int64_t k = 0; k < K; k++) {
        real way = (batch->start[k] + emissions[k]) + space->best[k];
        if (k == 0 || way > *score) *score = way, tag = k;
    }
    tags[0] = tag;
    for (int64_t t = 1; t < n; t++) tags[t] = tag = space->choices[(t - 1) * V * LANES + tag];
    memset(tags + n, 0, (size_t)(batch->T - n) * sizeof *tags);
}

/* Finds tags [B, T], 0 beyond a sentence, and their scores, value [B]. */
EXPORT int64_t NAME(crf_viterbi)(const crf_batch *batch) {
    best_space space;
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    if (make_space(&space, batch)) return NO_MEMORY;
    for (int64_t b = batch->low; b < batch->high; b++)
        viterbi_one(batch, b, &space, batch->tags + b * batch->T, batch->value + b);
    free(space.onward);
    return GOOD;
}

/* The n best of K sorted lists of n, each raised by its own number: the largest head is taken n times. */
static void merge(const real *lists, const real *raise, int64_t K, int64_t n, int64_t *heads, real *best,
                  int32_t *from) {
    memset(heads, 0, (size_t)K * sizeof *heads);
    for (int64_t rank = 0; rank < n; rank++) {
        int64_t winner = -1;
        real top = 0;
        for (int64_t k = 0; k < K; k++) {
            if (heads[k] == n) continue;
            real way = lists[k * n + heads[k]] + raise[k];
            if (winner < 0 || way > top) top = way, winner = k;
        }
        best[rank] = top;
        from[rank] = (int32_t)(winner * n + heads[winner]++);
    }
}

typedef struct {
    int64_t *heads;   /* [K] */
    real *ways;       /* [K, n]: the n best ways on from each tag, best first */
    real *following;  /* [K, n]: the same of the next character, with its emission */
    real *raise;      /* [K] */
    int32_t *choices; /* [T, K, n]: tag * n + rank of what follows */
} nbest_space;

static void nbest_one(const crf_batch *batch, int64_t b, int64_t n, nbest_space *space, int64_t *tags, real *score) {
    const int64_t K = batch->K, length = batch->lengths[b];
    const real *emissions = batch->emissions + b * batch->T * K;
    for (int64_t at = 0; at < K * n; at++) space->ways[at] = at % n ? -(real)__builtin_inf() : batch->end[at / n];
    for (int64_t t = length - 1; t > 0; t--) {
        for (int64_t at = 0; at < K * n; at++) space->following[at] = emissions[t * K + at / n] + space->ways[at];
        for (int64_t k = 0; k < K; k++)
            merge(space->following, batch->transitions + k * K, K, n, space->heads, space->ways + k * n,
                  space->choices + ((t - 1) * K + k) * n);
    }
    for (int64_t k = 0; k < K; k++) space->raise[k] = batch->start[k] + emissions[k];
    int32_t *last = space->choices + (batch->T - 1) * K * n; /* no step leads on from the last character */
    merge(space->ways, space->raise, K, n, space->heads, score, last);
    memset(tags, 0, (size_t)(n * batch->T) * sizeof *tags);
    for (int64_t rank = 0; rank < n; rank++) {
        if (score[rank] == -(real)__builtin_inf()) continue;
        int64_t at = last[rank];
        tags[rank * batch->T] = at / n;
        for (int64_t t = 1; t < length; t++) {
            at = space->choices[(t - 1) * K * n + at];
            tags[rank * batch->T + t] = at / n;
        }
    }
}

/* Finds tags [B, n, T] and their scores, value [B, n], best first; zeros and -infinity where there are fewer than n. */
EXPORT int64_t NAME(crf_nbest)(const crf_batch *batch) {
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    const int64_t K = batch->K, T = batch->T, n = batch->n;
    const size_t reals = (size_t)(2 * K * n + K) * sizeof(real), heads = (size_t)K * sizeof(int64_t);
    char *memory = malloc(heads + reals + (size_t)(T * K * n) * sizeof(int32_t));
    if (!memory) return NO_MEMORY;
    nbest_space space = {.heads = (int64_t *)memory, .ways = (real *)(memory + heads)};
    space.following = space.ways + K * n;
    space.raise = space.following + K * n;
    space.choices = (int32_t *)(memory + heads + reals);
    for (int64_t b = batch->low; b < batch->high; b++)
        nbest_one(batch, b, n, &space, batch->tags + b * n * T, batch->value + b * n);
    free(memory);
    return GOOD;
}
