"""What a recording says, in formats of others: tables, lines of JSON, series, traces. One file a format, all by streaming."""
