-- Messages are indexed in batches, and not in the transactions of turns: this is how far the index has come.
CREATE TABLE message_search_progress (seq BIGINT NOT NULL);
INSERT INTO message_search_progress (seq) SELECT COALESCE(MAX(seq), 0) FROM messages;

-- One tree in place of a table and the index of its key.
CREATE TABLE conversation_places (
  conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
  position BIGINT NOT NULL,
  message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
  PRIMARY KEY (conversation_id, position)
) WITHOUT ROWID;
INSERT INTO conversation_places (conversation_id, position, message_id)
  SELECT conversation_id, position, message_id FROM conversation_messages;
DROP TABLE conversation_messages;
ALTER TABLE conversation_places RENAME TO conversation_messages;
CREATE UNIQUE INDEX conversation_messages_by_message ON conversation_messages (message_id, conversation_id);

-- The messages of a step are found among those of its run.
DROP INDEX messages_by_step;

-- A run's end changes nothing in this index; the last completion is that of the newest run that has one.
DROP INDEX runs_by_conversation;
CREATE INDEX runs_by_conversation ON runs (conversation_id, created_at);

-- Steps go with their runs, which go with their conversations: no key of its own, and no index for that key.
CREATE TABLE steps_of_runs (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  conversation_id TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  status TEXT NOT NULL,
  provider TEXT,
  model TEXT,
  endpoint TEXT,
  context_window INTEGER NOT NULL,
  usage TEXT NOT NULL,
  stop_reason TEXT,
  error TEXT,
  request TEXT,
  model_ns BIGINT,
  tools_ns BIGINT,
  completed_at BIGINT
);
INSERT INTO steps_of_runs
  SELECT id, run_id, agent_id, conversation_id, ordinal, created_at, status, provider, model, endpoint,
    context_window, usage, stop_reason, error, request, model_ns, tools_ns, completed_at
  FROM steps;
DROP TABLE steps;
ALTER TABLE steps_of_runs RENAME TO steps;
CREATE INDEX steps_by_run ON steps (run_id, ordinal);
CREATE INDEX steps_by_agent ON steps (agent_id, created_at, id);
