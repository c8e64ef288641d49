/* The gradients of README.md: from d h to the gradients of all gates, before their nonlinearity.

   The gradients of the weights and of the inputs are products over the whole batch; Python does them afterwards. */
#include "native_task.h"

typedef struct {
    const Task *task;
    Plan plan;
    Side from, to;
    int64_t Hp, V;
    Matrix char_hidden, word_hidden, link_hidden; /* transposed: [G H, H], [3 H, H], [H, H] */
    real *zero, *d_h, *d_cell;                    /* [Hp], [rows, Hp], [rows, Hp] */
    real *d_word_cell;                            /* [most, Hp] */
    Row *list;
    int64_t *words; /* [most]: those that start at this step */
} Backward;

INLINE int64_t words_at(const Backward *s, int64_t c) { return s->from.first[c + 1] - s->from.first[c]; }

/* The most words that start at one step. */
static int64_t most_words(const Backward *s) {
    int64_t most = 0;
    for (int64_t t = 0, n = s->task->rows; t < length_of(s->task, 0); t++) {
        int64_t words = 0;
        n = running(s->task, n, t);
        for (int64_t r = 0; r < n; r++) words += words_at(s, character_of(s->task, &s->plan, r, t));
        most = words > most ? words : most;
    }
    return most;
}

static void *prepare(Backward *s, const Task *task) {
    int64_t H = task->H, G = task->G, Hp = round_up(H, LANES), rows = task->rows;
    s->task = task;
    s->plan = read_plan(task->plan, task->B, task->C, task->W);
    s->from = s->plan.side[task->mirrored];
    s->to = s->plan.side[!task->mirrored];
    s->Hp = Hp;
    s->V = Hp / LANES;
    int64_t most = most_words(s), longest = most > rows ? most : rows;
    int64_t count = packed_size((G + 4) * H, 1, H) + (1 + 2 * rows + most) * Hp;
    size_t reals = (size_t)round_up(count * (int64_t)sizeof(real), 64);
    size_t lists = (size_t)longest * sizeof(Row) + (size_t)most * sizeof(int64_t);
    char *memory = aligned_alloc(64, (size_t)round_up((int64_t)(reals + lists), 64));
    if (!memory) return NULL;
    real *next = (real *)memory;
    s->char_hidden = pack(&next, task->char_hidden, 1, G * H, G * H, 1, H, 1);
    s->word_hidden = pack(&next, task->word_hidden, 1, 3 * H, 3 * H, 1, H, 1);
    s->link_hidden = pack(&next, task->link_hidden, 1, H, H, 1, H, 1);
    s->zero = next;
    s->d_cell = next + Hp;
    memset(next, 0, (size_t)((1 + rows) * Hp) * sizeof(real));
    s->d_h = s->d_cell + rows * Hp;
    s->d_word_cell = s->d_h + rows * Hp;
    s->list = (Row *)(memory + reals);
    s->words = (int64_t *)(s->list + longest);
    return memory;
}

/* A word's link gate: d a, which x · link_input of the word's last character gets too, and the first part of d c^w. */
static void word_link(const Backward *s, int64_t word, real *d_word_cell) {
    const Task *task = s->task;
    int64_t H = task->H, Hp = s->Hp, last = s->to.character[word];
    const real *d_arrived = task->d_arrived + s->to.slot[last] * 2 * Hp;
    const real *link = task->links + word * Hp, *cell = task->word_cells + word * Hp;
    real *d_link = task->d_link + word * H, *d_input = task->d_char + last * (task->G + 1) * H + task->G * H;
    for (int64_t v = 0, at = 0; v < s->V; v++, at += LANES) {
        vec a = load(link + at), weight = vec_exp(a), d_sum = load(d_arrived + at);
        vec d_a = weight * (load(d_arrived + Hp + at) + d_sum * load(cell + at)) * (a * ((real)1 - a));
        put(d_link, v, H, d_a);
        put(d_input, v, H, get(d_input, v, H) + d_a);
        store(d_word_cell + at, weight * d_sum);
    }
}

/* From d c^w to the word's gates, also summed over the words that start where it does, and to the cell of that place. */
static void word_gates(const Backward *s, int64_t word, const real *d_word_cell, real *d_cell, int is_first) {
    const Task *task = s->task;
    int64_t H = task->H, Hp = s->Hp, first = s->from.character[word];
    const real *gates = task->word_gates + word * 3 * Hp, *start = task->cells + first * Hp;
    real *d_word = task->d_word + word * 3 * H, *d_start = task->d_start + s->from.slot[first] * 3 * H;
    for (int64_t v = 0, at = 0; v < s->V; v++, at += LANES) {
        vec i = load(gates + at), f = load(gates + Hp + at), g = load(gates + 2 * Hp + at), d = load(d_word_cell + at);
        vec d_gates[3] = {
            d * g * (i * ((real)1 - i)), d * load(start + at) * (f * ((real)1 - f)), d * i * ((real)1 - g * g),
        };
        for (int k = 0; k < 3; k++) {
            put(d_word + k * H, v, H, d_gates[k]);
            put(d_start + k * H, v, H, is_first ? d_gates[k] : get(d_start + k * H, v, H) + d_gates[k]);
        }
        store(d_cell + at, load(d_cell + at) + d * f);
    }
}

static void words_step(const Backward *s, int64_t n, int64_t t) {
    const Task *task = s->task;
    int64_t count = 0, done = 0;
    for (int64_t r = 0; r < n; r++) {
        int64_t c = character_of(task, &s->plan, r, t);
        for (int64_t k = s->from.first[c]; k < s->from.first[c + 1]; k++, count++) {
            real *d_word_cell = s->d_word_cell + count * s->Hp;
            s->words[count] = s->from.list[k];
            word_link(s, s->words[count], d_word_cell);
            s->list[count] = (Row){task->d_link + s->words[count] * task->H, d_word_cell, d_word_cell};
        }
    }
    product(s->list, count, s->link_hidden);
    for (int64_t r = 0; r < n; r++) {
        int64_t words = words_at(s, character_of(task, &s->plan, r, t));
        for (int64_t k = 0; k < words; k++, done++)
            word_gates(s, s->words[done], s->d_word_cell + done * s->Hp, s->d_cell + r * s->Hp, k == 0);
    }
}

/* d h: what the caller gives, and what comes from the next character and from the words that start here. */
static void hidden_step(const Backward *s, int64_t n, int64_t later, int64_t t) {
    const Task *task = s->task;
    int64_t starts = 0, H = task->H;
    for (int64_t r = 0; r < n; r++) {
        const real *given = task->d_h + padded_of(task, r, t) * task->stride;
        for (int64_t v = 0; v < s->V; v++) store(s->d_h + r * s->Hp + v * LANES, get(given, v, H));
    }
    for (int64_t r = 0; r < later; r++) {
        const real *d_next = task->d_char + character_of(task, &s->plan, r, t + 1) * (task->G + 1) * H;
        s->list[r] = (Row){d_next, s->d_h + r * s->Hp, s->d_h + r * s->Hp};
    }
    product(s->list, later, s->char_hidden);
    for (int64_t r = 0; r < n; r++) {
        int64_t slot = s->from.slot[character_of(task, &s->plan, r, t)];
        if (slot < 0) continue;
        s->list[starts++] = (Row){task->d_start + slot * 3 * H, s->d_h + r * s->Hp, s->d_h + r * s->Hp};
    }
    product(s->list, starts, s->word_hidden);
}

/* From d h and d c to the character's gates, to what arrived there, and to the cell before. */
static void character(const Backward *s, int64_t c, const real *before, const real *d_h, real *d_cell) {
    const Task *task = s->task;
    int64_t H = task->H, Hp = s->Hp, G = task->G, slot = s->to.slot[c];
    const real *gates = task->gates + c * G * Hp, *cells = task->cells + c * Hp, *squashed = task->squashed + c * Hp;
    const real *arrived = slot < 0 ? NULL : task->arrived + slot * 3 * Hp;
    real *d_arrived = slot < 0 ? NULL : task->d_arrived + slot * 2 * Hp, *d_gates = task->d_char + c * (G + 1) * H;
    for (int64_t v = 0, at = 0; v < s->V; v++, at += LANES) {
        vec i = load(gates + at), o = load(gates + (G - 2) * Hp + at), g = load(gates + (G - 1) * Hp + at);
        vec f = G == 4 ? load(gates + Hp + at) : (real)1 - i, out = load(squashed + at), cell = load(cells + at);
        vec dh = load(d_h + at), dc = load(d_cell + at) + dh * o * ((real)1 - out * out);
        vec slope_i = i * ((real)1 - i), slope_g = (real)1 - g * g, d_i, d_f, d_g, d_before;
        if (slot < 0) {
            vec was = load(before + at);
            d_i = dc * (G == 4 ? g : g - was) * slope_i;
            d_f = dc * was * (f * ((real)1 - f));
            d_g = dc * i * slope_g;
            d_before = dc * f;
        } else {
            vec share = load(arrived + at), mine = dc * load(arrived + Hp + at);
            d_i = mine * (g - cell) * slope_i;
            d_f = d_before = (vec){0};
            d_g = mine * slope_g;
            store(d_arrived + at, dc * share);
            store(d_arrived + Hp + at, -dc * cell * share);
        }
        put(d_gates, v, H, d_i);
        if (G == 4) put(d_gates + H, v, H, d_f);
        put(d_gates + (G - 2) * H, v, H, dh * out * (o * ((real)1 - o)));
        put(d_gates + (G - 1) * H, v, H, d_g);
        put(d_gates + G * H, v, H, (vec){0}); /* the words that end here add to it */
        store(d_cell + at, d_before);
    }
}

EXPORT int64_t NAME(lattice_backward)(const Task *task);

EXPORT int64_t NAME(lattice_backward)(const Task *task) {
    if (task->size != sizeof(Task)) return OTHER_BUILD;
    if (task->rows == 0 || length_of(task, 0) == 0) return GOOD;
    Backward s;
    void *memory = prepare(&s, task);
    if (!memory) return NO_MEMORY;
    int64_t n = 0, later = 0;
    for (int64_t t = length_of(task, 0) - 1; t >= 0; t--, later = n) {
        while (n < task->rows && length_of(task, n) > t) n++;
        words_step(&s, n, t);
        hidden_step(&s, n, later, t);
        for (int64_t r = 0; r < n; r++) {
            int64_t c = character_of(task, &s.plan, r, t);
            const real *before = t > 0 ? task->cells + character_of(task, &s.plan, r, t - 1) * s.Hp : s.zero;
            character(&s, c, before, s.d_h + r * s.Hp, s.d_cell + r * s.Hp);
        }
    }
    free(memory);
    return GOOD;
}
