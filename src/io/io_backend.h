/*
 * What a backend of src/io implements: one entry per function of include/twinlog/io/{io,disk}.h.
 * io.c checks the arguments that every backend would check, fills in the fields named below and
 * dispatches. A backend embeds the base structs as the first member of its own.
 *
 * Shared, so that both backends behave alike: timers (timers.h), hooks (io_hooks_run) and counters
 * live in `struct io` itself.
 */
#ifndef TWINLOG_IO_BACKEND_H
#define TWINLOG_IO_BACKEND_H

#include "timers.h"
#include "twinlog/io/io.h"

struct io_ops {
    void (*destroy)(struct io *io); /* calls io_base_fini() */
    status (*run)(struct io *io);   /* NULL where a scheduler runs the turns */
    void (*stop)(struct io *io);

    int64_t (*now_ns)(struct io *io);
    int64_t (*now_ns_exact)(struct io *io);
    int64_t (*wall_ms)(struct io *io);
    uint64_t (*random)(struct io *io);
    struct io_disk *(*disk)(struct io *io);

    /* io.c has set op->fn, op->result = OK and op->count = 0. */
    void (*submit_write)(struct io *io, struct io_op *op, struct io_file *file, const void *buffer,
                         uint32_t size, uint64_t position, bool sync);
    void (*submit_read)(struct io *io, struct io_op *op, struct io_file *file, void *buffer,
                        uint32_t size, uint64_t position);
    void (*submit_sync)(struct io *io, struct io_op *op, struct io_file *file);

    /* io.c has set job->work and job->done. */
    void (*offload)(struct io *io, enum io_lane lane, struct io_job *job);

    status (*listen)(struct io *io, const char *host, uint16_t *port, int backlog,
                     io_accept_fn accept, void *context, struct io_listener **listener);
    void (*listener_close)(struct io_listener *listener);
    status (*connect)(struct io *io, const char *host, uint16_t port, io_connect_fn done,
                      void *context);

    void (*stream_open)(struct io_stream *stream, const struct io_stream_events *events,
                        void *context);
    void (*stream_move)(struct io_stream *stream, struct io *to);
    void (*stream_pause)(struct io_stream *stream);
    void (*stream_resume)(struct io_stream *stream);
    /* io.c has set send->result = OK. */
    void (*stream_send)(struct io_stream *stream, struct io_send *send);
    void (*stream_close)(struct io_stream *stream);
    void (*stream_peer)(struct io_stream *stream, char *text, size_t size);

    status (*mailbox_create)(struct io *from, struct io *to, uint32_t capacity,
                             io_mailbox_fn receive, void *context, struct io_mailbox **mailbox);
    void (*mailbox_destroy)(struct io_mailbox *mailbox);
    uint32_t (*mailbox_room)(struct io_mailbox *mailbox);
    status (*mailbox_send)(struct io_mailbox *mailbox, void *message);
};

/* The base of a loop. */
struct io {
    const struct io_ops *ops;
    struct timers timers;        /* io.c arms and disarms; the backend calls timers_run() */
    struct list hooks;           /* of io_hook.link */
    struct list_node *hook_next; /* where io_hooks_run() goes on, NULL outside of it */
    struct io_stats stats;       /* the backend counts */
};

struct io_listener {
    struct io *io;
};

struct io_stream {
    struct io *io;
};

struct io_mailbox {
    struct io *from; /* io.c asserts that both are of one backend */
};

/* Prepares the base of a zeroed loop. */
void io_base_init(struct io *io, const struct io_ops *ops);

/* Frees what the base holds; timers still armed are forgotten. */
void io_base_fini(struct io *io);

/* Runs every hook once, in order; also those that hooks add. The backend calls it once per turn. */
void io_hooks_run(struct io *io);

struct io_disk_ops {
    status (*file_open)(struct io_disk *disk, const char *path, unsigned flags,
                        struct io_file **file);
    void (*file_close)(struct io_file *file);
    status (*file_read)(struct io_file *file, void *buffer, size_t size, uint64_t position,
                        size_t *got);
    status (*file_write)(struct io_file *file, const void *buffer, size_t size, uint64_t position);
    status (*file_writev)(struct io_file *file, struct iovec *ranges, uint32_t range_count,
                          uint64_t position);
    status (*file_sync)(struct io_file *file);
    status (*file_truncate)(struct io_file *file, uint64_t size);
    status (*file_reserve)(struct io_file *file, uint64_t position, uint64_t size);
    status (*file_size)(struct io_file *file, uint64_t *size);
    status (*file_modified_ms)(struct io_file *file, int64_t *modified_ms);
    status (*file_lock)(struct io_file *file);

    status (*dir_create)(struct io_disk *disk, const char *path);
    status (*dir_sync)(struct io_disk *disk, const char *path);
    status (*dir_list)(struct io_disk *disk, const char *path, io_dir_entry_fn entry,
                       void *context);
    status (*dir_remove)(struct io_disk *disk, const char *path);
    status (*path_rename)(struct io_disk *disk, const char *from, const char *to);
    status (*path_remove)(struct io_disk *disk, const char *path);
    status (*disk_sync)(struct io_file *file);
    status (*disk_space)(struct io_disk *disk, const char *path, uint64_t *free_size,
                         uint64_t *total_size);
    void (*disk_facts)(struct io_disk *disk, const char *path, struct io_disk_facts *facts);
};

struct io_disk {
    const struct io_disk_ops *ops;
};

struct io_file {
    struct io_disk *disk;
};

#endif
