"""python -m sexton"""

from sexton.cli.main import main

main()
