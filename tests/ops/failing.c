/* Linked into a library of the tests: the n-th allocation from now on fails, and what is not freed is counted. */
#include <stddef.h>
#include <stdint.h>

void *__real_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);

int64_t failing_at = -1, failing_count = 0, failing_live = 0;

static int fails(void) { return __atomic_fetch_add(&failing_count, 1, __ATOMIC_SEQ_CST) == failing_at; }

static void *counted(void *memory) {
    if (memory) __atomic_fetch_add(&failing_live, 1, __ATOMIC_SEQ_CST);
    return memory;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : counted(__real_malloc(size)); }

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *memory) {
    if (memory) __atomic_fetch_add(&failing_live, -1, __ATOMIC_SEQ_CST);
    __real_free(memory);
}
