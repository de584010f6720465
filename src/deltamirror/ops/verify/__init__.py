"""Verifying the logs of our tables against the database: their objects, their states, and what readers see."""
