#include "twinlog/core/status.h"

#include <errno.h>

#include "twinlog/core/assert.h"

#define STATUS_TEXT(name, text) text,
static const char *const status_texts[] = {STATUS_MAP(STATUS_TEXT)};
#undef STATUS_TEXT

_Static_assert(COUNT_OF(status_texts) == STATUS_COUNT, "one text for each code");

struct errno_entry {
    int sys;
    enum status_code code;
};

/* Whatever is not listed is an input/output error. EAGAIN is what flock says of a held lock. */
static const struct errno_entry errno_map[] = {
    {0, STATUS_OK},
    {ENOSPC, STATUS_NO_SPACE},
    {EDQUOT, STATUS_NO_SPACE},
    {EROFS, STATUS_READ_ONLY},
    {EACCES, STATUS_PERMISSION},
    {EPERM, STATUS_PERMISSION},
    {ENOENT, STATUS_NOT_FOUND},
    {ENOTDIR, STATUS_NOT_FOUND},
    {EEXIST, STATUS_EXISTS},
    {ENOTEMPTY, STATUS_EXISTS},
    {EAGAIN, STATUS_BUSY},
    {EBUSY, STATUS_BUSY},
    {ETXTBSY, STATUS_BUSY},
    {EADDRINUSE, STATUS_BUSY},
    {ENOBUFS, STATUS_FULL},
    {EINVAL, STATUS_INVALID},
    {EISDIR, STATUS_INVALID},
    {EFBIG, STATUS_TOO_LARGE},
    {E2BIG, STATUS_TOO_LARGE},
    {EMSGSIZE, STATUS_TOO_LARGE},
    {ENAMETOOLONG, STATUS_TOO_LARGE},
    {EMFILE, STATUS_TOO_MANY},
    {ENFILE, STATUS_TOO_MANY},
    {ENOSYS, STATUS_UNSUPPORTED},
    {EOPNOTSUPP, STATUS_UNSUPPORTED},
    {EAFNOSUPPORT, STATUS_UNSUPPORTED},
    {ENOMEM, STATUS_NO_MEMORY},
    {EPIPE, STATUS_CLOSED},
    {ENOTCONN, STATUS_CLOSED},
    {ECONNRESET, STATUS_CLOSED},
    {ECONNABORTED, STATUS_CLOSED},
    {ECONNREFUSED, STATUS_CLOSED},
    {ECANCELED, STATUS_CANCELLED},
    {ETIME, STATUS_TIMEOUT},
    {ETIMEDOUT, STATUS_TIMEOUT},
};

status status_from_errno(int sys)
{
    ASSERT(sys >= 0);
    for (size_t i = 0; i < COUNT_OF(errno_map); i++) {
        if (errno_map[i].sys == sys) {
            return (status){errno_map[i].code, sys};
        }
    }
    return (status){STATUS_IO, sys};
}

const char *status_text(status s)
{
    ASSERT((unsigned)s.code < STATUS_COUNT);
    return status_texts[s.code];
}
