// Tags: kernels, pure, long
import * as cpu from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import type { ComputeBackend } from "@backplane/core";
import { assert } from "chai";

/** Topics of laws that show what a variant of an operation does. */
const topics: Readonly<Record<string, readonly string[]>> = { gemm: ["gemm", "batchedGemm"] };

/** Laws on products and what is made of them. Larger shapes lead across thresholds between variants. */
function describeVariant(
  name: string,
  create: () => ComputeBackend,
  wanted: readonly string[],
  runs: number,
): void {
  const chosen = laws.filter(({ topic, name }) => wanted.includes(topic) && !name.includes("larger shapes"));
  describeBackend({ name, create, options: { laws: chosen, runs } }, globalThis);
}

/** An engine may lack what a variant or an option needs; whether it does is known only when asked. */
async function available(options: cpu.CpuOptions): Promise<boolean> {
  return (await cpu.cpu(options).probe()).available;
}

async function keep<Value>(
  values: readonly Value[],
  test: (value: Value) => Promise<boolean>,
): Promise<Value[]> {
  const kept = await Promise.all(values.map(test));
  return values.filter((_, i) => kept[i]);
}

const possible = await keep(cpu.variantNames.gemm, (gemm) => available({ variants: { gemm } }));
const relaxed = await keep([false, true], (relaxedSimd) => available({ relaxedSimd }));

describe("Variants of kernels", () => {
  it("of the CPU are of operations that have laws here", () => {
    for (const [operation, names] of Object.entries(cpu.variantNames)) {
      assert.property(topics, operation);
      assert.isNotEmpty(names);
    }
    assert.isAtLeast(possible.length, 2);
    assert.include(relaxed, false);
  });

  // Two threads share the work of a call, one has all of it, and without any the caller does it.
  for (const threads of [0, 1, 2])
    for (const gemm of possible) {
      const create = () => cpu.createCpuBackend({ threads, variants: { gemm } });
      describeVariant(`the CPU with ${threads} threads and gemm as ${gemm}`, create, topics.gemm!, 10);
    }

  for (const relaxedSimd of relaxed) {
    const create = () => cpu.createCpuBackend({ threads: 2, relaxedSimd });
    describeVariant(
      `the CPU with relaxedSimd ${relaxedSimd}`,
      create,
      [...topics.gemm!, "conv2d", "attention"],
      5,
    );
  }
});
