/* The Python interpreter that libmqs.so works in: its own, isolated from the host, or the host's. */
#ifndef MQS_PYTHON_START_H
#define MQS_PYTHON_START_H

/* libmqs's own result codes, as in mqs_dll/errors.py. */
enum { mqs_start_error = 101, mqs_foreign_python = 102, mqs_bad_call = 104, mqs_missing_callback = 105 };

/* Starts or joins Python, and imports mqs_dll._glue into it, on the first call of all.
 *
 * Answers mqs_ok, or mqs_start_error or mqs_foreign_python with *reason set to a sentence that stays valid.
 * After a failure it answers the same, quickly. Never prints, exits or aborts. Any thread may call it, with
 * or without holding the GIL.
 */
int mqs_python_start(const char **reason);

/* The version of the Python that libmqs works in, as in "3.11.7"; valid until the library is gone. */
const char *mqs_python_version(void);

#endif
