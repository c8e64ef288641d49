/* The recurrence with weights of 8 bits: native_forward.c with the products of native_small.h. Nothing is kept. */
#if !REAL_IS_DOUBLE
#define SMALL 1
#include "native_forward.c"

EXPORT int64_t NAME(small_bytes)(void);
EXPORT int64_t NAME(small_most)(void);
EXPORT int64_t NAME(small_round)(const real *from, int64_t rows, int64_t K, input *to, real *scale);

/* Of a number in a row. */
EXPORT int64_t NAME(small_bytes)(void) { return sizeof(input); }

/* The largest K of any matrix: sums surely fit. 0 where plain C does the products: floats are as fast, and exact. */
EXPORT int64_t NAME(small_most)(void) {
#if defined(__SSE2__) || defined(__ARM_FEATURE_DOTPROD)
    return MOST_K;
#else
    return 0;
#endif
}

/* Rows of K numbers as products take them, one after the other, and their scales. */
EXPORT int64_t NAME(small_round)(const real *from, int64_t rows, int64_t K, input *to, real *scale) {
    for (int64_t row = 0; row < rows; row++) scale[row] = round_row(from + row * K, K, to + row * K);
    return GOOD;
}
#endif
