-- Why a block was changed, in the words of who changed it.
ALTER TABLE block_revisions ADD COLUMN why TEXT NOT NULL DEFAULT '';
