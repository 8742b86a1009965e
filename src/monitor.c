/* What ties the HTTP server to the broker: neither knows the other. */
#include "monitor.h"

#include "build_facts.h"
#include "twinlog/broker/metrics.h"
#include "twinlog/core/trace.h"
#include "twinlog/http/http.h"

static struct {
    struct io *io;
    const struct broker *broker;
    struct http *http;
} monitor;

/* io_run() returns, and its caller calls monitor_serve(). */
static void monitor_wake(void *context)
{
    io_stop(monitor.io);
}

static void *monitor_snapshot(void *context)
{
    return monitor.broker == NULL ? NULL : broker_metrics_get(monitor.broker);
}

static void monitor_render(const void *snapshot, struct metrics_text *text)
{
    struct metrics_labels labels = {0};
    metrics_label(&labels, "version", BUILD_VERSION);
    metrics_label(&labels, "commit", BUILD_COMMIT);
    metrics_label(&labels, "build_type", BUILD_KIND);
    metrics_family(text, "twinlog_build_info", "gauge", "1; what runs is in the labels.");
    metrics_sample(text, "twinlog_build_info", &labels, 1);
    broker_metrics_write(snapshot, text);
    http_process_metrics(text);
}

static const char *monitor_not_ready(const void *snapshot)
{
    return broker_metrics_not_ready(snapshot);
}

void monitor_attach(const struct broker *broker)
{
    monitor.broker = broker;
}

bool monitor_start(struct io *io, const struct broker_config *config)
{
    if (config->http_listener[0] == '\0') {
        return true;
    }
    struct http_options options = {
        .host = config->http_host,
        .port = config->http_port,
        .wake = monitor_wake,
        .snapshot = monitor_snapshot,
        .render = monitor_render,
        .not_ready = monitor_not_ready,
    };
    monitor.io = io;
    status result = http_create(&options, &monitor.http);
    if (!status_is_ok(result)) {
        trace_error("http",
                    "twinlog.http.listener=%s cannot be listened on: %s; choose an address of this "
                    "host and a free port, or leave it empty",
                    config->http_listener, status_text(result));
        return false;
    }
    trace_info("http", "metrics and health on http://%s", config->http_listener);
    return true;
}

void monitor_serve(void)
{
    if (monitor.http != NULL) {
        http_serve(monitor.http);
    }
}

void monitor_stop(void)
{
    if (monitor.http != NULL) {
        http_destroy(monitor.http);
        monitor.http = NULL;
    }
}
