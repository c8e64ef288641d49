/* Which instruction set to use: the best that this machine can run, of those that hatch_build.py could compile for. */
#include "native.h"

#if defined(HAS_AVX2)
#include <cpuid.h>

#define AVX512 (bit_AVX512F | bit_AVX512VL | bit_AVX512DQ | bit_AVX512BW)

/* Asks the processor itself: __builtin_cpu_supports needs a part of GCC's library that other compilers do without. */
static const char *best_level(void) {
    unsigned eax, ebx, ecx, edx, kept, unused;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE) || !(ecx & bit_FMA)) return "baseline";
    __asm__("xgetbv" : "=a"(kept), "=d"(unused) : "c"(0)); /* the registers that the system keeps for each thread */
    if ((kept & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & bit_AVX2)) return "baseline";
#if defined(HAS_AVX512)
    if ((kept & 0xe6) == 0xe6 && (ebx & AVX512) == AVX512) {
#if defined(HAS_VNNI)
        if (ecx & bit_AVX512VNNI) return "vnni";
#endif
        return "avx512";
    }
#endif
    return "avx2";
}
#elif defined(HAS_DOTPROD) && defined(__linux__)
unsigned long getauxval(unsigned long kind);

static const char *best_level(void) { return getauxval(16) & 1 << 20 ? "dotprod" : "baseline"; } /* HWCAP: ASIMDDP */
#elif defined(HAS_DOTPROD) && defined(__APPLE__)
static const char *best_level(void) { return "dotprod"; } /* every such machine has it */
#else
static const char *best_level(void) { return "baseline"; }
#endif

EXPORT const char *hanlattice_level(void);

EXPORT const char *hanlattice_level(void) { return best_level(); }

typedef void Parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags); /* OpenMP's GOMP_parallel */

typedef struct {
    int64_t (*call)(const void *);
    const void *const *tasks; /* [count] */
    int64_t *results;         /* [count] */
    int64_t count, next;
} Job;

/* Each thread takes the next task until none is left. */
static void work(void *data) {
    Job *job = data;
    for (;;) {
        int64_t mine = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (mine >= job->count) return;
        job->results[mine] = job->call(job->tasks[mine]);
    }
}

EXPORT void hanlattice_run(
    Parallel *parallel, int64_t threads, int64_t (*call)(const void *), const void *const *tasks, int64_t *results,
    int64_t count
);

/* Every task once, on the threads that `parallel` has. */
EXPORT void hanlattice_run(
    Parallel *parallel, int64_t threads, int64_t (*call)(const void *), const void *const *tasks, int64_t *results,
    int64_t count
) {
    Job job = {call, tasks, results, count, 0};
    parallel(work, &job, (unsigned)threads, 0);
}
