"""How the page looks: one style sheet, light and dark, from a phone to a wide screen. No font and no picture comes from elsewhere."""

from typing import Final

_LIGHT: Final = """
--paper:#fbf9f5;--card:#ffffff;--ink:#211d16;--soft:#5f584c;--line:#e3ddd1;--accent:#7a4b1e;--on:#211d16;--hatch:rgba(33,29,22,.22);
--bad:#a3271a;--warn:#8a5a00;--good:#2c6b3c;--track:#efeae0;
--now:#e58673;--day:#eea36c;--week:#efc073;--month:#e4d891;--later:#b7d2a3;--size:#a9c8e0;--compacted:#9bd0c6;--kept:#d2ccc1;--alone:#e6e2da;
--s0:#b0632f;--s1:#3f7f8c;--s2:#c49a2c;--s3:#6c8a4a;--s4:#8a6a9c;--s5:#a49d90;
"""
_DARK: Final = """
--paper:#17150f;--card:#211e17;--ink:#efeadf;--soft:#b3aa99;--line:#3a352b;--accent:#e0ab72;--on:#f6f2e8;--hatch:rgba(255,250,235,.20);
--bad:#ff9a88;--warn:#f0c060;--good:#8fd19e;--track:#2c2820;
--now:#a8432f;--day:#9a5527;--week:#84621e;--month:#686228;--later:#44663b;--size:#37607f;--compacted:#2b6a61;--kept:#5a554b;--alone:#403d36;
--s0:#d98a52;--s1:#5fa9b7;--s2:#d9b44a;--s3:#93b56b;--s4:#b394c4;--s5:#8d8678;
"""
_RULES: Final = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 ui-sans-serif,system-ui,"Segoe UI","Noto Sans","Liberation Sans",sans-serif;
font-variant-numeric:tabular-nums}
.page{max-width:78rem;margin:0 auto;padding:clamp(1rem,3vw,2.5rem)}
h1,h2,h3,h4{line-height:1.2;font-weight:650;letter-spacing:-.01em;overflow-wrap:anywhere;margin:0}
h1{font-size:clamp(1.5rem,1.1rem + 1.8vw,2.3rem)}
h2{font-size:1.3rem;margin:3rem 0 .9rem}
h3{font-size:1.15rem}
h4{font-size:.8rem;color:var(--soft);text-transform:uppercase;letter-spacing:.06em;margin-bottom:.5rem}
p{margin:.3rem 0;max-width:90ch}
a{color:var(--accent)}
code,.path{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;font-size:.88em;overflow-wrap:anywhere}
.soft{color:var(--soft)}
.small{font-size:.86rem}
header .path{color:var(--soft)}
.answers{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,14.5rem),1fr));gap:1rem;margin-top:1.5rem}
.answer,.topic,.panel{background:var(--card);border:1px solid var(--line);border-radius:.7rem;padding:1.1rem 1.25rem;min-width:0}
.big{font-size:clamp(1.7rem,1.3rem + 1.4vw,2.3rem);font-weight:680;line-height:1.15;letter-spacing:-.02em}
.bad{color:var(--bad)}.warn{color:var(--warn)}.good{color:var(--good)}
.fatebar{display:flex;height:1.7rem;border-radius:.4rem;overflow:hidden;gap:1px;margin:.2rem 0 .9rem;background:var(--track)}
.fatebar span{min-width:3px}
.fates{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,16rem),1fr));
gap:.35rem 1.4rem;margin:0;padding:0;list-style:none}
.fates li{display:grid;grid-template-columns:1rem 1fr auto;gap:.55rem;align-items:center}
.key{display:inline-block;width:1rem;height:1rem;border-radius:.2rem;flex:none;position:relative;overflow:hidden;vertical-align:-.15em}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;width:100%;font-size:.9rem}
caption{text-align:left;color:var(--soft);padding-bottom:.4rem}
th,td{text-align:left;padding:.32rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th:first-child,td:first-child{padding-left:0}
th{color:var(--soft);font-weight:600;font-size:.8rem;white-space:nowrap}
.n{text-align:right;white-space:nowrap}
tr:target{background:var(--track);outline:2px solid var(--accent)}
.topic{margin-bottom:1.2rem;scroll-margin-top:1rem}
.topic>header{display:flex;flex-wrap:wrap;gap:.2rem .9rem;align-items:baseline}
.cores{display:grid;grid-template-columns:repeat(auto-fit,minmax(3.6rem,1fr));gap:.5rem;align-items:end;margin:1.1rem 0 .8rem}
.core{min-width:0;margin:0;container-type:inline-size}
.core figcaption{font-size:.78rem;line-height:1.35;padding-top:.35rem;overflow-wrap:anywhere}
.rock{position:relative;border-radius:.35rem .35rem .15rem .15rem;overflow:hidden}
.rock svg{display:block;width:100%}
.rock path{stroke:var(--card);stroke-width:1;vector-effect:non-scaling-stroke}
.rock a:hover path{stroke:var(--ink);stroke-width:2}
.lab{position:absolute;left:.55rem;right:.9rem;font-size:.76rem;line-height:1rem;color:var(--on);white-space:nowrap;overflow:hidden;
text-overflow:ellipsis;pointer-events:none}
.hatch{position:absolute;left:0;right:0;pointer-events:none;
background:repeating-linear-gradient(135deg,var(--hatch) 0 1.5px,transparent 1.5px 9px)}
.key .hatch{inset:0}
.stone{position:absolute;right:0;width:.4rem;background:var(--ink);opacity:.75;pointer-events:none}
.crack{position:absolute;left:0;width:.3rem;background:var(--bad);pointer-events:none}
.surface{position:absolute;left:0;right:0;height:3px;background:var(--good);pointer-events:none}
.empty{border:1px dashed var(--line);background:none;height:1.1rem}
@container (max-width:9rem){.lab .more{display:none}}
@container (max-width:5.4rem){.core figcaption{font-size:.68rem}}
@container (max-width:3.9rem){.lab{left:.25rem;right:.4rem;font-size:.66rem}}
details{margin-top:.7rem}
summary{cursor:pointer;color:var(--accent);font-size:.92rem;padding:.2rem 0}
.spread{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,12.5rem),1fr));gap:1.2rem 1.6rem;margin-top:1.1rem}
.bars{list-style:none;margin:0;padding:0;font-size:.82rem}
.bars li{display:grid;grid-template-columns:4.3rem 1fr 3.4rem;gap:.5rem;align-items:center;padding:.06rem 0}
.bars .l{overflow-wrap:anywhere;text-align:right}
.bars.keys li{grid-template-columns:minmax(6.6rem,1.5fr) minmax(1rem,1fr) 3.2rem}
.bars.keys .l{text-align:left;font-family:ui-monospace,Menlo,Consolas,"Liberation Mono",monospace;font-size:.92em}
.bars .b{background:var(--track);border-radius:.2rem;height:.75rem;overflow:hidden}
.bars .b i{display:block;height:100%;background:var(--s0);min-width:1px}
.chart{margin:0 0 1.2rem}
.chart svg{display:block;width:100%;height:9rem;background:linear-gradient(var(--line),var(--line)) 0 50%/100% 1px no-repeat;
border-bottom:1px solid var(--soft)}
.chart .top,.chart .axis{display:flex;justify-content:space-between;font-size:.78rem;color:var(--soft);gap:.8rem}
.chart rect{fill:transparent}.chart rect:hover{fill:var(--hatch)}
.names{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;font-size:.86rem;margin:.4rem 0 0;padding:0;list-style:none}
.names li{overflow-wrap:anywhere}.legend{margin-bottom:1.2rem}
.chips{display:flex;flex-wrap:wrap;gap:.25rem .9rem;margin:.5rem 0 0;padding:0;list-style:none;font-size:.86rem;color:var(--soft)}
.chips li{overflow-wrap:anywhere}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
footer{margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line);color:var(--soft);font-size:.86rem}
@media (max-width:40rem){.answer,.topic,.panel{padding:.9rem}h2{margin-top:2.2rem}}
@media print{details{display:none}.topic,.panel,.answer{break-inside:avoid}}
"""


def style_sheet() -> str:
    """All of it."""
    return f":root{{color-scheme:light dark;{_LIGHT}}}\n@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}\n{_RULES}"
