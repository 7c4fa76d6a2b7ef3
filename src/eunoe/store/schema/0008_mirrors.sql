-- Where agents' memory files are mirrored, how far, and what keeps a mirror from following.

CREATE TABLE memory_mirrors (
  agent_id TEXT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE,
  url TEXT NOT NULL,
  pushed TEXT,
  pushed_refs TEXT,
  pushed_at BIGINT,
  failure TEXT,
  next_at BIGINT,
  told INTEGER NOT NULL
);
