-- Background agents that went over what was said and worked on memory files in branches of their own.

CREATE TABLE reflections (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
  branch TEXT NOT NULL,
  base TEXT NOT NULL,
  policy TEXT NOT NULL,
  owner TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  from_seq BIGINT NOT NULL,
  to_seq BIGINT NOT NULL,
  run_id TEXT,
  tip TEXT,
  outcome TEXT,
  detail TEXT NOT NULL,
  ended_at BIGINT
);
CREATE INDEX reflections_by_agent ON reflections (agent_id, created_at);
CREATE UNIQUE INDEX reflections_going_on ON reflections (agent_id) WHERE outcome IS NULL;
