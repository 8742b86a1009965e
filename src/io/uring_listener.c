/*
 * Listening, accepting and connecting.
 *
 * One multishot accept per listener. TCP_NODELAY is set on the listening socket, from which Linux
 * hands it on to what is accepted, so that a new connection costs no system call of its own.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "twinlog/core/trace.h"
#include "uring.h"

enum { LISTENER_PAUSE_NS = 100 * 1000 * 1000 };

struct uring_listener {
    struct io_listener base;
    struct uring_entry accept_entry;
    struct io_timer retry;
    io_accept_fn accept;
    void *context;
    int fd;
    bool armed; /* an accept is in the ring, or its last completion is being handled */
    bool closing;
    bool traced; /* said once that descriptors ran out */
};

static struct uring_listener *listener_of(struct io_listener *listener)
{
    return CONTAINER_OF(listener, struct uring_listener, base);
}

/* ---------------------------------------------------------------- accepting */

static void listener_arm(struct uring_listener *listener)
{
    struct io_uring_sqe *sqe = uring_sqe(uring_of(listener->base.io));
    io_uring_prep_multishot_accept(sqe, listener->fd, NULL, NULL, SOCK_CLOEXEC);
    uring_sqe_own(sqe, &listener->accept_entry);
    listener->armed = true;
}

static void listener_free(struct uring_listener *listener)
{
    struct uring *uring = uring_of(listener->base.io);
    ASSERT(uring->listener_count > 0);
    uring->listener_count--;
    io_timer_stop(&uring->base, &listener->retry);
    close(listener->fd);
    free(listener);
}

static void listener_on_retry(struct io_timer *timer)
{
    listener_arm(timer->context);
}

static void listener_take(struct uring_listener *listener, int fd)
{
    struct io_stream *stream = NULL;
    if (!listener->closing) {
        stream = uring_stream_create(uring_of(listener->base.io), fd);
    }
    if (stream == NULL) {
        close(fd);
    } else {
        listener->accept(listener->context, stream);
    }
}

/* True when accepting cannot go on at once. */
static bool listener_is_out_of_resources(struct uring_listener *listener, int error)
{
    if (error != EMFILE && error != ENFILE && error != ENOMEM && error != ENOBUFS) {
        return false;
    }
    if (!listener->traced) {
        listener->traced = true;
        trace_warn("io",
                   "cannot accept a connection: %s; trying again every 100 ms; remedy: raise "
                   "LimitNOFILE of the service (RLIMIT_NOFILE) or fs.file-max",
                   strerror(error));
    }
    return true;
}

static void listener_on_accept(struct uring *uring, struct uring_entry *entry, int32_t result,
                               uint32_t flags)
{
    struct uring_listener *listener = CONTAINER_OF(entry, struct uring_listener, accept_entry);
    if (result >= 0) {
        listener_take(listener, result);
    }
    if ((flags & IORING_CQE_F_MORE) != 0) {
        return;
    }
    listener->armed = false;
    if (listener->closing) {
        ASSERT(uring->listeners_closing > 0);
        uring->listeners_closing--;
        listener_free(listener);
    } else if (result < 0 && listener_is_out_of_resources(listener, -result)) {
        io_timer_start(&uring->base, &listener->retry, LISTENER_PAUSE_NS, listener_on_retry);
    } else {
        listener_arm(listener);
    }
}

/* ---------------------------------------------------------------- listeners */

static void listener_set(int fd, int level, int option, int value)
{
    /* None of the options used here can be refused by a socket of this kind. */
    int result = setsockopt(fd, level, option, &value, sizeof(value));
    ASSERT(result == 0);
}

/* An address that is not of this host is "not found" to the operator who wrote it. */
static status listener_status(int error)
{
    status result = status_from_errno(error);
    if (error == EADDRNOTAVAIL) {
        result.code = STATUS_NOT_FOUND;
    }
    return result;
}

static status listener_bind(int fd, const char *host, uint16_t *port, int backlog)
{
    struct address address;
    TRY(address_parse(host, *port, &address));
    listener_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    listener_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (address.storage.ss_family == AF_INET6) {
        /* "::" serves IPv4 too, whatever net.ipv6.bindv6only says. */
        listener_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    }
    if (bind(fd, (struct sockaddr *)&address.storage, address.size) < 0 ||
        listen(fd, backlog) < 0 ||
        getsockname(fd, (struct sockaddr *)&address.storage, &address.size) < 0) {
        return listener_status(errno);
    }
    *port = address_port(&address);
    return OK;
}

static status listener_socket(const char *host, int *fd)
{
    struct address address;
    TRY(address_parse(host, 0, &address));
    *fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return *fd < 0 ? status_from_errno(errno) : OK;
}

status uring_listen(struct io *io, const char *host, uint16_t *port, int backlog,
                    io_accept_fn accept, void *context, struct io_listener **listener)
{
    int fd = -1;
    TRY(listener_socket(host, &fd));
    status result = listener_bind(fd, host, port, backlog);
    struct uring_listener *made = NULL;
    if (status_is_ok(result)) {
        made = calloc(1, sizeof(*made));
        result = made == NULL ? STATUS(NO_MEMORY) : OK;
    }
    if (!status_is_ok(result)) {
        close(fd);
        return result;
    }
    made->base.io = io;
    made->accept_entry.complete = listener_on_accept;
    made->retry.context = made;
    made->accept = accept;
    made->context = context;
    made->fd = fd;
    uring_of(io)->listener_count++;
    listener_arm(made);
    *listener = &made->base;
    return OK;
}

/* A shutdown ends the accept in the ring, and with its last completion the listener. */
void uring_listener_close(struct io_listener *base)
{
    struct uring_listener *listener = listener_of(base);
    ASSERT(!listener->closing);
    listener->closing = true;
    if (listener->armed) {
        uring_of(base->io)->listeners_closing++;
        (void)shutdown(listener->fd, SHUT_RDWR);
    } else {
        listener_free(listener);
    }
}

/* ---------------------------------------------------------------- connecting */

struct uring_connect {
    struct uring_entry entry;
    struct address address;
    io_connect_fn done;
    void *context;
    int fd;
};

static void connect_on_done(struct uring *uring, struct uring_entry *entry, int32_t result,
                            uint32_t flags)
{
    struct uring_connect *connect = CONTAINER_OF(entry, struct uring_connect, entry);
    struct io_stream *stream = NULL;
    status outcome = status_from_errno(-result);
    if (result == 0) {
        stream = uring_stream_create(uring, connect->fd);
        outcome = stream == NULL ? STATUS(NO_MEMORY) : OK;
    }
    if (stream == NULL) {
        close(connect->fd);
    }
    ASSERT(uring->in_flight > 0);
    uring->in_flight--;
    connect->done(connect->context, outcome, stream);
    free(connect);
}

status uring_connect(struct io *io, const char *host, uint16_t port, io_connect_fn done,
                     void *context)
{
    struct uring *uring = uring_of(io);
    int fd = -1;
    TRY(listener_socket(host, &fd));
    struct uring_connect *connect = calloc(1, sizeof(*connect));
    if (connect == NULL) {
        close(fd);
        return STATUS(NO_MEMORY);
    }
    status parsed = address_parse(host, port, &connect->address);
    ASSERT(status_is_ok(parsed));
    listener_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    connect->entry.complete = connect_on_done;
    connect->done = done;
    connect->context = context;
    connect->fd = fd;
    struct io_uring_sqe *sqe = uring_sqe(uring);
    io_uring_prep_connect(sqe, fd, (struct sockaddr *)&connect->address.storage,
                          connect->address.size);
    uring_sqe_own(sqe, &connect->entry);
    uring->in_flight++;
    return OK;
}
