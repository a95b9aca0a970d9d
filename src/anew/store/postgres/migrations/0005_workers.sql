-- Who ran an attempt, as far as its door knows.
ALTER TABLE attempt ADD COLUMN worker TEXT;
