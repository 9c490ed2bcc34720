// Tags: kernels, pure, long
import * as webgpu from "@backplane/backend-webgpu";
import { describeBackend, type Law, laws } from "@backplane/conformance";
import { assert } from "chai";
import { meetsMostWithFewest } from "./laws-support.js";

/**
 * Every transposition, alignment and element type is a shader of its own, and takes the software
 * adapter up to a second to compile, and the package's own tests go through them, in every variant: here are
 * few laws. All laws on all variants are for GPUs: bench/dist/adapter.
 */
function fewLawsOn(operation: string): readonly Law[] {
  return laws.filter((law) => law.topic === operation && law.dtype === "f16" && meetsMostWithFewest(law));
}

/** The last variant of each kind: the texts of the others differ by numbers only. */
function lastOfKinds(names: readonly string[]): readonly string[] {
  return [...new Map(names.map((name) => [name.split("_", 1)[0], name])).values()];
}

/** Kernels that keep a tile in registers are long, and so is compiling them; others can try more. */
function runsOn(variant: string): number {
  return /^(tiled|packed|implicit)_/.test(variant) ? 1 : 10;
}

describe("Variants of kernels", () => {
  it("of WebGPU are of operations that have laws here", () => {
    for (const [operation, names] of Object.entries(webgpu.variantNames)) {
      assert.isNotEmpty(names);
      assert.lengthOf(fewLawsOn(operation), 1);
    }
  });

  // Passed over are those that need more than emulated devices have, and nearly always those for a few rows, for
  // filters of one size and of one tap. The package's own tests have cases for these; bench/dist/adapter is for GPUs.
  // Transforms are for f32 and need an option (laws-transformed.test.ts).
  const special =
    /^(matrices|split|thin|row|decode|strip|channels|dense|transformed)_|^gemm$|^tiled_128x128(_turns)?$/;
  for (const [operation, names] of Object.entries(webgpu.variantNames))
    for (const variant of lastOfKinds(names.filter((name) => !special.test(name))))
      describe(`WebGPU with ${operation} as ${variant}`, () => {
        const lines: string[] = [];
        const log = (line: string) => lines.push(line);
        const create = () => webgpu.createWebGpuBackend({ variants: { [operation]: variant }, log });
        describeBackend(
          { name: variant, create, options: { laws: fewLawsOn(operation), runs: runsOn(variant) } },
          globalThis,
        );
        describe("what computed that", () => {
          it("is the variant", () => {
            assert.include(lines, `webgpu: ${operation} takes ${variant} (forced by the option variants)`);
          });
        });
      });
});
