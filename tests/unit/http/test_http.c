/* The server against an owner that answers, and against one that does not. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "twinlog/http/http.h"

struct owner {
    struct http *http;
    bool hangs;
    const char *why;
};

/* Stands for the owner's thread: it serves from where it is woken. */
static void owner_wake(void *context)
{
    struct owner *owner = context;
    if (!owner->hangs) {
        http_serve(owner->http);
    }
}

static void *owner_snapshot(void *context)
{
    struct owner *owner = context;
    const char **snapshot = malloc(sizeof(*snapshot));
    *snapshot = owner->why;
    return snapshot;
}

static void owner_render(const void *snapshot, struct metrics_text *text)
{
    metrics_single(text, "x_total", "counter", "Of x.", 7);
}

static const char *owner_not_ready(const void *snapshot)
{
    return *(const char *const *)snapshot;
}

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* Asks for a page of a server made for this; the answer, its head included, is in `answer`. */
static void ask(struct owner *owner, const char *request, char *answer, size_t size)
{
    struct http_options options = {.host = "127.0.0.1",
                                   .port = free_port(),
                                   .wake = owner_wake,
                                   .snapshot = owner_snapshot,
                                   .render = owner_render,
                                   .not_ready = owner_not_ready,
                                   .context = owner};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(http_create(&options, &owner->http).code, STATUS_OK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
    size_t used = 0;
    ssize_t got;
    while (used + 1 < size && (got = recv(fd, answer + used, size - used - 1, 0)) > 0) {
        used += (size_t)got;
    }
    answer[used] = '\0';
    close(fd);
    http_destroy(owner->http);
}

static void metrics_come_from_the_snapshot(void **state)
{
    struct owner owner = {0};
    char answer[4096];
    ask(&owner, "GET /metrics HTTP/1.0\r\n\r\n", answer, sizeof(answer));
    assert_non_null(strstr(answer, " 200 "));
    assert_non_null(strstr(answer, "\nx_total 7\n"));
}

static void an_owner_that_hangs_is_not_healthy(void **state)
{
    struct owner owner = {.hangs = true};
    char answer[4096];
    ask(&owner, "GET /healthz HTTP/1.0\r\n\r\n", answer, sizeof(answer));
    assert_non_null(strstr(answer, " 503 "));
    assert_non_null(strstr(answer, "does not answer"));
}

static void what_keeps_it_from_serving_is_told(void **state)
{
    struct owner owner = {.why = "out of paper"};
    char answer[4096];
    ask(&owner, "GET /readyz HTTP/1.0\r\n\r\n", answer, sizeof(answer));
    assert_non_null(strstr(answer, " 503 "));
    assert_non_null(strstr(answer, "out of paper\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_come_from_the_snapshot),
        cmocka_unit_test(an_owner_that_hangs_is_not_healthy),
        cmocka_unit_test(what_keeps_it_from_serving_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
