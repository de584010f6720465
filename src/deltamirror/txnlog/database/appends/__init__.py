"""Small appends, which a database decides and writes by itself."""
