"""What is released of a minimiser, and how."""
