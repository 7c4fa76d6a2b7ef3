-- Trigrams find any substring of three characters or more, in scripts without spaces between words too.
CREATE VIRTUAL TABLE message_search USING fts5 (text, tokenize = 'trigram');

CREATE TRIGGER message_search_forgets AFTER DELETE ON messages BEGIN
  DELETE FROM message_search WHERE rowid = old.seq;
END;
