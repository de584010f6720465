"""Questions of operators, answered by frozen reports."""
