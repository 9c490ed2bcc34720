import * as cpu from "@backplane/backend-cpu";
import * as webgpu from "@backplane/backend-webgpu";
import type { ComputeBackend } from "@backplane/core";
import { assert } from "chai";
import { describeBackend, type Law, laws } from "#src/index.js";

/** Which laws show what a variant of an operation does. */
const topics: Readonly<Record<string, readonly string[]>> = {
  gemm: ["gemm", "batchedGemm"],
  conv2d: ["conv2d"],
  attention: ["attention"],
};

/**
 * Larger shapes are left out: they lead across the thresholds between variants, and here is only one.
 */
function lawsOn(operations: readonly string[]): readonly Law[] {
  const wanted = operations.flatMap((operation) => topics[operation]!);
  return laws.filter(({ topic, name }) => wanted.includes(topic) && !name.includes("larger shapes"));
}

/**
 * Every transposition, alignment and element type is a shader of its own, and takes the software
 * adapter up to a second to compile, and the package's own tests go through them: these are the laws that
 * meet the most mistakes with the fewest. All laws on all variants are for GPUs: bench/dist/adapter.
 */
function fewLawsOn(operations: readonly string[]): readonly Law[] {
  return lawsOn(operations).filter(
    ({ topic, name, dtype }) =>
      dtype === "f16" &&
      topic !== "batchedGemm" &&
      name === (topic === "attention" ? "stays within the error bound" : "is exact on whole numbers"),
  );
}

/** Kernels that keep a tile in registers are long, and so is compiling them; others can try more. */
function runsOn(variant: string): number {
  return /^(tiled|packed|implicit)_/.test(variant) ? 1 : 10;
}

function describeVariant(
  name: string,
  create: () => ComputeBackend,
  laws: readonly Law[],
  runs: number,
): void {
  describeBackend({ name, create, options: { laws, runs } }, globalThis);
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
  it("are of operations that have laws here", () => {
    for (const table of [cpu.variantNames, webgpu.variantNames])
      for (const [operation, names] of Object.entries(table)) {
        assert.property(topics, operation);
        assert.isNotEmpty(names);
        assert.lengthOf(fewLawsOn([operation]), 1);
      }
    assert.isAtLeast(possible.length, 2);
    assert.include(relaxed, false);
  });

  // Passed over are those that need more than emulated devices have, and nearly always those for a few rows, for
  // filters of one size and of one tap. The package's own tests have cases for these; bench/dist/adapter is for GPUs.
  const special = /^(matrices|split|thin|decode|strip)_|^gemm$|^tiled_128x128$/;
  for (const [operation, names] of Object.entries(webgpu.variantNames))
    for (const variant of names.filter((name) => !special.test(name)))
      describe(`WebGPU with ${operation} as ${variant}`, () => {
        const lines: string[] = [];
        const log = (line: string) => lines.push(line);
        const create = () => webgpu.createWebGpuBackend({ variants: { [operation]: variant }, log });
        describeVariant(variant, create, fewLawsOn([operation]), runsOn(variant));
        describe("what computed that", () => {
          it("is the variant", () => {
            assert.include(lines, `webgpu: ${operation} takes ${variant} (forced by the option variants)`);
          });
        });
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
