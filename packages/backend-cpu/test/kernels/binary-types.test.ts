// Tags: kernels, pure
// binary on integers, and comparisons of every type.
import {
  comparisons,
  type IntegerKind,
  integerFunctions,
  logicalFunctions,
} from "@backplane/conformance/functions";
import {
  type BinaryArguments,
  type BinaryKind,
  binaryKinds,
  type DeviceHandle,
  dtypeBytes,
  elementTypes,
  floatTypes,
  type IntegerType,
  integerTypes,
  isComparison,
  type LogicalKind,
  logicalKinds,
  type Region,
} from "@backplane/core";
import { expect } from "chai";
import { binary } from "#src/kernels/binary/binary.js";
import { binaryKindsOf } from "#src/kernels/binary/functions.js";
import { type ComputedType, formOf } from "#src/kernels/elements/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { asStored } from "../types.js";
import { Workbench } from "../workbench.js";
import { randomNumbers, specialNumbers } from "./numbers.js";
import { guardedBytes, resolveProblem, runOperation, uploadBits, uploadElements } from "./problems.js";
import { broadcast, broadcasts } from "./shapes.js";

const handle = 1 as DeviceHandle;
const { MAX_SAFE_INTEGER: large } = Number;

interface TypeOfOperands {
  /** The numbers that elements hold. */
  stored(values: readonly number[]): readonly number[];
  upload(bench: Workbench, values: readonly number[]): Region<CpuMemory>;
  read(elements: ArrayBuffer): ArrayLike<number>;
  /** A number for a uniform one in [0, 1). */
  number(random: number): number;
  readonly special: readonly number[];
}

const integers = (
  array: Int32ArrayConstructor | Uint32ArrayConstructor | Uint8ArrayConstructor,
  special: readonly number[],
) => ({
  stored: (values: readonly number[]) => values,
  upload: (bench: Workbench, values: readonly number[]) =>
    uploadBits(bench, array.from(values) as Uint32Array),
  read: (elements: ArrayBuffer) => new array(elements),
  number: (random: number) => array.of(random * large)[0]!,
  special,
});

const floats = (dtype: "f32" | "f16"): TypeOfOperands => ({
  stored: (values) => [...asStored(dtype, Float32Array.from(values))],
  upload: (bench, values) => uploadElements(bench, dtype, Float32Array.from(values)),
  read() {
    throw new Error("results are bytes");
  },
  number: (random) => Math.round(random * 64) / 8 - 4,
  special: [...specialNumbers, 1 + 2 ** -23, 1 + 2 ** -10, -1, 65504],
});

type Type = ComputedType | "u8";

const types: Readonly<Record<Type, TypeOfOperands>> = {
  f32: floats("f32"),
  f16: floats("f16"),
  i32: integers(Int32Array, [
    ...[0, 1, -1, 2, -2, 3, -7, 1000003, 2 ** 16, -(2 ** 16), 2 ** 24 + 1, 46341, 31, 32, 33],
    ...[2 ** 31 - 1, -(2 ** 31), -(2 ** 31) + 1, 2 ** 30, -(2 ** 30) - 1],
  ]),
  u32: integers(Uint32Array, [
    ...[0, 1, 2, 3, 7, 1000003, 2 ** 16 - 1, 2 ** 16, 2 ** 16 + 1, 2 ** 24 + 1],
    ...[2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 2, 2 ** 32 - 1, 31, 32, 33],
  ]),
  u8: integers(Uint8Array, [0, 0, 0, 1, 2, 127, 128, 255]),
};

function expected(kind: BinaryKind, dtype: Type, a: number, b: number): number {
  if (isComparison(kind)) return comparisons[kind](a, b);
  if (dtype === "u8") return logicalFunctions[kind as LogicalKind](a, b);
  return integerFunctions[dtype as IntegerType][kind as IntegerKind](a, b);
}

const kindsOf = (dtype: Type): readonly BinaryKind[] =>
  dtype === "u8"
    ? logicalKinds
    : binaryKinds.filter(
        (kind) => isComparison(kind) || (dtype in integerFunctions && kind in integerFunctions.i32),
      );

describe("binary kernels of integers and truth values", () => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(binary.kernels);
  });

  /** Runs a problem, and returns its results and the operands as they are stored. */
  const run = (
    dtype: Type,
    args: Omit<BinaryArguments, "output" | "dtype">,
    values: { readonly a?: readonly number[]; readonly b?: readonly number[] },
    count: number,
    options: { readonly offset?: number; readonly workers?: number } = {},
  ) => {
    const { upload, read, stored } = types[dtype];
    const bytes = isComparison(args.kind) ? 1 : dtypeBytes[dtype];
    const output = guardedBytes(bench, count * bytes, (options.offset ?? 1) * bytes);
    const regions = {
      output: output.region,
      ...(values.a && { a: upload(bench, values.a) }),
      ...(values.b && { b: upload(bench, values.b) }),
    };
    const problem = resolveProblem("binary", { ...args, dtype, output: handle }, regions)!;
    const context = { ...bench.context, workers: options.workers ?? 1 };
    bench.run(binary.plan(problem, context));
    const got = output.read();
    return {
      got: isComparison(args.kind) ? new Uint8Array(got) : read(got),
      a: values.a && stored(values.a),
      b: values.b && stored(values.b),
    };
  };

  /** Checks one result for each pair of numbers. */
  const check = (
    kind: BinaryKind,
    dtype: Type,
    pairs: readonly (readonly [a: number, b: number])[],
    options: { readonly offset?: number; readonly workers?: number } = {},
  ): void => {
    const values = { a: pairs.map(([a]) => a), b: pairs.map(([, b]) => b) };
    const n = pairs.length;
    const { got, a, b } = run(dtype, { kind, n, a: handle, b: handle }, values, n, options);
    for (let i = 0; i < n; i++) {
      const wanted = expected(kind, dtype, a![i]!, b![i]!);
      if (got[i] !== wanted)
        expect.fail(`${dtype} ${kind}(${a![i]}, ${b![i]}) at ${i} of ${n}: ${got[i]}, not ${wanted}`);
    }
  };

  it("has these kinds of integers and no others", () => {
    for (const dtype of [...integerTypes, "u8"] as const)
      expect(binaryKindsOf(formOf(dtype))).to.have.members(kindsOf(dtype));
  });

  for (const dtype of [...floatTypes, ...integerTypes, "u8"] as const)
    for (const kind of kindsOf(dtype))
      it(`${kind} of ${dtype}: all pairs of special numbers, and random ones in several chunks`, () => {
        const { special, number } = types[dtype];
        const random = randomNumbers(special.length + kind.length);
        const pairs = special.flatMap((a) => special.map((b) => [a, b] as const));
        while (pairs.length < 20_001) {
          const a = number(random());
          pairs.push([a, random() < 0.1 ? a : number(random())]);
        }
        for (const workers of [1, 3]) check(kind, dtype, pairs, { workers });
      });

  it("divides exactly on both sides of every multiple", () => {
    const random = randomNumbers(11);
    for (const dtype of integerTypes) {
      const [least, most] = elementTypes[dtype].range!;
      const pairs: [number, number][] = [];
      while (pairs.length < 30_000) {
        // Of every magnitude.
        const b = Math.trunc(2 ** (random() * 32)) * (least < 0 && random() < 0.5 ? -1 : 1);
        const limit = random() < 0.5 ? most : least;
        const multiple = b * Math.trunc((random() < 0.3 ? limit : limit * random()) / b);
        for (const a of [multiple - 1, multiple, multiple + 1])
          if (a >= least && a <= most && b >= least && b <= most) pairs.push([a, b]);
      }
      for (const kind of ["div", "mod", "rem", "floorDiv"] as const) check(kind, dtype, pairs);
    }
  });

  it("writes exactly n elements, at any offset", () => {
    for (const dtype of [...floatTypes, ...integerTypes, "u8"] as const)
      for (const kind of ["less", "div", "max", "logicalXor"] as const)
        if (kindsOf(dtype).includes(kind))
          for (let n = 1; n <= 67; n++) {
            const { number } = types[dtype];
            const random = randomNumbers(n);
            const pairs = Array.from({ length: n }, () => [number(random()), number(random())] as const);
            check(kind, dtype, pairs, { offset: n % 7 });
          }
  });

  it("takes a scalar on either side, up to the ends of the range", () => {
    const random = randomNumbers(6);
    const checkScalar = (kind: BinaryKind, dtype: Type, scalar: number, n: number): void => {
      const { number, special } = types[dtype];
      const values = Array.from({ length: n }, (_, i) => special[i] ?? number(random()));
      const held = dtype in integerFunctions ? scalar : Math.fround(scalar);
      const left = run(dtype, { kind, n, a: { scalar }, b: handle }, { b: values }, n);
      const right = run(dtype, { kind, n, a: handle, b: { scalar } }, { a: values }, n);
      for (let i = 0; i < n; i++) {
        const wanted = [expected(kind, dtype, held, left.b![i]!), expected(kind, dtype, right.a![i]!, held)];
        if (left.got[i] !== wanted[0] || right.got[i] !== wanted[1])
          expect.fail(
            `${dtype} ${kind} ${scalar} at ${i} of ${n}: ${left.got[i]}, ${right.got[i]}, not ${wanted}`,
          );
      }
    };
    for (const dtype of [...floatTypes, ...integerTypes])
      for (const kind of ["less", "notEqual", "sub", "div", "min"] as const)
        if (kindsOf(dtype).includes(kind)) {
          const scalars =
            dtype in integerFunctions ? types[dtype].special : [0, -1, 1.2345678, 1 + 2 ** -23, 3e38];
          for (const scalar of scalars) checkScalar(kind, dtype, scalar, 30);
          checkScalar(kind, dtype, scalars.at(-1)!, 8193);
        }
  });

  for (const { a: shapeA, b: shapeB } of broadcasts)
    it(`broadcasts [${shapeA}] with [${shapeB}]`, () => {
      const { a: countA, b: countB, output, pairs } = broadcast(shapeA, shapeB);
      for (const [kind, dtype] of [
        ["sub", "i32"],
        ["less", "u32"],
        ["greaterEqual", "f32"],
        ["less", "f16"],
      ] as const) {
        const values = {
          a: Array.from({ length: countA }, (_, i) => i % 1000),
          b: Array.from({ length: countB }, (_, i) => (7 * i) % 991),
        };
        const { got, a, b } = run(dtype, { kind, shapeA, shapeB, a: handle, b: handle }, values, output);
        for (const [i, [x, y]] of pairs.entries()) {
          const wanted = expected(kind, dtype, a![x]!, b![y]!);
          if (got[i] !== wanted) expect.fail(`${dtype} ${kind} element ${i}: ${got[i]}, not ${wanted}`);
        }
      }
    });

  it("writes over an input exactly", () => {
    for (const kind of ["sub", "mul", "div"] as const)
      for (const which of ["a", "b"] as const)
        for (const n of [1, 3, 4, 37, 2051]) {
          const data = {
            a: Array.from({ length: n }, (_, i) => 5 * i - 20),
            b: new Array<number>(n).fill(3),
          };
          const a = types.i32.upload(bench, data.a);
          const b = types.i32.upload(bench, data.b);
          const output = which === "a" ? a : b;
          const problem = resolveProblem(
            "binary",
            { kind, dtype: "i32", n, a: handle, b: handle, output: handle },
            { a, b, output },
          );
          runOperation(bench, binary, problem);
          expect([...new Int32Array(bench.bytes(output).buffer)]).to.deep.equal(
            data.a.map((x) => expected(kind, "i32", x, 3)),
          );
        }
  });
});
