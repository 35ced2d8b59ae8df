"""A station that asks for signatures runs nothing that is not signed, its own work included."""

from functools import partial

import pytest

pytest.importorskip("cryptography", reason="needs cryptography: pip install edgeseg[sign]")

from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.signature import sign
from edgeseg.modelfile.signing_keys import make_keys
from edgeseg.teach.service import TeachService
from edgeseg.vision.images import write_image
from tests.doubles.fakes import wait
from tests.support.commands import succeed
from tests.support.teach_engine import CHILD, part, write_project


@pytest.fixture
def keys(tmp_path):
    return make_keys(tmp_path / "owner.key")


@pytest.fixture
def project(tmp_path):
    write_image(tmp_path / "camera" / "c.png", part(110, seed=90))
    return write_project(tmp_path / "line3", good=20, source=str(tmp_path / "camera"))


def test_what_is_taught_here_runs_when_it_is_signed(project, keys):
    private, public = keys
    service = TeachService(project, child=CHILD, trust=(public,))
    try:
        service.start_fit({})
        wait(lambda: service.state()["fit"]["state"] != "running", "the end of the fit")
        service.install()  # its own work may be looked at
        service.run()
        wait(lambda: service.state()["run"]["state"] == "stopped", "the refusal")
        said = service.state()["run"]["sentence"]
        assert said.startswith(f"{project.recipe}: not signed, and only files of a trusted key")
        with pytest.raises(RuntimeFailure, match="not signed"):
            service.learn_preview()
        sign(project.recipe, private, chain={})
        service.run()
        wait(lambda: service.state()["run"]["state"] == "running", "the run")
        service.stop()
        service.learn_preview()
        (project.recipe / "recipe.toml").write_text("number = 9\n")
        with pytest.raises(RuntimeFailure, match=r"recipe\.toml was changed"):
            service.learn_preview()
    finally:
        service.close()


def test_the_command_says_what_stands_before_the_station(project, keys, monkeypatch):
    here = partial(TeachService, child=CHILD)
    monkeypatch.setattr("edgeseg.teach.service.TeachService", here)
    said = succeed("teach", project.folder, "--trust", keys[1]).stderr
    assert f"it does not run here yet: {project.recipe}: not signed" in said
    assert "it does not run" not in succeed("teach", project.folder).stderr
