/*
 * Helper threads, one set per lane, started when a job finds none idle. Finished jobs go into one
 * list per loop; only the first into an empty list wakes the loop.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "twinlog/core/trace.h"
#include "uring.h"

static void offload_run_job(struct uring *uring, struct io_job *job)
{
    job->work(job);
    pthread_mutex_lock(&uring->done_mutex);
    bool was_empty = list_is_empty(&uring->done);
    list_push_back(&uring->done, &job->link);
    atomic_store(&uring->done_flag, true);
    pthread_mutex_unlock(&uring->done_mutex);
    if (was_empty) {
        uring_wake(uring);
    }
}

/* NULL when the lane stops. */
static struct io_job *offload_wait_for_job(struct uring_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    while (list_is_empty(&lane->jobs) && !lane->stopping) {
        lane->idle_count++;
        pthread_cond_wait(&lane->wake, &lane->mutex);
        lane->idle_count--;
    }
    struct list_node *node = list_pop_front(&lane->jobs);
    lane->job_count -= node == NULL ? 0 : 1;
    pthread_mutex_unlock(&lane->mutex);
    return node == NULL ? NULL : CONTAINER_OF(node, struct io_job, link);
}

/* Where the host forbids it, background work only has fewer manners. */
static void offload_yield_to_others(void)
{
    enum { WHO_PROCESS = 1, CLASS_IDLE = 3 << 13, NICE_MAX = 19 }; /* of linux/ioprio.h */
    (void)setpriority(PRIO_PROCESS, 0, NICE_MAX);
    (void)syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE);
}

static void *offload_thread(void *context)
{
    struct uring_lane *lane = context;
    struct io_job *job;
    if (lane == &lane->uring->lanes[IO_LANE_BACKGROUND]) {
        offload_yield_to_others();
    }
    while ((job = offload_wait_for_job(lane)) != NULL) {
        offload_run_job(lane->uring, job);
    }
    return NULL;
}

/* Signals are for the threads that expect them: helpers block all. Returns an errno. */
static int offload_start_thread(struct uring_lane *lane)
{
    sigset_t all;
    sigset_t saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    int error = pthread_create(&lane->threads[lane->thread_count], NULL, offload_thread, lane);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (error == 0) {
        lane->thread_count++;
    }
    return error;
}

void uring_offload(struct io *io, enum io_lane index, struct io_job *job)
{
    struct uring *uring = uring_of(io);
    struct uring_lane *lane = &uring->lanes[index];
    uring->in_flight++;
    pthread_mutex_lock(&lane->mutex);
    list_push_back(&lane->jobs, &job->link);
    lane->job_count++;
    int error = 0;
    if (lane->job_count > lane->idle_count && lane->thread_count < lane->thread_count_max) {
        error = offload_start_thread(lane);
    }
    bool orphaned = lane->thread_count == 0;
    if (orphaned) {
        list_remove(&job->link);
        lane->job_count--;
    }
    pthread_cond_signal(&lane->wake);
    pthread_mutex_unlock(&lane->mutex);
    if (orphaned) {
        /* Slow but right: the loop waits for the work, and `done` still runs in a later turn. */
        trace_warn("io",
                   "cannot start a helper thread: %s; its work blocks the shard; remedy: raise "
                   "TasksMax of the service (RLIMIT_NPROC)",
                   strerror(error));
        offload_run_job(uring, job);
    }
}

void uring_offload_run_done(struct uring *uring)
{
    if (!atomic_load_explicit(&uring->done_flag, memory_order_relaxed)) {
        return;
    }
    struct list done;
    list_init(&done);
    pthread_mutex_lock(&uring->done_mutex);
    list_splice(&done, &uring->done);
    atomic_store(&uring->done_flag, false);
    pthread_mutex_unlock(&uring->done_mutex);
    struct list_node *node;
    while ((node = list_pop_front(&done)) != NULL) {
        struct io_job *job = CONTAINER_OF(node, struct io_job, link);
        ASSERT(uring->in_flight > 0);
        uring->in_flight--;
        job->done(job);
    }
}

void uring_offload_init(struct uring *uring, uint32_t read_thread_count)
{
    ASSERT(read_thread_count <= URING_READ_THREADS_MAX);
    pthread_mutex_init(&uring->done_mutex, NULL);
    list_init(&uring->done);
    for (int at = 0; at < IO_LANE_COUNT; at++) {
        struct uring_lane *lane = &uring->lanes[at];
        lane->uring = uring;
        lane->thread_count_max = at == IO_LANE_READ ? read_thread_count : 1;
        list_init(&lane->jobs);
        pthread_mutex_init(&lane->mutex, NULL);
        pthread_cond_init(&lane->wake, NULL);
    }
}

void uring_offload_fini(struct uring *uring)
{
    for (int at = 0; at < IO_LANE_COUNT; at++) {
        struct uring_lane *lane = &uring->lanes[at];
        pthread_mutex_lock(&lane->mutex);
        lane->stopping = true;
        pthread_cond_broadcast(&lane->wake);
        pthread_mutex_unlock(&lane->mutex);
        for (uint32_t thread = 0; thread < lane->thread_count; thread++) {
            pthread_join(lane->threads[thread], NULL);
        }
        pthread_mutex_destroy(&lane->mutex);
        pthread_cond_destroy(&lane->wake);
    }
    pthread_mutex_destroy(&uring->done_mutex);
}
