from edgeseg.cli import main

main()
