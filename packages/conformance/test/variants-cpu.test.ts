// Tags: long
import * as cpu from "@backplane/backend-cpu";
import { assert } from "chai";
import { describeVariant, lawsOn, topics } from "./support/variants.js";

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
      describeVariant(`the CPU with ${threads} threads and gemm as ${gemm}`, create, lawsOn(["gemm"]), 10);
    }

  for (const relaxedSimd of relaxed) {
    const create = () => cpu.createCpuBackend({ threads: 2, relaxedSimd });
    describeVariant(`the CPU with relaxedSimd ${relaxedSimd}`, create, lawsOn(Object.keys(topics)), 5);
  }
});
