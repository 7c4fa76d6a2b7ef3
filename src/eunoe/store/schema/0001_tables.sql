-- Times are microseconds since the epoch (UTC), truth values are 0 and 1, JSON is text and is never queried.

CREATE TABLE agents (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  system TEXT NOT NULL,
  model TEXT NOT NULL,
  agent_type TEXT NOT NULL,
  embedding TEXT,
  context_window INTEGER NOT NULL,
  context_window_pinned INTEGER NOT NULL,
  model_settings TEXT NOT NULL,
  compaction_settings TEXT,
  response_format TEXT,
  description TEXT,
  metadata TEXT,
  tool_rules TEXT NOT NULL,
  timezone TEXT NOT NULL,
  message_buffer_autoclear INTEGER NOT NULL,
  enable_sleeptime INTEGER,
  hidden INTEGER NOT NULL,
  max_files_open INTEGER,
  per_file_view_window_char_limit INTEGER,
  last_stop_reason TEXT,
  last_run_completion BIGINT,
  last_run_duration_ms BIGINT,
  revision INTEGER NOT NULL,
  extra TEXT NOT NULL
);
CREATE INDEX agents_by_creation ON agents (created_at, id);

CREATE TABLE agent_tags (
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (agent_id, position)
);
CREATE INDEX agent_tags_by_tag ON agent_tags (tag, agent_id);

CREATE TABLE blocks (
  id TEXT PRIMARY KEY,
  label TEXT NOT NULL,
  value TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  char_limit INTEGER NOT NULL,
  description TEXT,
  read_only INTEGER NOT NULL,
  hidden INTEGER NOT NULL,
  metadata TEXT NOT NULL,
  revision INTEGER NOT NULL,
  extra TEXT NOT NULL,
  is_template INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX blocks_by_creation ON blocks (created_at, id);
CREATE INDEX blocks_by_label ON blocks (label);

CREATE TABLE block_tags (
  block_id TEXT NOT NULL REFERENCES blocks (id) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (block_id, position)
);
CREATE INDEX block_tags_by_tag ON block_tags (tag, block_id);

CREATE TABLE block_revisions (
  block_id TEXT NOT NULL REFERENCES blocks (id) ON DELETE CASCADE,
  revision INTEGER NOT NULL,
  label TEXT NOT NULL,
  value TEXT NOT NULL,
  char_limit INTEGER NOT NULL,
  description TEXT,
  read_only INTEGER NOT NULL,
  actor TEXT NOT NULL,
  run_id TEXT,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (block_id, revision)
);

-- The label is here too, so that the database itself keeps labels unique within an agent.
CREATE TABLE agents_blocks (
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  block_id TEXT NOT NULL REFERENCES blocks (id) ON DELETE CASCADE,
  label TEXT NOT NULL,
  PRIMARY KEY (agent_id, block_id),
  UNIQUE (agent_id, label)
);
CREATE INDEX agents_blocks_by_block ON agents_blocks (block_id);

CREATE TABLE tools (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  tool_type TEXT NOT NULL,
  description TEXT,
  source_type TEXT,
  source_code TEXT,
  json_schema TEXT NOT NULL,
  args_json_schema TEXT,
  tags TEXT NOT NULL,
  return_char_limit INTEGER NOT NULL,
  pip_requirements TEXT,
  npm_requirements TEXT,
  default_requires_approval INTEGER,
  enable_parallel_execution INTEGER NOT NULL,
  metadata TEXT NOT NULL
);
CREATE INDEX tools_by_creation ON tools (created_at, id);

CREATE TABLE agents_tools (
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  tool_id TEXT NOT NULL REFERENCES tools (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  PRIMARY KEY (agent_id, tool_id)
);
CREATE INDEX agents_tools_by_tool ON agents_tools (tool_id);

CREATE TABLE identities (
  id TEXT PRIMARY KEY,
  identifier_key TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  identity_type TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  properties TEXT NOT NULL
);

CREATE TABLE agents_identities (
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  identity_id TEXT NOT NULL REFERENCES identities (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  PRIMARY KEY (agent_id, identity_id)
);
CREATE INDEX agents_identities_by_identity ON agents_identities (identity_id);

CREATE TABLE secrets (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  description TEXT,
  value BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE (agent_id, key)
);

CREATE TABLE conversations (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  is_default INTEGER NOT NULL,
  system_message_id TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  summary TEXT,
  model TEXT,
  model_settings TEXT,
  compiled TEXT,
  window_from BIGINT NOT NULL,
  summary_message_id TEXT,
  next_position BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  lease_run_id TEXT,
  lease_owner TEXT,
  lease_expires_at BIGINT,
  last_message_at BIGINT
);
CREATE INDEX conversations_by_agent ON conversations (agent_id, created_at, id);
CREATE UNIQUE INDEX conversations_default ON conversations (agent_id) WHERE is_default = 1;

CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  conversation_id TEXT NOT NULL,
  role TEXT NOT NULL,
  parts TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  otid TEXT,
  name TEXT,
  sender_id TEXT,
  group_id TEXT,
  run_id TEXT,
  step_id TEXT,
  model TEXT,
  needs_approval TEXT NOT NULL,
  meta TEXT NOT NULL
);
CREATE INDEX messages_by_agent ON messages (agent_id, seq);
CREATE INDEX messages_by_run ON messages (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX messages_by_step ON messages (step_id) WHERE step_id IS NOT NULL;

-- Which messages a conversation has, and where: a fork shares the messages and has rows of its own here.
CREATE TABLE conversation_messages (
  conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
  position BIGINT NOT NULL,
  message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
  PRIMARY KEY (conversation_id, position)
);
CREATE UNIQUE INDEX conversation_messages_by_message ON conversation_messages (message_id, conversation_id);

-- Texts that are addressed by their SHA-256 (hex): compiled prompts, tool lists, request options.
CREATE TABLE texts (
  hash TEXT PRIMARY KEY,
  text TEXT NOT NULL
);

CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
  created_at BIGINT NOT NULL,
  status TEXT NOT NULL,
  stop_reason TEXT,
  completed_at BIGINT,
  background INTEGER NOT NULL,
  usage TEXT NOT NULL,
  step_count INTEGER NOT NULL,
  error TEXT,
  request TEXT NOT NULL
);
CREATE INDEX runs_by_agent ON runs (agent_id, created_at, id);
CREATE INDEX runs_by_creation ON runs (created_at, id);
CREATE INDEX runs_by_conversation ON runs (conversation_id, completed_at);
CREATE INDEX runs_unfinished ON runs (created_at) WHERE status IN ('created', 'running');

CREATE TABLE steps (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
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
CREATE INDEX steps_by_run ON steps (run_id, ordinal);
CREATE INDEX steps_by_conversation ON steps (conversation_id);
CREATE INDEX steps_by_agent ON steps (agent_id, created_at, id);

CREATE TABLE run_events (
  run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  seq BIGINT NOT NULL,
  event TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (run_id, seq)
);
