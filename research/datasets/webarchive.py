#!/usr/bin/env python3
"""WEB-ARCHIVE: crawls of a university's site: many pages from a few templates, most of them of 2 to 8 KiB, with style
sheets and scripts.

After the BURST paper's set Web-Archive: head, navigation and foot of a page are those of its department, so that pages
begin and end alike and differ between. In a page everything that a template fills in differs (title, path, date, a
token), so hardly two pages share all of a block. From one crawl to the next all pages get another token and date of
making, 5 % another text, 2 % are new; every fourth crawl a template changes.
"""

import math
import random

from common import DAY_S, START_S, Words, number, seed, version_folder, versions, write

count = versions(4)
start = seed(20260601)
source = random.Random(start)
words = Words(start, 3000)
budget = number("BYTES", 160 << 20) // count
DEPARTMENTS = [
    words.words[place * 7] for place in range(max(2, min(12, budget // (160 << 10))))
]  # fewer for a small site: each has 35 KB of its own


def template(department, edition):
    """Head and foot of a department's pages, and its style sheet and script."""
    own = random.Random(f"{start} {department} {edition}")
    every = random.Random(start)
    menu = "\n".join(
        f'<li class="item"><a href="/{department}/{word}/index.html">{word.capitalize()}</a></li>'
        for word in words.choose(own, 14)
    )
    links = "\n".join(
        f'<link rel="stylesheet" href="/static/{word}.css?v={edition}">' for word in words.choose(every, 6)
    )
    foot = "\n".join(
        f'<a href="/{word}.html">{word.capitalize()} {words.sentence(every)}</a>' for word in words.choose(every, 9)
    )
    css = "\n".join(
        f".{word} {{ color: #{own.getrandbits(24):06x}; margin: {own.randrange(40)}px; }}"
        for word in words.choose(own, 400)
    )
    script = "\n".join(
        f"function {word}_{place}(x) {{ return x.{other} + {own.randrange(10**6)}; }}"
        for place, (word, other) in enumerate(zip(words.choose(own, 300), words.choose(own, 300), strict=True))
    )
    return (
        f'{links}\n<script src="/static/{department}.js"></script>\n<nav><ul>\n{menu}\n</ul></nav>',
        foot,
        css.encode(),
        script.encode(),
    )


class Page:
    def __init__(self, place):
        self.department = DEPARTMENTS[int(len(DEPARTMENTS) * source.random() ** 1.5)]
        self.path = f"{self.department}/{words.choose(source, 1)[0]}/{place:06d}.html"
        self.write_text()

    def write_text(self):
        self.text = [
            words.text(source, min(40_000, int(math.exp(source.gauss(math.log(260), 0.8))))).decode()
            for _ in range(source.randrange(2, 9))
        ]

    def html(self, templates, version):
        head, foot, _, _ = templates[self.department]
        own = random.Random(f"{start} {self.path} {version}")
        title = self.text[0].split(".")[0]
        body = "\n".join(f'<div class="block"><p>{part}</p></div>' for part in self.text)
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="token" content="{own.getrandbits(128):032x}">\n{head}\n</head><body>\n<h1>{title}</h1>\n'
            f"{body}\n<footer>/{self.path}, made {START_S + version * DAY_S + own.randrange(3600)}\n{foot}\n"
            "</footer></body></html>\n"
        ).encode()


pages = []
templates = {name: template(name, 1) for name in DEPARTMENTS}
total = sum(len(css) + len(script) for _, _, css, script in templates.values())
while total < budget or not pages:
    pages.append(Page(len(pages)))
    total += len(pages[-1].html(templates, 1))
for version in range(1, count + 1):
    now_s = START_S + version * DAY_S
    if version > 1:
        if version % 4 == 0:
            name = DEPARTMENTS[version // 4 % len(DEPARTMENTS)]
            templates[name] = template(name, version)
        for page in source.sample(pages, len(pages) * 5 // 100):
            page.write_text()
        for _ in range(max(1, len(pages) * 2 // 100)):
            pages.append(Page(len(pages)))
    folder = version_folder("WEB-ARCHIVE", version)
    for name, (_, _, css, script) in templates.items():
        write(folder / f"static/{name}.css", css, now_s)
        write(folder / f"static/{name}.js", script, now_s)
    for page in pages:
        write(folder / page.path, page.html(templates, version), now_s)
