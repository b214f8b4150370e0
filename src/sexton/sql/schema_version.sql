-- Which migration this installation has come to.
select max(version) from sexton.migration
