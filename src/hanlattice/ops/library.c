/* Which instruction set to use: the best that this machine can run, of those that hatch_build.py could compile for. */
#include "native.h"

EXPORT const char *hanlattice_level(void);

EXPORT const char *hanlattice_level(void) {
#if defined(HAS_AVX2)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#if defined(HAS_AVX512)
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
              && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    if (avx2 && avx512) return "avx512";
#endif
    if (avx2) return "avx2";
#endif
    return "baseline";
}

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
