/* What a forward task holds while it runs: weights packed for the products, and memory for one chunk of steps. */
#ifndef HANLATTICE_NATIVE_FORWARD_H
#define HANLATTICE_NATIVE_FORWARD_H

#include "native_task.h"

#define CHUNK_ROWS 128

typedef struct {
    int64_t row;  /* of the task */
    int64_t slot; /* where it arrives */
    int64_t word;
    real *gates, *cell, *link; /* [3 Hp], [Hp], [Hp] */
} Word;

typedef struct {
    const Task *task;
    Plan plan;
    Side from, to;
    int64_t Hp;    /* H in whole vectors */
    int64_t chunk; /* steps */
    Matrix char_input, char_hidden, word_input, word_hidden, link_input, link_hidden;
    real *char_bias, *word_bias, *link_bias, *zero; /* zero is [3 Hp] */
    real *pushed, *cell;        /* [rows, 3 Hp]: h · word_hidden, [rows, Hp] */
    real *gates, *word_memory;  /* [chunk, rows, G Hp], [words of a chunk, 3 Hp]: used where nothing is kept */
    /* What has come to a character at which words end: e^a c^w and e^a, summed, and x · link_input, [3 Hp]. It is there
       from the step where the first of these words starts until that character's own: so few are there at a time. */
    real **arrived; /* [P]; NULL before */
    real **spare;   /* memory for further ones, used where nothing is kept; the last one used is the next */
    input *rounded; /* room for rows of a product that are not made of `input` */
    Row *list;      /* of the product that is being done */
    Word *words;    /* those that start in this chunk, step by step */
    int64_t *words_until; /* [chunk + 1]: where the words of each step begin */
} Forward;

typedef struct {
    int64_t words; /* that start in one chunk, at most */
    int64_t step;  /* that start in one step, at most */
    int64_t open;  /* characters where words will end that have started, at most */
} Most;

static Most count_most(const Forward *s) {
    Most most = {0, 0, 0};
    int64_t steps = length_of(s->task, 0), longest = 0, ends = s->plan.count[!s->task->mirrored];
    for (int64_t t0 = 0, n = s->task->rows; t0 < steps; t0 += s->chunk) {
        int64_t words = 0;
        for (int64_t t = t0; t < t0 + s->chunk && t < steps; t++) {
            int64_t before = words;
            n = running(s->task, n, t);
            for (int64_t r = 0; r < n; r++) {
                int64_t c = character_of(s->task, &s->plan, r, t);
                for (int64_t k = s->from.first[c]; k < s->from.first[c + 1]; k++, words++) {
                    int64_t long_ = s->to.character[s->from.list[k]] - c;
                    long_ = long_ < 0 ? -long_ : long_;
                    longest = long_ > longest ? long_ : longest;
                }
            }
            most.step = words - before > most.step ? words - before : most.step;
        }
        most.words = words > most.words ? words : most.words;
    }
    most.open = longest * s->task->rows < ends ? longest * s->task->rows : ends;
    return most;
}

static real *pad_bias(real **to, const real *bias, int64_t gates, int64_t H, int64_t Hp, int fill) {
    real *padded = *to;
    if (fill) memset(padded, 0, (size_t)(gates * Hp) * sizeof(real));
    for (int64_t g = 0; fill && g < gates; g++) memcpy(padded + g * Hp, bias + g * H, (size_t)H * sizeof(real));
    *to += gates * Hp;
    return padded;
}

/* The weights at *next, which moves on; where `fill` is not set, they are there already. */
static void pack_weights(Forward *s, const Task *task, real **next, int fill) {
    int64_t D = task->D, E = task->E, H = task->H, G = task->G;
    s->char_input = pack(next, task->char_input, G * H, 1, D, G, H, fill);
    s->char_hidden = pack(next, task->char_hidden, G * H, 1, H, G, H, fill);
    s->word_input = pack(next, task->word_input, 3 * H, 1, E, 3, H, fill);
    s->word_hidden = pack(next, task->word_hidden, 3 * H, 1, H, 3, H, fill);
    s->link_input = pack(next, task->link_input, H, 1, D, 1, H, fill);
    s->link_hidden = pack(next, task->link_hidden, H, 1, H, 1, H, fill);
    s->char_bias = pad_bias(next, task->char_bias, G, H, s->Hp, fill);
    s->word_bias = pad_bias(next, task->word_bias, 3, H, s->Hp, fill);
    s->link_bias = pad_bias(next, task->link_bias, 1, H, s->Hp, fill);
}

/* How many numbers pack_weights() writes. */
static int64_t weights_size(const Task *task, int64_t Hp) {
    int64_t from_x = packed_size(task->D, task->G + 1, task->H), from_words = packed_size(task->E, 3, task->H);
    return from_x + from_words + packed_size(task->H, task->G + 4, task->H) + (task->G + 4) * Hp;
}

/* A part of the memory that begins at *next. */
INLINE real *take(real **next, int64_t count) {
    real *part = *next;
    *next += count;
    return part;
}

/* Fills in s; all that the task needs is one piece of memory, which the caller frees. NULL when there is none. */
static void *prepare(Forward *s, const Task *task) {
    int64_t rows = task->rows, Hp = round_up(task->H, LANES);
    *s = (Forward){.task = task, .plan = read_plan(task->plan, task->B, task->C, task->W), .Hp = Hp};
    s->from = s->plan.side[task->mirrored];
    s->to = s->plan.side[!task->mirrored];
    s->chunk = CHUNK_ROWS / rows > 1 ? CHUNK_ROWS / rows : 1;
    Most most = count_most(s);
    int64_t words = most.words, longest = s->chunk * rows > words ? s->chunk * rows : words;
    int64_t ends = s->plan.count[!task->mirrored], open = task->gates ? 0 : most.open;
    int64_t state = (3 + rows * (4 + s->chunk * task->G) + (words + open) * 3 + (SMALL ? most.step : 0)) * Hp;
    int64_t weights = task->packed ? 0 : weights_size(task, Hp);
    size_t reals = (size_t)round_up((weights + state) * (int64_t)sizeof(real), 64);
    size_t pointers = (size_t)(ends + open) * sizeof(real *) + (size_t)(s->chunk + 1) * sizeof(int64_t);
    size_t lists = (size_t)longest * sizeof(Row) + (size_t)words * sizeof(Word) + pointers;
    char *memory = aligned_alloc(64, (size_t)round_up((int64_t)(reals + lists), 64));
    if (!memory) return NULL;
    real *next = (real *)memory, *packed = task->packed;
    pack_weights(s, task, packed ? &packed : &next, !packed);
    s->zero = take(&next, 3 * Hp);
    memset(s->zero, 0, (size_t)(3 * Hp) * sizeof(real));
    s->pushed = take(&next, rows * 3 * Hp);
    s->cell = take(&next, rows * Hp);
    s->gates = take(&next, s->chunk * rows * task->G * Hp);
    s->word_memory = take(&next, words * 3 * Hp);
    s->rounded = (input *)take(&next, SMALL ? most.step * Hp : 0);
    s->list = (Row *)(memory + reals);
    s->words = (Word *)(s->list + longest);
    s->words_until = (int64_t *)(s->words + words);
    s->arrived = (real **)(s->words_until + s->chunk + 1);
    memset(s->arrived, 0, (size_t)ends * sizeof(real *));
    s->spare = s->arrived + ends;
    for (int64_t n = 0; n < open; n++) s->spare[n] = take(&next, 3 * Hp);
    s->spare += open;
    return memory;
}

#endif
