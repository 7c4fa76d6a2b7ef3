-- When agents are reflected for by themselves.

CREATE TABLE reflection_triggers (
  agent_id TEXT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE,
  every_steps BIGINT,
  after_compaction INTEGER NOT NULL,
  policy TEXT NOT NULL,
  instructions TEXT NOT NULL,
  model TEXT
);
CREATE INDEX messages_summaries ON messages (agent_id, seq) WHERE role = 'summary';
