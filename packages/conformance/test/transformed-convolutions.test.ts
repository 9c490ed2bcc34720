// Tags: proof, pure
import {
  type Conv2dProblem,
  type ConvolutionTile,
  convolutionTransforms,
  createBackend,
  type DriverDescription,
  type DriverEvents,
  isTransformable,
} from "@backplane/core";
import { assert, expect } from "chai";
import type { ReferenceMemory } from "#src/elements.js";
import { type Law, lawId, laws, runLaws } from "#src/index.js";
import { mapped } from "#src/kit/regions.js";
import { transformsConvolution } from "#src/ops/conv2d/by-transforms.js";
import { transformError } from "#src/ops/conv2d/transformed.js";
import { ReferenceDriver, referenceKernels } from "#src/reference.js";

const tiles = Object.keys(convolutionTransforms) as ConvolutionTile[];

type Problem = Conv2dProblem<ReferenceMemory>;

/** A defect of its own: the last channel is left out where channels are taken 32 at a time. */
function withoutLastChannel(problem: Problem): Problem {
  const { inChannels, filter } = problem;
  if (inChannels < 32 || !isTransformable(problem.dtype, problem)) return problem;
  const isLast = (i: number) => Math.floor(i / 9) % inChannels === inChannels - 1;
  return { ...problem, filter: mapped(filter, "f32", (weight, i) => (isLast(i) ? 0 : weight)) };
}

/** Computes convolutions by transforms for one tile, and says what `declared` is. */
class Transforming extends ReferenceDriver {
  override readonly kernels: ReferenceDriver["kernels"];
  readonly #declared: ConvolutionTile;

  constructor(
    tile: ConvolutionTile,
    declared: ConvolutionTile,
    changed: (problem: Problem) => Problem = (problem) => problem,
  ) {
    super();
    this.#declared = declared;
    const { conv2d } = referenceKernels;
    const transformed = transformsConvolution(tile);
    this.kernels = {
      ...referenceKernels,
      conv2d: { ...conv2d!, run: (problem) => transformed(changed(problem), conv2d!.run) },
    };
  }

  override async open(events: DriverEvents): Promise<DriverDescription> {
    const description = await super.open(events);
    return {
      ...description,
      numerics: { ...description.numerics, transformedConvolutions: this.#declared },
    };
  }
}

const poison = "conv2d f32: keeps NaN out of results whose windows, or declared tiles, do not meet it";

async function brokenLaws(
  tile: ConvolutionTile,
  declared: ConvolutionTile,
  isTried: (law: Law) => boolean,
  changed?: (problem: Problem) => Problem,
): Promise<string[]> {
  const results = await runLaws({
    name: "transforming",
    create: () => createBackend(new Transforming(tile, declared, changed)),
    options: {
      ...{ laws: laws.filter(isTried), mode: "quick", shrink: false },
    },
  });
  return results.filter(({ status }) => status !== "kept").map(({ law }) => lawId(law));
}

describe("Convolutions by transforms", () => {
  for (const tile of tiles)
    it(`have transforms for ${tile} that are exact in theory`, () => {
      const { outputs, input, filter, output } = convolutionTransforms[tile];
      // sum_j A^T[y, j] G[j, i] B^T[j, x] is 1 where x = y + i, and else 0.
      for (let y = 0; y < outputs; y++)
        for (let i = 0; i < 3; i++)
          for (let x = 0; x < outputs + 2; x++) {
            const sum = input.reduce((sum, row, j) => sum + output[y]![j]! * filter[j]![i]! * row[x]!, 0);
            assert.closeTo(sum, x === y + i ? 1 : 0, 1e-15, `${y} ${i} ${x}`);
          }
      // Only elements of G may be rounded.
      for (const x of [...input, ...output].flat()) assert.equal(x, Math.fround(x));
    });

  it("have the error that is documented", () => {
    const { "2x2": small, "4x4": large } = convolutionTransforms;
    expect(transformError(small)).to.deep.equal({ roundings: 22, factor: 64, inputs: 4, filters: 2.25 });
    const { roundings, factor, inputs, filters } = transformError(large);
    expect([roundings, Math.ceil(factor)]).to.deep.equal([30, 752]);
    expect([Math.ceil(inputs), Math.ceil(10 * filters)]).to.deep.equal([33, 15]);
  });

  for (const tile of tiles)
    it(`keep the laws if ${tile} is declared`, async () => {
      const isTried = ({ topic, dtype }: Law) => topic === "conv2d" && dtype === "f32";
      expect(await brokenLaws(tile, tile, isTried)).to.deep.equal([]);
    });

  for (const tile of tiles)
    it(`of ${tile} break them if they leave out a channel, although they are declared`, async () => {
      const larger = "conv2d f32: stays within the error bound on larger shapes";
      const isTried = (law: Law) => lawId(law) === larger;
      expect(await brokenLaws(tile, tile, isTried, withoutLastChannel)).to.deep.equal([larger]);
    });

  it("break them if smaller tiles are declared", async () => {
    expect(await brokenLaws("4x4", "2x2", (law) => lawId(law) === poison)).to.deep.equal([poison]);
  });
});
