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
