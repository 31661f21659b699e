/// The style sheet of a release page, for light and dark screens, phones and paper.
enum PageStyle {
    static let sheet: StaticString = """
        :root{color-scheme:light dark;--page:#f4f5f7;--card:#fff;--text:#1a1f26;--quiet:#59636e;--rule:#d8dde3;--rail:#e3e7ec;\
        --full:#1a63d8;--held:#9a6700;--good:#116329;--bad:#b42318;--c0:#1f6feb;--c1:#9333ea;--c2:#0f766e;--c3:#b45309;--c4:#be185d;--c5:#4d7c0f}
        @media(prefers-color-scheme:dark){:root{--page:#0e1116;--card:#171c23;--text:#e6eaef;--quiet:#9aa5b1;--rule:#2d343d;--rail:#2a313a;\
        --full:#589bff;--held:#d9a441;--good:#4ac26b;--bad:#ff7b72;--c0:#589bff;--c1:#c084fc;--c2:#2dd4bf;--c3:#fbbf24;--c4:#f472b6;--c5:#a3e635}}
        *{box-sizing:border-box}
        body{margin:0 auto;max-width:60rem;padding:1rem;background:var(--page);color:var(--text);font:1rem/1.5 system-ui,sans-serif;\
        overflow-wrap:anywhere}
        h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.25rem;margin:0 0 .5rem}h3{font-size:1rem;margin:1.5rem 0 .5rem}
        h4{font-size:1rem;margin:0 0 .5rem}p{margin:.25rem 0}ul,ol{margin:0;padding:0 0 0 1.25rem}a{color:var(--full)}
        code{font:.875em ui-monospace,monospace}
        .quiet{color:var(--quiet)}
        .card{margin:1rem 0;padding:1rem;background:var(--card);border:1px solid var(--rule);border-radius:.5rem}
        .alarm{padding:.25rem .75rem;border-left:.25rem solid var(--bad)}
        .tag{display:inline-block;padding:0 .5rem;border:1px solid;border-radius:1rem;font-size:.8125rem;font-weight:400;color:var(--quiet)}
        .tag.good{color:var(--good)}.tag.warn{color:var(--held)}.tag.bad{color:var(--bad)}.tag.some{color:var(--full)}
        .now{margin:.5rem 0}.now b{font-size:1.25rem}
        dl{margin:.5rem 0;display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,8.5rem),1fr));gap:.5rem 1rem}
        @media(min-width:40rem){dl{grid-template-columns:repeat(auto-fill,minmax(11rem,1fr))}}
        dt{color:var(--quiet);font-size:.8125rem}dd{margin:0}dd ul{list-style:none;padding:0}
        .releases,.history,.reports,.legend,nav ul{list-style:none;padding:0}
        .release,.line,.reports li{padding:.5rem 0;border-top:1px solid var(--rule)}
        .notes{padding-left:.75rem;border-left:.125rem solid var(--rule)}
        .history>li{position:relative;margin-left:.375rem;padding:0 0 .75rem 1rem;border-left:.125rem solid var(--rule)}
        .history>li::before{content:"";position:absolute;left:-.4375rem;top:.4rem;width:.75rem;height:.75rem;border-radius:50%;\
        background:var(--full)}
        .history>li.bad::before{background:var(--bad)}.history>li.quiet::before{background:var(--rule)}
        .history ul{list-style:none;padding:0}
        svg{display:block}.bar{width:100%;height:.5rem;border-radius:.25rem;margin:.25rem 0}
        .rail{fill:var(--rail)}.full{fill:var(--full)}.held{fill:var(--held)}.step{fill:var(--text)}
        .fine{fill:var(--good)}.fault{fill:var(--bad)}
        figure{margin:.5rem 0}figcaption{font-size:.875rem;color:var(--quiet)}
        .course{width:100%;height:10rem;overflow:visible}.course line{stroke:var(--rule)}
        .course polyline{fill:none;stroke-width:2}.course *{vector-effect:non-scaling-stroke}
        .axis{display:flex;justify-content:space-between;gap:1rem;font-size:.8125rem;color:var(--quiet)}
        .legend{display:flex;flex-wrap:wrap;gap:.25rem 1rem;font-size:.875rem}
        .swatch{display:inline-block;width:.75em;height:.75em}
        .c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}
        .swatch .c0{fill:var(--c0)}.swatch .c1{fill:var(--c1)}.swatch .c2{fill:var(--c2)}.swatch .c3{fill:var(--c3)}\
        .swatch .c4{fill:var(--c4)}.swatch .c5{fill:var(--c5)}
        @media print{:root{color-scheme:light;--page:#fff;--card:#fff;--text:#000;--quiet:#444;--rule:#bbb;--rail:#ddd;--full:#1f6feb;\
        --held:#9a6700;--good:#116329;--bad:#b42318;--c0:#1f6feb;--c1:#9333ea;--c2:#0f766e;--c3:#b45309;--c4:#be185d;--c5:#4d7c0f}
        body{max-width:none;padding:0;font-size:10pt}.card{border:0;padding:0}nav{display:none}
        .release,.history>li,.reports li,figure{break-inside:avoid}h2,h3,h4{break-after:avoid}
        svg,.tag,.history>li::before{print-color-adjust:exact}}

        """
}
