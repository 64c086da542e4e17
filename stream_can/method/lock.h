/* Who holds a lock, and what a fork finds: numbers of threads, and how many loops are between two rows. */
#ifndef STREAM_CAN_LOCK_H
#define STREAM_CAN_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

static _Atomic uint64_t threads;
/* Read at each call: from where the loader puts what few bytes of libraries it can reach at once. */
static _Thread_local uint64_t own __attribute__((tls_model("initial-exec")));
static _Atomic int loops, forks;
static unsigned generation;  /* how many forks lie behind this process */
static uint64_t survivor;    /* the one thread that came through the last */

/* A number that no other thread has, or will have: pthread's own are given out again. */
static inline uint64_t this_thread(void) {
    if (!own) own = atomic_fetch_add(&threads, 1) + 1;
    return own;
}

static inline int a_fork_waits(void) { return atomic_load_explicit(&forks, memory_order_relaxed) > 0; }

/* Around rows that run without the GIL; while a fork waits none begins. */
static void enter_rows(void) {
    for (;;) {
        atomic_fetch_add(&loops, 1);
        if (!atomic_load(&forks)) return;
        atomic_fetch_sub(&loops, 1);
        usleep(100);
    }
}

static void leave_rows(void) { atomic_fetch_sub(&loops, 1); }

static void begin_fork(void) {
    atomic_fetch_add(&forks, 1);
    while (atomic_load(&loops) > 0) usleep(100);
}

static void end_fork(void) { atomic_fetch_sub(&forks, 1); }

static void in_child(void) {
    generation++;
    survivor = own;
    atomic_store(&loops, 0);
    atomic_store(&forks, 0);
}

static int watch_forks(void) { return pthread_atfork(NULL, NULL, in_child); }

#endif
