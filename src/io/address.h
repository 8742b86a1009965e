/* Numeric addresses of IPv4 and IPv6 in the form that sockets take. */
#ifndef TWINLOG_IO_ADDRESS_H
#define TWINLOG_IO_ADDRESS_H

#include <sys/socket.h>

#include "twinlog/core/status.h"

struct address {
    struct sockaddr_storage storage;
    socklen_t size;
};

/* INVALID when `host` is no numeric address. Names are resolved nowhere in the house. */
MUST_USE status address_parse(const char *host, uint16_t port, struct address *address);

/* "127.0.0.1:9092" or "[::1]:9092". */
void address_format(const struct address *address, char *text, size_t size);

/* The port, in host order. */
uint16_t address_port(const struct address *address);

#endif
