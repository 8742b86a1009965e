/*
 * The corpus of a fuzz target is made by the target itself: at its start it writes its seeds into
 * the first folder on the command line, where libFuzzer then finds them.
 */
#ifndef TWINLOG_FUZZ_SEED_H
#define TWINLOG_FUZZ_SEED_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entries, which every target defines. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Remembers the corpus folder; without one the seeds are not written. */
void seed_init(int argc, char **argv);

/* Writes one seed under a name of its own. */
void seed_add(const char *name, const uint8_t *data, size_t size);

/* Ends the run when the condition does not hold: a finding. */
void fuzz_require(int condition, const char *what);

#endif
