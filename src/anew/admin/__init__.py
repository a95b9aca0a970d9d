"""The admin listener's application: what is shown live, backups and compaction, as Zizq's admin API has them."""
