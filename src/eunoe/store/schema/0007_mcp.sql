-- Servers of tools that speak the Model Context Protocol, and which stored tools are theirs.

CREATE TABLE mcp_servers (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  url TEXT,
  command TEXT,
  args TEXT NOT NULL,
  auth_header TEXT,
  has_token INTEGER NOT NULL,
  header_names TEXT NOT NULL,
  env_names TEXT NOT NULL,
  problems TEXT NOT NULL,
  synced_at BIGINT,
  secrets BLOB
);

CREATE TABLE mcp_tools (
  tool_id TEXT PRIMARY KEY REFERENCES tools (id) ON DELETE CASCADE,
  server_id TEXT NOT NULL REFERENCES mcp_servers (id) ON DELETE CASCADE,
  remote_name TEXT NOT NULL,
  missing INTEGER NOT NULL,
  UNIQUE (server_id, remote_name)
);
