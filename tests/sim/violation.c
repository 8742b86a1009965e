#include "violation.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char reproduce[256];

void violation_begin(uint64_t seed, enum run_what what, const char *mutation)
{
    static const char *const targets[] = {"", " --target log", " --target broker"};
    snprintf(reproduce, sizeof(reproduce), "reproduce: node_sim --seed %" PRIu64 "%s%s%s\n", seed,
             targets[what], mutation != NULL ? " --mutation " : "",
             mutation != NULL ? mutation : "");
}

static void reproduce_print(void)
{
    ssize_t written = write(STDERR_FILENO, reproduce, strlen(reproduce));
    (void)written; /* There is nobody left to tell. */
}

static void on_signal(int number)
{
    reproduce_print();
    signal(number, SIG_DFL);
    raise(number);
}

void violation_catch_signals(void)
{
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
        sigaction(numbers[i], &action, NULL);
    }
}

void violation(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("violation: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    fflush(stdout);
    reproduce_print();
    _exit(1);
}
