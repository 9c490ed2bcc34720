import { fileURLToPath } from "node:url";
import { createCpuBackend } from "@backplane/backend-cpu";
import type { ComputeBackend } from "@backplane/core";
import { expect } from "chai";
import { Anchor } from "#src/anchor.js";
import type { Case, Goal } from "#src/cases/case.js";
import { add, unary } from "#src/cases/elementwise.js";
import { gemm } from "#src/cases/gemm.js";
import { line } from "#src/lines.js";
import { markdownTables, tableEnd, tableStart, withTables } from "#src/markdown.js";
import { measureCase, type Subject } from "#src/measure.js";
import type { Report, Row } from "#src/result.js";

const command = `"${process.execPath}" "${fileURLToPath(new URL("./programs/anchor.js", import.meta.url))}"`;
const pace = { sample: 0, warmUp: 0 };

/** What a promise rejects with. */
async function rejection(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    return (error as Error).message;
  }
  return "nothing";
}

describe("anchors", () => {
  it("are started, asked and ended", async () => {
    const { anchor, about } = await Anchor.start(command);
    expect(about).to.deep.equal({ name: "idle" });
    const test: Case = { ...unary("exp", 16), problem: { seconds: 0.25 } };
    const contender = await anchor.open(test);
    expect(await contender.sample(pace)).to.equal(0.25);
    await contender.close();
    expect(await rejection(anchor.open({ ...test, problem: {} }))).to.equal("anchor: no such operation");
    await anchor.stop();
    expect(await rejection(anchor.open(test))).to.equal("the anchor ended with exit code 0");
  });

  it("that end early, or never start, say so and do not keep anybody waiting", async () => {
    const { anchor } = await Anchor.start(command);
    const left = rejection(anchor.open({ ...unary("exp", 16), problem: { leave: true } }));
    expect(await left).to.equal("the anchor ended with exit code 3");
    await anchor.stop();
    expect(await rejection(Anchor.start("exit 7"))).to.match(/^the anchor (ended with exit code 7|does not)/);
  });
});

describe("measuring a case", () => {
  let backend: ComputeBackend;
  let subject: Subject;
  before(async () => {
    backend = createCpuBackend({ threads: 1 });
    await backend.init();
    subject = { name: "cpu", backend, copyBandwidth: 1e9, matrices: false };
  });
  after(() => backend.dispose());
  afterEach("nothing is left allocated", () => {
    expect(backend.memory().liveBytes).to.equal(0);
  });

  it("times ours and the anchor in as many rounds as asked for, and compares them", async () => {
    const { anchor } = await Anchor.start(command);
    const test: Case = {
      ...unary("exp", 2 ** 12),
      problem: { seconds: 1000 },
      goal: { against: "torch", atLeast: 0.5 },
    };
    const { rows, missing } = await measureCase(test, [subject], { pace, rounds: 3, anchor });
    await anchor.stop();
    expect(missing).to.deep.equal([]);
    expect(rows).to.have.length(1);
    const [row] = rows;
    expect(row!.samples).to.have.length(3);
    expect(row!.comparison).to.deep.include({ against: "torch", median: 1000, samples: [1000, 1000, 1000] });
    expect(row!.comparison!.bestRatio).to.be.closeTo(1000 / row!.best, 1e-6);
    expect(row!.ofFloor).to.be.closeTo((2 * 4 * 2 ** 12) / 1e9 / row!.median, 1e-9);
  });

  it("warms up longer in turns with matrix units of an anchor", async () => {
    const { anchor } = await Anchor.start(command);
    const goal = { against: "torch", atLeast: 1 } as const;
    const asked: (number | undefined)[] = [];
    for (const dtype of ["f32", "f16"] as const) {
      const test: Case = { ...gemm(8, 8, 8, { dtype, goal }), problem: { seconds: 1, warmUp: true } };
      const conditions = { pace: { sample: 0, warmUp: 0.01 }, rounds: 1, anchor };
      const { rows } = await measureCase(test, [subject], conditions);
      asked.push(rows[0]?.comparison?.samples[0]);
    }
    await anchor.stop();
    expect(asked).to.deep.equal([0.01, 0.15]);
  });

  it("compares by work with another case of ours, with copies, and with a fixed time", async () => {
    const other = gemm(8, 8, 8);
    const goals: readonly [Case, string][] = [
      [gemm(16, 16, 16, { goal: { against: "case", other, atLeast: 1 } }), other.name],
      [add(4, 4, false, { goal: { against: "copy", atLeast: 1 } }), "copy"],
      [add(4, 4, false, { goal: { against: "time", microseconds: 5, atLeast: 1 } }), "5 us"],
    ];
    for (const [test, against] of goals) {
      const { rows } = await measureCase(test, [subject], { pace, rounds: 1 });
      const { comparison, samples } = rows[0]!;
      expect(comparison!.against).to.equal(against);
      const work = against === other.name ? 8 : against === "copy" ? (3 * 4 * 16) / 2 ** 27 : 1;
      expect(comparison!.ratio).to.be.closeTo((work * comparison!.samples[0]!) / samples[0]!, 1e-9);
    }
  });

  it("times the anchor, too, if the goal is about something else", async () => {
    const { anchor } = await Anchor.start(command);
    const other = gemm(8, 8, 8);
    const goals: readonly [goal: Goal, against: string][] = [
      [{ against: "copy", atLeast: 1 }, "copy"],
      [{ against: "time", microseconds: 5, atLeast: 1 }, "5 us"],
      [{ against: "case", other, atLeast: 1 }, other.name],
    ];
    for (const [goal, against] of goals) {
      const test: Case = { ...add(4, 4, false, { goal }), problem: { seconds: 1000 } };
      const { rows, missing } = await measureCase(test, [subject], { pace, rounds: 3, anchor });
      expect(missing).to.deep.equal([]);
      expect(rows[0]!.comparison).to.deep.include({ against, atLeast: 1 });
      expect(rows[0]!.anchor).to.deep.include({ against: "torch", samples: [1000, 1000, 1000] });
      expect(rows[0]!.anchor!.bestRatio).to.be.closeTo(1000 / rows[0]!.best, 1e-3);
    }
    // What it cannot do is said, and the row is as without it.
    const unknown: Case = { ...add(4, 4, false, { goal: goals[0]![0] }), problem: {} };
    const { rows, missing } = await measureCase(unknown, [subject], { pace, rounds: 1, anchor });
    expect(rows[0]!.comparison!.against).to.equal("copy");
    expect(rows[0]).not.to.have.property("anchor");
    const reason = "anchor: no such operation";
    expect(missing).to.deep.equal([{ case: unknown.name, configuration: "cpu", reason, failed: false }]);
    // Without a goal it is the only comparison; with a goal about it, it is there once.
    const free: Case = { ...add(4, 4, false), problem: { seconds: 1 } };
    const alone = await measureCase(free, [subject], { pace, rounds: 1, anchor });
    expect(alone.rows[0]!.comparison).to.equal(undefined);
    expect(alone.rows[0]!.anchor!.samples).to.deep.equal([1]);
    const torch: Case = { ...free, goal: { against: "torch", atLeast: 1 } };
    const once = await measureCase(torch, [subject], { pace, rounds: 1, anchor });
    expect(once.rows[0]!.comparison!.against).to.equal("torch");
    expect(once.rows[0]).not.to.have.property("anchor");
    // An anchor that ends on the way takes only its own comparison with it.
    const tired: Case = { ...unknown, problem: { seconds: 1, tire: true } };
    const left = await measureCase(tired, [subject], { pace, rounds: 4, anchor });
    await anchor.stop();
    expect(left.rows[0]!.comparison!.samples).to.have.length(4);
    expect(left.rows[0]).not.to.have.property("anchor");
    expect(left.missing.map(({ reason }) => reason)).to.deep.equal(["the anchor ended with exit code 3"]);
  });

  it("says both ratios, in lines and in tables", async () => {
    const test = add(4, 4, false, { goal: { against: "copy", atLeast: 0.5 } });
    const { rows } = await measureCase(test, [subject], { pace, rounds: 1 });
    const ratio = { median: 1, best: 1, samples: [1], spread: 0 };
    const row: Row = {
      ...rows[0]!,
      comparison: { ...ratio, against: "copy", ratio: 0.97, bestRatio: 0.98, atLeast: 0.5 },
      anchor: { ...ratio, against: "torch", ratio: 3.4, bestRatio: 3.5 },
    };
    expect(line(row)).to.match(/0\.97 of copy \(best 0\.98\).* 3\.40 of torch \(best 3\.50\)/);
    const table = (row: Row) => markdownTables([{ rows: [row] } as unknown as Report]);
    expect(table(row)).to.include("| 0.97 of copy; 3.40 of torch |");
    const scattered = { ...row, anchor: { ...row.anchor!, spread: 0.2 } };
    expect(table(scattered)).to.include("| 0.97 of copy; 3.40? of torch |");
    const { comparison: _, ...rest } = row;
    expect(table(rest)).to.include("| 3.40 of torch |");
  });

  it("goes on without an anchor, and without a case whose result is wrong", async () => {
    const test = unary("exp", 16, { goal: { against: "torch", atLeast: 1 } });
    const lonely = await measureCase(test, [subject], { pace, rounds: 1 });
    expect(lonely.rows[0]!.comparison).to.equal(undefined);
    expect(lonely.missing).to.deep.equal([
      { case: test.name, configuration: "cpu", reason: "no anchor was given", failed: false },
    ]);
    const wrong: Case = { ...test, expected: () => ({ value: 7, tolerance: 0 }) };
    const failed = await measureCase(wrong, [subject], { pace, rounds: 1 });
    expect(failed.rows).to.deep.equal([]);
    expect(failed.missing[0]!.failed).to.equal(true);
    expect(failed.missing[0]!.reason).to.match(/^element 15 is .*, expected 7 \+- 0$/);
  });

  it("keeps ours where the anchor ends on the way", async () => {
    const { anchor } = await Anchor.start(command);
    const problem = { seconds: 1, tire: true };
    const test: Case = { ...unary("exp", 16), problem, goal: { against: "torch", atLeast: 1 } };
    const { rows, missing } = await measureCase(test, [subject], { pace, rounds: 4, anchor });
    expect(rows[0]!.samples).to.have.length(4);
    expect(rows[0]!.comparison).to.equal(undefined);
    expect(missing.map(({ reason }) => reason)).to.deep.equal(["the anchor ended with exit code 3"]);
  });

  it("gives rows that a document can hold", async () => {
    const test = add(4, 4, false, { goal: { against: "time", microseconds: 1e9, atLeast: 1 } });
    const { rows } = await measureCase(test, [subject], { pace, rounds: 1 });
    const report = { rows } as unknown as Report;
    const tables = markdownTables([report]);
    expect(tables).to.match(
      /^### Element by element\n[\s\S]*\| binary f32 add 16, `cpu` \| {2}\| .* of 1000000000 us \|$/,
    );
    // Another configuration is told only where it takes another time, and if it is wanted.
    const other = (configuration: string, factor: number) => ({
      ...rows[0]!,
      configuration,
      median: rows[0]!.median * factor,
    });
    const all = [rows[0]!, other("alike", 1.04), other("slower", 1.06), other("unwanted", 2)];
    const more = markdownTables([{ rows: all } as unknown as Report], ["unwanted"]);
    expect(more)
      .to.include("`slower`")
      .and.not.to.match(/`alike`|`unwanted`/);
    // The last report that has a case counts, and its card is named.
    const card = (name: string, median: number) =>
      ({ rows: [{ ...rows[0]!, median }], devices: { cpu: { name } } }) as unknown as Report;
    const two = markdownTables([card("nvidia-h200", 1), card("nvidia-h100-80gb-hbm3", 2)]);
    expect(two).to.include("| H100 | 2000000 |").and.not.to.include("H200");
    // What the first configuration took on another card says nothing of this one.
    const cards = markdownTables([
      card("nvidia-h200", 1),
      { rows: [other("alike", 1)] } as unknown as Report,
    ]);
    expect(cards).to.include("`alike`");
    const document = `before\n${tableStart}\nold\n${tableEnd}\nafter\n`;
    const filled = withTables(document, tables);
    expect(filled).to.include(tables).and.not.to.include("old");
    expect(withTables(filled, tables)).to.equal(filled);
    expect(() => withTables("none", tables)).to.throw("has no lines");
  });
});
