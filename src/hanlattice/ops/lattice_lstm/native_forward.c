/* The recurrence of README.md, forward, for the sentences of one task.

   Steps go in chunks, so that the products with the inputs have many rows while their results stay in the cache. */
#include "native_forward.h"

#if SMALL
#define WITH(f) NAME(small_##f)
#else
#define WITH(f) NAME(lattice_##f)
#endif

/* A row of x, of the words' vectors, or of h as the recurrence reads it; cell is that of the padded [B, T]. */
INLINE Row row_of_x(const Task *task, int64_t cell, const real *init, real *out) {
    const input *a = (const input *)task->x + cell * task->D;
#if SMALL
    return (Row){a, init, out, task->x_scale ? task->x_scale[cell] : (real)1 / LARGEST};
#else
    return (Row){a, init, out};
#endif
}

INLINE Row row_of_word(const Task *task, int64_t word, const real *init, real *out) {
    const input *a = (const input *)task->word_x + word * task->E;
#if SMALL
    return (Row){a, init, out, task->word_scale[word]};
#else
    return (Row){a, init, out};
#endif
}

INLINE Row row_of_h(const Task *task, int64_t cell, const real *init, real *out) {
#if SMALL
    return (Row){(const input *)task->h_small + cell * task->stride, init, out, (real)1 / LARGEST};
#else
    return (Row){task->h + cell * task->stride, init, out};
#endif
}

/* A row of the nth word's cell. */
INLINE Row row_of_cell(const Forward *s, int64_t nth, const real *cell, const real *init, real *out) {
#if SMALL
    input *a = s->rounded + nth * s->Hp;
    return (Row){a, init, out, round_row(cell, s->task->H, a)};
#else
    (void)s, (void)nth;
    return (Row){cell, init, out};
#endif
}

INLINE void put_h(const Task *task, int64_t cell, int64_t v, vec h) {
#if SMALL
    put_whole((input *)task->h_small + cell * task->stride, v, task->H, h * (real)LARGEST);
    if (task->h) put(task->h + cell * task->stride, v, task->H, h);
#else
    put(task->h + cell * task->stride, v, task->H, h);
#endif
}

INLINE real *gates_of(const Forward *s, int64_t r, int64_t t) {
    int64_t width = s->task->G * s->Hp;
    if (s->task->gates) return s->task->gates + character_of(s->task, &s->plan, r, t) * width;
    return s->gates + (t % s->chunk * s->task->rows + r) * width;
}

/* Where a word keeps its numbers: in the trace, or in the memory of the chunk, over its own gates. */
static Word open_word(const Forward *s, int64_t row, int64_t word, int64_t nth) {
    const Task *task = s->task;
    int64_t Hp = s->Hp;
    Word found = {.row = row, .slot = s->to.slot[s->to.character[word]], .word = word};
    if (task->gates) {
        found.gates = task->word_gates + word * 3 * Hp;
        found.cell = task->word_cells + word * Hp;
        found.link = task->links + word * Hp;
    } else {
        found.gates = found.cell = s->word_memory + nth * 3 * Hp;
        found.link = found.gates + Hp;
    }
    return found;
}

/* The products with the inputs of the characters, and of the words that start there, of steps t0 to t1. */
static void chunk_inputs(Forward *s, int64_t n, int64_t t0, int64_t t1) {
    const Task *task = s->task;
    int64_t rows = 0, words = 0;
    s->words_until[0] = 0;
    for (int64_t t = t0; t < t1; t++) {
        n = running(task, n, t);
        for (int64_t r = 0; r < n; r++) {
            int64_t c = character_of(task, &s->plan, r, t);
            s->list[rows++] = row_of_x(task, padded_of(task, r, t), s->char_bias, gates_of(s, r, t));
            for (int64_t k = s->from.first[c]; k < s->from.first[c + 1]; k++, words++)
                s->words[words] = open_word(s, r, s->from.list[k], words);
        }
        s->words_until[t - t0 + 1] = words;
    }
    product(s->list, rows, s->char_input);
    for (int64_t w = 0; w < words; w++)
        s->list[w] = row_of_word(task, s->words[w].word, s->word_bias, s->words[w].gates);
    product(s->list, words, s->word_input);
}

/* In place: the sigmoid of what comes before the last Hp numbers, and tanh of those. */
INLINE void squash_gates(real *z, int64_t gates, int64_t Hp) {
    for (int64_t at = 0; at < (gates - 1) * Hp; at += LANES) store(z + at, gate_sigmoid(load(z + at)));
    for (int64_t at = (gates - 1) * Hp; at < gates * Hp; at += LANES) store(z + at, gate_tanh(load(z + at)));
}

/* From z to c and h; `before` is the cell of the character before, cell may be the same memory. */
static void character(Forward *s, int64_t c, real *z, const real *before, real *cell, int64_t at_h) {
    const Task *task = s->task;
    int64_t Hp = s->Hp, slot = s->to.slot[c], o_at = (task->G - 2) * Hp, g_at = o_at + Hp;
    real *arrived = slot < 0 ? NULL : s->arrived[slot];
    squash_gates(z, task->G, Hp);
    for (int64_t at = 0; arrived && at < Hp; at += LANES) {
        vec weight = gate_exp(load(z + at)), share = (real)1 / (load(arrived + Hp + at) + weight);
        store(cell + at, (load(arrived + at) + weight * load(z + g_at + at)) * share);
        if (!task->gates) continue;
        store(arrived + at, share);
        store(arrived + Hp + at, weight * share);
    }
    for (int64_t at = 0; !arrived && at < Hp; at += LANES) {
        vec i = load(z + at), f = task->G == 4 ? load(z + Hp + at) : (real)1 - i;
        store(cell + at, f * load(before + at) + i * load(z + g_at + at));
    }
    for (int64_t v = 0, at = 0; at < Hp; v++, at += LANES) {
        vec squashed = gate_tanh(load(cell + at));
        put_h(task, at_h, v, load(z + o_at + at) * squashed);
        if (task->gates) store(task->squashed + c * Hp + at, squashed);
    }
    if (arrived && !task->gates) *s->spare++ = arrived;
}

static void word_cell(const Forward *s, Word word, const real *start) {
    int64_t Hp = s->Hp;
    const real *pushed = s->pushed + word.row * 3 * Hp;
    for (int64_t at = 0; at < 3 * Hp; at += LANES)
        store(word.gates + at, load(word.gates + at) + load(pushed + at));
    squash_gates(word.gates, 3, Hp);
    for (int64_t at = 0; at < Hp; at += LANES) {
        vec i = load(word.gates + at), f = load(word.gates + Hp + at), g = load(word.gates + 2 * Hp + at);
        store(word.cell + at, f * load(start + at) + i * g);
    }
}

/* The link gate, and what it lets through to the word's last character. */
static void arrive(const Forward *s, Word word) {
    int64_t Hp = s->Hp;
    real *arrived = s->arrived[word.slot];
    for (int64_t at = 0; at < Hp; at += LANES) {
        vec a = gate_sigmoid(load(word.link + at)), weight = gate_exp(a);
        store(word.link + at, a);
        store(arrived + at, load(arrived + at) + weight * load(word.cell + at));
        store(arrived + Hp + at, load(arrived + Hp + at) + weight);
    }
}

INLINE real *cell_of(const Forward *s, int64_t r, int64_t t) {
    if (s->task->gates) return s->task->cells + character_of(s->task, &s->plan, r, t) * s->Hp;
    return s->cell + r * s->Hp;
}

static void characters_step(Forward *s, int64_t n, int64_t t) {
    const Task *task = s->task;
    if (t > 0) {
        for (int64_t r = 0; r < n; r++) {
            real *z = gates_of(s, r, t);
            s->list[r] = row_of_h(task, padded_of(task, r, t - 1), z, z);
        }
        product(s->list, n, s->char_hidden);
    }
    for (int64_t r = 0; r < n; r++) {
        const real *before = t > 0 ? cell_of(s, r, t - 1) : s->zero;
        int64_t c = character_of(task, &s->plan, r, t);
        character(s, c, gates_of(s, r, t), before, cell_of(s, r, t), padded_of(task, r, t));
    }
}

/* Nothing has arrived yet where these words end, unless another word has started before that ends there too. */
static void open_arrivals(Forward *s, const Word *words, int64_t count) {
    const Task *task = s->task;
    int64_t opened = 0;
    for (int64_t w = 0; w < count; w++) {
        real **arrived = s->arrived + words[w].slot;
        if (*arrived) continue;
        *arrived = task->gates ? task->arrived + words[w].slot * 3 * s->Hp : *--s->spare;
        memset(*arrived, 0, (size_t)(2 * s->Hp) * sizeof(real));
        int64_t sentence = task->sentence[words[w].row];
        int64_t cell = sentence * task->T + s->to.character[words[w].word] - s->plan.offset[sentence];
        s->list[opened++] = row_of_x(task, cell, s->link_bias, *arrived + 2 * s->Hp);
    }
    product(s->list, opened, s->link_input);
}

/* The words that start at step t; those of one row stand together. */
static void words_step(Forward *s, const Word *words, int64_t count, int64_t t) {
    const Task *task = s->task;
    int64_t starts = 0;
    open_arrivals(s, words, count);
    for (int64_t w = 0; w < count; w++)
        if (w == 0 || words[w].row != words[w - 1].row) {
            real *pushed = s->pushed + words[w].row * 3 * s->Hp;
            s->list[starts++] = row_of_h(task, padded_of(task, words[w].row, t), s->zero, pushed);
        }
    product(s->list, starts, s->word_hidden);
    for (int64_t w = 0; w < count; w++) {
        word_cell(s, words[w], cell_of(s, words[w].row, t));
        s->list[w] = row_of_cell(s, w, words[w].cell, s->arrived[words[w].slot] + 2 * s->Hp, words[w].link);
    }
    product(s->list, count, s->link_hidden);
    for (int64_t w = 0; w < count; w++) arrive(s, words[w]);
}

EXPORT int64_t WITH(pack)(const Task *task, real *to);

/* How many reals packed weights take; where `to` is given, they are written there. Only sizes and weights are read. */
EXPORT int64_t WITH(pack)(const Task *task, real *to) {
    if (task->size != sizeof(Task)) return OTHER_BUILD;
    Forward s = {.Hp = round_up(task->H, LANES)};
    if (to) pack_weights(&s, task, &to, 1);
    return weights_size(task, s.Hp);
}

EXPORT int64_t WITH(forward)(const Task *task);

EXPORT int64_t WITH(forward)(const Task *task) {
    if (task->size != sizeof(Task)) return OTHER_BUILD;
    if (task->rows == 0 || length_of(task, 0) == 0) return GOOD;
    Forward s;
    void *memory = prepare(&s, task);
    if (!memory) return NO_MEMORY;
    int64_t n = task->rows, steps = length_of(task, 0);
    for (int64_t t = 0; t < steps; t++) {
        if (t % s.chunk == 0) chunk_inputs(&s, n, t, t + s.chunk < steps ? t + s.chunk : steps);
        n = running(task, n, t);
        characters_step(&s, n, t);
        const int64_t *until = s.words_until + t % s.chunk;
        words_step(&s, s.words + until[0], until[1] - until[0], t);
    }
    free(memory);
    return GOOD;
}
