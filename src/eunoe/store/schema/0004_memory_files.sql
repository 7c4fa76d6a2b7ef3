-- Agents whose memory is files in git: the commit that their block rows show, and what else it holds.

CREATE TABLE memory_heads (
  agent_id TEXT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE,
  revision TEXT NOT NULL,
  layout INTEGER NOT NULL,
  names TEXT NOT NULL,
  folders TEXT NOT NULL,
  unread TEXT
);

ALTER TABLE agents ADD COLUMN memory_refresh TEXT NOT NULL DEFAULT 'recompile';
