"""Run `python runtime/stream.py` from any folder: the command `edgeseg stream` of a device."""

from edgeseg.cli.stream_command import stream as stream

if __name__ == "__main__":
    stream(prog_name="stream.py")
