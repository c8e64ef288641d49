/* The interface of native_product.h with weights of 8 bits: out = init + a · matrix, where sums are of whole numbers.

   Each column of the matrix has a scale and whole numbers from -127 to 127; each row a is rounded to whole numbers too
   when it comes, with a scale of its own. The sum of a column is then exact, whatever the instructions, and is made a
   float once, at the end. Where one instruction multiplies four pairs of bytes and adds them up (AVX512-VNNI, ARM's dot
   product), rows are rounded to 8 bits; elsewhere to 16, in pairs, and what is lost is then little more than a float's
   own rounding. */
#ifndef HANLATTICE_NATIVE_SMALL_H
#define HANLATTICE_NATIVE_SMALL_H

#include "native.h"
#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#define PANEL 3
#if defined(__AVX512F__) || defined(__aarch64__)
#define BLOCK 8
#else
#define BLOCK 4
#endif

#if defined(__AVX512VNNI__) /* whose instruction wants numbers without signs: rows are stored with OFFSET added */
#define BYTES 1
#define LARGEST 127
#define OFFSET 128
typedef uint8_t input;
typedef int8_t weight;
#elif defined(__ARM_FEATURE_DOTPROD)
#define BYTES 1
#define LARGEST 127
#define OFFSET 0
typedef int8_t input, weight;
#else
#define BYTES 2
#define LARGEST 8191 /* sums stay in 32 bits up to K = MOST_K */
#define OFFSET 0
typedef int16_t input, weight;
#endif
#define DEPTH (4 / BYTES) /* numbers of a row that one lane of 32 bits takes at once */
#define MOST_K (INT32_MAX / (127 * (LARGEST + OFFSET)))

typedef int32_t sums __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t loose_sums __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef input input_vec __attribute__((vector_size(VECTOR_BYTES / 4 * BYTES)));
typedef int32_t loose_int __attribute__((aligned(1), may_alias));

typedef struct {
    const input *a;   /* [K], and up to DEPTH - 1 numbers more, whatever they are */
    const real *init; /* [columns], padded; may be out itself */
    real *out;        /* [columns], padded */
    real scale;
} Row;

typedef struct {
    const real *scale;    /* [columns] */
    const int32_t *start; /* [columns]: what the sums begin with, against OFFSET */
    const int32_t *data;  /* panels as in native_product.h; a number is DEPTH weights of one column */
    int64_t K;
    int64_t vectors; /* columns / LANES */
} Matrix;

INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* How many reals pack() writes. */
INLINE int64_t packed_size(int64_t K, int64_t gates, int64_t H) {
    return (round_up(K, DEPTH) / DEPTH + 2) * gates * round_up(H, LANES);
}

/* Adding this to a small number leaves the nearest whole number in the low bits. */
#define MAGIC 0x1.8p23f
#define MAGIC_BITS 0x4b400000

/* One column: K weights, DEPTH of them in each number at to, `apart` numbers from one to the next. Gives its scale.
   Without `from` all are zero. */
static real pack_column(weight *to, int64_t apart, const real *from, int64_t step, int64_t K, int32_t *start) {
    real most = 0;
    for (int64_t k = 0; from && k < K; k++) {
        real size = __builtin_fabsf(from[k * step]);
        most = size > most ? size : most;
    }
    real inverse = most > 0 ? 127 / most : 0;
    for (int64_t k = 0; k < round_up(K, DEPTH); k++) {
        real shifted = (from && k < K ? from[k * step] * inverse : 0) + MAGIC;
        int32_t value;
        memcpy(&value, &shifted, sizeof value);
        to[k / DEPTH * apart * DEPTH + k % DEPTH] = (weight)(value - MAGIC_BITS);
        *start -= (value - MAGIC_BITS) * OFFSET;
    }
    return most / 127;
}

/* Like pack() of native_product.h. Where `fill` is not set, what is there already is taken as it is. */
static Matrix pack(
    real **to, const real *from, int64_t step_k, int64_t step_column, int64_t K, int64_t gates, int64_t H, int fill
) {
    int64_t padded = round_up(H, LANES), columns = gates * padded, vectors = columns / LANES;
    int64_t depths = round_up(K, DEPTH) / DEPTH;
    int32_t *start = (int32_t *)(*to + columns), *data = start + columns;
    Matrix matrix = {*to, start, data, K, vectors};
    for (int64_t column = 0; fill && column < columns; column++) {
        int64_t v = column / LANES, first = v / PANEL * PANEL, width = vectors - first < PANEL ? vectors - first : PANEL;
        int64_t gate = column / padded, unit = column % padded;
        const real *source = unit < H ? from + (gate * H + unit) * step_column : NULL;
        weight *target = (weight *)(data + (first * depths + (v - first)) * LANES + column % LANES);
        start[column] = 0;
        (*to)[column] = pack_column(target, width * LANES, source, step_k, K, start + column);
    }
    *to += packed_size(K, gates, H);
    return matrix;
}

INLINE ivec larger(ivec a, ivec b) {
#if defined(__AVX512F__)
    return (ivec)_mm512_max_epi32((__m512i)a, (__m512i)b);
#else
    ivec mask = a > b;
    return (mask & a) | (~mask & b);
#endif
}

/* Vector v of a row of K whole numbers; x is inside [-LARGEST, LARGEST]. */
INLINE void put_whole(input *row, int64_t v, int64_t K, vec x) {
    ivec bits = (ivec)(x + MAGIC) - (MAGIC_BITS - OFFSET);
    input_vec values = __builtin_convertvector(bits, input_vec);
    int64_t left = K - v * LANES;
    if (left >= LANES) memcpy(row + v * LANES, &values, sizeof values);
    else
        for (int lane = 0; lane < (int)left; lane++) row[v * LANES + lane] = values[lane];
}

/* Rounds K numbers and gives their scale. The bits of numbers without a sign are in the numbers' order. */
static real round_row(const real *a, int64_t K, input *to) {
    ivec most = {0};
    int64_t v = 0, vectors = K / LANES;
    for (; v < vectors; v++) most = larger((ivec)load(a + v * LANES) & INT32_MAX, most);
    vec rest = load_part(a + v * LANES, (int)(K - v * LANES));
    most = larger((ivec)rest & INT32_MAX, most);
    int32_t bits = 0;
    for (int lane = 0; lane < LANES; lane++) bits = most[lane] > bits ? most[lane] : bits;
    real size;
    memcpy(&size, &bits, sizeof size);
    real inverse = size > 0 ? (real)LARGEST / size : 0;
    for (v = 0; v < vectors; v++) put_whole(to, v, K, load(a + v * LANES) * inverse);
    if (K > vectors * LANES) put_whole(to, v, K, rest * inverse);
    return size / (real)LARGEST;
}

/* To each lane's sum the products of the row's DEPTH numbers and the lane's weights. */
INLINE sums add_products(sums sum, int32_t a, sums weights) {
#if defined(__AVX512VNNI__)
    return (sums)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(a), (__m512i)weights);
#elif defined(__AVX512BW__)
    return sum + (sums)_mm512_madd_epi16((__m512i)weights, _mm512_set1_epi32(a));
#elif defined(__AVX2__)
    return sum + (sums)_mm256_madd_epi16((__m256i)weights, _mm256_set1_epi32(a));
#elif defined(__SSE2__)
    return sum + (sums)_mm_madd_epi16((__m128i)weights, _mm_set1_epi32(a));
#elif defined(__ARM_FEATURE_DOTPROD)
    return (sums)vdotq_s32((int32x4_t)sum, (int8x16_t)weights, (int8x16_t)vdupq_n_s32(a));
#else
    sums low = (weights << 16) >> 16, high = weights >> 16;
    return sum + low * (int32_t)(int16_t)a + high * (a >> 16);
#endif
}

/* One block: `rows` rows by `panels` neighbouring panels of `width` vectors; all three are constants once inlined. */
INLINE void product_block(
    const Row *row, const int rows, const int panels, const int width, const Matrix *matrix, int64_t v
) {
    int64_t depths = round_up(matrix->K, DEPTH) / DEPTH, column = v * LANES;
    const int32_t *data = matrix->data + v * depths * LANES;
    sums sum[BLOCK][4][PANEL];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int p = 0; p < panels; p++)
#pragma GCC unroll 16
            for (int w = 0; w < width; w++) sum[r][p][w] = *(const loose_sums *)(matrix->start + column + (p * width + w) * LANES);
    const loose_int *numbers[BLOCK];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) numbers[r] = (const loose_int *)row[r].a;
    for (int64_t k = 0; k < depths; k++) {
#pragma GCC unroll 16
        for (int p = 0; p < panels; p++) {
            const int32_t *here = data + (p * depths + k) * width * LANES;
            sums weights[PANEL];
#pragma GCC unroll 16
            for (int w = 0; w < width; w++) weights[w] = *(const loose_sums *)(here + w * LANES);
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
                for (int w = 0; w < width; w++) sum[r][p][w] = add_products(sum[r][p][w], numbers[r][k], weights[w]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int p = 0; p < panels; p++)
#pragma GCC unroll 16
            for (int w = 0; w < width; w++) {
                int64_t at = column + (p * width + w) * LANES;
                vec scale = load(matrix->scale + at) * row[r].scale;
                store(row[r].out + at, load(row[r].init + at) + __builtin_convertvector(sum[r][p][w], vec) * scale);
            }
}

#define ROWS_CASE(r) case r: product_block(row, r, 1, width, matrix, v); break;

/* All rows by one panel; the last blocks share what is left evenly. */
INLINE void product_panel(const Row *row, int64_t n, const int width, const Matrix *matrix, int64_t v) {
    for (int64_t blocks = (n + BLOCK - 1) / BLOCK; blocks > 0; blocks--) {
        int64_t rows = (n + blocks - 1) / blocks;
        switch (rows) {
            ROWS_CASE(1) ROWS_CASE(2) ROWS_CASE(3) ROWS_CASE(4)
#if BLOCK == 8
            ROWS_CASE(5) ROWS_CASE(6) ROWS_CASE(7) ROWS_CASE(8)
#endif
        }
        row += rows;
        n -= rows;
    }
}

/* The gates' functions. After rows of 8 bits, an error of some 1e-6 is no loss. */
#if defined(__AVX512VNNI__)
/* e^x for x below 60: 2^n times a polynomial that is exact to 3e-6. */
INLINE vec gate_power(vec x) {
    vec scaled = x * 0x1.715476p0f;
    vec n = (vec)_mm512_roundscale_ps((__m512)scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), r = scaled - n;
    vec p = r * 9.57010143e-3f + 5.59178603e-2f;
    p = (p * r + 2.40247448e-1f) * r + 6.93121815e-1f;
    return (vec)_mm512_scalef_ps((__m512)(p * r + 9.99999261e-1f), (__m512)n);
}

/* 1 / (1 + e^x): an estimate, and a step of Newton's method. */
INLINE vec gate_share(vec x) {
    vec below = gate_power((vec)_mm512_min_ps((__m512)same(60), (__m512)x)) + 1.0f;
    vec guess = (vec)_mm512_rcp14_ps((__m512)below);
    return guess * (2.0f - below * guess);
}

INLINE vec gate_sigmoid(vec x) { return gate_share(-x); }
INLINE vec gate_tanh(vec x) { return 1.0f - 2.0f * gate_share(x + x); }
#else
INLINE vec gate_sigmoid(vec x) { return vec_sigmoid(x); }
INLINE vec gate_tanh(vec x) { return vec_tanh(x); }
#endif
INLINE vec gate_exp(vec x) { return vec_exp_unit(x); }

static void product(const Row *row, int64_t n, Matrix matrix) {
    int64_t v = 0;
    if (n == 1) /* few rows: several panels at once, so that enough sums are under way */
        for (; v + 4 * PANEL <= matrix.vectors; v += 4 * PANEL) product_block(row, 1, 4, PANEL, &matrix, v);
    if (n == 2)
        for (; v + 2 * PANEL <= matrix.vectors; v += 2 * PANEL) product_block(row, 2, 2, PANEL, &matrix, v);
    for (; v + PANEL <= matrix.vectors; v += PANEL) product_panel(row, n, PANEL, &matrix, v);
    if (matrix.vectors - v == 1) product_panel(row, n, 1, &matrix, v);
    if (matrix.vectors - v == 2) product_panel(row, n, 2, &matrix, v);
}

#endif
