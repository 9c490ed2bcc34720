import { assert } from "chai";
import { summaryText } from "#src/cli/text.js";
import { operationReport, sampleReport } from "../support/sample-report.js";

const lacking = { supported: false, kept: 0, cases: 0 } as const;

describe("The summary in the terminal", () => {
  it("has a row for each operation that was tried, and one line for all that the backend lacks", () => {
    const text = summaryText(
      sampleReport({
        operations: [
          operationReport("gemm", lacking),
          operationReport("gemm", { ...lacking, dtype: "f16" }),
          operationReport("unary"),
          operationReport("unary", { ...lacking, dtype: "f16" }),
          operationReport("unary", { ...lacking, dtype: "i32" }),
          operationReport("binary"),
          operationReport("sort", lacking),
        ],
      }),
    );
    assert.deepEqual(
      text.match(/^(?:gemm|unary|binary|sort) \w+ +\d+/gm)?.map((row) => row.replace(/ +/g, " ")),
      ["unary f32 1", "binary f32 1"],
    );
    assert.deepEqual(text.match(/^.*unsupported.*$/gm), [
      "unsupported: 2 of 4 operations (gemm, sort); unary in f16, i32",
    ]);
  });

  it("says nothing of it if the backend lacks nothing that was asked for", () => {
    const operations = [operationReport("unary"), operationReport("gemm", lacking)];
    const sample = sampleReport({ operations });
    const filters = { operations: ["unary"], dtypes: null, law: null } as const;
    assert.notMatch(summaryText({ ...sample, run: { ...sample.run, filters } }), /unsupported/);
    assert.match(summaryText(sample), /unsupported: 1 of 2 operations \(gemm\)/);
  });
});
