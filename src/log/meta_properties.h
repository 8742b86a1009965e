/*
 * meta.properties: what a directory is. Kafka's file with Kafka's keys, and four of ours:
 *
 *   version=1                  Kafka's version of this file
 *   cluster.id, node.id, directory.id
 *   twinlog.format.version     LOG_DIRECTORY_VERSION of the release that formatted
 *   twinlog.shards             journals
 *   twinlog.journal.size       bytes per shard
 *   twinlog.journal.files      files per journal
 *
 * Lines "key=value", '#' or '!' comments; unknown keys are left alone.
 */
#ifndef TWINLOG_LOG_META_PROPERTIES_H
#define TWINLOG_LOG_META_PROPERTIES_H

#include "twinlog/log/log.h"

#define META_PROPERTIES_NAME     "meta.properties"
#define META_PROPERTIES_SIZE_MAX 4096
#define LOG_SHARD_COUNT_MAX      64u

/* Writes the file under another name, syncs it, renames it and syncs the directory. Blocking. */
MUST_USE status meta_properties_write(struct io_disk *disk, const char *dir,
                                      const struct log_directory *directory);

/* Reads the text of the file. CORRUPT: a key is missing or wrong; UNSUPPORTED: a newer version. */
MUST_USE status meta_properties_parse(const char *text, size_t size, const char *path,
                                      struct log_directory *directory);

#endif
