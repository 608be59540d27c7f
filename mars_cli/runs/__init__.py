"""Run directories: the manifest, append-only records, resume, lock and provenance."""
