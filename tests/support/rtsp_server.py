"""A real RTSP server, GStreamer's own, that can stand still and be killed.

/usr/bin/python3 tests/support/rtsp_server.py PORT [USER PASSWORD]     (python3-gi of the system)
"""

import shutil
import signal
import socket
import subprocess
import sys
import time

PYTHON = "/usr/bin/python3"  # gi is a package of the system, not of the index
_NEEDS = "import gi; gi.require_version('GstRtspServer', '1.0')"
PIPELINE = (
    "( videotestsrc is-live=true pattern=ball ! video/x-raw,width=192,height=128,framerate=25/1 ! "
    "x264enc tune=zerolatency key-int-max=10 ! rtph264pay name=pay0 config-interval=1 )"
)


def why_no_server() -> str:
    """What is missing; empty where it can run."""
    if shutil.which(PYTHON) is None:
        return f"needs {PYTHON}"
    done = subprocess.run([PYTHON, "-c", _NEEDS], capture_output=True, check=False)
    return "needs gir1.2-gst-rtsp-server-1.0 and python3-gi" if done.returncode else ""


class RtspServer:
    """The server in a process of its own."""

    def __init__(self, *, user: str = "", password: str = "") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}/cam"
        self.url = f"rtsp://{self.address}"
        self._command = [PYTHON, __file__, str(self.port), user, password]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve; returns when it listens."""
        self._process = subprocess.Popen(self._command)
        deadline_s = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self._process.poll() is None, "the server ended at once"
                assert time.monotonic() < deadline_s, "the server does not listen"
                time.sleep(0.02)

    def stand_still(self) -> None:
        """Connected, and silent."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """After stand_still."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Without a farewell."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


def _serve(port: str, user: str, password: str) -> None:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import GLib, Gst, GstRtspServer

    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(PIPELINE)
    factory.set_shared(True)
    if user:
        token = GstRtspServer.RTSPToken()
        token.set_string("media.factory.role", user)
        auth = GstRtspServer.RTSPAuth()
        auth.add_basic(GstRtspServer.RTSPAuth.make_basic(user, password), token)
        server.set_auth(auth)
        factory.add_role_from_structure(
            Gst.Structure.new_from_string(
                f"{user},media.factory.access=(boolean)true,media.factory.construct=(boolean)true"
            )
        )
    server.get_mount_points().add_factory("/cam", factory)
    server.attach(None)
    GLib.MainLoop().run()


if __name__ == "__main__":
    _serve(*sys.argv[1:4])
