// Tags: kernels, pure
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { decodeFloat16, dtypeBytes, encodeFloat16, type Pool2dGradientArguments } from "@backplane/core";
import { assert } from "chai";
import { type Problem, poolGradientSegments } from "#src/kernels/pool2d-gradient/problem.js";
import { planPool2dGradient } from "#src/kernels/pool2d-gradient/select.js";
import type { OperationContext } from "#src/runtime/index.js";
import { describeTwoDimensions, problemAt } from "./images.js";

describeTwoDimensions("pool2dGradient", [
  "takes the most frequent windows",
  "takes nothing of windows whose index is none of theirs",
]);

type Shape = Omit<Pool2dGradientArguments, "outputGradient" | "indices" | "inputGradient">;

/** The problem of a call whose operands begin at these bytes. */
function problemOf(shape: Shape, at: Readonly<Record<string, number>> = {}): Problem {
  const indices = shape.kind === "max" ? { indices: 1 as never } : {};
  const args = { ...shape, ...indices, outputGradient: 1 as never, inputGradient: 1 as never };
  return problemAt("pool2dGradient", args, at);
}

const plain: Shape = {
  ...{ kind: "max", inputShape: [2, 3, 56, 112], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] },
};

describe("webgpu pool2dGradient plans", () => {
  const formOf = (change: Partial<Shape>, at?: Readonly<Record<string, number>>) =>
    planPool2dGradient(problemOf({ ...plain, ...change }, at)).form;

  it("take strips for frequent windows on whole vectors, and one element at a time for all others", () => {
    assert.equal(formOf({}), "strips");
    assert.equal(formOf({ kernel: [2, 2], stride: [2, 2], padding: [0, 0, 0, 0] }), "strips");
    assert.equal(formOf({ dtype: "f16" }), "strips");
    // An odd number of windows.
    assert.equal(formOf({ inputShape: [2, 3, 57, 108] }), "strips");
    for (const change of [
      { kernel: [4, 4] as const },
      { kernel: [3, 2] as const },
      { stride: [2, 1] as const },
      { stride: [3, 3] as const },
      { padding: [1, 2, 1, 1] as const },
      { dilation: [1, 2] as const, padding: [1, 1, 1, 3] as const },
      { layout: "NHWC" as const, inputShape: [2, 56, 112, 6] as const },
      { inputShape: [2, 3, 56, 113] as const },
    ])
      assert.equal(formOf(change), "each", JSON.stringify(change));
    assert.equal(formOf({}, { inputGradient: 4 }), "each");
    assert.equal(formOf({}, { outputGradient: 4, indices: 4 }), "strips");
    assert.equal(formOf({ dtype: "f16" }, { outputGradient: 2, inputGradient: 8 }), "strips");
  });

  it("take four channels at a time where they are whole vectors, and divide by strides that they know", () => {
    const tileOf = (change: Partial<Shape>, at?: Readonly<Record<string, number>>) => {
      const plan = planPool2dGradient(
        problemOf({ ...plain, layout: "NHWC", inputShape: [2, 9, 9, 8], ...change }, at),
      );
      return plan.form === "each" ? plan.tile : undefined;
    };
    assert.deepInclude(tileOf({}), { vector: 4, stride: 2, dilated: false });
    assert.deepInclude(tileOf({ inputShape: [2, 9, 9, 6] }), { vector: 1 });
    assert.deepInclude(tileOf({}, { indices: 4 }), { vector: 1 });
    assert.deepInclude(tileOf({ stride: [2, 1] }), { stride: undefined });
    assert.deepInclude(tileOf({ stride: [3, 3] }), { stride: undefined });
    assert.deepInclude(tileOf({ dilation: [1, 2] }), { dilated: true });
  });

  it("take strips of four channels where both are whole", () => {
    const channelsOf = (inputShape: Shape["inputShape"], at?: Readonly<Record<string, number>>) => {
      const plan = planPool2dGradient(problemOf({ ...plain, layout: "NHWC", inputShape }, at));
      return plan.form === "strips" && plan.tile.channels ? plan.workgroups : undefined;
    };
    // Two images of 8 rows, 3 strips and 2 fours of channels.
    assert.equal(channelsOf([2, 8, 12, 8]), 2);
    assert.equal(channelsOf([2, 8, 12, 6]), undefined);
    assert.equal(channelsOf([2, 8, 13, 8]), undefined);
    assert.equal(channelsOf([2, 8, 12, 8], { indices: 4 }), undefined);
    assert.equal(channelsOf([2, 8, 12, 8], { inputGradient: 8 }), undefined);
  });

  it("take strips of eight of f16 without channels, if windows are whole vectors of four", () => {
    const widthOf = (change: Partial<Shape>, at?: Readonly<Record<string, number>>) => {
      const plan = planPool2dGradient(problemOf({ ...plain, dtype: "f16", ...change }, at));
      return plan.form === "strips" ? plan.tile.width : undefined;
    };
    assert.equal(widthOf({}), 8);
    assert.equal(widthOf({ dtype: "f32" }), 4);
    assert.equal(widthOf({ inputShape: [2, 3, 56, 108] }), 4);
    // 55 windows of a row.
    assert.equal(widthOf({ padding: [0, 0, 0, 0] }), 4);
    assert.equal(widthOf({ layout: "NHWC", inputShape: [2, 56, 112, 4] }), 4);
    assert.equal(widthOf({}, { indices: 4 }), 4);
    assert.equal(widthOf({}, { outputGradient: 4 }), 4);
    assert.equal(widthOf({}, { inputGradient: 8 }), 4);
  });

  it("start one invocation for each word that an element is in", () => {
    const odd: Shape = { kind: "mean", inputShape: [1, 1, 1, 1023], kernel: [1, 3], dtype: "f16" };
    const groups = (inputGradient: number) =>
      planPool2dGradient(problemOf(odd, { inputGradient })).workgroups;
    assert.deepEqual([groups(0), groups(2)], [2, 2]);
    const even: Shape = { ...odd, inputShape: [1, 1, 1, 1025], padding: [0, 0, 0, 1] };
    assert.equal(planPool2dGradient(problemOf(even, { inputGradient: 2 })).workgroups, 3);
  });
});

describe("webgpu pool2dGradient of strips", () => {
  // Both kinds, with windows that overlap and that do not, and a padding: four channels at a time, and eight elements of one.
  for (const [kind, kernel, stride, pad, dtype, channels] of [
    ["max", 3, 2, 1, "f32", 12],
    ["max", 2, 2, 0, "f16", 12],
    ["mean", 3, 1, 1, "f32", 12],
    ["mean", 2, 2, 0, "f32", 12],
    ["max", 3, 2, 1, "f32", 1],
    ["max", 3, 2, 1, "f16", 1],
    ["max", 3, 1, 1, "f16", 1],
    ["max", 2, 2, 0, "f16", 1],
    ["mean", 3, 2, 1, "f16", 1],
    ["mean", 2, 2, 0, "f16", 1],
  ] as const)
    it(`adds up what ${channels} channels get from ${kind} ${kernel}x${kernel}, ${stride} apart, in ${dtype}`, async () => {
      const [batch, height, width] = [2, 7, 16];
      const [outHeight, outWidth] = [height, width].map(
        (size) => Math.floor((size + 2 * pad - kernel) / stride) + 1,
      ) as [number, number];
      const windows = batch * outHeight * outWidth * channels;
      const gradient = Float64Array.from({ length: windows }, (_, i) => ((i * 7) % 31) - 15);
      const indices = new Int32Array(windows);
      const expected = new Float64Array(batch * height * width * channels);
      for (let at = 0; at < windows; at++) {
        const [pixel, c] = [Math.floor(at / channels), at % channels];
        const [image, row] = [
          Math.floor(pixel / outWidth / outHeight),
          Math.floor(pixel / outWidth) % outHeight,
        ];
        const places: [number, number][] = [];
        for (let i = 0; i < kernel; i++)
          for (let j = 0; j < kernel; j++) {
            const [y, x] = [row * stride - pad + i, (pixel % outWidth) * stride - pad + j];
            if (y >= 0 && y < height && x >= 0 && x < width) places.push([y, x]);
          }
        const chosen = kind === "max" ? [places[(at * 5) % places.length]!] : places;
        indices[at] = chosen[0]![0] * width + chosen[0]![1];
        for (const [y, x] of chosen)
          expected[((image * height + y) * width + x) * channels + c]! += gradient[at]! / chosen.length;
      }
      const backend = createWebGpuBackend();
      await backend.init();
      try {
        const size = dtypeBytes[dtype];
        const stored = dtype === "f16" ? encodeFloat16(gradient) : Float32Array.from(gradient);
        const outputGradient = backend.alloc(size * windows);
        const [places, inputGradient] = [backend.alloc(4 * windows), backend.alloc(size * expected.length)];
        backend.copyHtoD(outputGradient, stored);
        backend.copyHtoD(places, indices);
        backend.pool2dGradient({
          ...{ kind, kernel: [kernel, kernel] },
          // In both layouts of a single channel, its elements lie in the same order.
          ...(channels === 1
            ? { inputShape: [batch, 1, height, width] as const }
            : { inputShape: [batch, height, width, channels] as const, layout: "NHWC" as const }),
          ...{
            stride: [stride, stride],
            padding: [pad, pad, pad, pad],
            dtype,
            outputGradient,
            inputGradient,
          },
          ...(kind === "max" ? { indices: places } : {}),
        });
        const got = dtype === "f16" ? new Uint16Array(expected.length) : new Float32Array(expected.length);
        await backend.copyDtoH(got, inputGradient);
        const values = got instanceof Uint16Array ? decodeFloat16(got) : got;
        for (const [i, value] of expected.entries())
          assert.closeTo(
            values[i]!,
            value,
            kind === "max" ? 0 : { f32: 1e-5, f16: 2 ** -7 }[dtype],
            `element ${i}`,
          );
      } finally {
        await backend.dispose();
      }
    });
});

describe("webgpu pool2dGradient divisions", () => {
  /** The rectangles of the parts of one step, as rows and columns of the input, and of windows. */
  function partsOf(problem: Problem): readonly string[] {
    const parts: string[] = [];
    const context = { scratch: (byteLength: number) => ({ byteLength, byteOffset: 0 }), dispatch() {} };
    poolGradientSegments.divide(
      {
        ...context,
        features: { limits: { maxStorageBufferBindingSize: 2 ** 27 } },
      } as unknown as OperationContext,
      problem,
      (_context, { planes, inputs, results, continues, inputGradient, outputGradient }) => {
        const text = (part: typeof inputs) =>
          part === undefined ? "all" : `${part.row}+${part.rows}, ${part.column}+${part.columns}`;
        parts.push(
          `${planes}: ${text(inputs)} of ${text(results)}${continues === true ? ", more" : ""}; ` +
            `${inputGradient.byteOffset}+${inputGradient.byteLength} of ${outputGradient.byteOffset}+${outputGradient.byteLength}`,
        );
      },
    );
    return parts;
  }

  it("take the windows that rows are in", () => {
    assert.deepEqual(partsOf(problemOf({ ...plain, inputShape: [1, 3, 56, 112] })), [
      `2: all of all; 0+${2 * 56 * 112 * 4} of 0+${2 * 28 * 56 * 4}`,
      `1: all of all; ${2 * 56 * 112 * 4}+${56 * 112 * 4} of ${2 * 28 * 56 * 4}+${28 * 56 * 4}`,
    ]);
    // Window 14 begins at row 27.
    assert.deepEqual(partsOf(problemOf({ ...plain, inputShape: [1, 1, 56, 112] })), [
      `1: 0+28, 0+112 of 0+15, 0+56; 0+${28 * 112 * 4} of 0+${15 * 56 * 4}`,
      `1: 28+28, 0+112 of 14+14, 0+56; ${28 * 112 * 4}+${28 * 112 * 4} of ${14 * 56 * 4}+${14 * 56 * 4}`,
    ]);
  });

  it("add up rows of windows over one row, rounded once", () => {
    const row = problemOf({
      ...plain,
      inputShape: [1, 1, 1, 112],
      kernel: [2, 3],
      stride: [1, 2],
      dtype: "f16",
    });
    assert.deepEqual(partsOf(row), [
      `1: 0+1, 0+112 of 0+1, 0+56; 0+448 of 0+112`,
      `1: 0+1, 0+112 of 1+1, 0+56, more; 0+448 of 112+112`,
    ]);
  });
});
