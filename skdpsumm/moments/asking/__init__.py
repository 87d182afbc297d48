"""Questions put to a sketch, and answers with error bars."""
