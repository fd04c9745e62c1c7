"""The tables of a run, in Markdown."""

import statistics

from steps import BACKUPS, STEPS
from tools import KINDS


def tables(r, titles=None):
    """Markdown: one table a figure, tools x sets, medians of the rounds; ratios cutpoint / peer below it.

    With `titles`, only the tables of these figures.
    """
    rows = [x for x in r["rows"] if "error" not in x and x["set"] != "ONE"]
    sets = list(dict.fromkeys(x["set"] for x in rows))
    tools = list(dict.fromkeys(x["tool"] for x in rows))
    out = []
    tools = [t for t in KINDS if t in tools] + [t for t in tools if t not in KINDS]
    full = {
        s: max(
            (
                len(
                    {x["version"] for x in rows if x["set"] == s and x["tool"] == t and x["step"] in ("first", "later")}
                )
                for t in tools
            ),
            default=0,
        )
        for s in sets
    }

    def per_round(t, s, steps, key, how=sum):  # a value a round; none where a version is missing
        g = {}
        for x in rows:
            if x["tool"] == t and x["set"] == s and x["step"] in steps and key in x:
                g.setdefault((x.get("file", 0), x["round"]), []).append(x[key])
        want = (full[s] - 1) if steps == ("later",) else 1
        g = [how(v) for v in g.values() if len(v) >= want]
        return statistics.median(g) if g else None

    logical = {
        s: sum({x["version"]: x["logical"] for x in rows if x["set"] == s and x["step"] in ("first", "later")}.values())
        for s in sets
    }

    def sec(steps, key):
        return lambda t, s: per_round(t, s, steps, key)

    def at_end(key):
        return lambda t, s: per_round(t, s, ("later",) if full[s] > 1 else ("first",), key, lambda v: v[-1])

    def mb(f):
        return lambda t, s: None if f(t, s) is None else f(t, s) / 1e6

    def factor(t, s):
        b = at_end("repo_bytes")(t, s)
        return b and logical[s] / b

    def rate(t, s):
        c = per_round(t, s, ("first",), "cpu_net")
        later = per_round(t, s, ("later",), "cpu_net")
        if full[s] > 1 and later is None:
            return None
        c = None if c is None else c + (later or 0)
        return logical[s] / 1e6 / c if c and c > 0 else None

    figures = [
        ("Repository after the last version, MB", mb(at_end("repo_bytes")), 1),
        ("Logical bytes / repository bytes (higher is better)", factor, 2),
        ("Files in the repository", at_end("repo_files"), 0),
        ("Cache and state of the client, MB", mb(at_end("cache_bytes")), 1),
        ("First backup, CPU s", sec(("first",), "cpu"), 2),
        ("First backup, CPU s net of the start cost", sec(("first",), "cpu_net"), 2),
        ("First backup, wall s", sec(("first",), "wall"), 2),
        ("All later versions, CPU s", sec(("later",), "cpu"), 2),
        ("All later versions, CPU s net of the start cost", sec(("later",), "cpu_net"), 2),
        ("All later versions, wall s", sec(("later",), "wall"), 2),
        ("All versions, logical MB per net CPU s (higher is better)", rate, 0),
        ("Unchanged backup, CPU s", sec(("noop",), "cpu"), 3),
        ("Unchanged backup, wall s", sec(("noop",), "wall"), 3),
        ("Touched, nothing changed (all is read again), CPU s", sec(("reread",), "cpu"), 2),
        ("The same, CPU s net of the start cost", sec(("reread",), "cpu_net"), 2),
        ("The same, wall s", sec(("reread",), "wall"), 2),
        ("Restore of the last version, CPU s", sec(("restore",), "cpu"), 2),
        ("Restore of the last version, wall s", sec(("restore",), "wall"), 2),
        ("Check with all data, CPU s", sec(("check",), "cpu"), 2),
        ("Check with all data, wall s", sec(("check",), "wall"), 2),
        (
            "Peak memory of a backup, MB (largest process)",
            lambda t, s: (lambda v: v and v / 1e6)(per_round(t, s, BACKUPS, "rss", max)),
            0,
        ),
        (
            "Peak memory in any step, MB (largest process)",
            lambda t, s: (lambda v: v and v / 1e6)(per_round(t, s, STEPS, "rss", max)),
            0,
        ),
    ]
    if titles is None:
        m = r["machine"]
        out.append(
            f"{m['cpu']}, {m['cores']} cores, {m['memory_mib']} MiB, kernel {m['kernel']}, {m['system']}; "
            f"repository on {m['repository_on']}; source by {r['source']}, "
            f"{'cold' if r['cold'] else 'in the page cache'}; {r['rounds']} round(s), medians; {r['started']}\n"
        )
        out.append("| tool | version | CPU s of an unchanged run on one file | wall s |\n|---|---|---:|---:|")
        for t in tools:
            b = r["base"].get(t)
            out.append(
                f"| {t} | {r['versions'].get(t, '?')} | " + (f"{b['cpu']:.3f} | {b['wall']:.3f} |" if b else " | |")
            )
        out.append("\n| set | versions | files in the last | logical MB |\n|---|---:|---:|---:|")
        for s in sets:
            out.append(
                f"| {s} | {full[s]} | {max((x['files'] for x in rows if x['set'] == s and 'files' in x), default=0)} | "
                f"{logical[s] / 1e6:.0f} |"
            )
    for title, f, digits in figures:
        if titles is not None and title not in titles:
            continue
        val = {(t, s): f(t, s) for t in tools for s in sets}
        if all(v is None for v in val.values()):
            continue
        out.append(f"\n**{title}**\n\n| tool | {' | '.join(sets)} |\n|---|{'---:|' * len(sets)}")
        for t in tools:
            out.append(
                f"| {t} | " + " | ".join("" if val[t, s] is None else f"{val[t, s]:.{digits}f}" for s in sets) + " |"
            )
        if "cutpoint" in tools:
            for t in tools:
                if t != "cutpoint":
                    out.append(
                        f"| *cutpoint / {t}* | "
                        + " | ".join(
                            ""
                            if val["cutpoint", s] is None or not val[t, s]
                            else f"{val['cutpoint', s] / val[t, s]:.2f}"
                            for s in sets
                        )
                        + " |"
                    )
    if titles is not None:
        return "\n".join(out)
    if r.get("missing"):
        out.append(f"\nNot measured, no binary found: {', '.join(r['missing'])}.")
    bad = [x for x in r["rows"] if "error" in x]
    if bad:
        out.append("\n**Failed steps**\n")
        out += [f"- {x['tool']} {x['set']} round {x['round']} {x['step']} {x['version']}: {x['error']}" for x in bad]
    diff = sorted({(x["tool"], x["set"], x["meta_differs"]) for x in rows if x.get("meta_differs")})
    if diff:
        out.append(
            "\nRestored with the right content, but another mode or mtime: "
            + "; ".join(f"{t} {s}: {n} files" for t, s, n in diff)
            + "."
        )
    return "\n".join(out)
