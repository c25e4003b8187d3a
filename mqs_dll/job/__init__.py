"""``mqs job``, ``mqs watch`` and ``mqs diff``: their arguments, where a job comes from, and where its report goes."""
