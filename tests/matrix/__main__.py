"""``python -m tests.matrix`` writes the page; the tests say whether it is true."""

from tests.matrix.page import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page())
