from edgeseg.cli.group import main

main()
