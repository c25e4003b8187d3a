"""``mqs run``: what the command notices of it, and when it looks at the job."""
