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
    Row *list;                  /* of the product that is being done */
    Word *words;                /* those that start in this chunk, step by step */
    int64_t *words_until;       /* [chunk + 1]: where the words of each step begin */
} Forward;

/* The most words that start in one chunk. */
static int64_t most_words(const Forward *s) {
    int64_t most = 0, steps = length_of(s->task, 0);
    for (int64_t t0 = 0, n = s->task->rows; t0 < steps; t0 += s->chunk) {
        int64_t words = 0;
        for (int64_t t = t0; t < t0 + s->chunk && t < steps; t++) {
            n = running(s->task, n, t);
            for (int64_t r = 0; r < n; r++) {
                int64_t c = character_of(s->task, &s->plan, r, t);
                words += s->from.first[c + 1] - s->from.first[c];
            }
        }
        most = words > most ? words : most;
    }
    return most;
}

static real *pad_bias(real **to, const real *bias, int64_t gates, int64_t H, int64_t Hp) {
    real *padded = *to;
    memset(padded, 0, (size_t)(gates * Hp) * sizeof(real));
    for (int64_t g = 0; g < gates; g++) memcpy(padded + g * Hp, bias + g * H, (size_t)H * sizeof(real));
    *to += gates * Hp;
    return padded;
}

static void pack_weights(Forward *s, const Task *task, real **next) {
    int64_t D = task->D, E = task->E, H = task->H, G = task->G;
    s->char_input = pack(next, task->char_input, G * H, 1, D, G, H);
    s->char_hidden = pack(next, task->char_hidden, G * H, 1, H, G, H);
    s->word_input = pack(next, task->word_input, 3 * H, 1, E, 3, H);
    s->word_hidden = pack(next, task->word_hidden, 3 * H, 1, H, 3, H);
    s->link_input = pack(next, task->link_input, H, 1, D, 1, H);
    s->link_hidden = pack(next, task->link_hidden, H, 1, H, 1, H);
    s->char_bias = pad_bias(next, task->char_bias, G, H, s->Hp);
    s->word_bias = pad_bias(next, task->word_bias, 3, H, s->Hp);
    s->link_bias = pad_bias(next, task->link_bias, 1, H, s->Hp);
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
    int64_t words = most_words(s), longest = s->chunk * rows > words ? s->chunk * rows : words;
    longest = longest > CHUNK_ROWS ? longest : CHUNK_ROWS;
    int64_t state = (3 + rows * (4 + s->chunk * task->G) + words * 3) * Hp;
    size_t reals = (size_t)round_up((weights_size(task, Hp) + state) * (int64_t)sizeof(real), 64);
    size_t lists = (size_t)longest * sizeof(Row) + (size_t)words * sizeof(Word) + (size_t)(s->chunk + 1) * 8;
    char *memory = aligned_alloc(64, (size_t)round_up((int64_t)(reals + lists), 64));
    if (!memory) return NULL;
    real *next = (real *)memory;
    pack_weights(s, task, &next);
    s->zero = take(&next, 3 * Hp);
    memset(s->zero, 0, (size_t)(3 * Hp) * sizeof(real));
    s->pushed = take(&next, rows * 3 * Hp);
    s->cell = take(&next, rows * Hp);
    s->gates = take(&next, s->chunk * rows * task->G * Hp);
    s->word_memory = take(&next, words * 3 * Hp);
    s->list = (Row *)(memory + reals);
    s->words = (Word *)(s->list + longest);
    s->words_until = (int64_t *)(s->words + words);
    return memory;
}

#endif
