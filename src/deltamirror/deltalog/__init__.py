"""Delta logs of any writer: listing, states, comparison, retention."""
