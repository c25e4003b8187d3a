"""``mqs job``, ``mqs diff`` and ``mqs watch``: their arguments, and the Python interface behind them."""
