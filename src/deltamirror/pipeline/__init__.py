"""From SQL to ``_delta_log/``: claim, plan, run, record."""
