import { assert } from "chai";
import {
  formatBytes,
  formatCount,
  formatRatio,
  formatTime,
  replayCommand,
  verdictOf,
} from "#src/report/format.js";
import { lawReport, sampleReport } from "../support/sample-report.js";

describe("What reports say", () => {
  it("of a run as a whole is no more than was tested", () => {
    const { run } = sampleReport();
    const kept = [
      lawReport("memory", "a"),
      lawReport("memory", "b"),
      lawReport("memory", "c", { status: "skipped" }),
    ];
    const whole = verdictOf(sampleReport({ laws: kept }));
    assert.deepEqual(whole, { status: "kept", headline: "Keeps all 2 laws that bind it", remarks: [] });

    const filters = { operations: ["gemm", "reduce"] as const, dtypes: null, law: null };
    assert.deepEqual(verdictOf(sampleReport({ laws: kept, run: { ...run, filters } })).remarks, [
      "A part of the suite only: operations gemm, reduce.",
    ]);
    const replay = { law: "gemm f32: x", seed: 1 };
    assert.match(
      verdictOf(sampleReport({ laws: kept, run: { ...run, replay } })).remarks[0]!,
      /^A replay of one case/,
    );

    const stopped = { ...run, complete: false, note: "the run was stopped" };
    const partial = verdictOf(sampleReport({ laws: kept, run: stopped }));
    assert.deepEqual(partial.status, "unfinished");
    assert.deepEqual(partial.remarks, ["The run was stopped."]);
    const broken = [...kept, lawReport("memory", "d", { status: "broken" })];
    assert.equal(verdictOf(sampleReport({ laws: broken, run: stopped })).status, "broken");
    assert.equal(verdictOf(sampleReport({ laws: kept.slice(2) })).headline, "No law was tried");
    assert.equal(
      verdictOf(sampleReport({ laws: kept.slice(1) })).headline,
      "Keeps the one law that binds it",
    );
  });

  it("of ratios tells those above 1 from those below", () => {
    const shown = [0, 2 ** -24, 0.0123, 0.5, 0.996, 0.99999, 1, 1.00001, 1.004, 1.4, 12.3, 250.4, 3e5, 1e301];
    assert.deepEqual(shown.map(formatRatio), [
      ...[
        "0",
        "6.0e-8",
        "0.012",
        "0.50",
        "0.996",
        "<1",
        "1",
        ">1",
        "1.004",
        "1.4",
        "12",
        "250",
        "3.0e5",
        "∞",
      ],
    ]);
    assert.equal(formatRatio(null), "");
  });

  it("of times, counts and sizes is short", () => {
    const times = [0, 0.4, 12.4, 999, 1234, 59_900, 59_960, 61_000, 3_600_000];
    assert.deepEqual(times.map(formatTime), [
      ...["0 ms", "<1 ms", "12 ms", "999 ms", "1.2 s", "59.9 s", "1 min 0 s", "1 min 1 s", "1 h 0 min"],
    ]);
    assert.deepEqual([0, 999, 1000, 1234567].map(formatCount), ["0", "999", "1,000", "1,234,567"]);
    assert.deepEqual([12, 2 ** 30, 1.5 * 2 ** 20].map(formatBytes), ["12 bytes", "1 GiB", "1.5 MiB"]);
  });

  it("of replaying can be pasted into a shell", () => {
    assert.equal(
      replayCommand({ law: "it's so", seed: 1 }),
      `npx @backplane/conformance ./my-backend.js --replay '{"law":"it'\\''s so","seed":1}'`,
    );
  });
});
