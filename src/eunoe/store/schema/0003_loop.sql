-- What a conversation waits for, what it keeps to itself, and which request it has had already.

CREATE TABLE approvals (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
  run_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  calls TEXT NOT NULL,
  asked_at BIGINT NOT NULL,
  expires_at BIGINT,
  answered_at BIGINT,
  answers TEXT,
  answered_by TEXT,
  answer_run_id TEXT
);
CREATE INDEX approvals_by_agent ON approvals (agent_id);
CREATE INDEX approvals_by_conversation ON approvals (conversation_id, asked_at);
CREATE UNIQUE INDEX approvals_open ON approvals (conversation_id) WHERE answered_at IS NULL;

CREATE TABLE conversation_blocks (
  conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
  block_id TEXT NOT NULL REFERENCES blocks (id) ON DELETE CASCADE,
  label TEXT NOT NULL,
  PRIMARY KEY (conversation_id, label)
);
CREATE INDEX conversation_blocks_by_block ON conversation_blocks (block_id);

CREATE INDEX messages_by_otid ON messages (conversation_id, otid) WHERE otid IS NOT NULL;
CREATE INDEX run_events_by_age ON run_events (created_at);

-- Runs that another process is asked to cancel.
CREATE TABLE cancel_requests (
  run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
  asked_at BIGINT NOT NULL
);
