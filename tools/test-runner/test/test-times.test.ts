import { assert } from "chai";
import { sourceOf, TestLines, timeTables } from "#src/test-times.js";

describe("times of tests", () => {
  it("stand in a line for each test, below a line for each suite", () => {
    const lines = new TestLines();
    const text = [
      { titlePath: ["gemm", '"before all" hook'], state: "hook", milliseconds: 100 },
      { titlePath: ["gemm", "adds"], state: "passed", milliseconds: 12.4 },
      { titlePath: ["gemm", '"before each" hook'], state: "hook", milliseconds: 101 },
      { titlePath: ["gemm", "multiplies"], state: "failed", milliseconds: 1234 },
      { titlePath: ["gemm", "f16", "adds"], state: "skipped", milliseconds: 0 },
      { titlePath: ["stands alone"], state: "passed", milliseconds: 0 },
    ] as const;
    assert.deepEqual(
      text
        .map((test) => lines.lineOf(test))
        .join("")
        .split("\n"),
      [
        "  gemm",
        "      12 ms  adds",
        '     101 ms  "before each" hook',
        "    1234 ms  FAILED: multiplies",
        "  gemm > f16",
        "    skipped  adds",
        "  ",
        "       0 ms  stands alone",
        "",
      ],
    );
  });

  it("are summed up for each package, and for each file that takes long", () => {
    const time = (file: string, title: string, milliseconds: number) => ({ file, title, milliseconds });
    const tables = timeTables([
      time("packages/a/test/one.test.ts", "first", 600),
      time("packages/a/test/one.test.ts", "second", 700),
      time("packages/a/test/two.test.ts", "third", 300),
      time("packages/a/test/browser/two.ts", "fourth", 2000),
      time("bench/test/three.test.ts", "fifth", 100),
    ]);
    assert.deepEqual(tables.split("\n"), [
      "The 5 slowest tests:",
      "    2.0 s  packages/a/test/browser/two.ts: fourth",
      "    0.7 s  packages/a/test/one.test.ts: second",
      "    0.6 s  packages/a/test/one.test.ts: first",
      "    0.3 s  packages/a/test/two.test.ts: third",
      "    0.1 s  bench/test/three.test.ts: fifth",
      "",
      "Time of the tests of each package, and of each file that takes long:",
      "    3.6 s  packages/a",
      "    2.0 s    test/browser/two.ts",
      "    1.3 s    test/one.test.ts",
      "    0.3 s    1 others",
      "    0.1 s  bench",
      "    0.1 s    1 others",
    ]);
  });

  it("name 25 tests at most", () => {
    const times = Array.from({ length: 30 }, (_, i) => ({
      file: "bench/test/a.test.ts",
      title: `t${i}.`,
      milliseconds: i,
    }));
    const tables = timeTables(times);
    assert.include(tables, ": t5.\n");
    assert.notInclude(tables, ": t4.");
  });

  it("are of sources, not of what was compiled from them", () => {
    for (const compiled of ["/root/packages/a/dist-test/b/c.test.js", "/packages/a/dist-test/b/c.test.js"])
      assert.equal(sourceOf(compiled, "/root/"), "packages/a/test/b/c.test.ts");
  });
});
