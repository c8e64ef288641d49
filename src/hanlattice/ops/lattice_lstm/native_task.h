/* One task: some sentences in one direction, from first to last character. Python fills in the same structure
   (native.py, class Task); `size` tells when the two were not built together. */
#ifndef HANLATTICE_NATIVE_TASK_H
#define HANLATTICE_NATIVE_TASK_H

#include <stdlib.h>

#ifndef SMALL
#define SMALL 0
#endif

#include "native_plan.h"
#if SMALL
#include "native_small.h"
#else
#include "native_product.h"
#endif

enum { GOOD = 0, OTHER_BUILD = -1, NO_MEMORY = -2 };

typedef struct {
    int64_t size;
    int64_t B, T, C, W, D, E, H;
    int64_t G;        /* gates of a character: 3 (i, o, g) or 4 (i, f, o, g) */
    int64_t mirrored; /* 1: sentences are read from right to left */
    int64_t stride;   /* numbers from one character's h to the next one's */
    int64_t rows;     /* sentences of this task */
    const int64_t *sentence; /* [rows], longest first */
    const int64_t *lengths;  /* [B] */
    int64_t *plan;
    const real *x, *word_x; /* [B, T, D], [W, E] */
    const real *char_input, *char_hidden, *char_bias, *word_input, *word_hidden, *word_bias;
    const real *link_input, *link_hidden, *link_bias;
    real *h;                /* [B, T, stride], at this direction's first column */
    /* Kept for backward, gates after their nonlinearity; all NULL when nothing is kept. Hp is H in whole vectors */
    real *arrived; /* [P, 3 Hp]: as in Forward; at the end 1 / S and e^i / S. Words end at P characters */
    real *gates, *cells, *squashed;          /* [C, G Hp], [C, Hp], [C, Hp]: tanh c */
    real *word_gates, *word_cells, *links;   /* [W, 3 Hp], [W, Hp], [W, Hp] */
    /* Backward only */
    const real *d_h;                                   /* like h */
    real *d_arrived;                                   /* [P, 2 Hp], nothing in it */
    real *d_char, *d_word, *d_link, *d_start;          /* [C, (G + 1) H], [W, 3 H], [W, H], [S, 3 H] */
    /* Forward only: the weights as lattice_pack() makes them, or NULL, and they are packed for this call */
    real *packed;
    /* 8-bit weights only. x and word_x are rows of whole numbers then, as small_round() makes them, with their scales;
       without x_scale, x is what a layer below left in h_small. h may be NULL. */
    const real *x_scale, *word_scale; /* [B, T], [W] */
    void *h_small;                    /* like h, in whole numbers */
} Task;

INLINE int64_t length_of(const Task *task, int64_t row) { return task->lengths[task->sentence[row]]; }

/* Where step t of a row is, inside its sentence. */
INLINE int64_t place_of(const Task *task, int64_t row, int64_t t) {
    return task->mirrored ? length_of(task, row) - 1 - t : t;
}

INLINE int64_t character_of(const Task *task, const Plan *plan, int64_t row, int64_t t) {
    return plan->offset[task->sentence[row]] + place_of(task, row, t);
}

/* Where step t of a row is in the padded [B, T]. */
INLINE int64_t padded_of(const Task *task, int64_t row, int64_t t) {
    return task->sentence[row] * task->T + place_of(task, row, t);
}

/* How many of the rows, which come longest first, still run at step t, when `before` ran at an earlier one. */
INLINE int64_t running(const Task *task, int64_t before, int64_t t) {
    while (before > 0 && length_of(task, before - 1) <= t) before--;
    return before;
}

/* Vector v of a row of H numbers without padding; the last one may be a part. */
INLINE vec get(const real *row, int64_t v, int64_t H) {
    int64_t left = H - v * LANES;
    return left >= LANES ? load(row + v * LANES) : load_part(row + v * LANES, (int)left);
}

INLINE void put(real *row, int64_t v, int64_t H, vec x) {
    int64_t left = H - v * LANES;
    if (left >= LANES) store(row + v * LANES, x);
    else store_part(row + v * LANES, x, (int)left);
}

#endif
