/* The log that the environment variable MQS_LOG=FILE asks for. */
#ifndef MQS_LOG_H
#define MQS_LOG_H

/* Appends one line with the time and the process id; does nothing when there is no log. Never fails. */
void mqs_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* 1 when MQS_LOG asks for a log and its file could be opened, which is tried once. */
int mqs_log_is_open(void);

#endif
