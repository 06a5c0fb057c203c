"""Pages in a real browser: plots show, tables sort, it fits a phone, prints, and loads nothing from elsewhere."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import wiretime as wt
from selenium import webdriver
from selenium.webdriver.common.by import By

PHONE = (390, 844)
SHORT = {"duration": "100us", "warm_up": "50us"}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a small study with a plot of each kind."""
    plots = [{"kind": kind, "title": f"Drawn as {kind}", "y": "forwarded_gbps"} for kind in ("bars", "cpi", "latency")]
    plan = {
        "study": {"name": "small", "description": "Two sizes at two rates."},
        "fixed": SHORT,
        "axes": {"packet_size": [64, 256], "rate": ["9Gbps", "11Gbps"]},
        "metrics": ["forwarded_gbps", "ipc"],
        "plots": [
            {"kind": "lines", "title": "Drawn as lines", "x": "packet_size", "y": "ipc", "colour": "rate"},
            *plots,
        ],
    }
    return wt.sweep(plan, out=tmp_path_factory.mktemp("study") / "small").report()


def test_the_report_in_a_browser(page: Path, browser: webdriver.Chrome) -> None:
    browser.set_window_size(1280, 900)
    browser.get(page.as_uri())
    assert browser.title == "small - Wiretime"
    drawn = browser.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(drawn) == 4 and all(svg.size["width"] > 300 and svg.size["height"] > 80 for svg in drawn)
    assert browser.get_log("browser") == [], "no error, no warning"
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert loaded == []


def test_tables_sort(page: Path, browser: webdriver.Chrome) -> None:
    browser.get(page.as_uri())
    table = browser.find_elements(By.CSS_SELECTOR, "table.sortable")[-1]

    def column(n: int) -> list[str]:
        return [cell.text for cell in table.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({n})")]

    assert column(2) == ["9Gbps", "11Gbps", "9Gbps", "11Gbps"]
    heads = table.find_elements(By.CSS_SELECTOR, "th button")
    forwarded = next(n for n, head in enumerate(heads, 1) if head.text.startswith("forwarded_gbps"))
    heads[forwarded - 1].click()
    up = [float(v) for v in column(forwarded)]
    assert up == sorted(up) and up[0] < up[-1], "as numbers, not as text"
    heads[forwarded - 1].click()
    assert [float(v) for v in column(forwarded)] == up[::-1]
    assert table.find_elements(By.CSS_SELECTOR, "th")[forwarded - 1].get_attribute("aria-sort") == "descending"


def test_data_and_commands_open(page: Path, browser: webdriver.Chrome) -> None:
    browser.get(page.as_uri())
    data, commands = browser.find_elements(By.CSS_SELECTOR, "section details")[:2]
    assert not data.find_element(By.TAG_NAME, "table").is_displayed()
    data.find_element(By.TAG_NAME, "summary").click()
    assert data.find_element(By.TAG_NAME, "table").is_displayed()
    commands.find_element(By.TAG_NAME, "summary").click()
    assert "wiretime run testpmd" in commands.find_element(By.TAG_NAME, "pre").text


def test_it_fits_a_phone_and_paper(page: Path, browser: webdriver.Chrome) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": PHONE[0], "height": PHONE[1], "deviceScaleFactor": 2, "mobile": True},
    )
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE[0], "nothing sticks out"
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert base64.b64decode(browser.print_page())[:5] == b"%PDF-"
