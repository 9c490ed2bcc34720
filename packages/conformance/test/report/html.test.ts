import { operationNames } from "@backplane/core";
import { assert } from "chai";
import { ratioEnds } from "#src/measurements.js";
import type { ReportDiff } from "#src/report/diff.js";
import { escapeHtml, html } from "#src/report/html/markup.js";
import { renderHtml } from "#src/report/html.js";
import { closedFields, tagsOf, withTexts } from "../support/markup-check.js";
import { fullReport, lawReport, operationReport, sampleReport } from "../support/sample-report.js";

const diff: ReportDiff = {
  before: { name: "an older one", startedAt: "2025-12-31T00:00:00.000Z" },
  after: { name: "a newer one", startedAt: "2026-01-02T00:00:00.000Z" },
  remarks: ["The device is another."],
  broken: [{ law: "gemm f32: a", before: "kept", after: "broken", reason: "it is wrong now" }],
  fixed: [{ law: "gemm f32: b", before: "broken", after: "kept", reason: null }],
  lost: [{ law: "gemm f32: c", before: "kept", after: "skipped", reason: "f32 is gone" }],
  gained: [{ law: "gemm f32: d", before: "unfinished", after: "kept", reason: null }],
  missing: ["gemm f32: e"],
  added: ["gemm f32: f"],
  ratios: [{ law: "gemm f32: g", before: 0.01, after: 0.5 }],
};

describe("A report as HTML", () => {
  it("is one well-formed page that loads nothing", () => {
    const page = renderHtml(fullReport(), diff);
    const tags = tagsOf(page);
    assert.isTrue(page.startsWith("<!doctype html>"));
    assert.isFalse(tags.some((text) => /^<(script|img|object|iframe|base)\b/.test(text)));
    for (const text of tags)
      for (const [, target] of text.matchAll(/ (?:href|src)="([^"]*)"/g))
        assert.match(target!, /^(#|data:,)/);
    assert.notMatch(page, /url\(|@import|\bon[a-z]+="/);
  });

  it("leads only to places that it has", () => {
    const page = renderHtml(fullReport(), diff);
    const targets = [...page.matchAll(/ href="#([^"]*)"/g)].map(([, id]) => id!);
    assert.isAbove(targets.length, 8);
    for (const id of targets) assert.include(page, ` id="${id}"`);
    const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
    assert.equal(new Set(ids).size, ids.length);
  });

  it("captions its tables and gives their headers a scope", () => {
    const page = renderHtml(fullReport(), diff);
    const tables = page.match(/<table[^>]*>\s*<caption>/g) ?? [];
    assert.equal(tables.length, page.match(/<table/g)!.length);
    for (const header of page.match(/<th[ >][^>]*/g)!) assert.match(header, /scope="(col|row)"/);
  });

  it("takes no text for markup", () => {
    const hostile = `<img src=x onerror="alert(1)">'&amp;\u0007\ud800</style></title>`;
    const change = (text: string) => `${hostile}${text}`;
    const page = renderHtml(
      withTexts(fullReport(), change, closedFields),
      withTexts(diff, change, closedFields),
    );
    const plain = tagsOf(renderHtml(fullReport(), diff)).map((text) => /^<\/?\w+/.exec(text)![0]);
    assert.deepEqual(
      tagsOf(page).map((text) => /^<\/?\w+/.exec(text)![0]),
      plain,
    );
    assert.include(
      page,
      "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&#39;&amp;amp;\ufffd\ufffd&lt;/style&gt;",
    );
  });

  it("says in words what is broken, kept, skipped and unfinished", () => {
    const page = renderHtml(fullReport());
    assert.include(page, "✗ Breaks 2 of the 6 laws that bind it");
    const cells = [...page.matchAll(/<td class="cell (\w+)"><b>(?:<a [^>]*>)?([^<]*)/g)].map(
      ([, status, text]) => [status, text],
    );
    assert.deepEqual(cells, [
      ["broken", "✗ 1 broken"],
      ["kept", "✓ 1 kept"],
      ["unfinished", "… 1 unfinished"],
      ["skipped", "– not supported"],
      ["kept", "✓ 1 kept"],
    ]);
    assert.include(page, "without product");
    assert.include(page, "the time budget was used up");
  });

  it("shows failures with all that is known of them", () => {
    const page = renderHtml(fullReport());
    const [first, second] = page.split('<article class="failure"').slice(1);
    for (const text of [
      "k: 9, data: &quot;uniform&quot;",
      "await checkCase(create",
      'class="first">NaN<',
      "2.25",
    ])
      assert.include(first!, text);
    assert.include(
      first!,
      "--replay &#39;{&quot;law&quot;:&quot;gemm f32: stays within the error bound&quot;,&quot;seed&quot;:1,",
    );
    assert.include(second!, "1 element past the end of output");
    assert.notInclude(second!.split("</article>")[0]!, "<table");
  });

  it("sets what is declared against what was observed", () => {
    const page = renderHtml(fullReport());
    const rows = page.split('id="numerics"')[1]!.split("</section>")[0]!.split("<tr>").slice(2);
    const verdicts = rows.map((row) => /<td class="(\w+)">([^<]*)/.exec(row)!.slice(1, 3));
    assert.deepEqual(verdicts, [
      ["broken", "✗ promise broken"],
      ["kept", "✓ promise kept"],
      ["skipped", "– not promised, but nothing spoke against it"],
      ["skipped", "– not promised"],
      ["skipped", "– not tried"],
    ]);
    assert.include(rows[0]!, "1 of 2 held");
    assert.include(rows[0]!, "result 3 is 0");
  });

  it("sets the units that are declared against those that were observed", () => {
    const page = renderHtml(fullReport());
    const rows = page.split('id="accuracy"')[1]!.split("</section>")[0]!.split("<tr>").slice(2);
    const cells = rows.map((row) => [...row.matchAll(/<t[hd][^>]*>([^<]*)</g)].map(([, text]) => text));
    assert.deepEqual(cells, [
      ["gelu", "x &lt; -1", "6.5", "5.891", "-2.25", "✓ kept"],
      ["gelu", "-1 ≤ x &lt; 0", "2", "3.5", "-0.5", "✗ exceeded"],
      ["gelu", "x ≥ 0", "2", "", "", "– not tried"],
      ["pow", "all", "", "∞", "(0.5, 3)", "– not declared"],
    ]);
    assert.notInclude(renderHtml(sampleReport()), 'id="accuracy"');
  });

  it("draws a bar for each bucket that has cases, and marks those above 1", () => {
    const ratios = ratioEnds.map(() => 0);
    ratios[0] = 5;
    ratios[17] = 7;
    const page = renderHtml(
      sampleReport({ operations: [operationReport("gemm", { ratios: [...ratios, 2] })] }),
    );
    const bars = [...page.matchAll(/<rect class="(\w+)"[^>]*height="([\d.]+)"><title>([^<]*)/g)];
    assert.deepEqual(
      bars.map(([, kind, , title]) => [kind, title]),
      [
        ["exact", "exact: 5"],
        ["bar", "up to 1: 7"],
        ["beyond", "above 1: 2"],
      ],
    );
    // log10(1 + cases), on a scale that ends at 10.
    assert.deepEqual(
      bars.map(([, , height]) => height),
      [5, 7, 2].map((cases) => (84 * Math.log10(1 + cases)).toFixed(1)),
    );
  });

  it("draws a square for each pair of extents, summed over the others", () => {
    const page = renderHtml(fullReport());
    const titles = [...page.matchAll(/<rect class="(heat-\w)"[^>]*><title>([^<]*)/g)].map(
      ([, heat, title]) => [heat, title],
    );
    assert.deepEqual(titles, [
      ["heat-1", "m 1, n 1: 9 cases, worst 0.0020"],
      ["heat-x", "m 2 to 3, n 2 to 3: 1 case, worst ∞"],
      ["heat-5", "m 128 to 255, n 8 to 15: 1,200 cases, worst 0.90"],
      ["heat-0", "m 0, n 16 to 31: 2 cases, worst 0"],
      ["heat-2", "reduced 512 to 1,023, kept 1: 3 cases, worst 0.040"],
      ["heat-3", "n 32 to 63: 30 cases, worst 0.20"],
    ]);
  });

  it("shows what has changed", () => {
    const section = renderHtml(fullReport(), diff).split('id="changes"')[1]!.split("</section>")[0]!;
    for (const text of ["The device is another.", "it is wrong now", "f32 is gone", "0.010", "0.50"])
      assert.include(section, text);
    for (const letter of "abcdefg") assert.include(section, `gemm f32: ${letter}`);
    const added = Array.from({ length: 40 }, (_, i) => `law ${i}`);
    const long = renderHtml(fullReport(), { ...diff, added });
    tagsOf(long);
    assert.match(long, /<details><summary><b>[^<]*\(40\)<\/b><\/summary><ul><li>law 0<.*<li>law 39<\/li>/s);
    const same = { ...diff, broken: [], fixed: [], lost: [], gained: [], missing: [], added: [], ratios: [] };
    assert.include(renderHtml(fullReport(), same), "Nothing has changed.");
    assert.notInclude(renderHtml(fullReport()), 'id="changes"');
  });

  it("is a page for reports in which there is next to nothing, too", () => {
    const { run, subject } = sampleReport();
    const page = renderHtml(
      sampleReport({
        subject: { ...subject, name: "", dtypes: [] },
        run: { ...run, complete: false, note: "the run was stopped" },
      }),
    );
    tagsOf(page);
    assert.include(page, "The run was stopped.");
    for (const id of ["failures", "numerics", "accuracy", "errors", "shapes", "times", "laws"])
      assert.notInclude(page, `id="${id}"`);
    tagsOf(renderHtml(sampleReport({ laws: [lawReport("memory", "x", { status: "broken" })] })));
    const untried = operationNames.map((name) =>
      operationReport(name, { kept: 0, cases: 0, milliseconds: 0 }),
    );
    assert.include(renderHtml(sampleReport({ operations: untried })), "– not tried");
  });
});

describe("The markup of reports", () => {
  it("escapes what stands between its braces, and nothing else", () => {
    const inner = html`<b>${"<&>"}</b>`;
    assert.equal(
      html`<p title="${`"'`}">${inner}${1}${undefined}${["a", inner]}</p>`.text,
      '<p title="&quot;&#39;"><b>&lt;&amp;&gt;</b>1a<b>&lt;&amp;&gt;</b></p>',
    );
  });

  it("replaces what no page may hold", () => {
    assert.equal(escapeHtml("a\u0000b\ud83dc\tz\n\u009f"), "a\ufffdb\ufffdc\tz\n\ufffd");
    assert.equal(escapeHtml("whole: 😀"), "whole: 😀");
  });
});
