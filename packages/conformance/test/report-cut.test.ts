// Tags: proof
import { readFile } from "node:fs/promises";
import { assert } from "chai";
import { buildReport, createReferenceBackend, parseReport, runSuite } from "#src/index.js";
import { violations } from "./support/schema.js";

describe("A report of a run that its time budget cut short", () => {
  it("is what the published schema says", async () => {
    const published = import.meta.resolve("@backplane/conformance/conformance-report.schema.json");
    const schema = JSON.parse(await readFile(new URL(published), "utf8"));
    const report = buildReport(
      await runSuite({
        name: "subject",
        create: createReferenceBackend,
        options: { timeBudget: 50, grade: "tight", law: "conv2d" },
      }),
    );
    assert.deepEqual(violations(schema, report), []);
    assert.deepEqual(parseReport(JSON.stringify(report)), report);
    assert.isFalse(report.run.complete);
    assert.isAbove(report.totals.unfinished, 0);
  });
});
