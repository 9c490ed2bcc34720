// Tags: kernels, pure
import { evaluateCall } from "@backplane/conformance";
import {
  type ComputeBackend,
  createBackend,
  dtypeBytes,
  type FloatType,
  floatTypes,
  type SoftmaxKind,
} from "@backplane/core";
import { assert } from "chai";
import { planRegisters } from "#src/kernels/rows/index.js";
import { placeholder } from "#src/kernels/segments/index.js";
import { softmaxGradient } from "#src/kernels/softmax-gradient/index.js";
import { Places } from "./places.js";
import { driverOf, encode, findDawn, mostScratch, noise, portable, random, rounded } from "./support.js";

interface GradientCall {
  readonly kind: SoftmaxKind;
  readonly dtype: FloatType;
  readonly shape: readonly number[];
  readonly axis: number;
  /** Elements in front of each operand. */
  readonly before: number;
  readonly over: "nothing" | "output" | "outputGradient" | "both";
}

/** Makes a call, and looks at every byte of the result's buffer. */
async function check(backend: ComputeBackend, call: GradientCall): Promise<void> {
  const { kind, dtype, shape, axis, before, over } = call;
  const label = JSON.stringify(call);
  const count = shape.reduce((a, b) => a * b);
  const next = random(count);
  const bytes = dtypeBytes[dtype];
  const numbers = (draw: () => number) => rounded(Float32Array.from({ length: count }, draw), dtype);
  // Of logSoftmax they would be logarithms.
  const output = numbers(() => (kind === "softmax" ? next() : -4 * next()));
  const outputGradient = over === "both" ? output : numbers(() => 2 * next() - 1);
  const places = new Places(backend);
  const place = (contents: Uint8Array) => places.place(contents, before * bytes);
  const y = place(encode(output, dtype));
  const dy = over === "both" ? y : place(encode(outputGradient, dtype));
  const result = { nothing: () => place(noise(count * bytes)), output: () => y, outputGradient: () => dy };
  const dx = (over === "both" ? result.output : result[over])();
  const rest = { kind, shape, axis, dtype };
  backend.softmaxGradient({ ...rest, output: y.at, outputGradient: dy.at, inputGradient: dx.at });
  const inputs = { output: Float64Array.from(output), outputGradient: Float64Array.from(outputGradient) };
  const expected = evaluateCall("softmaxGradient", rest, inputs).inputGradient!;
  await places.check(dx, dtype, expected, label);
  places.free();
}

const overs = ["nothing", "output", "outputGradient", "both"] as const;

describe("webgpu softmaxGradient in grids of two dimensions", () => {
  let backend: ComputeBackend;
  before(async () => {
    const limits = { maxComputeWorkgroupsPerDimension: 29 };
    backend = createBackend(driverOf(findDawn, { limits }));
    await backend.init();
  });
  after(() => backend.dispose());

  // Programs with more workgroups than one dimension has start up to a row of them too many.
  for (const dtype of floatTypes)
    it(`minds workgroups too many in ${dtype}, over each input, both and none`, async () => {
      for (const [i, [shape, axis, before]] of (
        [
          [[2500, 64], 1, 0],
          [[33, 1026], 1, 2],
          [[2, 50_000], 1, 0],
          [[1, 50_001], 1, 1],
          [[2000, 36], 0, 0],
          [[1500, 7], 0, 0],
          [[40, 12, 64], 1, 0],
        ] as const
      ).entries())
        await check(backend, {
          ...{ kind: i % 3 === 1 ? "logSoftmax" : "softmax", dtype, shape, axis, before },
          over: overs[i % 4]!,
        });
    });
});

describe("webgpu softmaxGradient above the binding limit", () => {
  it("adds up pieces of slabs and of rows, over each input, both and none", async () => {
    const backend = createBackend(driverOf(findDawn, { limits: { maxStorageBufferBindingSize: 1024 } }));
    await backend.init();
    for (const [i, [dtype, shape, axis, before]] of (
      [
        ["f32", [3, 100], 1, 0],
        ["f32", [1, 2000], 1, 1],
        ["f16", [1, 2001], 1, 1],
        ["f32", [70, 20], 0, 0],
        ["f16", [7, 500], 0, 3],
      ] as const
    ).entries())
      await check(backend, {
        ...{ kind: i % 2 === 0 ? "softmax" : "logSoftmax", dtype, shape, axis, before },
        over: overs[i % 4]!,
      });
    await backend.dispose();
  });
});

describe("webgpu softmaxGradient plans", () => {
  it("hold half as many loads of rows as softmax, of each of two inputs", () => {
    const registers = (rows: number, length: number, dtype: FloatType = "f32") => {
      const plan = planRegisters(dtype, { outer: rows, length, inner: 1 }, [0], 2);
      return plan && `${plan.vector} ${plan.lanes}x${plan.values}`;
    };
    assert.equal(registers(2 ** 20, 64), "4 4x4");
    assert.equal(registers(16_384, 4096), "4 256x4");
    assert.equal(registers(16_384, 4096, "f16"), "4 256x4");
    assert.equal(registers(9, 8192), "4 256x8");
    assert.equal(registers(9, 8196), undefined);
  });

  it("ask for no more scratch than is looked for before", () => {
    let most = 0;
    for (const dtype of floatTypes)
      for (const [outer, length, inner] of [
        [64, 2 ** 20, 1],
        [1, 2 ** 26, 1],
        [1, 4096, 16_384],
        [3, 70_001, 1],
        [9, 300, 7],
      ] as const) {
        const region = placeholder(outer * length * inner * dtypeBytes[dtype]);
        const problem = {
          ...({ dtype, kind: "softmax", outer, length, inner } as const),
          ...{ output: region, outputGradient: { ...region }, inputGradient: placeholder(region.byteLength) },
        } as const;
        const asked = mostScratch(softmaxGradient, portable, problem);
        const bound = softmaxGradient.segments({} as never).scratchBound(problem, 0);
        assert.isAtMost(asked, bound, `${outer} x ${length} x ${inner}`);
        most = Math.max(most, asked);
      }
    assert.isAbove(most, 0);
  });
});
