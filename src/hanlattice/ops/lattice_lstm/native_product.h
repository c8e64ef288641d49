/* out = init + a · matrix for a list of rows, which may lie anywhere; the matrix is packed once and used at every step.

   A packed matrix [K, columns] is cut into panels of PANEL vectors; a panel is contiguous, row k after row k. Each
   panel meets all rows before the next one comes, in blocks of up to BLOCK rows whose sums stay in registers. The sum
   of one number of the result always runs over k = 0, 1, 2 …, whatever block it is in: so a row's result does not
   depend on the rows that it is computed with. */
#ifndef HANLATTICE_NATIVE_PRODUCT_H
#define HANLATTICE_NATIVE_PRODUCT_H

#include "native.h"

#define PANEL 3
#if defined(__AVX512F__) || defined(__aarch64__)
#define BLOCK 8 /* 8 · 3 sums, 3 weights and a number, of 32 registers */
#else
#define BLOCK 4
#endif

typedef real input; /* what rows are made of */

typedef struct {
    const input *a;   /* [K] */
    const real *init; /* [columns], padded; may be out itself */
    real *out;        /* [columns], padded */
} Row;

typedef struct {
    const real *data;
    int64_t K;
    int64_t vectors; /* columns / LANES */
} Matrix;

INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* How many numbers pack() writes. */
INLINE int64_t packed_size(int64_t K, int64_t gates, int64_t H) { return K * gates * round_up(H, LANES); }

/* Packs the [K, gates · H] numbers at from[k · step_k + column · step_column], each gate padded with zeros to whole
   vectors, at *to, which moves on. Where `fill` is not set, they are there already. */
static Matrix pack(
    real **to, const real *from, int64_t step_k, int64_t step_column, int64_t K, int64_t gates, int64_t H, int fill
) {
    int64_t padded = round_up(H, LANES), vectors = gates * padded / LANES;
    Matrix matrix = {*to, K, vectors};
    for (int64_t v = 0; fill && v < vectors; v++) {
        int64_t first = v / PANEL * PANEL, width = vectors - first < PANEL ? vectors - first : PANEL;
        int64_t gate = v * LANES / padded, unit = v * LANES % padded;
        int64_t real_lanes = H - unit < LANES ? H - unit : LANES;
        const real *source = from + (gate * H + unit) * step_column;
        real *target = *to + (first * K + (v - first)) * LANES;
        for (int64_t k = 0; k < K; k++, source += step_k, target += width * LANES) {
            if (step_column == 1 && real_lanes == LANES) {
                store(target, load(source));
                continue;
            }
            for (int64_t lane = 0; lane < LANES; lane++)
                target[lane] = lane < real_lanes ? source[lane * step_column] : 0;
        }
    }
    *to += packed_size(K, gates, H);
    return matrix;
}

/* One block: `rows` rows by `panels` neighbouring panels of `width` vectors; all three are constants once inlined. */
INLINE void product_block(
    const Row *row, const int rows, const int panels, const int width, const real *data, int64_t K, int64_t column
) {
    vec sum[BLOCK][4][PANEL];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int p = 0; p < panels; p++)
#pragma GCC unroll 16
            for (int v = 0; v < width; v++) sum[r][p][v] = load(row[r].init + column + (p * width + v) * LANES);
    const real *a[BLOCK];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) a[r] = row[r].a;
    for (int64_t k = 0; k < K; k++) {
#pragma GCC unroll 16
        for (int p = 0; p < panels; p++) {
            const real *weights = data + (p * K + k) * width * LANES;
            vec weight[PANEL];
#pragma GCC unroll 16
            for (int v = 0; v < width; v++) weight[v] = load(weights + v * LANES);
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
                for (int v = 0; v < width; v++) sum[r][p][v] += a[r][k] * weight[v];
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int p = 0; p < panels; p++)
#pragma GCC unroll 16
            for (int v = 0; v < width; v++) store(row[r].out + column + (p * width + v) * LANES, sum[r][p][v]);
}

#define ROWS_CASE(r) case r: product_block(row, r, 1, width, data, K, column); break;

/* All rows by one panel; the last blocks share what is left evenly. */
INLINE void product_panel(const Row *row, int64_t n, const int width, const real *data, int64_t K, int64_t column) {
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

/* The gates' functions. */
INLINE vec gate_sigmoid(vec x) { return vec_sigmoid(x); }
INLINE vec gate_tanh(vec x) { return vec_tanh(x); }
INLINE vec gate_exp(vec x) { return vec_exp_unit(x); }

static void product(const Row *row, int64_t n, Matrix matrix) {
    int64_t v = 0, K = matrix.K;
    if (n == 1) /* few rows: several panels at once, so that enough sums are under way */
        for (; v + 4 * PANEL <= matrix.vectors; v += 4 * PANEL)
            product_block(row, 1, 4, PANEL, matrix.data + v * K * LANES, K, v * LANES);
    if (n == 2)
        for (; v + 2 * PANEL <= matrix.vectors; v += 2 * PANEL)
            product_block(row, 2, 2, PANEL, matrix.data + v * K * LANES, K, v * LANES);
    for (; v + PANEL <= matrix.vectors; v += PANEL)
        product_panel(row, n, PANEL, matrix.data + v * K * LANES, K, v * LANES);
    const real *rest = matrix.data + v * K * LANES;
    if (matrix.vectors - v == 1) product_panel(row, n, 1, rest, K, v * LANES);
    if (matrix.vectors - v == 2) product_panel(row, n, 2, rest, K, v * LANES);
}

#endif
