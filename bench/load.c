#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cpu.h"
#include "request.h"
#include "twinlog/core/assert.h"
#include "twinlog/io/io.h"
#include "workload.h"

struct load;

/* One writer. Requests are numbered; slot (number mod in_flight) holds each one's frame. */
struct writer {
    struct load *load;
    struct io_stream *stream;
    uint32_t index;
    bool sending;
    uint64_t next;     /* number of the next request to be sent */
    uint64_t answered; /* requests below this are answered */
    uint64_t allowed;  /* requests below this may be sent */
    uint8_t *frames;
    int64_t *sent_ns;
    struct io_send send;
    struct iovec range;
    uint8_t partial[256]; /* an answer cut by the network */
    uint32_t partial_size;
};

struct load {
    const struct options *options;
    struct io *io;
    struct request_template template;
    struct writer *writers;
    uint32_t connecting;
    struct result *result;
    bool measuring;
    bool ending;
    int64_t measure_start_ns;
    uint64_t client_cpu_start_ns;
    uint64_t server_cpu_start_ns;
    struct io_timer phase;
    FILE *ack_log;
};

static void writer_send(struct writer *writer);

static uint64_t server_cpu_ns(const struct options *options)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < options->server_pid_count; i++) {
        total += cpu_ns_of(options->server_pid[i]);
    }
    return total;
}

static void failure(struct load *load, const char *what, const char *why)
{
    if (load->result->errors++ < 10) {
        fprintf(stderr, "twinlog-bench: %s: %s\n", what, why);
    }
}

static void on_sent(struct io_send *send)
{
    struct writer *writer = send->context;
    writer->sending = false;
    if (status_is_ok(send->result)) {
        writer_send(writer);
    }
}

/* Sends what is allowed and stamped in one piece up to the end of the slots. */
static void writer_send(struct writer *writer)
{
    struct load *load = writer->load;
    if (writer->sending || writer->next == writer->allowed || load->ending) {
        return;
    }
    uint32_t slots = load->options->in_flight;
    uint32_t first = (uint32_t)(writer->next % slots);
    uint32_t count = (uint32_t)MIN(writer->allowed - writer->next, (uint64_t)(slots - first));
    int64_t now = io_now_ns_exact(load->io);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *frame = writer->frames + (size_t)(first + i) * load->template.size;
        request_stamp(&load->template, frame, writer->index, writer->next + i);
        writer->sent_ns[first + i] = now;
    }
    writer->next += count;
    writer->range.iov_base = writer->frames + (size_t)first * load->template.size;
    writer->range.iov_len = (size_t)count * load->template.size;
    writer->sending = true;
    writer->send.ranges = &writer->range;
    writer->send.range_count = 1;
    writer->send.fn = on_sent;
    writer->send.context = writer;
    io_stream_send(writer->stream, &writer->send);
}

static void ack_log_write(struct writer *writer, const uint8_t *frame, uint64_t number)
{
    const struct load *load = writer->load;
    uint32_t offset_at = load->template.error_at + 2;
    uint32_t partition_at = load->template.error_at - 4;
    fprintf(load->ack_log, "%u %" PRId64 " %u %" PRIu64 "\n", load_be32(frame + partition_at),
            (int64_t)load_be64(frame + offset_at), writer->index, number);
}

static void answer_take(struct writer *writer, const uint8_t *frame, uint32_t size)
{
    struct load *load = writer->load;
    uint64_t number = writer->answered++;
    int64_t now = io_now_ns_exact(load->io);
    int64_t sent = writer->sent_ns[number % load->options->in_flight];
    if (size < load->template.error_at + 2 || load_be32(frame + 4) != (uint32_t)number) {
        failure(load, "answer", "of another shape or out of order");
    } else if (load_be16(frame + load->template.error_at) != 0) {
        char text[32];
        snprintf(text, sizeof(text), "error code %d",
                 (int16_t)load_be16(frame + load->template.error_at));
        failure(load, "produce", text);
    } else {
        if (load->measuring) {
            load->result->requests++;
            histogram_add(&load->result->latency, (uint64_t)(now - sent));
        }
        if (load->ack_log != NULL) {
            ack_log_write(writer, frame, number);
        }
    }
    writer->allowed++;
}

/* Takes whole answers from `data`; returns how many bytes they were. */
static uint32_t answers_take(struct writer *writer, const uint8_t *data, uint32_t size)
{
    uint32_t at = 0;
    while (size - at >= 4) {
        uint32_t frame_size = load_be32(data + at) + 4;
        if (size - at < frame_size) {
            break;
        }
        answer_take(writer, data + at, frame_size);
        at += frame_size;
    }
    return at;
}

static void on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct writer *writer = context;
    while (writer->partial_size > 0 && size > 0) {
        uint32_t room = (uint32_t)sizeof(writer->partial) - writer->partial_size;
        uint32_t wanted = writer->partial_size < 4 ? 4 : load_be32(writer->partial) + 4;
        if (wanted > sizeof(writer->partial)) {
            failure(writer->load, "answer", "too large");
            io_stream_close(writer->stream);
            return;
        }
        uint32_t count = MIN(MIN(room, size), wanted - writer->partial_size);
        memcpy(writer->partial + writer->partial_size, data, count);
        writer->partial_size += count;
        data += count;
        size -= count;
        if (writer->partial_size >= 4 &&
            answers_take(writer, writer->partial, writer->partial_size)) {
            writer->partial_size = 0;
        }
    }
    uint32_t taken = answers_take(writer, data, size);
    uint32_t left = size - taken;
    if (left > sizeof(writer->partial)) {
        failure(writer->load, "answer", "too large");
        io_stream_close(writer->stream);
        return;
    }
    memcpy(writer->partial + writer->partial_size, data + taken, left);
    writer->partial_size += left;
    writer_send(writer);
}

static void on_closed(void *context, status why)
{
    struct writer *writer = context;
    writer->stream = NULL;
    if (!writer->load->ending) {
        failure(writer->load, "connection closed", status_text(why));
    }
}

static const struct io_stream_events events = {on_data, on_closed};

/* ---------------------------------------------------------------- phases */

static void on_drained(struct io_timer *timer)
{
    struct load *load = timer->context;
    load->ending = true;
    for (uint32_t i = 0; i < load->options->connections; i++) {
        if (load->writers[i].stream != NULL) {
            io_stream_close(load->writers[i].stream);
        }
    }
    io_stop(load->io);
}

static void on_measured(struct io_timer *timer)
{
    struct load *load = timer->context;
    struct result *result = load->result;
    int64_t now = io_now_ns_exact(load->io);
    load->measuring = false;
    load->ending = true; /* nothing more is sent; what is under way may still be answered */
    result->seconds = (double)(now - load->measure_start_ns) / 1e9;
    result->client_cpu_ns = cpu_ns_of(getpid()) - load->client_cpu_start_ns;
    result->server_cpu_ns = server_cpu_ns(load->options) - load->server_cpu_start_ns;
    for (uint32_t i = 0; i < load->options->connections; i++) {
        struct writer *writer = &load->writers[i];
        result->connections_open += writer->stream != NULL ? 1 : 0;
    }
    io_timer_start(load->io, &load->phase, 1000000000, on_drained);
}

static void on_warm(struct io_timer *timer)
{
    struct load *load = timer->context;
    load->measuring = true;
    load->measure_start_ns = io_now_ns_exact(load->io);
    load->client_cpu_start_ns = cpu_ns_of(getpid());
    load->server_cpu_start_ns = server_cpu_ns(load->options);
    io_timer_start(load->io, &load->phase, (int64_t)(load->options->duration_s * 1e9), on_measured);
}

static void load_begin(struct load *load)
{
    for (uint32_t i = 0; i < load->options->connections; i++) {
        load->writers[i].allowed = load->options->in_flight;
        writer_send(&load->writers[i]);
    }
    load->phase.context = load;
    io_timer_start(load->io, &load->phase, (int64_t)(load->options->warmup_s * 1e9), on_warm);
}

static void writer_connect(struct load *load, uint32_t index);

static void on_connected(void *context, status result, struct io_stream *stream)
{
    struct writer *writer = context;
    struct load *load = writer->load;
    if (!status_is_ok(result)) {
        failure(load, "connect", status_text(result));
        io_stop(load->io);
        return;
    }
    writer->stream = stream;
    io_stream_open(stream, &events, writer);
    if (load->connecting < load->options->connections) {
        writer_connect(load, load->connecting++);
    }
    if (writer->index == load->options->connections - 1) {
        load_begin(load);
    }
}

/* One connect after the other: a broker's accept queue is not what is measured. */
static void writer_connect(struct load *load, uint32_t index)
{
    struct writer *writer = &load->writers[index];
    status s = io_connect(load->io, load->options->host, load->options->port, on_connected, writer);
    if (!status_is_ok(s)) {
        failure(load, "connect", status_text(s));
        io_stop(load->io);
    }
}

static bool writer_init(struct load *load, uint32_t index)
{
    const struct options *options = load->options;
    struct writer *writer = &load->writers[index];
    writer->load = load;
    writer->index = index;
    writer->frames = malloc((size_t)options->in_flight * load->template.size);
    writer->sent_ns = calloc(options->in_flight, sizeof(*writer->sent_ns));
    if (writer->frames == NULL || writer->sent_ns == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < options->in_flight; i++) {
        uint8_t *frame = writer->frames + (size_t)i * load->template.size;
        memcpy(frame, load->template.frame, load->template.size);
        store_be32(frame + load->template.partition_at, index % options->partitions);
    }
    return true;
}

/* Requests never answered count in the latency at their age. */
static void unfinished_count(struct load *load)
{
    int64_t now = io_now_ns_exact(load->io);
    for (uint32_t i = 0; i < load->options->connections; i++) {
        struct writer *writer = &load->writers[i];
        for (uint64_t n = writer->answered; n < writer->next; n++) {
            load->result->unfinished++;
            histogram_add(&load->result->latency,
                          (uint64_t)(now - writer->sent_ns[n % load->options->in_flight]));
        }
    }
}

static void descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int load_loop(struct load *load)
{
    struct io_options io_options = {
        .entry_count = 16384, .receive_buffer_count = 4096, .receive_buffer_size = 1024};
    status s = io_create_uring(&io_options, &load->io);
    if (!status_is_ok(s)) {
        failure(load, "io_uring", status_text(s));
        return 1;
    }
    load->connecting = 1;
    writer_connect(load, 0);
    s = io_run(load->io);
    if (!status_is_ok(s)) {
        failure(load, "loop", status_text(s));
    }
    unfinished_count(load);
    return load->result->errors == 0 && load->result->unfinished == 0 ? 0 : 1;
}

int load_measure(const struct options *options, const char *workload, struct result *result)
{
    struct load load = {.options = options, .result = result};
    *result = (struct result){.workload = workload};
    descriptors_raise();
    if (!options->echo) {
        request_topic_create(options);
    }
    cpu_pin(options->cpu);
    request_template_init(&load.template, options);
    load.writers = calloc(options->connections, sizeof(*load.writers));
    ASSERT(load.writers != NULL);
    for (uint32_t i = 0; i < options->connections; i++) {
        ASSERT(writer_init(&load, i));
    }
    if (options->ack_log != NULL) {
        load.ack_log = fopen(options->ack_log, "w");
        ASSERT(load.ack_log != NULL);
    }
    int exit_status = load_loop(&load);
    if (load.ack_log != NULL) {
        fclose(load.ack_log);
    }
    for (uint32_t i = 0; i < options->connections; i++) {
        free(load.writers[i].frames);
        free(load.writers[i].sent_ns);
    }
    free(load.writers);
    request_template_fini(&load.template);
    return exit_status;
}

int load_run(const struct options *options)
{
    struct result *result = calloc(1, sizeof(*result));
    ASSERT(result != NULL);
    int exit_status = load_measure(options, "load", result);
    report_write(options, result);
    free(result);
    return exit_status;
}
