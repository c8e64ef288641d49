/* Viterbi and the n best taggings. The maxima run from right to left, the tags are read from left to right: of equals,
   the first in the order of the tags. Every sum is taken in the order of batched.py: the scores are the same bits. */
#include "native_crf.h"

typedef struct {
    int64_t V;       /* vectors that K tags fill */
    real *onward;    /* [K to, V from]: the transitions, turned */
    real *best;      /* [V]: of all that may follow a tag */
    real *arriving;  /* [V]: the same with the next character's emission */
    whole *choices;  /* [T, V]: the tag that follows best */
    real *kept;      /* [T, V]: `best` of every character, where there are arcs */
    int64_t *taken;  /* [T, V]: the arc by which a character's tag is entered best, -1 for none */
} best_space;

static int make_space(best_space *space, const crf_batch *batch) {
    const int64_t V = space->V = whole_vectors(batch->K), P = V * LANES, rows = batch->arcs ? batch->T : 0;
    space->onward = numbers(V * (batch->K + 2) + V * (batch->T + rows));
    space->taken = malloc((size_t)(rows * P + 1) * sizeof(int64_t));
    if (!space->onward || !space->taken) return free(space->onward), free(space->taken), NO_MEMORY;
    space->best = space->onward + batch->K * P;
    space->arriving = space->best + P;
    space->choices = (whole *)(space->arriving + P);
    space->kept = space->arriving + P + batch->T * P;
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

/* What arcs from character t on add to `arriving`, tag by tag; gives the first arc that the walk has passed now. */
static int64_t enter_by_arcs(const crf_batch *batch, int64_t b, int64_t t, int64_t left, best_space *space) {
    const int64_t P = space->V * LANES;
    const arc_range here = arcs_from(batch, b, t, left);
    int64_t *taken = space->taken + t * P;
    for (int64_t k = 0; k < P; k++) taken[k] = -1;
    for (int64_t a = here.low; a < here.high; a++) {
        const int64_t first = batch->arc_first[a];
        const real way = batch->arc_score[a] + space->kept[(batch->arc_end[a] - 1) * P + batch->arc_last[a]];
        if (way > space->arriving[first]) space->arriving[first] = way, taken[first] = a;
    }
    return here.low;
}

static void viterbi_one(const crf_batch *batch, int64_t b, best_space *space, int64_t *tags, real *score) {
    const int64_t K = batch->K, V = space->V, P = V * LANES, n = batch->lengths[b];
    const real *emissions = batch->emissions + b * batch->T * K;
    int64_t left = batch->arcs ? batch->arcs[b + 1] : 0;
    widen(space->best, batch->end, K, 1, NOWHERE);
    for (int64_t t = n - 1; t > 0; t--) {
        memcpy(space->arriving, space->best, (size_t)V * VECTOR_BYTES);
        add_row(space->arriving, emissions + t * K, K);
        if (batch->arcs) {
            memcpy(space->kept + t * P, space->best, (size_t)V * VECTOR_BYTES);
            left = enter_by_arcs(batch, b, t, left, space);
        }
        whole *choices = space->choices + (t - 1) * P;
        int64_t at = 0;
        for (; at + BLOCK <= V; at += BLOCK) step_back(space, K, at, BLOCK, choices);
        switch (V - at) {
            case 3: step_back(space, K, at, 3, choices); break;
            case 2: step_back(space, K, at, 2, choices); break;
            case 1: step_back(space, K, at, 1, choices); break;
        }
    }
    int64_t tag = 0, arc = -1;
    for (int64_t k = 0; k < K; k++) {
        real way = (batch->start[k] + emissions[k]) + space->best[k];
        if (k == 0 || way > *score) *score = way, tag = k;
    }
    if (batch->arcs) {
        memcpy(space->kept, space->best, (size_t)V * VECTOR_BYTES);
        for (int64_t a = batch->arcs[b]; a < left; a++) { /* those that start with the sentence */
            const int64_t end = batch->arc_end[a];
            real way = batch->start[batch->arc_first[a]] +
                       (batch->arc_score[a] + space->kept[(end - 1) * P + batch->arc_last[a]]);
            if (way > *score) *score = way, arc = a;
        }
    }
    for (int64_t t = 0; t < n;) {
        if (arc >= 0) {
            const int64_t end = batch->arc_end[arc];
            tag = batch->arc_last[arc];
            for (; t < end; t++) tags[t] = -1 - arc;
        } else {
            tags[t++] = tag;
        }
        if (t == n) break;
        tag = space->choices[(t - 1) * P + tag];
        arc = batch->arcs ? space->taken[t * P + tag] : -1;
    }
    memset(tags + n, 0, (size_t)(batch->T - n) * sizeof *tags);
}

/* Finds tags [B, T], 0 beyond a sentence, and their scores, value [B]. The characters of an arc a have -1 - a. */
EXPORT int64_t NAME(crf_viterbi)(const crf_batch *batch) {
    best_space space;
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    if (make_space(&space, batch)) return NO_MEMORY;
    for (int64_t b = batch->low; b < batch->high; b++)
        viterbi_one(batch, b, &space, batch->tags + b * batch->T, batch->value + b);
    free(space.onward);
    free(space.taken);
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
    /* Only where there are arcs: */
    real *kept;       /* [T, K, n]: `ways` of every character */
    int64_t *entered; /* [T, K, n]: how each of `following` begins: a rank of its tag's ways, or (1 + arc) * n + rank */
    real *merged;     /* [n] */
    int64_t *beginnings; /* [n] */
} nbest_space;

/* Merge `following` of one tag with the ways that an arc leads to; of equals the arc comes last. */
static void merge_arc(const crf_batch *batch, int64_t a, int64_t t, int64_t n, nbest_space *space) {
    const int64_t K = batch->K, row = batch->arc_first[a] * n;
    const real *ways = space->kept + ((batch->arc_end[a] - 1) * K + batch->arc_last[a]) * n;
    real *following = space->following + row;
    int64_t *entered = space->entered + t * K * n + row, mine = 0, others = 0;
    for (int64_t rank = 0; rank < n; rank++) {
        const real way = batch->arc_score[a] + ways[others];
        if (way > following[mine])
            space->merged[rank] = way, space->beginnings[rank] = (1 + a) * n + others++;
        else
            space->merged[rank] = following[mine], space->beginnings[rank] = entered[mine++];
    }
    memcpy(following, space->merged, (size_t)n * sizeof(real));
    memcpy(entered, space->beginnings, (size_t)n * sizeof(int64_t));
}

/* `following` of character t, of which `ways` are the ways on; gives the first arc that the walk has passed now. */
static int64_t follow(const crf_batch *batch, int64_t b, int64_t t, int64_t left, nbest_space *space) {
    const int64_t K = batch->K, n = batch->n;
    const real *emissions = batch->emissions + (b * batch->T + t) * K;
    for (int64_t at = 0; at < K * n; at++) space->following[at] = emissions[at / n] + space->ways[at];
    if (!batch->arcs) return left;
    memcpy(space->kept + t * K * n, space->ways, (size_t)(K * n) * sizeof(real));
    for (int64_t at = 0; at < K * n; at++) space->entered[t * K * n + at] = at % n;
    const arc_range here = arcs_from(batch, b, t, left);
    for (int64_t a = here.low; a < here.high; a++) merge_arc(batch, a, t, n, space);
    return here.low;
}

static void nbest_one(const crf_batch *batch, int64_t b, int64_t n, nbest_space *space, int64_t *tags, real *score) {
    const int64_t K = batch->K, length = batch->lengths[b];
    const real *emissions = batch->emissions + b * batch->T * K;
    int64_t left = batch->arcs ? batch->arcs[b + 1] : 0;
    for (int64_t at = 0; at < K * n; at++) space->ways[at] = at % n ? -(real)__builtin_inf() : batch->end[at / n];
    for (int64_t t = length - 1; t > 0; t--) {
        left = follow(batch, b, t, left, space);
        for (int64_t k = 0; k < K; k++)
            merge(space->following, batch->transitions + k * K, K, n, space->heads, space->ways + k * n,
                  space->choices + ((t - 1) * K + k) * n);
    }
    int32_t *first = space->choices + (batch->T - 1) * K * n; /* no step leads on from the last character */
    if (batch->arcs) {
        follow(batch, b, 0, left, space);
        merge(space->following, batch->start, K, n, space->heads, score, first);
    } else {
        for (int64_t k = 0; k < K; k++) space->raise[k] = batch->start[k] + emissions[k];
        merge(space->ways, space->raise, K, n, space->heads, score, first);
    }
    memset(tags, 0, (size_t)(n * batch->T) * sizeof *tags);
    for (int64_t rank = 0; rank < n; rank++) {
        if (score[rank] == -(real)__builtin_inf()) continue;
        int64_t *path = tags + rank * batch->T, at = first[rank];
        for (int64_t t = 0; t < length;) {
            const int64_t begins = batch->arcs ? space->entered[t * K * n + at] : at % n;
            if (begins < n) {
                path[t++] = at / n;
                at = at / n * n + begins;
            } else {
                const int64_t arc = begins / n - 1, end = batch->arc_end[arc];
                for (; t < end; t++) path[t] = -1 - arc;
                at = batch->arc_last[arc] * n + begins % n;
            }
            if (t < length) at = space->choices[(t - 1) * K * n + at];
        }
    }
}

/* Finds tags [B, n, T] and their scores, value [B, n], best first; zeros and -infinity where there are fewer than n.
   The characters of an arc a have -1 - a. */
EXPORT int64_t NAME(crf_nbest)(const crf_batch *batch) {
    if (batch->size != sizeof *batch) return OTHER_SIZE;
    const int64_t K = batch->K, T = batch->T, n = batch->n, kept = batch->arcs ? T * K * n : 0;
    const size_t wholes = (size_t)(K + kept + n) * sizeof(int64_t);
    const size_t reals = (size_t)(2 * K * n + K + kept + n) * sizeof(real);
    char *memory = malloc(wholes + reals + (size_t)(T * K * n) * sizeof(int32_t));
    if (!memory) return NO_MEMORY;
    nbest_space space = {.heads = (int64_t *)memory, .ways = (real *)(memory + wholes)};
    space.entered = space.heads + K;
    space.beginnings = space.entered + kept;
    space.following = space.ways + K * n;
    space.raise = space.following + K * n;
    space.kept = space.raise + K;
    space.merged = space.kept + kept;
    space.choices = (int32_t *)(memory + wholes + reals);
    for (int64_t b = batch->low; b < batch->high; b++)
        nbest_one(batch, b, n, &space, batch->tags + b * n * T, batch->value + b * n);
    free(memory);
    return GOOD;
}
