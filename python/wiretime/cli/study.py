"""Commands of studies.

What studies are made with (tables, plots, clusters) is loaded by these commands alone:
it takes longer to load than all the rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wiretime.cli.base import (
    app,
    notes,
    screen,
)
from wiretime.errors import WiretimeError


@app.command("sweep")
def sweep_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="What is varied and measured: see experiments/.")],
    jobs: Annotated[int | None, typer.Option(help="Points at once.", show_default="cores of this machine")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in a folder that holds points already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, count and estimate; run nothing.")] = False,
    axis: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE,...", help="Other values of an axis, or some by name, or another axis."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The study's folder.", show_default="studies/NAME")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Run points as jobs of a cluster: slurm; or local, to try that here.")
    ] = None,
    cluster_set: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="What its jobs ask for: slurm_partition=..., ...")
    ] = None,
) -> None:
    """Run every point of a study, and keep what each yields as a row of a table."""
    from wiretime.study import execute, folder, show
    from wiretime.study import plan as plans

    loaded = plans.load(plan, axis or [])
    study = folder.Study(loaded, str(plan), out or Path("studies") / loaded.study.name)
    execute.check(cluster, cluster_set or [], jobs)
    show.about(notes, loaded.study.name, study.tasks, jobs, study.alone)
    if dry_run:
        return
    study.prepare(resume)
    failed = show.sweep(notes, loaded.study.name, [study], jobs, cluster, cluster_set or [])
    screen.print(show.table(study))
    if failed:
        raise typer.Exit(1)


@app.command("uncertainty")
def uncertainty_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="A study: see experiments/.")],
    samples: Annotated[int, typer.Option(help="How often all estimates are drawn together.")] = 32,
    seed: Annotated[int, typer.Option(help="Of the samples that are drawn.")] = 1,
    jobs: Annotated[int | None, typer.Option(help="Points at once.", show_default="cores of this machine")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, count and estimate; run nothing.")] = False,
    axis: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE,...", help="Other values of an axis, or another axis: engine=packet."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder.", show_default="studies/NAME-uncertainty")] = None,
) -> None:
    """Vary all estimates of a study's machines: how far its answers may be off, and which estimates they hang on.

    Goes on where it was interrupted.
    """
    from wiretime.study import hangs
    from wiretime.study import plan as plans

    if seed < 0:
        raise WiretimeError(f"--seed {seed}: at least 0")
    loaded = plans.load(plan, axis or [])
    folder = out or Path("studies") / f"{loaded.study.name}-uncertainty"
    if not hangs.run(notes, screen, loaded, str(plan), folder, samples=samples, seed=seed, jobs=jobs, dry_run=dry_run):
        raise typer.Exit(1)


@app.command("report")
def report_command(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
) -> None:
    """Write a study's report: one page, and its plots as PNG and SVG."""
    from wiretime.study import folder
    from wiretime.study import report as pages

    screen.print(str(pages.write(folder.open_study(study))), markup=False, highlight=False, soft_wrap=True)


@app.command("query")
def query_command(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    sql: Annotated[str, typer.Argument(help="A query of the tables points, trials and times.")],
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write what it finds into this file.")] = None,
    arrow_file: Annotated[Path | None, typer.Option("--arrow", help="Write it as an Arrow file.")] = None,
) -> None:
    """Ask a study's tables, in DuckDB's SQL."""
    from wiretime.study import folder, show

    found = folder.query(study, sql)
    show.write(found, csv_file, arrow_file)
    if csv_file is None and arrow_file is None:
        screen.print(show.rows(found))


@app.command("validate")
def validate_command(
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME,...", help="Figures or studies (fig14, dca, kernel), or hardware.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The main values and trends alone.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Points at once.", show_default="cores of this machine")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, count and estimate; run nothing.")] = False,
    out: Annotated[Path, typer.Option(help="Where points, tables, plots and the page are.")] = Path(
        "studies/validation"
    ),
    uncertainty: Annotated[
        int,
        typer.Option(metavar="N", help="Run all N times more, with estimates drawn anew: each row's range. 0: not."),
    ] = 0,
    publish: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Copy the pages as Markdown, with their pictures, into this folder."),
    ] = None,
) -> None:
    """Run what was published elsewhere, and compare: goes on where it was interrupted, runs nothing twice."""
    from wiretime.validation import validate

    if not validate.run(notes, screen, validate.Asked(out, only or [], quick, jobs, dry_run, publish, uncertainty)):
        raise typer.Exit(1)
