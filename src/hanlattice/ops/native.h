/* What every native*.c shares: the number type, its vectors, and functions of vectors.

   A source is compiled once for each number type and instruction set (hatch_build.py), so it is written once, for
   `real` and `vec`. Vectors are GCC's: +, -, *, / work on them, and a plain number in such an expression stands for a
   vector of copies. `a * b + c` becomes one fused instruction where the machine has it. */
#ifndef HANLATTICE_NATIVE_H
#define HANLATTICE_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(_WIN32)
#include <malloc.h>
#define EXPORT __declspec(dllexport)
/* Windows has no aligned_alloc whose memory free takes: here all three are of one kind. */
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define malloc(size) _aligned_malloc(size, 16)
#define free(memory) _aligned_free(memory)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define INLINE static inline __attribute__((always_inline))

#if REAL_IS_DOUBLE
typedef double real;
typedef int64_t whole; /* as wide as real */
#else
typedef float real;
typedef int32_t whole;
#endif

#ifndef SUFFIX
#define SUFFIX
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(f) JOIN(f, SUFFIX) /* f_float_avx2: what library.py looks up */

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES ((int)(VECTOR_BYTES / sizeof(real)))

typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef whole ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef real loose_vec __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

INLINE vec load(const real *p) { return *(const loose_vec *)p; }
INLINE void store(real *p, vec v) { *(loose_vec *)p = v; }
INLINE vec same(real x) { return (vec){0} + x; }

/* The first n < LANES numbers at p, and zeros; nothing after them is touched. */
INLINE vec load_part(const real *p, int n) {
#if defined(__AVX512F__) && REAL_IS_DOUBLE
    return (vec)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
#elif defined(__AVX512F__)
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vec v = {0};
    for (int k = 0; k < n; k++) v[k] = p[k];
    return v;
#endif
}

INLINE void store_part(real *p, vec v, int n) {
#if defined(__AVX512F__) && REAL_IS_DOUBLE
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
#elif defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    for (int k = 0; k < n; k++) p[k] = v[k];
#endif
}

/* a where the mask (of a comparison) is set, else b. */
INLINE vec choose(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); }

/* x brought inside [low, high]; NaN stays NaN, which is why x is the second operand. */
INLINE vec clamp(vec x, real low, real high) {
#if defined(__AVX512F__) && REAL_IS_DOUBLE
    return (vec)_mm512_min_pd((__m512d)same(high), _mm512_max_pd((__m512d)same(low), (__m512d)x));
#elif defined(__AVX512F__)
    return (vec)_mm512_min_ps((__m512)same(high), _mm512_max_ps((__m512)same(low), (__m512)x));
#elif defined(__AVX2__) && REAL_IS_DOUBLE
    return (vec)_mm256_min_pd((__m256d)same(high), _mm256_max_pd((__m256d)same(low), (__m256d)x));
#elif defined(__AVX2__)
    return (vec)_mm256_min_ps((__m256)same(high), _mm256_max_ps((__m256)same(low), (__m256)x));
#elif defined(__SSE2__) && REAL_IS_DOUBLE
    return (vec)_mm_min_pd((__m128d)same(high), _mm_max_pd((__m128d)same(low), (__m128d)x));
#elif defined(__SSE2__)
    return (vec)_mm_min_ps((__m128)same(high), _mm_max_ps((__m128)same(low), (__m128)x));
#else
    x = choose((ivec)(x < low), same(low), x);
    return choose((ivec)(x > high), same(high), x);
#endif
}

/* e^r - 1 for |r| <= ln(2)/2, by its Taylor series: relative error below one unit in the last place. */
INLINE vec expm1_small(vec r) {
#if REAL_IS_DOUBLE
    vec p = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
#else
    vec p = r * (1.0f / 5040.0f) + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
#endif
    return (p * r) * r + r;
}

/* x = n ln 2 + r with |r| <= ln(2)/2; gives r and sets power to 2^n. |x| must be below 87 (708 for double).
   Adding 1.5 * 2^(mantissa bits) rounds to a whole number and leaves it in the low bits. */
INLINE vec reduce(vec x, vec *power) {
#if REAL_IS_DOUBLE
    const real magic = 0x1.8p52, per_ln2 = 0x1.71547652b82fep0;
    const real high = 0x1.62e42fefa0000p-1, low = 0x1.cf79abc9e3b3ap-40; /* together ln 2; n · high is exact */
    const whole bias = 1023;
    const whole mantissa = 52;
#else
    const real magic = 0x1.8p23f, per_ln2 = 0x1.715476p0f;
    const real high = 0x1.62e400p-1f, low = 0x1.7f7d1cp-20f;
    const whole bias = 127;
    const whole mantissa = 23;
#endif
    vec shifted = x * per_ln2 + magic;
    vec n = shifted - magic;
    *power = (vec)(((ivec)shifted + bias) << mantissa);
    return (x - n * high) - n * low;
}

#if REAL_IS_DOUBLE
#define LARGEST_EXPONENT 708.0
#else
#define LARGEST_EXPONENT 87.0f
#endif

/* e^x; beyond +-87 (708) it stays at the end of that range instead of reaching 0 or infinity. NaN stays NaN. */
INLINE vec vec_exp(vec x) {
    vec power, r = reduce(clamp(x, -LARGEST_EXPONENT, LARGEST_EXPONENT), &power);
    return expm1_small(r) * power + power;
}

/* e^x for x from 0 to 1, which needs no powers of two: the series around 1/2. */
INLINE vec vec_exp_unit(vec x) {
#if REAL_IS_DOUBLE
    return vec_exp(x);
#else
    vec r = x - 0.5f, p = r * (1.0f / 40320.0f) + 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * 0x1.a61298p0f;
#endif
}

/* 1 / (1 + e^-x) */
INLINE vec vec_sigmoid(vec x) { return (real)1 / ((real)1 + vec_exp(-x)); }

/* tanh x = (e^2x - 1) / (e^2x + 1); e^2x - 1 without cancellation, so that small x keep their relative precision. */
INLINE vec vec_tanh(vec x) {
    vec power, r = reduce(clamp(x + x, -40, 40), &power);
    vec less_one = expm1_small(r) * power + (power - (real)1);
    return less_one / (less_one + (real)2);
}

#endif
