"""`wiretime lab`: what is picked becomes a study; experiments run, stop and go on; the page in a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from conftest import WIRETIME, alive, children, wiretime
from selenium import webdriver
from selenium.common.exceptions import ElementNotInteractableException, StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from wiretime import apps, paths
from wiretime.counters import of
from wiretime.errors import WiretimeError
from wiretime.lab import charts, form, work
from wiretime.lab.form import Change, Form
from wiretime.statistics import busy_cores, packets

TRACE = paths.REPOSITORY / "tests/data/memcached-udp.pcap"
MODELLED = Form(engine="packet", nic="82599", rate="1Gbps")
# Long enough to be under way when it is asked for again.
SHARED = Form(engine="packet", nic="82599", sizes=("64",), rate="20Gbps")
PATIENCE = 120.0


def until(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait; what the page has replaced meanwhile is looked for again."""
    end = time.monotonic() + seconds
    while True:
        with suppress(StaleElementReferenceException, ElementNotInteractableException):
            if what():
                return
        assert time.monotonic() < end, "did not come"
        time.sleep(0.05)


@pytest.mark.parametrize("app", apps.APPS)
def test_every_option_that_is_offered_can_be_varied(app: str) -> None:
    """Each with the value that it has anyway, where it has one that can be written."""
    nic = None if "8254x" in apps.get(app).interfaces else apps.get(app).interfaces[0]
    for name, usual in form.options(app).items():
        if usual:
            assert form.check(Form(app=app, nic=nic, changes=(Change(name, usual),)))


def test_what_is_picked_is_a_study() -> None:
    changes = (Change("llc.dca_ways", "0, 4"), Change("core.rob_entries", "64"))
    wanted = Form(nic="82599", sizes=("1518", "64", "1518"), rate="10Gbps", cores=2, queues=2, changes=changes)
    points = form.check(wanted)
    assert [p.command() for p in points] == [
        "wiretime run testpmd --nic 82599 --rate 10Gbps --cores 2 --queues 2 --set core.rob_entries=64 "
        f"--packet-size {size} --set llc.dca_ways={ways}"
        for size in (64, 1518)
        for ways in (0, 4)
    ]
    (traced,) = form.check(Form(trace=str(TRACE), rate="1Gbps", sizes=()))
    assert traced.command() == f"wiretime run testpmd --replay {TRACE} --rate 1Gbps --packet-size 256"
    streams = form.check(Form(app="iperf3", changes=(Change("iperf.streams", "1, 4"),)))
    assert [p.request().iperf for p in streams] == [("streams=1",), ("streams=4",)]
    # A machine of nine cores has one for the program only where that is said.
    (one,) = form.check(Form(engine="packet", platform="xeon-8168", nic="qdma", rate="", sizes=("64",)))
    assert "--cores 1" in one.command()
    search = form.check(Form(measure="msb", loss=0.1, sizes=("64",), rate="10Gbps"))
    assert [p.command() for p in search] == ["wiretime msb testpmd --packet-sizes 64 --loss 0.1 --trial-length 1"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (Form(sizes=()), "pick a packet size"),
        (Form(changes=(Change("llc.dca_ways", " , "),)), "llc.dca_ways: give a value, or several separated by commas"),
        (Form(changes=(Change("llc.ways", "4"), Change("llc.ways", "8"))), "llc.ways: is there twice"),
        (Form(changes=(Change("llc.dca_ways", "99"),)), "must be from 0 to"),
        (Form(rate="5"), "has no unit"),
        (Form(trace="/nowhere.pcap"), "--replay /nowhere.pcap: No such file or directory"),
        (Form(changes=(Change("arrivals", "poison"),)), "--arrivals poison: allowed are constant, poisson"),
        (Form(measure="msb", changes=(Change("duration", "1ms"),)), "a search finds the load itself"),
        (Form(app="iperf3", measure="msb"), "iperf3 finds its rate by itself"),
        (Form(measure="msb", sizes=("imix",)), "packet_size imix: a search takes one size"),
        (Form(sizes=tuple(str(n) for n in range(64, 364))), "300 points; the page runs at most 200"),
    ],
)
def test_what_cannot_be_picked(wanted: Form, reason: str) -> None:
    with pytest.raises(WiretimeError, match=re.escape(reason)):
        form.check(wanted)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[work.Lab]:
    made = work.Lab(tmp_path / "lab", 2)
    yield made
    made.close()


def test_an_experiment_runs_and_is_there_again(lab: work.Lab) -> None:
    experiment = lab.begin(Form(engine="packet", nic="82599", sizes=("64", "256"), rate="1Gbps"))
    until(lambda: experiment.state == "done")
    assert [p.task.row["loss_percent"] for p in experiment.points] == [0, 0]
    # What another has run is not run again.
    again = lab.begin(MODELLED)
    assert again.state == "done" and again.name == "lab-2"
    opened = work.Lab(lab.folder, 1)
    assert [(e.name, e.state) for e in opened.experiments] == [("lab-2", "done"), ("lab-1", "done")]
    lab.remove(experiment)
    assert not (lab.folder / "lab-1").exists() and again.points[0].task.finished


def test_experiments_that_share_a_point_run_it_once(lab: work.Lab) -> None:
    first, second = lab.begin(SHARED), lab.begin(SHARED)
    until(lambda: first.state == second.state == "done")
    assert [p.reason for p in (*first.points, *second.points)] == [None, None]
    assert sum(len(p.progress) > 0 or p.process is not None for p in (*first.points, *second.points)) <= 1


def test_what_goes_wrong_here_is_said(lab: work.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that cannot be started is a point that failed, not one that waits for ever."""

    def full(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(work, "_started", full)
    experiment = lab.begin(MODELLED)
    until(lambda: experiment.state == "failed")
    assert experiment.points[0].reason == "BlockingIOError: [Errno 11] Resource temporarily unavailable"
    lab.remove(experiment)
    lab.remove(experiment)
    lab.go_on(experiment)
    assert lab.experiments == [] and experiment.state == "failed"


def test_an_explanation_that_failed_is_asked_for_again(lab: work.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    experiment = lab.begin(MODELLED)
    until(lambda: experiment.state == "done")
    task = experiment.points[0].task
    with monkeypatch.context() as patched:
        patched.setattr(work, "_started", full)
        lab.explain(task)
        until(lambda: (found := lab.explanation(task)) is not None and found.failed)
    found = lab.explanation(task)
    assert found is not None and "Resource temporarily unavailable" in found.sentences[0]
    lab.explain(task)
    until(lambda: (found := lab.explanation(task)) is not None and not found.running)
    found = lab.explanation(task)
    assert found is not None and not found.failed and json.loads((task.folder / work.EXPLAINED).read_text())
    lab.explain(task)
    assert lab.explanation(task) is found, "what was found is not looked for again"


def test_an_explanation_ends_with_the_lab(lab: work.Lab) -> None:
    experiment = lab.begin(MODELLED)
    until(lambda: experiment.state == "done")
    task = experiment.points[0].task
    lab.explain(task)
    until(lambda: (found := lab.explanation(task)) is not None and found.process is not None)
    lab.close()
    until(lambda: (found := lab.explanation(task)) is not None and not found.running, 20)


def test_a_search_tells_of_its_trials(lab: work.Lab) -> None:
    experiment = lab.begin(Form(engine="packet", nic="82599", measure="msb", sizes=("64",)))
    (under,) = experiment.points
    until(lambda: len(under.trials) > 2)
    until(lambda: experiment.state == "done")
    told = [t.offered for t in under.trials]
    assert told == [t["offered"] for t in under.task.trials or []]
    drawn = charts.trials(under.task.trials or [])
    assert [x for x, _ in drawn["series"][1]["data"]] == sorted(float(f"{t / 1e9:.5g}") for t in told)


def test_a_guest_is_stopped_and_goes_on(lab: work.Lab) -> None:
    """Stopping ends QEMU, too; what runs tells how far it is."""
    experiment = lab.begin(Form(rate="10Gbps", changes=(Change("core.rob_entries", "100"),)))
    (under,) = experiment.points
    until(lambda: under.progress)
    process = under.process
    assert process is not None and process.pid is not None
    until(lambda: children(process.pid))
    guests = children(process.pid)
    lab.stop(experiment)
    until(lambda: under.process is None)
    until(lambda: not any(alive(guest) for guest in guests))
    assert experiment.state == "stopped" and not under.task.finished
    lab.go_on(experiment)
    until(lambda: under.share)
    until(lambda: experiment.state == "done")


def test_a_point_that_is_killed_has_failed(lab: work.Lab) -> None:
    experiment = lab.begin(Form(rate="10Gbps", changes=(Change("core.rob_entries", "100"),)))
    (under,) = experiment.points
    until(lambda: under.process is not None and under.process.pid is not None)
    assert under.process is not None and under.process.pid is not None
    os.kill(under.process.pid, signal.SIGKILL)
    until(lambda: experiment.state == "failed")
    assert under.reason == "its process ended with status -9"


def test_an_experiment_that_cannot_be_run_says_why(lab: work.Lab) -> None:
    experiment = lab.begin(Form(rate="10Gbps", app_args="--no-such-option"))
    until(lambda: experiment.state == "failed")
    assert experiment.points[0].reason is not None and "ended" in experiment.points[0].reason


def test_charts_add_up(lab: work.Lab) -> None:
    experiment = lab.begin(Form(engine="packet", nic="82599", sizes=("64",), rate="100Gbps"))
    until(lambda: experiment.state == "done")
    result = experiment.points[0].task.result
    assert result is not None
    named = {"A": result, "B": result}
    fates = charts.fates(named)["series"]
    assert {s["name"] for s in fates} >= {"forwarded", "CoreDrop"}
    assert all(share >= 0 for s in fates for share in s["data"])
    dropped = 100 * result["cohort"]["core_drop"] / result["cohort"]["offered"]
    assert next(s for s in fates if s["name"] == "CoreDrop")["data"] == pytest.approx([dropped] * 2, abs=0.001)
    hops = sum(s["data"][0] for s in charts.hops(named)["series"])
    assert hops == pytest.approx((result["latency_ns"] or {})["mean"], rel=0.01)
    cycles = sum(of(result)["cores"][i]["core"]["cycles"] for i in busy_cores(result)) / packets(result)
    assert sum(s["data"][0] for s in charts.cycles(named)["series"]) == pytest.approx(cycles, rel=0.01)
    curve = charts.latencies(named)["series"][0]["data"]
    assert curve[-1][1] == 100 and curve == sorted(curve)


class Page:
    """The page as a user has it."""

    def __init__(self, browser: webdriver.Chrome, address: str):
        self.browser = browser
        browser.set_window_size(1600, 1400)
        browser.get(address)
        self.wait("start")

    def all(self, name: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, f'[data-test="{name}"]')

    def wait(self, name: str) -> WebElement:
        until(lambda: self.all(name))
        return self.all(name)[0]

    def text(self, name: str) -> str:
        """Return what an element says; the page may replace it at any time."""
        return str(
            self.browser.execute_script(
                "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText).join('\\n')",
                f'[data-test="{name}"]',
            )
        )

    def pick(self, name: str, *options: str) -> None:
        """Pick of a list, once it can be."""

        def opened() -> bool:
            self.all(name)[-1].click()
            return True

        until(opened)
        for option in options:
            self._choose(option)
        # To whatever has the focus: a busy page's body may not be ready for keys.
        ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        until(lambda: not self.browser.find_elements(By.CSS_SELECTOR, ".q-menu"))

    def _choose(self, option: str) -> None:
        """Take what a list offers, once it does."""

        def chosen() -> bool:
            items = self.browser.find_elements(By.CSS_SELECTOR, ".q-menu .q-item")
            for item in (item for item in items if item.text.split(":")[0] == option):
                item.click()
                return True
            return False

        until(chosen)

    def _field(self, name: str) -> WebElement:
        field = self.all(name)[-1]
        return field if field.tag_name == "input" else field.find_element(By.CSS_SELECTOR, "input")

    def write(self, name: str, text: str) -> None:
        self._field(name).send_keys(Keys.CONTROL + "a")
        self._field(name).send_keys(text, Keys.TAB)

    def search(self, name: str, text: str) -> None:
        """Pick of a list by writing what is wanted."""
        self._field(name).send_keys(text)
        self._choose(text)

    def press(self, text: str) -> None:
        """Press one of the page's toggles."""
        self.browser.find_element(By.XPATH, f"//button[.//*[text()='{text}']]").click()

    def run(self, name: str, command: str) -> None:
        """Start once the command line is the one that is wanted, and wait for the end."""
        until(lambda: self.text("command").splitlines()[:1] == [command])
        until(lambda: self.all("start")[0].is_enabled())
        self.all("start")[0].click()
        until(lambda: self.all(name))
        until(lambda: self.all(name)[0].get_attribute("data-state") == "done")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(folder: Path) -> Iterator[str]:
    port = free_port()
    words = [*WIRETIME, "lab", "--folder", str(folder), "--port", str(port), "--no-browser"]
    # NiceGUI serves nothing where it takes itself for tested.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        said = server.stderr.readline()
        address = f"http://127.0.0.1:{port}"
        assert said == f"{address}  experiments are in {folder}; Ctrl-C ends\n"

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(answers)
        try:
            yield address
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(20) in (0, 130)


def test_the_page_in_a_browser(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """Two runs are picked, run, explained and compared; the command line that is copied does the same."""
    folder = tmp_path / "lab"
    with served(folder) as address:
        page = Page(browser, address)
        page.press("software as a model")
        page.pick("nic", "82599")
        page.write("trace", str(TRACE))
        traced = f"wiretime run testpmd --engine packet --nic 82599 --replay {TRACE} --packet-size 256"
        until(lambda: page.text("command").splitlines()[:1] == [traced])
        page.write("trace", " ")
        page.write("rate", "40Gbps")
        page.pick("sizes", "64", "256")
        before = "wiretime run testpmd --engine packet --nic 82599 --rate 40Gbps --packet-size 64"
        page.run("lab-1", before)
        assert "CoreDrop" in page.text("result") and "million a second is what it can do" in page.text("explained")

        page.all("add")[0].click()
        page.wait("parameter")
        page.search("parameter", "llc.dca_ways")
        page.write("values", "99")
        until(lambda: "must be from 0 to" in page.text("error"))
        assert not page.all("start")[0].is_enabled()
        page.all("add")[0].click()
        until(lambda: len(page.all("drop")) == 2)
        page.all("drop")[1].click()
        until(lambda: len(page.all("drop")) == 1)
        page.write("values", "0,8")
        after = before.replace(" --packet-size 64", " --packet-size 64 --set llc.dca_ways=0")
        page.run("lab-2", after)
        until(lambda: len(page.text("points").splitlines()) > 2)
        assert page.all("over-axis")

        # What would move it is run.
        page.all("explain")[0].click()
        until(lambda: page.text("moves"))
        assert "Cores a quarter faster" in page.text("moves")

        page.all("compare")[0].click()
        page.wait("A")
        page.pick("A", f"2. {after.removeprefix('wiretime run ')}")
        page.pick("B", f"2. {after.removeprefix('wiretime run ')[:-1]}8")
        until(lambda: "llc.dca_ways" in page.text("differs"))
        assert "forwarded" in page.text("came") and "dma" in page.text("moved")
        severe = [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]
        assert severe == []
        loaded = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        assert loaded and all(name.startswith((address, "data:")) for name in loaded), "nothing from elsewhere"

    # The command line does the same.
    words = before.split()[1:]
    assert wiretime(*words, "--out", str(tmp_path / "same")).returncode == 0
    same = (tmp_path / "same" / "result.json").read_bytes()
    assert same in [path.read_bytes() for path in folder.glob("points/*/result.json")]
    plan = (folder / "lab-2" / "plan.toml").read_text()
    assert "llc.dca_ways" in plan
    done = wiretime("report", str(folder / "lab-2"))
    assert done.returncode == 0, done.stderr
    explained = [json.loads(p.read_text()) for p in folder.glob("points/*/explained.json")]
    assert len(explained) == 1 and explained[0]


def test_what_the_command_refuses(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = wiretime("lab", "--port", port, "--no-browser", "--folder", str(tmp_path / "lab"))
    assert done.returncode == 2 and f"--port {port}: Address already in use" in done.stderr
    done = wiretime("lab", "--port", "70000", "--no-browser")
    assert done.returncode == 2 and "--port 70000: must be from 1 to 65535" in done.stderr
    (tmp_path / "file").write_text("")
    done = wiretime("lab", "--no-browser", "--port", str(free_port()), "--folder", str(tmp_path / "file"))
    assert done.returncode == 2 and f"--folder {tmp_path / 'file'}: File exists" in done.stderr
