"""A real RTSP server, GStreamer's own, that can stand still and be killed.

/usr/bin/python3 -m tests.doubles.rtsp_server PORT [USER PASSWORD]     (python3-gi of the system)
"""

import shutil
import signal
import subprocess
import sys

from tests.doubles.server_process import ServerProcess

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


class RtspServer(ServerProcess):
    """The server in a process of its own."""

    def __init__(self, *, user: str = "", password: str = "") -> None:
        super().__init__()
        self.address = f"127.0.0.1:{self.port}/cam"
        self.url = f"rtsp://{self.address}"
        self._login = (user, password)

    def start(self) -> None:
        """Serve; return when it listens."""
        module = "tests.doubles.rtsp_server"
        self._listen([PYTHON, "-m", module, str(self.port), *self._login])

    def stand_still(self) -> None:
        """Stay connected, and silent."""
        self.send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Serve again after `stand_still`."""
        self.send(signal.SIGCONT)


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
