"""Plausible tables: tables that one release may have come from, drawn jointly."""
