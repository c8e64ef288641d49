/* Where words start and end, for both directions at once.

   Characters of all sentences are numbered one after the other, without padding: c = offset[sentence] + place. Read
   from right to left, a word starts at its last character and ends at its first: so the backward direction needs no
   copy of anything, only the two sides exchanged. */
#ifndef HANLATTICE_NATIVE_PLAN_H
#define HANLATTICE_NATIVE_PLAN_H

#include "native.h"

typedef struct {
    int64_t *character; /* [W]: the first (last) character of each word */
    int64_t *list;      /* [W]: words by that character, in the lattice's order where it is the same */
    int64_t *first;     /* [C + 1]: where the words of each character stand in list */
    int64_t *slot;      /* [C]: the number of this character among those that have words; -1 if it has none */
} Side;

typedef struct {
    int64_t *count;  /* [2]: how many characters have words, by first and by last character */
    int64_t *offset; /* [B] */
    Side side[2];    /* by first character; by last */
} Plan;

/* The parts of a plan's memory: 2 + B + 2 (2 W + 2 C + 1) numbers. */
INLINE Plan read_plan(int64_t *memory, int64_t B, int64_t C, int64_t W) {
    Plan plan = {.count = memory, .offset = memory + 2};
    int64_t *next = memory + 2 + B;
    for (int s = 0; s < 2; s++) {
        plan.side[s] = (Side){next, next + W, next + 2 * W, next + 2 * W + C + 1};
        next += 2 * W + 2 * C + 1;
    }
    return plan;
}

#endif
