import { expect } from "chai";
import { dotPlot, escapeText, lineChart, logarithmic, tickName } from "#src/chart.js";
import { drawings } from "#src/drawings.js";
import type { Report, Row } from "#src/result.js";

/** The coordinates of every element of a kind. */
function attributes(svg: string, element: string, name: string): number[] {
  const pattern = new RegExp(`<${element}\\b[^>]*\\b${name}="([^"]*)"`, "g");
  return Array.from(svg.matchAll(pattern), ([, value]) => Number(value));
}

describe("logarithmic axes", () => {
  it("place powers at equal distances, and ticks on them", () => {
    const { at, ticks } = logarithmic([1, 1000], 0, 300, 10);
    expect(ticks).to.deep.equal([1, 10, 100, 1000]);
    expect([1, 10, 100, 1000].map((value) => Math.round(at(value)))).to.deep.equal([0, 100, 200, 300]);
  });

  it("hold all values, and skip ticks where there would be too many", () => {
    const { at, ticks } = logarithmic([3, 2 ** 28], 0, 100, 2);
    expect(at(3)).to.be.within(0, 100);
    expect(at(2 ** 28)).to.be.at.most(100 + 1e-9);
    expect(ticks.length).to.be.at.most(10);
  });

  it("do without values that have no logarithm, but not without any", () => {
    expect(logarithmic([0, 5, Number.POSITIVE_INFINITY], 0, 1, 10).ticks).to.deep.equal([1, 10]);
    expect(() => logarithmic([0], 0, 1, 10)).to.throw(RangeError, "no value is above 0");
  });

  it("name their ticks shortly", () => {
    expect([0.0001, 0.25, 1, 100, 1e6].map(tickName)).to.deep.equal(["1e-4", "0.25", "1", "100", "1e6"]);
  });
});

describe("charts", () => {
  const points = [
    { x: 64, y: 8 },
    { x: 256, y: 100 },
  ];
  const line = lineChart({
    title: "a < b & c",
    xLabel: "size",
    yLabel: "time",
    series: [
      { name: "ours", color: 0, dashed: false, points },
      { name: "theirs", color: 1, dashed: true, points },
    ],
  });

  it("show every point of every curve, inside the picture", () => {
    const [x, y] = [attributes(line, "circle", "cx"), attributes(line, "circle", "cy")];
    expect(x).to.have.length(4);
    expect(Math.min(...x)).to.be.at.least(76);
    expect(Math.max(...x)).to.be.at.most(700);
    expect(y[1], "more time stands higher").to.be.below(y[0]!);
    expect(line.match(/<path/g)).to.have.length(2);
    expect(line).to.include(">ours</text>").and.to.include(">theirs</text>");
  });

  it("are readable on light and on dark ground, and hold no markup from names", () => {
    expect(line).to.include("prefers-color-scheme: dark").and.to.include("a &lt; b &amp; c");
    expect(escapeText('<"&>')).to.equal("&lt;&quot;&amp;&gt;");
  });

  it("mark where both are as fast, on axes without room for every power, too", () => {
    for (const value of [3, 128, 2 ** 30]) {
      const dots = [0.125, value].map((ratio) => ({ value: ratio, best: ratio, color: 0, unsure: false }));
      const rows = [{ label: "", goal: 0, dots }];
      const svg = dotPlot({ title: "", xLabel: "", legend: [], rows });
      expect(svg.match(/class="axis"/g), `${value}`).to.have.length(1);
      expect(svg, `${value}`).to.include(">1</text>");
    }
  });

  it("show a ratio and its goal, and mark what is not sure", () => {
    const svg = dotPlot({
      title: "ratios",
      xLabel: "ratio",
      legend: [{ name: "default", color: 0 }],
      rows: [
        { label: "gemm", goal: 0.9, dots: [{ value: 0.5, best: 1, color: 0, unsure: false }] },
        { label: "sum", goal: 0.9, dots: [{ value: 2, best: 1, color: 0, unsure: true }] },
      ],
    });
    expect(svg.match(/class="goal"/g)).to.have.length(2);
    expect(svg.match(/ hollow"/g)).to.have.length(1);
    const [, , first, , second] = attributes(svg, "circle", "cx");
    expect(second).to.be.above(first!);
  });
});

describe("drawings of results", () => {
  const row = (name: string, median: number, more: Partial<Row> = {}): Row => ({
    case: name,
    operation: "gemm",
    dtype: "f32",
    configuration: "default",
    flops: 1e9,
    bytes: 1e6,
    median,
    best: median,
    samples: [median],
    spread: 0,
    worstError: 0,
    unstable: false,
    ...more,
  });
  const report = (rows: readonly Row[]): Report => ({
    date: "2026-01-01T00:00:00.000Z",
    versions: {},
    machine: "",
    command: [],
    devices: {},
    copyBandwidth: {},
    rounds: 1,
    sampleMilliseconds: 1,
    rows,
    missing: [],
    log: [],
  });
  const comparison = {
    ...{ against: "torch", median: 1, best: 1, samples: [1] },
    ...{ ratio: 2, bestRatio: 2, spread: 0, atLeast: 0.9 },
  };

  it("make a file for each curve and one for the comparisons", () => {
    const files = drawings([
      report([
        row("a", 1, { curve: { name: "gemm f32", x: 64 } }),
        row("b", 2, { curve: { name: "gemm f32", x: 128 }, comparison }),
        row("c", 3, { curve: { name: "reduce f32", x: 64 } }),
        row("d", 4, { comparison }),
        row("e", 5),
      ]),
    ]);
    expect([...files.keys()]).to.have.members(["curve-gemm-f32", "curve-reduce-f32", "against-anchors"]);
    expect(files.get("curve-gemm-f32")).to.include(">torch</text>");
    expect(files.get("against-anchors")).to.include("d / torch").and.not.to.include(">e /");
  });

  it("give a configuration the same colour everywhere", () => {
    const files = drawings([
      report([
        row("a", 1, { curve: { name: "gemm f32", x: 64 } }),
        row("b", 1, { configuration: "unchecked", curve: { name: "gemm f16", x: 64 } }),
      ]),
    ]);
    expect(files.get("curve-gemm-f32")).to.include('<path class="line0"');
    expect(files.get("curve-gemm-f16")).to.include('<path class="line1"').and.not.to.include('class="line0"');
  });

  it("let a later file replace a case", () => {
    const [old, fresh] = [{ ...comparison, atLeast: 0 }, comparison];
    const files = drawings([
      report([row("d", 4, { comparison: old })]),
      report([row("d", 4, { comparison: fresh })]),
    ]);
    expect(files.get("against-anchors")!.match(/class="goal"/g)).to.have.length(1);
  });
});
