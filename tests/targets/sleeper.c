/* A program to stop: says "ready" in the state that its argument names, and "signal" at each SIGUSR1. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void say(const char *line)
{
    if (write(1, line, strlen(line)) < 0)
        _exit(1);
}

static void on_signal(int number)
{
    (void)number;
    say("signal\n");
}

static void *sleep_on(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void *end_soon(void *unused)
{
    usleep(200);
    return unused;
}

/* Four threads that sleep. */
static void sleep_with_threads(void)
{
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, sleep_on, NULL);
    say("ready\n");
    sleep_on(NULL);
}

/* Threads that come and go all the time. */
static void churn(void)
{
    pthread_t threads[8];
    say("ready\n");
    for (;;) {
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, end_soon, NULL);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
}

/* A thread that has begun vfork sleeps in the kernel, where ptrace can't stop it, until its child ends. */
static void sleep_in_kernel(void)
{
    say("ready\n");
    if (vfork() == 0)
        sleep_on(NULL);
}

int main(int argc, char **argv)
{
    const char *state = argc > 1 ? argv[1] : "";
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    alarm(120);
    if (!strcmp(state, "threads"))
        sleep_with_threads();
    else if (!strcmp(state, "churn"))
        churn();
    else if (!strcmp(state, "vfork"))
        sleep_in_kernel();
    return 0;
}
