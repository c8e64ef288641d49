/* Linked into a library of the tests: what OpenMP's GOMP_parallel does, on threads that ThreadSanitizer knows. */
#include <pthread.h>
#include <stdint.h>
#include <time.h>

enum { MOST = 16 };

typedef struct {
    void (*work)(void *);
    void *data;
} Call;

void test_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags);
int64_t test_race(const void *task);

static void *begin(void *given) {
    Call *call = given;
    call->work(call->data);
    return 0;
}

void test_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags) {
    (void)flags;
    Call call = {work, data};
    pthread_t others[MOST];
    unsigned count = threads - 1 < MOST ? threads - 1 : MOST;
    for (unsigned n = 0; n < count; n++) pthread_create(&others[n], 0, begin, &call);
    work(data);
    for (unsigned n = 0; n < count; n++) pthread_join(others[n], 0);
}

static volatile int64_t unguarded;

/* A task that has what must not be: every thread writes to the same place. */
int64_t test_race(const void *task) {
    (void)task;
    struct timespec moment = {0, 20000000}; /* so that one thread does not do all of them */
    nanosleep(&moment, 0);
    unguarded++;
    return 0;
}
