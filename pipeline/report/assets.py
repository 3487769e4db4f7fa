"""The style sheet and the script of the page.

Colors are those of the test harness's timeline (testing/timeline_page.py) and two more for members;
bars carry names, so that no color has to be recognized. Without the script the page shows the same:
browsers display titles themselves, after a second.
"""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ground: #fff; --raised: #f6f8fa; --ink: #1d2733;
  --faint: #5b6775; --rule: #e3e8ee; --rebalancing: #f1b84255; --storm: #c628281c; --line: #1f6feb;
  --area: #1f6feb26; --link: #0b57c4; --error: #b3261e; --warning: #8a5300; --info: #0b57c4;
  --healthy: #1a6e2e; --error-g: #fde7e5; --warning-g: #fdf0d5; --info-g: #e3eefc;
  --healthy-g: #e2f4e5; --bar-ink: #102030; --m0: #a9d3f5; --m1: #b5e3b0; --m2: #f7cf9b;
  --m3: #dcc3f2; --m4: #9fe0dc; --m5: #f5bccb; --m6: #d9dd9a; --m7: #c9cfd8; }
@media (prefers-color-scheme: dark) { :root { --ground: #14191f; --raised: #1b222a;
  --ink: #e4e9ef; --faint: #9aa7b5; --rule: #2a323c; --rebalancing: #f1b84240; --storm: #ff7b7226;
  --line: #6cb0ff; --area: #6cb0ff2b; --link: #8cbcff; --error: #ff9a92; --warning: #f0bd6a;
  --info: #8cbcff; --healthy: #7fd694; --error-g: #4a1f1c; --warning-g: #43320f;
  --info-g: #16304f; --healthy-g: #173a20; --bar-ink: #f2f6fa; --m0: #245a86; --m1: #2c6a35;
  --m2: #83571a; --m3: #61418a; --m4: #1c6b67; --m5: #85384f; --m6: #62661d; --m7: #4a5563; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { background: var(--ground); color: var(--ink); margin: 0 auto; max-width: 1280px;
  padding: 1.5rem 1.25rem 4rem; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.25rem; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h3 { font-size: .95rem; margin: 0; display: inline; }
header p { color: var(--faint); margin: .3rem 0 0; }
header b { color: var(--ink); font-weight: 600; }
header p.warn { color: var(--warning); }
main > section { margin-top: 2rem; padding-top: 1.5rem; border-top: 1px solid var(--rule); }
main > section:first-child { border: 0; padding-top: 0; margin-top: 1.5rem; }
a { color: var(--link); text-underline-offset: 2px; }
small, .faint, .more { color: var(--faint); font-size: .85rem; }
.more { margin: .4rem 0 0; }
.tally { display: flex; flex-wrap: wrap; gap: .6rem; list-style: none; margin: 1rem 0 0;
  padding: 0; }
.tally li { padding: .45rem .9rem; border-radius: 8px; }
.tally b { font-size: 1.25rem; margin-right: .15rem; }
.tally .zero, .tally .zero b { background: var(--raised); color: var(--faint); }
.error { color: var(--error); background: var(--error-g); }
.warning { color: var(--warning); background: var(--warning-g); }
.info { color: var(--info); background: var(--info-g); }
.healthy { color: var(--healthy); background: var(--healthy-g); }
.tally b { color: inherit; }
.pill { display: inline-block; padding: .05rem .55rem; border-radius: 99px; font-size: .8rem;
  font-weight: 600; vertical-align: 2px; white-space: nowrap; }
td .pill { vertical-align: 0; }
.verdict { font-size: 1.1rem; line-height: 1.5; margin: 0 0 .8rem; max-width: 75ch;
  overflow-wrap: anywhere; }
.both { display: grid; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); gap: 0 2rem;
  margin-bottom: .8rem; }
.both ul { margin: .2rem 0 .6rem; padding-left: 1.1rem; }
.both li { margin: .15rem 0; overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: .4rem 1.8rem; margin: 0 0 1rem;
  padding: .7rem 1rem; background: var(--raised); border-radius: 8px; }
.facts dt { color: var(--faint); font-size: .8rem; }
.facts dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; margin: 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--faint); font-size: .8rem;
  white-space: nowrap; }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
tbody tr:hover { background: var(--raised); }
.n { text-align: right; white-space: nowrap; }
td { white-space: nowrap; }
td.w { min-width: 280px; white-space: normal; overflow-wrap: anywhere; }
td small { white-space: normal; }
td:has(small) { white-space: normal; min-width: 11rem; }
details { margin-top: .8rem; }
summary { cursor: pointer; padding: .2rem 0; }
figure { padding: .2rem 0; }
figure > svg { width: 100%; min-width: 820px; display: block; }
figcaption { color: var(--faint); font-size: .85rem; padding-left: 16%; }
figcaption span { margin-right: 1rem; white-space: nowrap; }
figcaption svg { width: 14px; height: 14px; vertical-align: -2px; }
.spark { width: 120px; height: 26px; display: block; }
.spark path, .line { fill: none; stroke: var(--line); stroke-width: 1.8;
  stroke-linejoin: round; }
text { font: 11px system-ui, sans-serif; fill: var(--ink); }
text.head { font-weight: 600; font-size: 12px; }
text.name { font-size: 12px; }
text.cause, text.tick, text.faint { fill: var(--faint); }
text.inside { fill: var(--bar-ink); pointer-events: none; }
.rule { stroke: var(--rule); }
.axis { stroke: var(--faint); }
.rebalancing { fill: var(--rebalancing); }
.storm { fill: var(--storm); }
.rebalance { stroke: #d08a1d; stroke-width: 1; }
.area { fill: var(--area); }
.touch { fill: transparent; }
.bar.none { opacity: .35; }
.bar:hover, g:hover > .bar { filter: brightness(1.06); stroke: var(--ink); stroke-width: .7; }
.m0 { fill: var(--m0); } .m1 { fill: var(--m1); } .m2 { fill: var(--m2); }
.m3 { fill: var(--m3); } .m4 { fill: var(--m4); } .m5 { fill: var(--m5); }
.m6 { fill: var(--m6); } .m7 { fill: var(--m7); } .mx { fill: var(--rule); }
.exit { fill: none; stroke: var(--error); stroke-width: 2.2; }
#tip { position: fixed; z-index: 1; max-width: 380px; padding: .45rem .7rem; border-radius: 6px;
  background: var(--ink); color: var(--ground); font-size: .85rem; line-height: 1.4;
  white-space: pre-line; overflow-wrap: anywhere; pointer-events: none; }
#filter { font: inherit; padding: .3rem .6rem; margin: 0 0 .6rem; width: 16rem; max-width: 100%;
  color: inherit; background: var(--ground); border: 1px solid var(--faint); border-radius: 6px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media print { details:not([open]) { display: none; } #filter { display: none; } }
"""

# Text is copied as text and never becomes markup.
SCRIPT: Final = """
'use strict';
(() => {
  const tip = document.getElementById('tip');
  document.addEventListener('mouseover', event => {
    const shape = event.target.closest('svg *, svg.spark');
    let title = null;
    for (let at = shape; at && at.tagName !== 'FIGURE' && !title; at = at.parentElement)
      title = [...at.children].find(child => child.tagName === 'title');
    if (title) {  // otherwise the browser shows it too
      title.parentElement.dataset.tip = title.textContent;
      title.remove();
    }
    const source = shape && shape.closest('[data-tip]');
    tip.hidden = !source;
    if (source) tip.textContent = source.dataset.tip;
  });
  document.addEventListener('mousemove', event => {
    if (tip.hidden) return;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
    tip.style.left = Math.max(x, 8) + 'px';
    tip.style.top = event.clientY + (below ? 18 : -tip.offsetHeight - 10) + 'px';
  });
  const rows = [...document.querySelectorAll('#groups ~ * tbody tr')];
  if (rows.length < 8) return;
  const field = document.createElement('input');
  Object.assign(field, {id: 'filter', type: 'search', placeholder: 'Filter groups'});
  field.setAttribute('aria-label', 'Filter groups');
  document.getElementById('groups').after(field);
  field.addEventListener('input', () => {
    const wanted = field.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    const more = document.querySelector('#groups ~ details');
    if (more && wanted) more.open = true;
  });
})();
"""
