/* Work in parts, by several threads for the length of a call: `passes.c` includes this.
 *
 * A thread of Python that ends a part waits for Python's lock before it takes the next one, and sixteen that do so wait
 * for each other: a product of two milliseconds takes seven. These threads never ask for it. They begin with the call
 * and end with it, none spins, and a thread that is free takes the next part: one that gets no core costs the
 * others nothing but its start. What a part computes must not depend on who takes it.
 */

#include <pthread.h>
#include <signal.h>

#define MOST_THREADS 64
#define STACK (1 << 18) /* bytes; the C library keeps stacks of this size for the next call */

typedef struct {
    void (*part)(const void *given, int64_t number);
    const void *given;
    int64_t parts, next;
} work_in_parts;

static void *take_parts(void *at)
{
    work_in_parts *work = at;
    for (;;) {
        int64_t number = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
        if (number >= work->parts)
            return NULL;
        work->part(work->given, number);
    }
}

/* All parts, by the calling thread and `threads` - 1 others at most; fewer where the machine has no more. */
static void in_parts(void (*part)(const void *, int64_t), const void *given, int64_t parts, int64_t threads)
{
    work_in_parts work = {part, given, parts, 0};
    pthread_t others[MOST_THREADS];
    int64_t wanted = (threads < parts ? threads : parts) - 1, count = 0;
    wanted = wanted > MOST_THREADS ? MOST_THREADS : wanted;
    if (wanted > 0) {
        pthread_attr_t with;
        sigset_t all, before;
        sigfillset(&all);
        if (pthread_attr_init(&with) == 0) {
            pthread_attr_setstacksize(&with, STACK);
            pthread_sigmask(SIG_SETMASK, &all, &before); /* signals go to Python's threads */
            while (count < wanted && pthread_create(&others[count], &with, take_parts, &work) == 0)
                count++;
            pthread_sigmask(SIG_SETMASK, &before, NULL);
            pthread_attr_destroy(&with);
        }
    }
    take_parts(&work);
    for (int64_t i = 0; i < count; i++)
        pthread_join(others[i], NULL);
}
