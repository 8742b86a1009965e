#include "address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

status address_parse(const char *host, uint16_t port, struct address *address)
{
    memset(address, 0, sizeof(*address));
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address->storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address->storage;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        address->size = sizeof(*v4);
        return OK;
    }
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        address->size = sizeof(*v6);
        return OK;
    }
    return STATUS(INVALID);
}

uint16_t address_port(const struct address *address)
{
    if (address->storage.ss_family == AF_INET6) {
        return ntohs(((const struct sockaddr_in6 *)&address->storage)->sin6_port);
    }
    return ntohs(((const struct sockaddr_in *)&address->storage)->sin_port);
}

void address_format(const struct address *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (address->storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->storage;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        snprintf(text, size, "[%s]:%u", host, address_port(address));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->storage;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        snprintf(text, size, "%s:%u", host, address_port(address));
    }
}
