/*
 * Mailboxes between loops: a ring of pointers, and one wake of the receiving loop.
 *
 * The sender pushes, and at the end of its turn sets the receiver's mail_flag; whoever finds the
 * flag clear also wakes the receiver, by a completion posted into its ring. The receiver clears the
 * flag before it looks into the mailboxes, so a message is either seen in that look or its flag is
 * set after it. A receiver that is busy anyway sees the flag in its next turn.
 */
#include <stdlib.h>

#include "twinlog/core/spsc.h"
#include "uring.h"

struct uring_mailbox {
    struct io_mailbox base;
    struct uring *to;
    struct list_node in;            /* in to->mail_in */
    struct list_node out;           /* in from->mail_out, when sent to in this turn */
    struct uring_mailbox *new_next; /* in to->mail_new */
    struct uring_entry wake_entry;  /* of the failed wake */
    io_mailbox_fn receive;
    void *context;
    uint32_t capacity;
    struct spsc ring;
};

static struct uring_mailbox *mailbox_of(struct io_mailbox *mailbox)
{
    return CONTAINER_OF(mailbox, struct uring_mailbox, base);
}

/* ---------------------------------------------------------------- the receiving side */

static void mail_adopt_new(struct uring *uring)
{
    struct uring_mailbox *mailbox =
        atomic_exchange_explicit(&uring->mail_new, NULL, memory_order_acq_rel);
    while (mailbox != NULL) {
        struct uring_mailbox *next = mailbox->new_next;
        list_push_back(&uring->mail_in, &mailbox->in);
        mailbox = next;
    }
}

/* Bounded, so that a fast sender does not keep the loop in here; what is left keeps the flag set.
 */
static void mailbox_receive(struct uring *uring, struct uring_mailbox *mailbox)
{
    void *message = NULL;
    for (uint32_t count = 0; count < mailbox->capacity; count++) {
        message = spsc_pop(&mailbox->ring);
        if (message == NULL) {
            return;
        }
        mailbox->receive(mailbox->context, message);
    }
    if (!spsc_is_empty(&mailbox->ring)) {
        atomic_store(&uring->mail_flag, true);
    }
}

void uring_mail_run(struct uring *uring)
{
    if (!atomic_load_explicit(&uring->mail_flag, memory_order_relaxed)) {
        return;
    }
    atomic_exchange(&uring->mail_flag, false);
    mail_adopt_new(uring);
    LIST_FOREACH (node, &uring->mail_in) {
        mailbox_receive(uring, CONTAINER_OF(node, struct uring_mailbox, in));
    }
}

/* The wake itself; uring_mail_run() looks at the flag in every turn. */
static void mail_on_wake(struct uring *uring, struct uring_entry *entry, int32_t result,
                         uint32_t flags)
{
}

/* ---------------------------------------------------------------- the sending side */

/* The receiver does not run yet, or its completion queue is full: the long way then. */
static void mailbox_on_wake_failed(struct uring *uring, struct uring_entry *entry, int32_t result,
                                   uint32_t flags)
{
    struct uring_mailbox *mailbox = CONTAINER_OF(entry, struct uring_mailbox, wake_entry);
    if (result < 0) {
        uring_wake(mailbox->to);
    }
}

static void mailbox_wake(struct uring *uring, struct uring_mailbox *mailbox)
{
    if (atomic_exchange(&mailbox->to->mail_flag, true) || mailbox->to == uring) {
        return;
    }
    struct io_uring_sqe *sqe = uring_sqe(uring);
    io_uring_prep_msg_ring(sqe, mailbox->to->ring.ring_fd, 0, (uintptr_t)&mailbox->to->mail_entry,
                           0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    uring_sqe_own(sqe, &mailbox->wake_entry);
}

void uring_mail_flush(struct uring *uring)
{
    struct list_node *node;
    while ((node = list_pop_front(&uring->mail_out)) != NULL) {
        mailbox_wake(uring, CONTAINER_OF(node, struct uring_mailbox, out));
    }
}

uint32_t uring_mailbox_room(struct io_mailbox *base)
{
    struct spsc *ring = &mailbox_of(base)->ring;
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return ring->capacity - (head - tail);
}

status uring_mailbox_send(struct io_mailbox *base, void *message)
{
    struct uring_mailbox *mailbox = mailbox_of(base);
    if (!spsc_push(&mailbox->ring, message)) {
        return STATUS(FULL);
    }
    if (!list_node_is_linked(&mailbox->out)) {
        list_push_back(&uring_of(base->from)->mail_out, &mailbox->out);
    }
    return OK;
}

/* ---------------------------------------------------------------- both */

void uring_mail_init(struct uring *uring)
{
    list_init(&uring->mail_in);
    list_init(&uring->mail_out);
    uring->mail_entry.complete = mail_on_wake;
}

void uring_mail_fini(struct uring *uring)
{
    ASSERT(list_is_empty(&uring->mail_in));
    ASSERT(list_is_empty(&uring->mail_out));
    ASSERT(atomic_load(&uring->mail_new) == NULL);
}

status uring_mailbox_create(struct io *from, struct io *to, uint32_t capacity,
                            io_mailbox_fn receive, void *context, struct io_mailbox **mailbox)
{
    struct uring_mailbox *made = aligned_alloc(64, ALIGN_UP(sizeof(*made), (size_t)64));
    if (made == NULL) {
        return STATUS(NO_MEMORY);
    }
    *made = (struct uring_mailbox){
        .base.from = from,
        .to = uring_of(to),
        .wake_entry.complete = mailbox_on_wake_failed,
        .receive = receive,
        .context = context,
        .capacity = capacity,
    };
    status result = spsc_init(&made->ring, capacity);
    if (!status_is_ok(result)) {
        free(made);
        return result;
    }
    /* The receiver may run already: it takes the mailbox over when it first looks for mail. */
    made->new_next = atomic_load(&made->to->mail_new);
    while (!atomic_compare_exchange_weak(&made->to->mail_new, &made->new_next, made)) {
        continue;
    }
    *mailbox = &made->base;
    return OK;
}

void uring_mailbox_destroy(struct io_mailbox *base)
{
    struct uring_mailbox *mailbox = mailbox_of(base);
    mail_adopt_new(mailbox->to);
    list_remove(&mailbox->in);
    if (list_node_is_linked(&mailbox->out)) {
        list_remove(&mailbox->out);
    }
    spsc_fini(&mailbox->ring);
    free(mailbox);
}
