-- Who this installation is, among all that there are.
select id from sexton.installation
