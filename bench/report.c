#include "report.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

static double per_request_us(uint64_t ns, uint64_t requests)
{
    return requests == 0 ? 0 : (double)ns / (double)requests / 1000.0;
}

static json_t *latency_json(const struct histogram *latency)
{
    return json_pack(
        "{s:f,s:f,s:f,s:f,s:f,s:f}", "mean", histogram_mean_us(latency), "p50",
        histogram_percentile_us(latency, 50), "p90", histogram_percentile_us(latency, 90), "p99",
        histogram_percentile_us(latency, 99), "p999", histogram_percentile_us(latency, 99.9), "max",
        (double)latency->max_ns / 1000.0);
}

static json_t *setup_json(const struct options *options)
{
    return json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:s}", "topic", options->topic, "connections",
                     (int)options->connections, "in_flight_per_connection", (int)options->in_flight,
                     "records_per_request", (int)options->records, "record_size",
                     (int)options->record_size, "partitions", (int)options->partitions, "acks",
                     options->acks, "label", options->label);
}

static void json_write(const struct options *options, const struct result *result)
{
    double rate = result->seconds > 0 ? (double)result->requests / result->seconds : 0;
    json_t *root = json_pack(
        "{s:i,s:s,s:o,s:f,s:I,s:f,s:f,s:I,s:I,s:i,s:f,s:f,s:f,s:f,s:o}", "schema_version", 1,
        "workload", result->workload, "setup", setup_json(options), "seconds", result->seconds,
        "requests", (json_int_t)result->requests, "requests_per_s", rate, "records_per_s",
        rate * options->records, "errors", (json_int_t)result->errors, "unfinished",
        (json_int_t)result->unfinished, "connections_open", (int)result->connections_open,
        "client_cpu_us_per_request", per_request_us(result->client_cpu_ns, result->requests),
        "server_cpu_us_per_request", per_request_us(result->server_cpu_ns, result->requests),
        "client_cpu_share", (double)result->client_cpu_ns / (result->seconds * 1e9),
        "server_cpu_share", (double)result->server_cpu_ns / (result->seconds * 1e9), "latency_us",
        latency_json(&result->latency));
    FILE *out = strcmp(options->json, "-") == 0 ? stdout : fopen(options->json, "w");
    if (root == NULL || out == NULL) {
        perror(options->json);
    } else {
        json_dumpf(root, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(8));
        fputc('\n', out);
    }
    if (out != NULL && out != stdout) {
        fclose(out);
    }
    json_decref(root);
}

static void text_write(const struct options *options, const struct result *result)
{
    printf("%s%s%s: connections=%u in_flight=%u records=%u size=%u partitions=%u acks=%s: "
           "%.0f requests/s, p50 %.0f us, p99 %.0f us, p99.9 %.0f us, max %.0f us, "
           "server CPU %.2f us/request, client CPU %.2f us/request, errors=%llu unfinished=%llu\n",
           result->workload, options->label[0] != '\0' ? " " : "", options->label,
           result->connections_open, options->in_flight, options->records, options->record_size,
           options->partitions, options->acks == -1 ? "all" : "1",
           result->seconds > 0 ? (double)result->requests / result->seconds : 0,
           histogram_percentile_us(&result->latency, 50),
           histogram_percentile_us(&result->latency, 99),
           histogram_percentile_us(&result->latency, 99.9), (double)result->latency.max_ns / 1000.0,
           per_request_us(result->server_cpu_ns, result->requests),
           per_request_us(result->client_cpu_ns, result->requests),
           (unsigned long long)result->errors, (unsigned long long)result->unfinished);
}

void report_write(const struct options *options, const struct result *result)
{
    if (options->json != NULL) {
        json_write(options, result);
    }
    if (options->json == NULL || strcmp(options->json, "-") != 0) {
        text_write(options, result);
    }
}
