#include "sim_file.h"

#include <stdlib.h>
#include <string.h>

#include "sim_name.h"

/* Stands for an allocated page of zeros, so that a zero-filled file costs a pointer a page. */
static struct sim_page zero_page;

void *sim_alloc(size_t size)
{
    void *memory = calloc(1, size);
    ASSERT(memory != NULL);
    return memory;
}

void sim_medium_init(struct sim_medium *medium, struct sim_rng *rng, struct sim_coverage *coverage,
                     const struct sim_options *options)
{
    *medium = (struct sim_medium){.rng = rng, .coverage = coverage, .options = options};
    list_init(&medium->dirty);
}

struct sim_inode *sim_inode_create(struct sim_medium *medium, bool is_directory)
{
    struct sim_inode *inode = sim_alloc(sizeof(*inode));
    inode->medium = medium;
    inode->reference_count = 1;
    inode->is_directory = is_directory;
    inode->shrunk_to = UINT64_MAX;
    list_init(&inode->shadows);
    return inode;
}

void sim_inode_ref(struct sim_inode *inode)
{
    ASSERT(inode->reference_count > 0);
    inode->reference_count++;
}

/* ---------------------------------------------------------------- pages and shadows */

static bool page_is_real(const struct sim_page *page)
{
    return page != NULL && page != &zero_page;
}

static struct sim_page *page_at(const struct sim_inode *inode, uint64_t page_index)
{
    return page_index < inode->page_capacity ? inode->pages[page_index] : NULL;
}

static struct sim_page **page_slot(struct sim_inode *inode, uint64_t page_index)
{
    if (page_index >= inode->page_capacity) {
        uint64_t capacity = MAX(MAX(inode->page_capacity * 2, 16), page_index + 1);
        inode->pages = realloc(inode->pages, capacity * sizeof(*inode->pages));
        ASSERT(inode->pages != NULL);
        memset(inode->pages + inode->page_capacity, 0,
               (capacity - inode->page_capacity) * sizeof(*inode->pages));
        inode->page_capacity = capacity;
    }
    return &inode->pages[page_index];
}

/* Makes the slot hold a page of its own; counts the space when there was a hole. */
static struct sim_page *page_make_real(struct sim_inode *inode, uint64_t page_index)
{
    struct sim_page **slot = page_slot(inode, page_index);
    if (!page_is_real(*slot)) {
        inode->medium->page_count += *slot == NULL ? 1 : 0;
        *slot = sim_alloc(sizeof(**slot));
    }
    return *slot;
}

static void inode_mark(struct sim_inode *inode)
{
    if (!list_node_is_linked(&inode->dirty_link)) {
        list_push_back(&inode->medium->dirty, &inode->dirty_link);
    }
}

static void inode_unmark_when_clean(struct sim_inode *inode)
{
    if (list_node_is_linked(&inode->dirty_link) && list_is_empty(&inode->shadows) &&
        inode->shrunk_to == UINT64_MAX && inode->size == inode->durable_size) {
        list_remove(&inode->dirty_link);
    }
}

static struct sim_shadow *shadow_make(struct sim_inode *inode, struct sim_page *page,
                                      uint64_t page_index)
{
    if (page->shadow == NULL) {
        struct sim_shadow *shadow = sim_alloc(sizeof(*shadow));
        shadow->page = page;
        shadow->position = page_index * SIM_PAGE_SIZE;
        memcpy(shadow->durable, page->data, SIM_PAGE_SIZE);
        page->shadow = shadow;
        list_push_back(&inode->shadows, &shadow->link);
        inode_mark(inode);
    }
    return page->shadow;
}

static void shadow_free(struct sim_shadow *shadow)
{
    list_remove(&shadow->link);
    shadow->page->shadow = NULL;
    free(shadow);
}

static void shadow_free_when_clean(struct sim_shadow *shadow)
{
    ASSERT((shadow->dirty & shadow->lost) == 0);
    if ((shadow->dirty | shadow->lost) == 0) {
        shadow_free(shadow);
    }
}

/* Copies one sector of the cache to the medium; its marks stay as they are. */
static void shadow_write_back(struct sim_shadow *shadow, uint32_t sector)
{
    memcpy(shadow->durable + (size_t)sector * SIM_SECTOR_SIZE,
           shadow->page->data + (size_t)sector * SIM_SECTOR_SIZE, SIM_SECTOR_SIZE);
}

static struct sim_shadow *shadow_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_shadow, link);
}

/* Bit per sector that [from, to) of a page touches. */
static uint8_t sector_mask(uint32_t from, uint32_t to)
{
    ASSERT(from < to);
    uint32_t first = from / SIM_SECTOR_SIZE;
    uint32_t end = (to + SIM_SECTOR_SIZE - 1) / SIM_SECTOR_SIZE;
    return (uint8_t)((0xffu << first) & (0xffu >> (SIM_PAGE_SECTORS - end)));
}

void sim_inode_unref(struct sim_inode *inode)
{
    ASSERT(inode->reference_count > 0);
    if (--inode->reference_count > 0) {
        return;
    }
    while (!list_is_empty(&inode->shadows)) {
        shadow_free(shadow_of(list_first(&inode->shadows)));
    }
    for (uint64_t i = 0; i < inode->page_capacity; i++) {
        inode->medium->page_count -= inode->pages[i] != NULL ? 1 : 0;
        if (page_is_real(inode->pages[i])) {
            free(inode->pages[i]);
        }
    }
    if (list_node_is_linked(&inode->dirty_link)) {
        list_remove(&inode->dirty_link);
    }
    sim_names_fini(&inode->visible);
    sim_names_fini(&inode->durable);
    free(inode->pages);
    free(inode);
}

/* ---------------------------------------------------------------- read and write */

uint64_t sim_inode_read(struct sim_inode *inode, uint8_t *buffer, uint64_t size, uint64_t position)
{
    if (position >= inode->size) {
        return 0;
    }
    uint64_t end = MIN(position + size, inode->size);
    for (uint64_t at = position; at < end;) {
        uint64_t offset = at % SIM_PAGE_SIZE;
        uint64_t count = MIN(SIM_PAGE_SIZE - offset, end - at);
        struct sim_page *page = page_at(inode, at / SIM_PAGE_SIZE);
        if (page == NULL) {
            memset(buffer + (at - position), 0, count);
        } else {
            memcpy(buffer + (at - position), page->data + offset, count);
        }
        at += count;
    }
    return end - position;
}

static status inode_check_space(struct sim_inode *inode, uint64_t position, uint64_t size)
{
    struct sim_medium *medium = inode->medium;
    if (medium->options->disk_size == 0 || size == 0) {
        return OK;
    }
    uint64_t needed = 0;
    for (uint64_t i = position / SIM_PAGE_SIZE; i <= (position + size - 1) / SIM_PAGE_SIZE; i++) {
        needed += page_at(inode, i) == NULL ? 1 : 0;
    }
    if (needed > 0 && (medium->page_count + needed) * SIM_PAGE_SIZE > medium->options->disk_size) {
        medium->coverage->no_space++;
        return STATUS(NO_SPACE);
    }
    return OK;
}

status sim_inode_reserve(struct sim_inode *inode, uint64_t position, uint64_t size)
{
    TRY(inode_check_space(inode, position, size));
    for (uint64_t i = position / SIM_PAGE_SIZE; i * SIM_PAGE_SIZE < position + size; i++) {
        struct sim_page **slot = page_slot(inode, i);
        if (*slot == NULL) {
            *slot = &zero_page;
            inode->medium->page_count++;
        }
    }
    return OK;
}

/*
 * Marks sectors dirty before the cache changes. What a sync in flight must still make durable, and
 * now and then anything else, is written back first: the kernel may do so at any time, and a crash
 * can then leave a version that was overwritten later.
 */
static void page_dirty(struct sim_inode *inode, struct sim_page *page, uint64_t page_index,
                       uint8_t mask)
{
    struct sim_shadow *shadow = shadow_make(inode, page, page_index);
    for (uint32_t sector = 0; sector < SIM_PAGE_SECTORS; sector++) {
        uint8_t bit = (uint8_t)(1u << sector);
        if ((mask & bit) == 0) {
            continue;
        }
        if ((shadow->dirty & bit) != 0) {
            bool is_covered =
                inode->syncs_in_flight > 0 && shadow->sequences[sector] <= inode->sync_sequence;
            bool may_write = inode->shrunk_to == UINT64_MAX;
            if (is_covered || (may_write && sim_rng_below(inode->medium->rng, 4) == 0)) {
                shadow_write_back(shadow, sector);
            }
        }
        shadow->sequences[sector] = inode->sequence;
    }
    shadow->dirty |= mask;
    shadow->lost &= (uint8_t)~mask;
}

static bool is_zero(const uint8_t *data, uint64_t size)
{
    return data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

static void page_write(struct sim_inode *inode, uint64_t page_index, uint32_t offset,
                       const uint8_t *data, uint32_t size, bool durable)
{
    if (!page_is_real(page_at(inode, page_index)) && is_zero(data, size)) {
        struct sim_page **slot = page_slot(inode, page_index);
        inode->medium->page_count += *slot == NULL ? 1 : 0;
        *slot = &zero_page;
        return;
    }
    struct sim_page *page = page_make_real(inode, page_index);
    uint8_t mask = sector_mask(offset, offset + size);
    if (!durable) {
        page_dirty(inode, page, page_index, mask);
    }
    memcpy(page->data + offset, data, size);
    struct sim_shadow *shadow = page->shadow;
    if (!durable || shadow == NULL) {
        return;
    }
    for (uint32_t sector = 0; sector < SIM_PAGE_SECTORS; sector++) {
        if ((mask & (1u << sector)) != 0) {
            shadow_write_back(shadow, sector);
        }
    }
    shadow->dirty &= (uint8_t)~mask;
    shadow->lost &= (uint8_t)~mask;
    shadow_free_when_clean(shadow);
}

/* Makes a pending cut of the size durable: the medium forgets the bytes behind it. */
static void inode_settle_cut(struct sim_inode *inode)
{
    if (inode->shrunk_to == UINT64_MAX) {
        return;
    }
    LIST_FOREACH (node, &inode->shadows) {
        struct sim_shadow *shadow = shadow_of(node);
        if (shadow->position + SIM_PAGE_SIZE > inode->shrunk_to) {
            uint64_t from = MAX(shadow->position, inode->shrunk_to) - shadow->position;
            memset(shadow->durable + from, 0, SIM_PAGE_SIZE - from);
        }
    }
    inode->durable_size = MIN(inode->durable_size, inode->shrunk_to);
    inode->shrunk_to = UINT64_MAX;
}

status sim_inode_write(struct sim_inode *inode, const uint8_t *data, uint64_t size,
                       uint64_t position, bool durable)
{
    ASSERT(!inode->is_directory);
    TRY(inode_check_space(inode, position, size));
    if (size == 0) {
        return OK;
    }
    inode->sequence++;
    if (durable || inode->syncs_in_flight > 0) {
        inode_settle_cut(inode);
    }
    uint64_t end = position + size;
    for (uint64_t at = position; at < end;) {
        uint32_t offset = (uint32_t)(at % SIM_PAGE_SIZE);
        uint32_t count = (uint32_t)MIN(SIM_PAGE_SIZE - offset, end - at);
        page_write(inode, at / SIM_PAGE_SIZE, offset, data + (at - position), count, durable);
        at += count;
    }
    inode->size = MAX(inode->size, end);
    if (durable) {
        inode->durable_size = MAX(inode->durable_size, end);
        inode_unmark_when_clean(inode);
    }
    if (inode->size != inode->durable_size) {
        inode_mark(inode);
    }
    return OK;
}

/* ---------------------------------------------------------------- sync */

struct sim_sync sim_inode_sync_start(struct sim_inode *inode)
{
    inode->syncs_in_flight++;
    inode->sync_sequence = inode->sequence;
    return (struct sim_sync){.sequence = inode->sequence, .size = inode->size};
}

/* A failed sync drops sectors from what will become durable; some had reached the medium. */
static void shadow_sync(struct sim_shadow *shadow, struct sim_rng *rng, uint64_t sequence,
                        bool failed)
{
    for (uint32_t sector = 0; sector < SIM_PAGE_SECTORS; sector++) {
        uint8_t bit = (uint8_t)(1u << sector);
        if ((shadow->dirty & bit) == 0 || shadow->sequences[sector] > sequence) {
            continue;
        }
        shadow->dirty &= (uint8_t)~bit;
        if (failed && sim_rng_coin(rng)) {
            shadow->lost |= bit;
        } else {
            shadow_write_back(shadow, sector);
        }
    }
    shadow_free_when_clean(shadow);
}

static void inode_sync(struct sim_inode *inode, struct sim_sync sync, bool failed)
{
    if (!failed || inode->shrunk_to == UINT64_MAX || sim_rng_coin(inode->medium->rng)) {
        inode_settle_cut(inode);
    }
    if (inode->shrunk_to != UINT64_MAX) {
        /* The cut is still pending, and with it all that was written behind it. */
        return;
    }
    LIST_FOREACH_SAFE (node, &inode->shadows) {
        shadow_sync(shadow_of(node), inode->medium->rng, sync.sequence, failed);
    }
    if (!failed) {
        inode->durable_size = MAX(inode->durable_size, MIN(sync.size, inode->size));
    }
    inode_unmark_when_clean(inode);
}

void sim_inode_sync_finish(struct sim_inode *inode, struct sim_sync sync, bool failed)
{
    ASSERT(inode->syncs_in_flight > 0);
    inode->syncs_in_flight--;
    inode_sync(inode, sync, failed);
}

void sim_inode_sync_cancel(struct sim_inode *inode)
{
    ASSERT(inode->syncs_in_flight > 0);
    inode->syncs_in_flight--;
}

void sim_inode_sync(struct sim_inode *inode, bool failed)
{
    struct sim_sync all = {.sequence = SIM_SEQUENCE_ALL, .size = inode->size};
    inode_sync(inode, all, failed);
}

void sim_inode_write_failed(struct sim_inode *inode, const uint8_t *data, uint64_t size,
                            uint64_t position)
{
    inode_settle_cut(inode);
    if (!status_is_ok(sim_inode_write(inode, data, size, position, false))) {
        return;
    }
    for (uint64_t i = position / SIM_PAGE_SIZE; i * SIM_PAGE_SIZE < position + size; i++) {
        struct sim_page *page = page_at(inode, i);
        if (page_is_real(page) && page->shadow != NULL) {
            shadow_sync(page->shadow, inode->medium->rng, SIM_SEQUENCE_ALL, true);
        }
    }
    inode_unmark_when_clean(inode);
}

/* ---------------------------------------------------------------- size */

static void page_cut(struct sim_inode *inode, uint64_t page_index, uint32_t from)
{
    struct sim_page **slot = &inode->pages[page_index];
    if (!page_is_real(*slot)) {
        if (from == 0 && *slot != NULL) {
            *slot = NULL;
            inode->medium->page_count--;
        }
        return;
    }
    page_dirty(inode, *slot, page_index, sector_mask(from, SIM_PAGE_SIZE));
    memset((*slot)->data + from, 0, SIM_PAGE_SIZE - from);
}

void sim_inode_truncate(struct sim_inode *inode, uint64_t size)
{
    ASSERT(!inode->is_directory);
    if (size < inode->size) {
        inode->sequence++;
        inode->shrunk_to = MIN(inode->shrunk_to, size);
        uint64_t page_end = MIN(inode->page_capacity, inode->size / SIM_PAGE_SIZE + 1);
        for (uint64_t i = size / SIM_PAGE_SIZE; i < page_end; i++) {
            uint64_t start = i * SIM_PAGE_SIZE;
            page_cut(inode, i, start < size ? (uint32_t)(size - start) : 0);
        }
    }
    inode->size = size;
    inode_mark(inode);
    inode_unmark_when_clean(inode);
}

/* ---------------------------------------------------------------- power cut */

enum crash_mode { CRASH_NOTHING_KEPT, CRASH_ALL_KEPT, CRASH_PAGES, CRASH_SECTORS, CRASH_MODES };

static void shadow_crash(struct sim_inode *inode, struct sim_shadow *shadow, enum crash_mode mode,
                         uint64_t *lost_sequence_min)
{
    struct sim_coverage *coverage = inode->medium->coverage;
    struct sim_rng *rng = inode->medium->rng;
    bool page_is_kept = mode == CRASH_ALL_KEPT || (mode == CRASH_PAGES && sim_rng_coin(rng));
    uint32_t kept_count = 0;
    uint32_t lost_count = 0;
    for (uint32_t sector = 0; sector < SIM_PAGE_SECTORS; sector++) {
        uint64_t end = shadow->position + (uint64_t)(sector + 1) * SIM_SECTOR_SIZE;
        if ((shadow->dirty & (1u << sector)) == 0) {
            continue;
        }
        bool is_kept = mode == CRASH_SECTORS ? sim_rng_coin(rng) : page_is_kept;
        if (!is_kept || end > inode->shrunk_to) {
            *lost_sequence_min = MIN(*lost_sequence_min, shadow->sequences[sector]);
            lost_count++;
            continue;
        }
        coverage->reordered_writes += shadow->sequences[sector] > *lost_sequence_min ? 1 : 0;
        shadow_write_back(shadow, sector);
        kept_count++;
    }
    coverage->lost_writes += lost_count > 0 || shadow->lost != 0 ? 1 : 0;
    coverage->torn_writes += lost_count > 0 && kept_count > 0 ? 1 : 0;
}

static uint64_t crash_size(struct sim_inode *inode)
{
    struct sim_rng *rng = inode->medium->rng;
    if (inode->shrunk_to != UINT64_MAX || inode->size <= inode->durable_size) {
        return inode->durable_size;
    }
    uint64_t size;
    switch (sim_rng_below(rng, 3)) {
    case 0:
        return inode->durable_size;
    case 1:
        return inode->size;
    default:
        size = sim_rng_between(rng, inode->durable_size, inode->size);
        return MIN(ALIGN_UP(size, (uint64_t)SIM_SECTOR_SIZE), inode->size);
    }
}

/* Keeps the rule that bytes behind the size are zero. */
static void inode_zero_tail(struct sim_inode *inode, uint64_t from)
{
    for (uint64_t i = from / SIM_PAGE_SIZE; i < inode->page_capacity; i++) {
        if (page_is_real(inode->pages[i])) {
            uint64_t start = i * SIM_PAGE_SIZE;
            uint64_t offset = start < from ? from - start : 0;
            memset(inode->pages[i]->data + offset, 0, SIM_PAGE_SIZE - offset);
        }
    }
}

void sim_inode_crash(struct sim_inode *inode)
{
    ASSERT(!inode->is_directory);
    struct sim_rng *rng = inode->medium->rng;
    if (inode->shrunk_to != UINT64_MAX && sim_rng_coin(rng)) {
        inode_settle_cut(inode);
    }
    uint64_t size = crash_size(inode);
    bool is_shorter = size < MAX(inode->size, inode->durable_size);
    enum crash_mode mode = (enum crash_mode)sim_rng_below(rng, CRASH_MODES);
    uint64_t lost_sequence_min = UINT64_MAX;
    while (!list_is_empty(&inode->shadows)) {
        struct sim_shadow *shadow = shadow_of(list_first(&inode->shadows));
        shadow_crash(inode, shadow, mode, &lost_sequence_min);
        memcpy(shadow->page->data, shadow->durable, SIM_PAGE_SIZE);
        shadow_free(shadow);
    }
    inode->size = size;
    inode->durable_size = size;
    inode->shrunk_to = UINT64_MAX;
    ASSERT(inode->syncs_in_flight == 0);
    if (is_shorter) {
        inode_zero_tail(inode, size);
    }
    inode_unmark_when_clean(inode);
}

bool sim_inode_land(struct sim_inode *inode, const uint8_t *data, uint64_t size, uint64_t position)
{
    struct sim_coverage *coverage = inode->medium->coverage;
    struct sim_rng *rng = inode->medium->rng;
    uint64_t mode = sim_rng_below(rng, 4);
    uint64_t end = position + size;
    /* The size grows behind the data, so a write beyond the end may land and still not be seen. */
    uint64_t limit = end > inode->size && sim_rng_coin(rng) ? inode->size : end;
    uint32_t kept_count = 0;
    uint32_t lost_count = 0;
    for (uint64_t at = position; at < end;) {
        uint64_t count = MIN(SIM_SECTOR_SIZE - at % SIM_SECTOR_SIZE, end - at);
        bool is_kept = mode == 0 || (mode != 1 && sim_rng_coin(rng));
        if (is_kept && at + count <= limit &&
            status_is_ok(sim_inode_write(inode, data + (at - position), count, at, true))) {
            kept_count++;
        } else {
            lost_count++;
        }
        at += count;
    }
    coverage->lost_writes += kept_count == 0 ? 1 : 0;
    coverage->torn_writes += kept_count > 0 && lost_count > 0 ? 1 : 0;
    return kept_count > 0;
}

/* ---------------------------------------------------------------- rot */

void sim_inode_rot(struct sim_inode *inode, uint64_t position, uint64_t size)
{
    struct sim_rng *rng = inode->medium->rng;
    for (uint64_t at = position; at < position + size; at++) {
        uint8_t flip = (uint8_t)(1u << sim_rng_below(rng, 8));
        struct sim_page *page = page_make_real(inode, at / SIM_PAGE_SIZE);
        page->data[at % SIM_PAGE_SIZE] ^= flip;
        if (page->shadow != NULL) {
            page->shadow->durable[at % SIM_PAGE_SIZE] ^= flip;
        }
    }
}
