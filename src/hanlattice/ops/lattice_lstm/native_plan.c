/* Sorts a lattice's words by their first and by their last character. */
#include "native_plan.h"

/* A stable counting sort: first[c + 1] counts the words of c, then says where the next one goes. */
static int64_t sort_side(Side side, int64_t C, int64_t W) {
    int64_t slots = 0, at = 0;
    memset(side.first, 0, (size_t)(C + 1) * sizeof *side.first);
    for (int64_t w = 0; w < W; w++) side.first[side.character[w] + 1]++;
    for (int64_t c = 0; c < C; c++) {
        int64_t words = side.first[c + 1];
        side.slot[c] = words ? slots++ : -1;
        side.first[c + 1] = at;
        at += words;
    }
    for (int64_t w = 0; w < W; w++) side.list[side.first[side.character[w] + 1]++] = w;
    return slots;
}

EXPORT int64_t NAME(lattice_plan)(
    int64_t *memory, int64_t B, int64_t C, int64_t W,
    const int64_t *lengths, const int64_t *sentence, const int64_t *start, const int64_t *end
);

/* lengths [B]; sentence, start, end [W], half-open. */
EXPORT int64_t NAME(lattice_plan)(
    int64_t *memory, int64_t B, int64_t C, int64_t W,
    const int64_t *lengths, const int64_t *sentence, const int64_t *start, const int64_t *end
) {
    Plan plan = read_plan(memory, B, C, W);
    int64_t at = 0;
    for (int64_t b = 0; b < B; b++) {
        plan.offset[b] = at;
        at += lengths[b];
    }
    for (int64_t w = 0; w < W; w++) {
        plan.side[0].character[w] = plan.offset[sentence[w]] + start[w];
        plan.side[1].character[w] = plan.offset[sentence[w]] + end[w] - 1;
    }
    for (int s = 0; s < 2; s++) plan.count[s] = sort_side(plan.side[s], C, W);
    return 0;
}

EXPORT int64_t NAME(lattice_padded)(int64_t H);

/* H in whole vectors: how wide a gate is in what is kept for backward. */
EXPORT int64_t NAME(lattice_padded)(int64_t H) { return (H + LANES - 1) / LANES * LANES; }
