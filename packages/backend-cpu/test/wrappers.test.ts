// Tags: kernels, pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { CompareBackend, createReferenceBackend, describeBackend, laws } from "@backplane/conformance";
import { operationNames, TraceBackend } from "@backplane/core";
import { assert } from "chai";

const operations: readonly string[] = operationNames;

/** One law on each operation and element type, and what is around operations. */
const chosen = laws.filter(({ topic, dtype, name }, index) => {
  if (["lifecycle", "in-place", "stateful"].includes(topic)) return true;
  if (topic === "memory") return !/any offset|8 MiB|freed|pool/.test(name);
  const isFirst = laws.findIndex((law) => law.topic === topic && law.dtype === dtype) === index;
  return operations.includes(topic) && isFirst;
});

describe("CompareBackend over the CPU and the reference, under a trace", () => {
  const compared: CompareBackend[] = [];
  describeBackend(
    {
      name: "it",
      create() {
        const compare = new CompareBackend(createCpuBackend({ threads: 1 }), createReferenceBackend());
        compared.push(compare);
        return new TraceBackend(compare, () => {});
      },
      options: { mode: "quick", runs: 2, laws: chosen },
    },
    globalThis,
  );

  after(() => {
    const reports = compared.map((compare) => compare.report());
    assert.deepEqual(
      reports.flatMap(({ first }) => first?.message ?? []),
      [],
    );
    // Unless only a few of these tests were chosen.
    if (reports.length > 3)
      assert.isAbove(
        reports.reduce((sum, report) => sum + report.compared, 0),
        500,
      );
  });
});
