import type { Conv2dArguments, Pool2dArguments } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve } from "../support/resolve.js";

const lists = {
  inputShape: [1, 4, 4, 2],
  kernel: [2, 2],
  stride: [1, 1],
  padding: [0, 0, 1, 1],
} as const satisfies Partial<Pool2dArguments>;

/** The same arguments, with lists that nobody can change. */
function fixed<Arguments extends object>(args: Arguments): Arguments {
  const entries = Object.entries(args).map(([name, value]) => [
    name,
    Array.isArray(value) ? Object.freeze([...value]) : value,
  ]);
  return Object.fromEntries(entries) as Arguments;
}

const pooling = (): Pool2dArguments => ({
  ...{ kind: "max", layout: "NHWC", ...lists, input: place(1), output: place(2) },
});

describe("Geometry in frozen lists", () => {
  it("is the same at the second call, also with other operands", () => {
    const args = fixed(pooling());
    const first = problemOf("pool2d", args);
    assert.deepEqual(first, problemOf("pool2d", pooling()));
    assert.deepEqual(problemOf("pool2d", args), first);
    const { input, output } = problemOf("pool2d", { ...args, input: place(7), output: place(8) });
    assert.deepEqual([input.memory, output.memory], [7, 8]);
    const convolution: Conv2dArguments = fixed({
      ...{ inputShape: [1, 2, 5, 5], filterShape: [4, 1, 3, 3], groups: 2, padding: [1, 1, 1, 1] },
      ...{ input: place(1), filter: place(2), output: place(3) },
    });
    assert.deepEqual(problemOf("conv2d", convolution), problemOf("conv2d", { ...convolution }));
    assert.equal(problemOf("conv2d", convolution).groups, 2);
  });

  it("is read again where any other argument differs", () => {
    const args = fixed(pooling());
    const { outHeight, outWidth } = problemOf("pool2d", args);
    assert.deepEqual([outHeight, outWidth], [4, 4]);
    const others: readonly (readonly [Partial<Pool2dArguments>, number, number])[] = [
      [{ layout: "NCHW" }, 4, 2],
      [{ kernel: [3, 2] }, 3, 4],
      [{ stride: [2, 1] }, 2, 4],
      [{ padding: [0, 0, 0, 1] }, 3, 4],
      [{ dilation: [2, 1] }, 3, 4],
      [{ kernel: [3, 3], stride: [2, 2], padding: [0, 0, 0, 0], ceil: true }, 2, 2],
    ];
    for (const [other, height, width] of others) {
      const problem = problemOf("pool2d", { ...args, ...other });
      assert.deepEqual([problem.outHeight, problem.outWidth], [height, width], JSON.stringify(other));
    }
    const counted = { ...args, kind: "mean", countPadding: true } as const;
    assert.isTrue(problemOf("pool2d", counted).countPadding);
    throws("INVALID_ARGUMENT", () => resolve("pool2d", { ...args, countPadding: true }), "countPadding");
    throws(
      "INVALID_ARGUMENT",
      () => resolve("pool2d", { ...args, outputShape: [1, 3, 4, 2] }),
      "outputShape",
    );
  });

  it("does not hide unknown names, nor wrong lists", () => {
    const args = fixed(pooling());
    for (let call = 0; call < 2; call++) {
      resolve("pool2d", args);
      throws("INVALID_ARGUMENT", () => resolve("pool2d", { ...args, strides: [1, 1] } as never), "strides");
      throws("INVALID_ARGUMENT", () => resolve("pool2d", { ...args, stride: [0, 1] as never }), "stride[0]");
      throws("INVALID_ARGUMENT", () => resolve("pool2d", { ...args, inputShape: 4 as never }), "inputShape");
      const wrong = Object.freeze([1, 4, 4, -2]) as never;
      throws("INVALID_ARGUMENT", () => resolve("pool2d", { ...args, inputShape: wrong }), "inputShape[3]");
    }
  });

  it("is read each time if somebody can change one of the lists", () => {
    const args = fixed(pooling());
    const kernel: [number, number] = [2, 2];
    assert.equal(problemOf("pool2d", { ...args, kernel }).kernelHeight, 2);
    kernel[0] = 3;
    assert.equal(problemOf("pool2d", { ...args, kernel }).kernelHeight, 3);
    let height = 4;
    const computed = [1, 4, 4, 2];
    Object.defineProperty(computed, 1, { get: () => height, enumerable: true });
    Object.freeze(computed);
    const inputShape = computed as unknown as Pool2dArguments["inputShape"];
    assert.equal(problemOf("pool2d", { ...args, inputShape }).height, 4);
    height = 6;
    assert.equal(problemOf("pool2d", { ...args, inputShape }).height, 6);
  });

  it("is not taken for that of what a getter returns next", () => {
    const lists = {
      inputShape: [
        [1, 4, 4, 2],
        [1, 6, 6, 2],
      ],
      stride: [
        [1, 1],
        [2, 2],
      ],
    } as const;
    for (const name of ["inputShape", "stride"] as const) {
      const args = fixed(pooling());
      const values = lists[name].map((list) => Object.freeze([...list]));
      let looks = 0;
      const changing = Object.defineProperty({ ...args }, name, {
        ...{ enumerable: true, get: () => values[looks++ % 2] },
      });
      for (let call = 0; call < 3; call++) resolve("pool2d", changing);
      for (const value of values)
        assert.deepEqual(
          problemOf("pool2d", { ...args, [name]: value }),
          problemOf("pool2d", { ...args, [name]: [...value] }),
          `${name} ${value}`,
        );
    }
  });
});
