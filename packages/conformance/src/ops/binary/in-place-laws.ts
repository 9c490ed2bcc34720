import type { ArithmeticKind, FloatType, IntegerType } from "@backplane/core";
import { type Compute, compare, having, inPlaceLaw, samples } from "../../kit/in-place.js";
import type { Law } from "../../law.js";

export const inPlaceLaws: readonly Law[] = [
  inPlaceLaw("binary", "may write over an input that is both of its inputs", async ({ backend, forEach }) => {
    await forEach(
      having<ArithmeticKind>(backend, "binary", ["mul", "sub"]),
      async ({ dtype: given, kind }) => {
        const dtype = given as FloatType | IntegerType;
        const run: Compute = ([a], output) => backend.binary({ kind, dtype, n: 300, a: a!, b: a!, output });
        await compare(backend, dtype, [samples(300, 0, dtype)], [0], run, `${kind} ${dtype} with itself`);
      },
    );
  }),

  inPlaceLaw("binary", "may write over the input that is not repeated", async ({ backend, forEach }) => {
    await forEach(
      having<ArithmeticKind>(backend, "binary", ["add", "div"]),
      async ({ dtype: given, kind }) => {
        const dtype = given as FloatType | IntegerType;
        const contents = [samples(9 * 33, 0, dtype), samples(33, 5, dtype)];
        const row: Compute = ([a, b], output) =>
          backend.binary({
            ...{ kind, dtype, shapeA: [9, 33], shapeB: [33] },
            ...{ a: a!, b: b!, output },
          });
        await compare(backend, dtype, contents, [0], row, `${kind} ${dtype} of a matrix and a row`);
        const scalar: Compute = ([a], output) =>
          backend.binary({
            ...{ kind, dtype, n: 9 * 33, b: { scalar: 2 } },
            ...{ a: a!, output },
          });
        await compare(
          backend,
          dtype,
          contents.slice(0, 1),
          [0],
          scalar,
          `${kind} ${dtype} of a matrix and a scalar`,
        );
      },
    );
  }),
];
