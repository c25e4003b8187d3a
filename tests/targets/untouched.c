/* Says what a program finds at its start: errno, open descriptors, and signals that aren't at their defaults. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

int main(void)
{
    int error = errno, handlers = 0, open_ones = 0;
    struct sigaction action;

    for (int i = 0; i < 64; i++) {
        open_ones += fcntl(i, F_GETFD) != -1;
    }
    for (int i = 1; i < NSIG; i++) {
        handlers += sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
    }
    printf("errno %d, %d open, %d handlers\n", error, open_ones, handlers);
    return 0;
}
