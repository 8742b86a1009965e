/* Mailboxes between loops in two threads: order, bounds, wake-ups, and streams that move. */
#include "uring_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAILBOX_CAPACITY = 64, MESSAGE_COUNT = 200000 };

/* A shard of the test: a loop in a thread, with one mailbox out and one in. */
struct shard {
    struct io *io;
    struct io_mailbox *out;
    struct io_hook hook;
    struct io_timer timer;
    pthread_t thread;
    uintptr_t sent;
    uintptr_t received;
    uint64_t full_count;
    status result;
};

static void *shard_main(void *context)
{
    struct shard *shard = context;
    shard->result = io_run(shard->io);
    return NULL;
}

static void shard_run_both(struct shard *a, struct shard *b)
{
    assert_int_equal(pthread_create(&b->thread, NULL, shard_main, b), 0);
    shard_main(a);
    pthread_join(b->thread, NULL);
    assert_int_equal(a->result.code, STATUS_OK);
    assert_int_equal(b->result.code, STATUS_OK);
}

/* ---------------------------------------------------------------- a flood */

static void flood_on_hook(struct io_hook *hook)
{
    struct shard *shard = hook->context;
    while (shard->sent < MESSAGE_COUNT) {
        uint32_t room = io_mailbox_room(shard->out);
        status result = io_mailbox_send(shard->out, (void *)(shard->sent + 1));
        if (!status_is_ok(result)) {
            ASSERT(result.code == STATUS_FULL);
            ASSERT(room <= MAILBOX_CAPACITY);
            shard->full_count++;
            return;
        }
        shard->sent++;
    }
}

/* A full mailbox is tried again when something was received, or after a while. */
static void flood_on_timer(struct io_timer *timer)
{
    struct shard *shard = timer->context;
    if (shard->sent < MESSAGE_COUNT) {
        io_timer_start(shard->io, timer, 50000, flood_on_timer);
    }
}

static void flood_on_message(void *context, void *message)
{
    struct shard *shard = context;
    shard->received++;
    ASSERT((uintptr_t)message == shard->received);
    if (shard->received == MESSAGE_COUNT) {
        io_stop(shard->io);
    }
}

static void messages_arrive_whole_and_in_order_under_a_flood(void **state)
{
    struct shard sender = {.io = fixture_create_loop(NULL)};
    struct shard receiver = {.io = fixture_create_loop(NULL)};
    status result = io_mailbox_create(sender.io, receiver.io, MAILBOX_CAPACITY, flood_on_message,
                                      &receiver, &sender.out);
    assert_int_equal(result.code, STATUS_OK);
    assert_int_equal(io_mailbox_room(sender.out), MAILBOX_CAPACITY);
    sender.hook = (struct io_hook){.fn = flood_on_hook, .context = &sender};
    sender.timer.context = &sender;
    io_hook_add(sender.io, &sender.hook);
    io_timer_start(sender.io, &sender.timer, 0, flood_on_timer);
    assert_int_equal(pthread_create(&sender.thread, NULL, shard_main, &sender), 0);
    shard_main(&receiver);
    io_stop(sender.io);
    pthread_join(sender.thread, NULL);
    assert_int_equal(receiver.received, MESSAGE_COUNT);
    assert_int_equal(sender.sent, MESSAGE_COUNT);
    io_hook_remove(sender.io, &sender.hook);
    io_mailbox_destroy(sender.out);
    io_destroy(sender.io);
    io_destroy(receiver.io);
}

/* ---------------------------------------------------------------- ping-pong */

enum { PING_COUNT = 20000 };

static void ping_on_message(void *context, void *message)
{
    struct shard *shard = context;
    uintptr_t number = (uintptr_t)message;
    shard->received++;
    if (number < PING_COUNT) {
        status result = io_mailbox_send(shard->out, (void *)(number + 1));
        ASSERT(status_is_ok(result));
    }
    if (number >= PING_COUNT - 1) {
        io_stop(shard->io);
    }
}

static void a_sleeping_loop_is_woken_for_every_lone_message(void **state)
{
    struct shard a = {.io = fixture_create_loop(NULL)};
    struct shard b = {.io = fixture_create_loop(NULL)};
    assert_int_equal(io_mailbox_create(a.io, b.io, 4, ping_on_message, &b, &a.out).code, STATUS_OK);
    assert_int_equal(io_mailbox_create(b.io, a.io, 4, ping_on_message, &a, &b.out).code, STATUS_OK);
    assert_int_equal(io_mailbox_send(a.out, (void *)(uintptr_t)1).code, STATUS_OK);
    shard_run_both(&a, &b);
    assert_int_equal(a.received + b.received, PING_COUNT);
    io_mailbox_destroy(a.out);
    io_mailbox_destroy(b.out);
    io_destroy(a.io);
    io_destroy(b.io);
}

/* ---------------------------------------------------------------- bounds and wakes */

static void a_full_mailbox_sends_nothing(void **state)
{
    struct shard a = {.io = fixture_create_loop(NULL)};
    struct shard b = {.io = fixture_create_loop(NULL)};
    assert_int_equal(io_mailbox_create(a.io, b.io, 2, flood_on_message, &b, &a.out).code,
                     STATUS_OK);
    assert_int_equal(io_mailbox_send(a.out, (void *)(uintptr_t)1).code, STATUS_OK);
    assert_int_equal(io_mailbox_room(a.out), 1);
    assert_int_equal(io_mailbox_send(a.out, (void *)(uintptr_t)2).code, STATUS_OK);
    assert_int_equal(io_mailbox_room(a.out), 0);
    assert_int_equal(io_mailbox_send(a.out, (void *)(uintptr_t)3).code, STATUS_FULL);
    io_stop(a.io);
    assert_int_equal(io_run(a.io).code, STATUS_OK);
    io_stop(b.io);
    assert_int_equal(io_run(b.io).code, STATUS_OK);
    assert_int_equal(b.received, 2);
    assert_int_equal(io_mailbox_room(a.out), 2);
    io_mailbox_destroy(a.out);
    io_destroy(a.io);
    io_destroy(b.io);
}

static void a_loop_may_send_to_itself(void **state)
{
    struct shard a = {.io = fixture_create_loop(NULL)};
    assert_int_equal(io_mailbox_create(a.io, a.io, 8, ping_on_message, &a, &a.out).code, STATUS_OK);
    assert_int_equal(io_mailbox_send(a.out, (void *)(uintptr_t)(PING_COUNT - 10)).code, STATUS_OK);
    assert_int_equal(io_run(a.io).code, STATUS_OK);
    assert_true(a.received >= 10);
    io_mailbox_destroy(a.out);
    io_destroy(a.io);
}

static void many_messages_of_a_turn_wake_the_receiver_once(void **state)
{
    struct shard a = {.io = fixture_create_loop(NULL)};
    struct shard b = {.io = fixture_create_loop(NULL)};
    assert_int_equal(io_mailbox_create(a.io, b.io, 64, flood_on_message, &b, &a.out).code,
                     STATUS_OK);
    /* Both rings have to be running before a wake can pass between them. */
    fixture_run_for(b.io, MILLISECOND_NS);
    struct io_stats before;
    struct io_stats after;
    io_stats_get(b.io, &before);
    for (uintptr_t at = 1; at <= 64; at++) {
        assert_int_equal(io_mailbox_send(a.out, (void *)at).code, STATUS_OK);
    }
    io_stop(a.io);
    assert_int_equal(io_run(a.io).code, STATUS_OK);
    fixture_run_for(b.io, 10 * MILLISECOND_NS);
    io_stats_get(b.io, &after);
    assert_int_equal(b.received, 64);
    assert_true(after.completions - before.completions <= 3);
    io_mailbox_destroy(a.out);
    io_destroy(a.io);
    io_destroy(b.io);
}

/* ---------------------------------------------------------------- streams that move */

struct acceptor {
    struct shard shard;
    struct io_listener *listener;
    uint16_t port;
};

struct worker {
    struct shard shard;
    struct io_stream *stream;
    uint32_t received;
};

static void acceptor_on_accept(void *context, struct io_stream *stream)
{
    struct acceptor *acceptor = context;
    status result = io_mailbox_send(acceptor->shard.out, stream);
    ASSERT(status_is_ok(result));
    io_listener_close(acceptor->listener);
    io_stop(acceptor->shard.io);
}

static void worker_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct worker *worker = context;
    worker->received += size;
    if (worker->received == 5) {
        io_stream_close(worker->stream);
    }
}

static void worker_on_closed(void *context, status why)
{
    struct worker *worker = context;
    io_stop(worker->shard.io);
}

static const struct io_stream_events worker_events = {worker_on_data, worker_on_closed};

static void worker_on_stream(void *context, void *message)
{
    struct worker *worker = context;
    worker->stream = message;
    io_stream_open(worker->stream, &worker_events, worker);
}

static void acceptor_on_accept_and_move(void *context, struct io_stream *stream);
static struct io *move_target;

static void acceptor_on_accept_and_move(void *context, struct io_stream *stream)
{
    io_stream_move(stream, move_target);
    acceptor_on_accept(context, stream);
}

static void a_new_stream_may_move_to_another_loop(void **state)
{
    struct acceptor acceptor = {.shard.io = fixture_create_loop(NULL)};
    struct worker worker = {.shard.io = fixture_create_loop(NULL)};
    move_target = worker.shard.io;
    assert_int_equal(io_mailbox_create(acceptor.shard.io, worker.shard.io, 4, worker_on_stream,
                                       &worker, &acceptor.shard.out)
                         .code,
                     STATUS_OK);
    assert_int_equal(io_listen(acceptor.shard.io, "127.0.0.1", &acceptor.port, 4,
                               acceptor_on_accept_and_move, &acceptor, &acceptor.listener)
                         .code,
                     STATUS_OK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(acceptor.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, "moved", 5, 0), 5);
    shard_run_both(&acceptor.shard, &worker.shard);
    assert_int_equal(worker.received, 5);
    close(fd);
    fixture_run_for(acceptor.shard.io, MILLISECOND_NS);
    io_mailbox_destroy(acceptor.shard.out);
    io_destroy(acceptor.shard.io);
    io_destroy(worker.shard.io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_whole_and_in_order_under_a_flood),
        cmocka_unit_test(a_sleeping_loop_is_woken_for_every_lone_message),
        cmocka_unit_test(a_full_mailbox_sends_nothing),
        cmocka_unit_test(a_loop_may_send_to_itself),
        cmocka_unit_test(many_messages_of_a_turn_wake_the_receiver_once),
        cmocka_unit_test(a_new_stream_may_move_to_another_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
