// Tags: kernels, pure
import {
  type ComputeBackend,
  type CopyArguments,
  type CopyProblem,
  createBackend,
  type DType,
  dtypeBytes,
  newHandle,
  operations,
} from "@backplane/core";
import { assert } from "chai";
import { planCopy } from "#src/kernels/copy/select.js";
import { driverOf, findDawn, noise } from "./support.js";

type Given = Pick<CopyArguments, "shape" | "inputStrides" | "outputStrides" | "dtype" | "outputDtype">;

/** The plan of a call whose operands begin at these bytes. */
function planned(given: Given, input = 0, output = 0): ReturnType<typeof planCopy> {
  const args = { ...given, input: newHandle(), output: newHandle() };
  const problem = operations.copy.resolve(args, {
    region: (argument, _operand, elements, dtype) => ({
      ...{ memory: argument, byteOffset: argument === "input" ? input : output },
      byteLength: elements * dtypeBytes[dtype],
    }),
  });
  return planCopy(problem as CopyProblem<unknown>);
}

/** Form and unit. */
function formOf(given: Given, input = 0, output = 0): string {
  const plan = planned(given, input, output);
  return plan.form === "units" ? `units of ${plan.unit}` : plan.form;
}

describe("webgpu copy plans", () => {
  const slice: Given = { shape: [64, 100], inputStrides: [128, 1] };

  it("move contiguous bytes as such, and rows by the largest unit that they consist of", () => {
    for (const dtype of ["f32", "f16", "u8"] as const) {
      assert.equal(formOf({ shape: [3, 77], dtype }), "bytes");
      assert.equal(formOf({ shape: [], dtype }, 4, 8), "bytes");
    }
    assert.equal(formOf(slice), "units of vector");
    assert.equal(formOf(slice, 16, 4), "units of word");
    assert.equal(formOf({ ...slice, dtype: "f16" }), "units of word");
    assert.equal(formOf({ ...slice, dtype: "f16" }, 2), "words");
    assert.equal(formOf({ ...slice, dtype: "u8", shape: [64, 96] }), "units of vector");
    assert.equal(formOf({ ...slice, dtype: "u8", inputStrides: [130, 1] }), "words");
    assert.equal(formOf({ shape: [64, 100], outputStrides: [102, 1] }), "units of word");
    assert.equal(
      formOf({ shape: [16, 32, 64, 64], inputStrides: [131_072, 64, 2048, 1] }),
      "units of vector",
    );
    // Repeated rows.
    assert.equal(formOf({ shape: [64, 100], inputStrides: [0, 1] }), "units of vector");
  });

  it("move words wherever they are", () => {
    assert.equal(formOf({ shape: [64, 100], inputStrides: [100, -1] }), "units of word");
    assert.equal(formOf({ shape: [64, 100], inputStrides: [1, 0], dtype: "i32" }), "units of word");
    assert.equal(formOf({ shape: [4, 100], inputStrides: [1, 4] }), "units of word");
    assert.equal(formOf({ shape: [64, 100], inputStrides: [100, -1], dtype: "f16" }), "words");
  });

  it("transpose through tiles, if rows of the output begin with a word", () => {
    const turned: Given = { shape: [96, 64], inputStrides: [1, 96] };
    for (const dtype of ["f32", "f16", "u8"] as const) {
      assert.equal(formOf({ ...turned, dtype }), "vectorTiles");
      assert.equal(formOf({ ...turned, dtype }, 16, 32), "vectorTiles");
      assert.equal(formOf({ ...turned, dtype }, dtypeBytes[dtype]), "tiles");
    }
    assert.equal(formOf({ ...turned, dtype: "u8" }, 0, 2), "words");
    assert.equal(formOf({ shape: [96, 63], inputStrides: [1, 96], dtype: "f16" }), "words");
    assert.equal(
      formOf({ shape: [96, 63], inputStrides: [1, 96], outputStrides: [64, 1], dtype: "f16" }),
      "tiles",
    );
    assert.equal(formOf({ ...turned, shape: [98, 64], inputStrides: [1, 100] }), "tiles");
    assert.equal(formOf({ ...turned, inputStrides: [1, 98] }), "tiles");
    const matrix: Given = { shape: [16_384, 4096], inputStrides: [1, 16_384] };
    assert.include(planned(matrix), { form: "vectorTiles", down: 256, across: 64 });
    assert.include(planned(matrix, 4), { form: "tiles", down: 512, across: 128 });
    assert.include(planned({ shape: [64, 4096, 256], inputStrides: [2 ** 20, 1, 4096], dtype: "u8" }), {
      ...{ form: "vectorTiles", down: 32, across: 2, matrices: 64 },
    });
    assert.equal(formOf({ ...turned, dtype: "f32", outputDtype: "f16" }), "words");
  });

  it("divide the axes once for all of a line that workgroups have enough of", () => {
    const padded = (extent: number): Given => ({ shape: [64, extent], outputStrides: [extent + 2, 1] });
    const lineOf = (given: Given) => {
      const plan = planned(given);
      return plan.form === "units" || plan.form === "words" ? plan.line : assert.fail(plan.form);
    };
    assert.include(planned(padded(1023)), { form: "units", unit: "word", count: 64, workgroups: 64 });
    assert.deepEqual(lineOf(padded(1023)), { laneShift: 8, parts: 1 });
    assert.deepEqual(lineOf(padded(1025)), { laneShift: 6, parts: 5 });
    assert.deepEqual(lineOf(padded(165)), { laneShift: 6, parts: 1 });
    assert.include(planned(padded(165)), { count: 64, workgroups: 16 });
    assert.isUndefined(lineOf(padded(61)));
    assert.include(planned(padded(61)), { count: 64 * 61, workgroups: 4 });
    assert.include(planned({ ...slice, shape: [64, 4096], inputStrides: [8192, 1] }), {
      ...{ unit: "vector", count: 64, workgroups: 128 },
    });
    const flipped: Given = { shape: [64, 4096], inputStrides: [4096, -1], dtype: "f16" };
    assert.include(planned(flipped), { form: "words", workgroups: 128 });
    assert.deepEqual(lineOf(flipped), { laneShift: 8, parts: 2 });
    assert.isUndefined(lineOf({ ...flipped, outputStrides: [8192, 2] }));
    assert.deepEqual(lineOf({ ...flipped, shape: [64, 64], inputStrides: [64, -1] }), {
      ...{ laneShift: 3, parts: 1 },
    });
  });

  it("convert four elements at once, if they follow one another", () => {
    const narrowed: Given = { shape: [4096], outputDtype: "f16" };
    assert.equal(formOf(narrowed), "units of f32,f16");
    assert.equal(formOf(narrowed, 4), "words");
    assert.equal(formOf(narrowed, 16, 8), "units of f32,f16");
    assert.equal(formOf(narrowed, 16, 4), "words");
    assert.equal(formOf({ ...narrowed, shape: [4098] }), "words");
    assert.equal(formOf({ ...slice, dtype: "u8", outputDtype: "f32" }, 4), "units of u8,f32");
  });

  it("give each word one invocation, in blocks that share none", () => {
    // Elements apart from each other.
    assert.include(
      planned({ shape: [9, 7], dtype: "u8", inputStrides: [1, 9], outputStrides: [40, 4] }, 0, 1),
      {
        ...{ blocks: 63, blockWords: 1, outer: 2 },
      },
    );
    // Rows that begin anywhere, four bytes or more apart, and closer ones.
    assert.include(planned({ shape: [9, 6], dtype: "u8", inputStrides: [1, 9], outputStrides: [9, 1] }), {
      ...{ blocks: 9, blockBytes: 6, blockWords: 3, outer: 1 },
    });
    assert.include(planned({ shape: [9, 6], dtype: "u8", inputStrides: [1, 9], outputStrides: [8, 1] }), {
      ...{ blocks: 9, blockBytes: 6, blockWords: 2, outer: 1 },
    });
    assert.include(
      planned({ shape: [9, 6], dtype: "u8", inputStrides: [1, 9], outputStrides: [8, 1] }, 0, 1),
      { ...{ blocks: 1, blockBytes: 70, blockWords: 19, outer: 0 } },
    );
    assert.include(
      planned({ shape: [9, 3], dtype: "f16", inputStrides: [1, 9], outputStrides: [4, 1] }, 0, 2),
      {
        ...{ blocks: 9, blockBytes: 6, blockWords: 2, outer: 1 },
      },
    );
  });
});

/** Makes a call among noise, and looks at every byte. */
async function check(
  backend: ComputeBackend,
  given: Given,
  before: readonly [number, number],
): Promise<void> {
  const { shape, dtype = "f32" } = given;
  const size = dtypeBytes[dtype];
  const contiguous = shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
  const [from, to] = [given.inputStrides ?? contiguous, given.outputStrides ?? contiguous];
  const [low, high] = [from, to].map((strides) =>
    shape.reduce((sum, extent, i) => sum + Math.min((extent - 1) * strides[i]!, 0), 0),
  ) as [number, number];
  const reach = [from, to].map((strides) =>
    shape.reduce((sum, extent, i) => sum + (extent - 1) * Math.abs(strides[i]!), 1),
  ) as [number, number];
  const source = noise((before[0] + reach[0]) * size, 1);
  const image = noise((before[1] + reach[1] + 11) * size, 2);
  const [input, output] = [backend.alloc(source.length), backend.alloc(image.length)];
  backend.copyHtoD(input, source);
  backend.copyHtoD(output, image);
  const starts = [before[0] - low, before[1] - high] as const;
  backend.copy({
    ...given,
    input: { handle: input, byteOffset: starts[0] * size },
    output: { handle: output, byteOffset: starts[1] * size },
  });
  const got = new Uint8Array(image.length);
  await backend.copyDtoH(got, output);
  for (const handle of [input, output]) backend.free(handle);
  const walk = (axis: number, place: number, result: number): void => {
    if (axis === shape.length) image.set(source.subarray(place * size, (place + 1) * size), result * size);
    else
      for (let i = 0; i < shape[axis]!; i++) walk(axis + 1, place + i * from[axis]!, result + i * to[axis]!);
  };
  walk(0, ...starts);
  const wrong = got.findIndex((byte, i) => byte !== image[i]);
  const label = JSON.stringify({ ...given, before });
  assert.equal(wrong, -1, `${label}: byte ${wrong} of ${image.length} is ${got[wrong]}, not ${image[wrong]}`);
}

const types: readonly DType[] = ["i32", "bf16", "u8"];

/** All forms, with parts of tiles and words at the ends, and rows that share words. */
const calls: readonly (readonly [given: Given, before: readonly [number, number]])[] = [
  [{ shape: [3, 33, 65], inputStrides: [33 * 66, 1, 33] }, [0, 0]],
  [{ shape: [2, 130, 67], inputStrides: [1, 2, 261], outputStrides: [130 * 68, 68, 1] }, [3, 4]],
  [{ shape: [130, 67], inputStrides: [1, 131] }, [1, 1]],
  [{ shape: [40, 36], inputStrides: [-1, 40], outputStrides: [40, 1] }, [2, 8]],
  [{ shape: [19, 64], inputStrides: [80, 1], outputStrides: [96, 1] }, [16, 32]],
  [{ shape: [19, 61], inputStrides: [63, 1], outputStrides: [62, 1] }, [1, 3]],
  [{ shape: [2, 3, 2, 3, 2, 3, 2, 5], inputStrides: [1, 2, 6, 12, 36, 72, 216, 432] }, [0, 1]],
  [{ shape: [50, 40], inputStrides: [1, 2], outputStrides: [-121, 3] }, [0, 2]],
  [{ shape: [7, 300], inputStrides: [0, -1] }, [1, 2]],
  [{ shape: [1234], inputStrides: [0] }, [5, 3]],
  // In vectors.
  [{ shape: [2, 144, 80], inputStrides: [144 * 80, 1, 144] }, [16, 32]],
  [{ shape: [144, 2, 48], inputStrides: [1, 48 * 160, 160], outputStrides: [128, 64, 1] }, [0, 16]],
  // In lines.
  [{ shape: [3, 2, 900], inputStrides: [900, 2700, 1], outputStrides: [2000, 1000, 1] }, [1, 2]],
  [{ shape: [2, 4000], inputStrides: [4000, -1], outputStrides: [4005, 1] }, [0, 1]],
  [{ shape: [3, 4001], inputStrides: [-1, 3], outputStrides: [4006, 1] }, [5, 3]],
];

for (const [name, limits] of [
  ["webgpu copy", {}],
  ["webgpu copy above the binding limit", { maxStorageBufferBindingSize: 4200 }],
] as const)
  describe(name, () => {
    let backend: ComputeBackend;
    before(async () => {
      backend = createBackend(driverOf(findDawn, { limits }));
      await backend.init();
    });
    after(() => backend.dispose());

    for (const dtype of types)
      it(`moves elements of ${dtypeBytes[dtype]} bytes, and no others`, async () => {
        for (const [given, places] of calls) await check(backend, { ...given, dtype }, places);
      });

    it("moves contiguous bytes", () => check(backend, { shape: [40_003], dtype: "u8" }, [1, 6]));
  });
