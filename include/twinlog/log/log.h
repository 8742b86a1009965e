/*
 * One shard's log: the journal that makes appends durable, the partitions' tails in memory, and the
 * segment files that committed batches are written back to.
 *
 * Lives on its shard's loop; every function is called there, except log_format(). Nothing here is
 * thread safe. Partitions never move in memory. Formats: src/log/README.md and the heads of
 * src/log/{journal,checkpoint,segment}.c. Invariants of the design owned here: I1-I6, I8.
 *
 * Words: an append gets an offset and an LSN at once; it is *synced* when its journal frame is on
 * this node's disk and *committed* when it is synced on the whole in-sync set. Readers see only
 * committed batches. Without a pair, synced is committed.
 */
#ifndef TWINLOG_LOG_LOG_H
#define TWINLOG_LOG_LOG_H

#include <stdio.h>

#include "twinlog/core/uuid.h"
#include "twinlog/io/io.h"
#include "twinlog/protocol/batch.h"

struct log;
struct partition;

#define LOG_DIRECTORY_VERSION 1

/* Topic id of `__cluster_metadata`, as in Kafka: 15 zero bytes and a 1. */
extern const struct uuid log_metadata_topic_id;

/* ---------------------------------------------------------------- format and open */

struct log_format_options {
    const char *dir; /* made when missing; must hold nothing of a log */
    struct uuid cluster_id;
    int32_t node_id;
    uint32_t shard_count;        /* 1 to 64 */
    uint64_t journal_size;       /* bytes per shard, a multiple of 4 MiB (sim: of 64 KiB) */
    uint32_t journal_file_count; /* files the journal is divided in; 0: 8 */
};

/*
 * Prepares a directory: journals zero-written and synced, then meta.properties (Kafka's file and
 * keys, and twinlog.format.version, twinlog.shards, twinlog.journal.*) as the last step, so that a
 * directory is formatted or it is not. Blocking. `random` gives the directory id.
 * EXISTS: formatted before, nothing changed. The trace names what, where, remedy.
 */
MUST_USE status log_format(struct io_disk *disk, const struct log_format_options *options,
                           const uint64_t random[2]);

/* What meta.properties says. */
struct log_directory {
    uint32_t version;
    struct uuid cluster_id;
    struct uuid directory_id;
    int32_t node_id;
    uint32_t shard_count;
    uint64_t journal_size;
    uint32_t journal_file_count;
};

/* NOT_FOUND: not formatted; UNSUPPORTED: a newer version, named on the trace; CORRUPT. */
MUST_USE status log_directory_read(struct io_disk *disk, const char *dir,
                                   struct log_directory *directory);

struct log_events {
    /*
     * A batch of the metadata partition is committed: at run time, and during log_open() for every
     * batch there is, in order. Inside, log_partition_add() and log_partition_remove() are allowed
     * and take effect at this point of the journal.
     */
    void (*on_metadata)(void *context, struct bytes batch);
    /* Room again after an append was FULL. */
    void (*on_room)(void *context);
    /* A write or sync failed: nothing more can be appended (reads go on). Called once. */
    void (*on_offline)(void *context, status why);
    /* The disk is nearly full (true), or no longer so (false); appends by clients should stop. */
    void (*on_disk_full)(void *context, bool full);
};

struct log_options {
    struct io *io;
    const char *dir;
    uint32_t shard;
    uint32_t frame_size_max;        /* bytes; 0: 256 KiB */
    uint32_t writes_in_flight;      /* journal writes at once; 0: 4 */
    uint32_t chunk_size;            /* bytes; 0: 1 MiB */
    uint32_t chunk_count;           /* bound of chunk memory; 0: 64 */
    uint64_t checkpoint_size;       /* live journal bytes that start a checkpoint; 0: an eighth */
    int64_t checkpoint_idle_ms;     /* a dirty, quiet log is checkpointed after this; 0: 2000 */
    uint64_t disk_reserve_size;     /* free bytes below which the disk is nearly full; 0: as much as
                                       the journals, and 64 MiB */
    int64_t scrub_interval_ms;      /* from one pass of the scrub to the next; 0: there is none */
    uint64_t scrub_rate;            /* bytes it reads in a second; 0: there is none */
    int64_t producer_expiration_ms; /* producers are forgotten after this; 0: 86400000 */
    int64_t producer_check_ms;      /* between looks for them; 0: 600000 */
    int64_t retention_check_ms;     /* between looks for segments past retention; 0: 300000 */
    struct log_events events;
    void *context;
};

/*
 * Opens and recovers: lock, newest valid checkpoint, metadata, journal replay, new generation.
 * Blocking; calls on_metadata, before which *log is set. After OK the log accepts appends; after a
 * failure *log is NULL.
 * BUSY: another process has the directory; MISMATCH: another cluster, node or shard count;
 * CORRUPT: a synced frame is damaged (the range is on the trace); NOT_FOUND, UNSUPPORTED, IO, ...
 */
MUST_USE status log_open(const struct log_options *options, struct log **log);

/*
 * Clean shutdown: refuses new appends, waits for what is in flight, checkpoints, then calls `done`
 * (never inside the call). Appends waiting then have completed.
 */
void log_close(struct log *log, void (*done)(void *context, status result), void *context);

/* Frees memory; after log_close() is done, or after a crash under sim (`crashed`: no loop). */
void log_destroy(struct log *log, bool crashed);

/* The directory as read at open. */
const struct log_directory *log_directory_of(const struct log *log);

/* ---------------------------------------------------------------- partitions */

struct partition_config {
    uint32_t segment_size;        /* segment.bytes */
    int64_t segment_ms;           /* segment.ms */
    uint32_t index_interval_size; /* index.interval.bytes */
    int64_t segment_jitter_ms;    /* segment.jitter.ms */
    bool is_deleted;              /* cleanup.policy has delete: the two below count */
    int64_t retention_ms;         /* retention.ms; negative: no limit */
    int64_t retention_size;       /* retention.bytes; negative: no limit */
};

/*
 * Adds a partition in memory; its directory appears with its first written batch. The partition of
 * a topic id that the checkpoint knows gets its recovered state.
 * EXISTS: (topic id, index) is there; NO_MEMORY.
 */
MUST_USE status log_partition_add(struct log *log, const char *topic, const struct uuid *topic_id,
                                  int32_t index, const struct partition_config *config,
                                  struct partition **partition);

/*
 * Removes a partition: reads in flight end with NOT_FOUND, waits as if nothing had happened, and
 * its files are deleted in the background. The pointer is invalid afterwards.
 */
void log_partition_remove(struct log *log, struct partition *partition);

/* NULL when there is none. */
struct partition *log_partition_find(struct log *log, const struct uuid *topic_id, int32_t index);

/* The metadata partition (topic log_metadata_topic_id, index 0); always there. */
struct partition *log_metadata_partition(struct log *log);

/* Changes the configuration: for what is appended from now on, and for the next look at retention.
 */
void log_partition_configure(struct partition *partition, const struct partition_config *config);

struct partition_offsets {
    int64_t log_start;
    int64_t high_watermark;
    int64_t last_stable; /* equals high_watermark without transactions */
    int64_t log_end;
    int32_t leader_epoch;
};
/* Where the partition stands now. */
struct partition_offsets log_partition_offsets(const struct partition *partition);

struct log_epoch {
    int32_t epoch;
    int64_t end_offset;
};

/*
 * Where the log of a leader epoch ends (KIP-101): for the epoch in force the high watermark; for an
 * older one the start of the next; for one without batches the answer is about the last before it
 * that has some. False, and -1 in both fields: it is newer than the one in force.
 */
bool log_epoch_end(const struct partition *partition, int32_t epoch, struct log_epoch *end);

/* The leader epoch of the batch at an offset; the one in force when there is no batch. */
int32_t log_epoch_at(const struct partition *partition, int64_t offset);

/* Bytes in segments and tail together, as DescribeLogDirs reports. */
uint64_t log_partition_size(const struct partition *partition);

/* An idempotent producer as a partition knows it. */
struct log_producer {
    int64_t id;
    int16_t epoch;
    int32_t last_sequence;  /* -1: none in this epoch */
    int64_t last_timestamp; /* ms, of its last batch */
};

/* How many there are, at most, and each of them as of what is committed, in no order. */
uint32_t log_producer_count(const struct partition *partition);
void log_producers_visit(const struct partition *partition,
                         void (*fn)(void *context, const struct log_producer *producer),
                         void *context);

/* The caller's pointer, NULL until set. */
void *log_partition_context(const struct partition *partition);
void log_partition_context_set(struct partition *partition, void *context);

/* ---------------------------------------------------------------- append */

enum log_verdict {
    LOG_APPENDED,
    LOG_DUPLICATE,             /* in the window of five: offsets and lsn of the original */
    LOG_OUT_OF_ORDER_SEQUENCE, /* OUT_OF_ORDER_SEQUENCE_NUMBER */
    LOG_INVALID_PRODUCER_EPOCH /* an epoch below the producer's current one */
};

struct log_appended {
    enum log_verdict verdict;
    int64_t base_offset;
    uint64_t lsn;               /* wait for this one */
    int64_t log_append_time_ms; /* of a duplicate: the original's largest timestamp; else -1 */
};

/*
 * True when a batch of `size` bytes can be appended now. False: on_room tells when there is room,
 * as after an append that was FULL.
 */
bool log_has_room(struct log *log, uint32_t size);

/*
 * Appends one batch that batch_validate() passed: gives it offsets, copies it into the open frame
 * (the caller's bytes are not needed afterwards) and updates the producer's pending state. The
 * frame is written at the end of this turn or when a write slot frees.
 * FULL: nothing happened, wait for on_room. OFFLINE. TOO_LARGE: larger than the journal can take.
 */
MUST_USE status log_append(struct log *log, struct partition *partition, struct bytes batch,
                           const struct batch_header *header, struct log_appended *appended);

/*
 * Moves the log start up to `offset`, at most the high watermark: once *lsn is committed nothing
 * below can be read any more, and files that lie below are deleted in the background. *lsn is 0
 * when the log starts there or further on already.
 * FULL: nothing happened, wait for on_room. OFFLINE. NO_MEMORY.
 */
MUST_USE status log_delete_before(struct log *log, struct partition *partition, int64_t offset,
                                  uint64_t *lsn);

/* A wait for an LSN; embedded in its owner, zeroed before first use. */
struct log_wait;
typedef void (*log_wait_fn)(struct log_wait *wait);

struct log_wait {
    struct list_node link;
    uint64_t lsn;
    log_wait_fn fn;
    void *context;
    status result; /* OK, or OFFLINE */
};

/*
 * Calls `fn` once everything up to `lsn` is synced here (acks=1) or committed (acks=all), in a
 * later turn or at the end of this one; never inside the call.
 */
void log_wait_synced(struct log *log, struct log_wait *wait, uint64_t lsn, log_wait_fn fn);
void log_wait_committed(struct log *log, struct log_wait *wait, uint64_t lsn, log_wait_fn fn);

/* Gives a wait up; nothing happens when it has run. */
void log_wait_cancel(struct log_wait *wait);

/* ---------------------------------------------------------------- read */

/* Told when a partition's high watermark moves or the partition is removed. */
struct partition_watch {
    struct list_node link;
    void (*fn)(struct partition_watch *watch, bool removed);
    void *context;
};

/* Watches stay until removed (log_partition_unwatch) or told that the partition is gone. */
void log_partition_watch(struct partition *partition, struct partition_watch *watch);
void log_partition_unwatch(struct partition_watch *watch);

/* Committed bytes from `offset` on, as far as known without I/O; for min.bytes. */
uint64_t log_partition_available(const struct partition *partition, int64_t offset);

struct log_read;
typedef void (*log_read_fn)(struct log_read *read);

struct log_read {
    /* in */
    int64_t offset;    /* from the batch that contains it */
    uint32_t size_max; /* bytes */
    bool whole_first;  /* the first batch comes whole, whatever size_max */
    log_read_fn fn;
    void *context;
    /* out: whole batches below the high watermark; the caller frees `data` with free() */
    status result; /* OK, also with size 0; NOT_FOUND: offset out of range; CORRUPT, IO */
    uint8_t *data;
    uint32_t size;
    /* private */
    struct io_job job;
    void *private[4];
};

/*
 * Starts a read. True: done already (from memory), `fn` does not run. False: `fn` runs later.
 * The read must stay valid until then; the partition may be removed meanwhile (NOT_FOUND).
 */
MUST_USE bool log_read_start(struct log *log, struct partition *partition, struct log_read *read);

struct log_time_lookup {
    int64_t timestamp; /* ms; in */
    bool find_max;     /* in: the record with the largest timestamp instead (KIP-734) */
    void (*fn)(struct log_time_lookup *lookup);
    void *context;
    status result;  /* OK, or an error of reading */
    int64_t offset; /* out: first committed record with timestamp >= `timestamp`; -1: none */
    int64_t found_timestamp; /* out: its timestamp; -1: none */
    int32_t leader_epoch;
    struct io_job job;
    void *private[4];
};

/* As log_read_start. Exact to the record, also inside compressed batches. */
MUST_USE bool log_time_lookup_start(struct log *log, struct partition *partition,
                                    struct log_time_lookup *lookup);

/* ---------------------------------------------------------------- facts and tools */

struct log_stats {
    uint64_t appends, append_bytes; /* batches */
    uint64_t frames, frame_bytes;   /* journal writes, padding included */
    uint64_t syncs;                 /* synced journal writes completed */
    uint64_t checkpoints, checkpoint_ns;
    uint64_t written_back_bytes;
    uint64_t segments_deleted, segment_bytes_deleted; /* below log starts, whoever moved them */
    uint64_t live_journal_bytes, journal_size;
    uint32_t chunks_in_use, chunk_count;
    uint32_t partition_count;
    uint64_t synced_lsn, committed_lsn, next_lsn;
    uint64_t scrub_passes, scrub_bytes; /* ended; read */
    uint64_t scrub_damaged;             /* ranges of files found damaged */
};
/* Counters since the open, and how full everything is. */
void log_stats_get(const struct log *log, struct log_stats *stats);

/* Asserts the invariants that hold between callbacks. For tests and sim; cost: all partitions. */
void log_check(const struct log *log);

struct log_scrub_result {
    uint64_t segments, bytes; /* checked */
    uint64_t damaged;         /* ranges of files; each is a line on the trace */
    uint64_t unjudged;        /* newest segments whose ends the next start writes again */
    bool is_clean;            /* the last broker on it ended cleanly */
};

/*
 * `twinlog scrub`: checks every segment and index of a directory that no broker uses. Blocking;
 * writes nothing.
 * CORRUPT: damage was found; BUSY: a broker has the directory; NOT_FOUND: not formatted; IO, ...
 */
MUST_USE status log_scrub(struct io_disk *disk, const char *dir, struct log_scrub_result *result);

struct log_dump_options {
    bool deep;         /* each record, decompressed */
    bool print_values; /* keys and values too */
};

/*
 * `twinlog dump-log`: prints a segment (.log), index, time index, journal file or checkpoint, told
 * apart by name and content, as one line per batch, record or frame. CORRUPT after printing up to
 * the damage.
 */
MUST_USE status log_dump(struct io_disk *disk, const char *path,
                         const struct log_dump_options *options, FILE *out);

#endif
