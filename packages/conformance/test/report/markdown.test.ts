import { assert } from "chai";
import type { ReportDiff } from "#src/report/diff.js";
import { renderMarkdown } from "#src/report/markdown.js";
import { fullReport, lawReport, operationReport, sampleReport } from "../support/sample-report.js";

/** The cells of the table under a heading, trimmed. */
function tableUnder(text: string, heading: string): readonly (readonly string[])[] {
  const lines = text.split(`## ${heading}\n\n`)[1]!.split("\n\n")[0]!.split("\n");
  return lines.map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

describe("A report as Markdown", () => {
  it("begins with the verdict and what was tested", () => {
    const text = renderMarkdown(fullReport());
    assert.isTrue(
      text.startsWith("# Conformance of a backend\n\n**✗ Breaks 2 of the 6 laws that bind it.**\n"),
    );
    for (const line of [
      "- Device: A device (gpu, emulated in software)",
      "- Details: driver: 7.1",
      "- Seed: 1",
      "- Cases: 123",
      "- Started: 2026-01-02 03:04:05 UTC",
    ])
      assert.include(text, `${line}\n`);
  });

  it("has a row for each operation and element type", () => {
    const [header, rule, ...rows] = tableUnder(renderMarkdown(fullReport()), "Operations");
    assert.equal(header!.length, rule!.length);
    assert.deepEqual(rows[0], ["gemm", "f32", "✗ 1 broken", "1", "1", "", "", "∞", "0.50", "20", "25 ms"]);
    assert.deepEqual(rows[1]!.slice(0, 4), ["gemm", "f16", "✓ 1 kept", "1"]);
    assert.deepEqual(rows[2]!.slice(0, 7), ["reduce", "f32", "… 1 unfinished", "", "", "1", "1"]);
    assert.deepEqual(rows[3]!.slice(0, 3), ["reduce", "f16", "– not supported"]);
    assert.include(renderMarkdown(fullReport()), "\n- reduce in f32 is without product\n");
  });

  it("aligns its tables, so that they can be read as they are", () => {
    const lines = renderMarkdown(fullReport()).split("\n");
    const tables = lines.filter(
      (line) => line.startsWith("| operation") || /^\| (gemm|reduce|unary) /.test(line),
    );
    assert.equal(tables.length, 6);
    assert.equal(new Set(tables.map((line) => line.length)).size, 1);
  });

  it("shows failures with all that is known of them", () => {
    const text = renderMarkdown(fullReport());
    const [, first, second] = text.split("### ✗ ");
    for (const part of [
      "1 of 4 results is wrong",
      "**NaN**",
      "**2.25**",
      "k: 9",
      "await checkCase(",
      "--replay '{",
    ])
      assert.include(first!, part);
    assert.include(second!, "Overwritten: 1 element past the end of output");
    assert.notInclude(second!, "|");
  });

  it("sets what is declared against what was observed", () => {
    const text = renderMarkdown(fullReport());
    const [, , ...rows] = tableUnder(text, "Numerics, declared and observed");
    assert.deepEqual(rows[0], ["nan", "kept", "kept: does not hold", "✗ promise broken"]);
    assert.deepEqual(rows[4], ["deterministic", "yes", "not tried", "– not tried"]);
    assert.include(text, "- numerics f32: a NaN stays: result 3 is 0\n");
  });

  it("sets the units that are declared against those that were observed", () => {
    const [, , ...rows] = tableUnder(renderMarkdown(fullReport()), "Accuracy, declared and observed");
    assert.deepEqual(rows[0], ["gelu", "x \\< -1", "6.5", "5.891", "-2.25", "✓ kept"]);
    assert.deepEqual(rows[3], ["pow", "all", "", "∞", "(0.5, 3)", "– not declared"]);
  });

  it("takes no text for Markdown or HTML", () => {
    const hostile = "a | b `c` *d* <img src=x> [e](f) _g_\n# h &lt; \\";
    const plain = "a \\| b \\`c\\` \\*d\\* \\<img src=x> [e\\](f) \\_g\\_ # h \\&lt; \\\\";
    const text = renderMarkdown(
      sampleReport({
        subject: { ...sampleReport().subject, name: hostile },
        laws: [lawReport(hostile, "x", { status: "broken", id: hostile, reason: hostile })],
      }),
    );
    assert.include(text, `# Conformance of ${plain}\n`);
    assert.include(text, `| ${plain} | ✗ 1 broken |`);
    assert.include(text, `### ✗ ${plain}\n\n${plain}\n`);
    const starts = ["# a", "- a", "1. a", "> a", "[ ] a"].map((name) =>
      lawReport("t", name, { status: "broken", reason: name }),
    );
    const escaped = renderMarkdown(sampleReport({ laws: starts }));
    for (const start of ["\\# a", "\\- a", "1\\. a", "\\> a", "\\[ ] a"])
      assert.include(escaped, `\n\n${start}\n`);
  });

  it("fences code with more backticks than it holds", () => {
    const [law] = fullReport().laws.filter(({ failure }) => failure !== null);
    const failure = { ...law!.failure!, case: "a\n````\nb" };
    assert.include(
      renderMarkdown(sampleReport({ laws: [{ ...law!, failure }] })),
      "`````js\na\n````\nb\n`````\n",
    );
  });

  it("shows what has changed", () => {
    const diff: ReportDiff = {
      before: { name: "old", startedAt: "2025-12-31T00:00:00.000Z" },
      after: { name: "new", startedAt: "2026-01-02T00:00:00.000Z" },
      remarks: ["The seed is another."],
      broken: [{ law: "gemm f32: a", before: "kept", after: "broken", reason: "wrong" }],
      ...{ fixed: [], lost: [], gained: [], missing: ["gemm f32: e"], added: [] },
      ratios: [{ law: "gemm f32: g", before: 0.01, after: 0.5 }],
    };
    const text = renderMarkdown(fullReport(), diff);
    assert.include(text, "From old, 2025-12-31 00:00:00 UTC, to new, 2026-01-02 00:00:00 UTC.");
    for (const line of [
      "- Note: The seed is another.",
      "- ✗ gemm f32: a (kept → broken): wrong",
      "- gemm f32: e",
      "- gemm f32: g: 0.010 → 0.50",
    ])
      assert.include(text, `${line}\n`);
    assert.notInclude(text, "Fixed");
    const added = Array.from({ length: 40 }, (_, i) => `law ${i}`);
    const long = renderMarkdown(fullReport(), { ...diff, added });
    assert.include(long, "not in the earlier report (40):\n\n- law 0\n");
    assert.include(long, "- law 11\n- … and 28 more\n");
    assert.include(
      renderMarkdown(fullReport(), { ...diff, broken: [], missing: [], ratios: [] }),
      "Nothing has changed.",
    );
  });

  it("is short where there is next to nothing", () => {
    const text = renderMarkdown(sampleReport());
    assert.include(text, "**– No law was tried.**");
    assert.notInclude(text, "## ");
    assert.notInclude(renderMarkdown(sampleReport({ operations: [operationReport("gemm")] })), "## Numerics");
  });
});
