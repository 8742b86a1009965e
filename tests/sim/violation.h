/*
 * How a run ends badly: one line that says what was violated, one that reproduces it. A failed
 * assertion, a sanitizer's report and a fatal signal end in the same second line.
 */
#ifndef TWINLOG_TESTS_SIM_VIOLATION_H
#define TWINLOG_TESTS_SIM_VIOLATION_H

#include "run.h"

/* Names the run that begins, for the reproduce line. */
void violation_begin(uint64_t seed, enum run_what what, const char *mutation);

/* Catches fatal signals, so that they print the reproduce line too. */
void violation_catch_signals(void);

/* Prints what was violated and how to see it again, and leaves the process with status 1. */
NO_RETURN void violation(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
