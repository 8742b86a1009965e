/* One thread of libmicrohttpd's; the owner's thread and it meet in the snapshot, under a mutex. */
#include "twinlog/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWER_SECONDS         2
#define CONNECTION_COUNT_MAX   32u
#define CONNECTION_MEMORY_MAX  ((size_t)32 * 1024)
#define CONNECTION_SECONDS_MAX 10u

struct http {
    struct http_options options;
    struct MHD_Daemon *daemon;
    pthread_mutex_t mutex;
    pthread_cond_t answered_changed;
    uint64_t asked;    /* under the mutex, as all below */
    uint64_t answered; /* the newest question with an answer */
    void *snapshot;    /* the answer; NULL when it was taken or memory was out */
    bool stopping;
};

/* ---------------------------------------------------------------- the snapshot */

void http_serve(struct http *http)
{
    pthread_mutex_lock(&http->mutex);
    uint64_t asked = http->asked;
    bool wanted = asked != http->answered;
    pthread_mutex_unlock(&http->mutex);
    if (!wanted) {
        return;
    }
    void *snapshot = http->options.snapshot(http->options.context);
    pthread_mutex_lock(&http->mutex);
    free(http->snapshot);
    http->snapshot = snapshot;
    http->answered = asked;
    pthread_cond_signal(&http->answered_changed);
    pthread_mutex_unlock(&http->mutex);
}

/* Asks the owner; NULL when it does not answer in time. The caller frees it. */
static void *http_ask(struct http *http)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += ANSWER_SECONDS;
    pthread_mutex_lock(&http->mutex);
    uint64_t question = ++http->asked;
    pthread_mutex_unlock(&http->mutex);
    http->options.wake(http->options.context);
    pthread_mutex_lock(&http->mutex);
    int error = 0;
    while (http->answered < question && !http->stopping && error == 0) {
        error = pthread_cond_timedwait(&http->answered_changed, &http->mutex, &deadline);
    }
    void *snapshot = NULL;
    if (http->answered >= question) {
        snapshot = http->snapshot;
        http->snapshot = NULL;
    }
    pthread_mutex_unlock(&http->mutex);
    return snapshot;
}

/* ---------------------------------------------------------------- pages */

/* Takes over `data`, which came from malloc(). */
static enum MHD_Result answer_owned(struct MHD_Connection *connection, unsigned int code,
                                    const char *type, char *data, size_t size)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(data);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_line(struct MHD_Connection *connection, unsigned int code,
                                   const char *line)
{
    size_t size = strlen(line);
    char *copy = malloc(size + sizeof("\n"));
    if (copy == NULL) {
        return MHD_NO;
    }
    snprintf(copy, size + sizeof("\n"), "%s\n", line);
    return answer_owned(connection, code, "text/plain; charset=utf-8", copy, size + 1);
}

static enum MHD_Result answer_metrics(struct http *http, struct MHD_Connection *connection,
                                      const void *snapshot)
{
    struct metrics_text text = {0};
    http->options.render(snapshot, &text);
    if (text.failed || text.data == NULL) {
        free(text.data);
        return answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the metrics");
    }
    return answer_owned(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
                        text.data, text.size);
}

static enum MHD_Result answer_ready(struct http *http, struct MHD_Connection *connection,
                                    const void *snapshot)
{
    const char *why = http->options.not_ready(snapshot);
    return why == NULL ? answer_line(connection, MHD_HTTP_OK, "ready")
                       : answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, why);
}

static enum MHD_Result answer_healthy(struct http *http, struct MHD_Connection *connection,
                                      const void *snapshot)
{
    return answer_line(connection, MHD_HTTP_OK, "healthy");
}

static const struct {
    const char *path;
    enum MHD_Result (*answer)(struct http *http, struct MHD_Connection *connection,
                              const void *snapshot);
} pages[] = {
    {"/metrics", answer_metrics},
    {"/healthz", answer_healthy},
    {"/readyz", answer_ready},
};

static enum MHD_Result http_answer(struct http *http, struct MHD_Connection *connection,
                                   const char *path)
{
    for (size_t i = 0; i < COUNT_OF(pages); i++) {
        if (strcmp(pages[i].path, path) == 0) {
            void *snapshot = http_ask(http);
            enum MHD_Result result = snapshot == NULL
                                         ? answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                                                       "the event loop does not answer")
                                         : pages[i].answer(http, connection, snapshot);
            free(snapshot);
            return result;
        }
    }
    return answer_line(connection, MHD_HTTP_NOT_FOUND, "there are /metrics, /healthz and /readyz");
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **state)
{
    struct http *http = context;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    }
    if (*state == NULL) {
        /* The head has arrived; the second call comes behind the body, which has no meaning. */
        *state = http;
        return MHD_YES;
    }
    if (*upload_size > 0) {
        *upload_size = 0;
        return MHD_YES;
    }
    return http_answer(http, connection, path);
}

/* ---------------------------------------------------------------- start and stop */

static bool address_of(const struct http_options *options, struct sockaddr_storage *storage)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;
    *storage = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, options->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(options->port);
        return true;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(options->port);
    return inet_pton(AF_INET6, options->host, &v6->sin6_addr) == 1;
}

static status listen_status(int error)
{
    switch (error) {
    case EADDRINUSE:
        return (status){STATUS_BUSY, error};
    case EADDRNOTAVAIL:
        return (status){STATUS_NOT_FOUND, error};
    case EACCES:
        return (status){STATUS_PERMISSION, error};
    default:
        return (status){STATUS_IO, error};
    }
}

static void http_free(struct http *http)
{
    free(http->snapshot);
    pthread_cond_destroy(&http->answered_changed);
    pthread_mutex_destroy(&http->mutex);
    free(http);
}

status http_create(const struct http_options *options, struct http **out)
{
    struct sockaddr_storage address;
    if (!address_of(options, &address)) {
        return STATUS(INVALID);
    }
    struct http *http = calloc(1, sizeof(*http));
    if (http == NULL) {
        return STATUS(NO_MEMORY);
    }
    pthread_condattr_t attributes;
    http->options = *options;
    pthread_mutex_init(&http->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&http->answered_changed, &attributes);
    pthread_condattr_destroy(&attributes);
    unsigned int flags = MHD_USE_EPOLL_INTERNAL_THREAD;
    if (address.ss_family == AF_INET6) {
        flags |= MHD_USE_IPv6;
    }
    /* Signals are for the owner's thread. */
    sigset_t all;
    sigset_t saved;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    errno = 0;
    http->daemon = MHD_start_daemon(
        flags, options->port, NULL, NULL, on_request, http, MHD_OPTION_SOCK_ADDR,
        (struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT, CONNECTION_COUNT_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        CONNECTION_SECONDS_MAX, MHD_OPTION_END);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (http->daemon == NULL) {
        http_free(http);
        return listen_status(error);
    }
    *out = http;
    return OK;
}

void http_destroy(struct http *http)
{
    pthread_mutex_lock(&http->mutex);
    http->stopping = true;
    pthread_cond_signal(&http->answered_changed);
    pthread_mutex_unlock(&http->mutex);
    MHD_stop_daemon(http->daemon);
    http_free(http);
}
