// Tags: kernels, pure
import {
  comparisons,
  type IntegerKind,
  integerFunctions,
  logicalFunctions,
} from "@backplane/conformance/functions";
import {
  type BinaryInput,
  type BinaryKind,
  binaryKinds,
  dtypeBytes,
  elementTypes,
  type FloatType,
  floatTypes,
  type IntegerType,
  integerTypes,
  isComparison,
  type LogicalKind,
  logicalKinds,
} from "@backplane/core";
import { assert } from "chai";
import { binary } from "#src/kernels/binary/index.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { broadcasts, stridedPlaces } from "./shapes.js";
import { type BufferRegion, decode, encode, noise, random, rounded, withDevice } from "./support.js";

type OperandType = FloatType | IntegerType | "u8";

const { MAX_SAFE_INTEGER: large } = Number;
const floatSpecials = [
  ...[0, -0, 1, -1, 1.5, 1 + 2 ** -10, 1 + 2 ** -23, 65504, -65504, 3e38, -3e38],
  ...[2 ** -14, 2 ** -15, -(2 ** -24), 2 ** -126, 2 ** -127, 2 ** -149, -(2 ** -149)],
  ...[Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN],
];
const integerSpecials = [
  ...[0, 1, 2, 3, 7, 1_000_003, 46_341, 2 ** 16 - 1, 2 ** 16, 2 ** 16 + 1, 2 ** 24 + 1],
  ...[2 ** 30, 2 ** 31 - 2, 2 ** 31 - 1, 31, 32, 33],
];

/** Numbers of each type: those to be expected to go wrong, and one for a uniform number from 0 to 1. */
const types: Readonly<
  Record<OperandType, { readonly special: readonly number[]; readonly number: (uniform: number) => number }>
> = {
  f32: { special: floatSpecials, number: (uniform) => Math.round(uniform * 64) / 8 - 4 },
  f16: { special: [...rounded(floatSpecials, "f16")], number: (uniform) => Math.round(uniform * 64) / 8 - 4 },
  i32: {
    special: [...integerSpecials, ...integerSpecials.slice(1).map((value) => -value), -(2 ** 31)],
    number: (uniform) => (uniform * large) | 0,
  },
  u32: {
    special: [...integerSpecials, 2 ** 31, 2 ** 31 + 1, 2 ** 32 - 2, 2 ** 32 - 1],
    number: (uniform) => (uniform * large) >>> 0,
  },
  u8: {
    special: [0, 0, 0, 1, 2, 127, 128, 255],
    number: (uniform) => Math.max(0, (uniform * 512 - 256) | 0),
  },
};

function wanted(kind: BinaryKind, dtype: OperandType, a: number, b: number): number {
  if (isComparison(kind)) return comparisons[kind](a, b);
  if (dtype === "u8") return logicalFunctions[kind as LogicalKind](a, b);
  return integerFunctions[dtype as IntegerType][kind as IntegerKind](a, b);
}

const operandTypes: readonly OperandType[] = [...floatTypes, ...integerTypes, "u8"];
const kindsOf = (dtype: OperandType): readonly BinaryKind[] =>
  dtype === "u8"
    ? logicalKinds
    : binaryKinds.filter(
        (kind) => isComparison(kind) || (dtype in integerFunctions && kind in integerFunctions.i32),
      );

const resultType = (kind: BinaryKind, dtype: OperandType) => (isComparison(kind) ? "u8" : dtype);

describe("webgpu binary of integers and truth values", () => {
  const device = withDevice();

  /** A place for results amid bytes that must not change; `read` returns them. */
  function surrounded(count: number, type: "u8" | OperandType, byteOffset: number) {
    const byteLength = count * dtypeBytes[type];
    const before = noise(byteOffset + byteLength + 21);
    const memory = device().upload(before);
    const region = { memory, byteOffset, byteLength };
    const read = async () => {
      const after = await device().download(memory, 0, before.length);
      const results = decode(after.subarray(byteOffset, byteOffset + byteLength), type);
      after.set(before.subarray(byteOffset, byteOffset + byteLength), byteOffset);
      assert.deepEqual(after, before, "other bytes changed");
      device().driver.free(memory);
      return results;
    };
    return { region, read };
  }

  function assertResults(
    results: ArrayLike<number>,
    kind: BinaryKind,
    dtype: OperandType,
    pairs: readonly (readonly [a: number, b: number])[],
    about = "",
  ): void {
    for (const [i, [a, b]] of pairs.entries()) {
      const expected = wanted(kind, dtype, a, b);
      if (results[i] !== expected)
        assert.fail(
          `${dtype} ${kind}(${a}, ${b}) at ${i} of ${pairs.length}${about}: ${results[i]}, not ${expected}`,
        );
    }
  }

  /** Checks one result for each pair, by vectors and, from places that are no multiples of 16 bytes, one by one. */
  async function check(
    kind: BinaryKind,
    dtype: OperandType,
    pairs: readonly (readonly [a: number, b: number])[],
  ): Promise<void> {
    const n = pairs.length;
    const type = resultType(kind, dtype);
    for (const steps of [0, 1]) {
      const [a, b] = ([0, 1] as const).map((side) =>
        device().place(
          pairs.map((pair) => pair[side]),
          dtype,
          steps * dtypeBytes[dtype],
        ),
      );
      const { region: output, read } = surrounded(n, type, steps * dtypeBytes[type]);
      device().run("binary", {
        ...{ dtype, kind, shape: [n], n, output },
        ...{ a: { region: a!, strides: [1] }, b: { region: b!, strides: [1] } },
      });
      assertResults(await read(), kind, dtype, pairs, steps === 0 ? "" : ", unaligned");
    }
  }

  it("has these kinds and no others", () => {
    for (const dtype of [...integerTypes, "u8"] as const) {
      const [support, ...others] = binary.supports.filter((support) =>
        (support.dtype as readonly string[]).includes(dtype),
      );
      assert.sameMembers(support!.kind as BinaryKind[], [...kindsOf(dtype)]);
      assert.isEmpty(others);
    }
  });

  for (const dtype of operandTypes)
    for (const kind of kindsOf(dtype))
      it(`${kind} of ${dtype} is right for all pairs of special numbers, and random ones`, async () => {
        const { special, number } = types[dtype];
        const next = random(kind.length);
        const pairs = special.flatMap((a) => special.map((b) => [a, b] as [number, number]));
        while (pairs.length < 5001) {
          const a = number(next());
          pairs.push([a, next() < 0.2 ? a : number(next())]);
        }
        const stored = (side: 0 | 1) =>
          decode(
            encode(
              pairs.map((pair) => pair[side]),
              dtype,
            ),
            dtype,
          );
        const [a, b] = [stored(0), stored(1)];
        await check(
          kind,
          dtype,
          pairs.map((_, i) => [a[i]!, b[i]!]),
        );
      });

  for (const dtype of integerTypes)
    it(`divides ${dtype} exactly on both sides of every multiple`, async () => {
      const next = random(11);
      const [least, most] = elementTypes[dtype].range!;
      const pairs: [number, number][] = [];
      while (pairs.length < 20_000) {
        // Of every magnitude.
        const b = Math.trunc(2 ** (next() * 32)) * (least < 0 && next() < 0.5 ? -1 : 1);
        const limit = next() < 0.5 ? most : least;
        const multiple = b * Math.trunc((next() < 0.3 ? limit : limit * next()) / b);
        for (const a of [multiple - 1, multiple, multiple + 1])
          if (a >= least && a <= most && b >= least && b <= most) pairs.push([a, b]);
      }
      for (const kind of ["div", "mod", "rem", "floorDiv"] as const) await check(kind, dtype, pairs);
    });

  for (const dtype of operandTypes)
    for (const kind of ["less", "sub", "logicalXor"] as const)
      if (kindsOf(dtype).includes(kind))
        it(`${kind} of ${dtype} writes n results and nothing else, wherever they begin and end`, async () => {
          const { number } = types[dtype];
          const type = resultType(kind, dtype);
          const [size, resultSize] = [dtypeBytes[dtype], dtypeBytes[type]];
          const next = random(3);
          const longest = 4099;
          const values = [0, 1].map(() => Array.from({ length: longest + 4 }, () => number(next())));
          const [a, b] = values.map((list) => device().place(list, dtype));
          const part = ({ memory }: BufferRegion, first: number, n: number) => ({
            region: { memory, byteOffset: first * size, byteLength: n * size },
            strides: [1],
          });
          const lengths = [
            ...Array.from({ length: 67 }, (_, i) => i + 1),
            ...[255, 256, 257, 1020, 1023, 1024, 1025, 1028, 2051, 4096, longest],
          ];
          // Side by side, so that they share words with their neighbours, or up to seven bytes apart.
          const image = noise(1_000_000);
          const memory = device().upload(image);
          const expected = image.slice();
          let byteOffset = 0;
          for (const n of lengths)
            for (const [gap, first, second] of [
              ...[0, 1, 2, 3, 5, 6, 7].map((gap) => [gap, 0, 0] as const),
              ...[
                [16, 0, 0],
                [16, 0, 4],
                [4, 1, 0],
                [0, 3, 2],
              ],
            ] as const) {
              byteOffset += Math.ceil(gap / resultSize) * resultSize;
              // As often as not at a place for vectors.
              if (gap === 16) byteOffset = Math.ceil(byteOffset / 16) * 16;
              const output = { memory, byteOffset, byteLength: n * resultSize };
              device().run("binary", {
                ...{ dtype, kind, shape: [n], n, output },
                ...{ a: part(a!, first!, n), b: part(b!, second!, n) },
              });
              const results = Array.from({ length: n }, (_, i) =>
                wanted(kind, dtype, values[0]![first! + i]!, values[1]![second! + i]!),
              );
              expected.set(encode(results, type), byteOffset);
              byteOffset += output.byteLength;
            }
          assert.isBelow(byteOffset, image.length);
          const after = await device().download(memory, 0, image.length);
          const wrong = after.findIndex((byte, i) => byte !== expected[i]);
          assert.equal(wrong, -1, `byte ${wrong} is ${after[wrong]}, not ${expected[wrong]}`);
        });

  for (const [kind, dtype] of [
    ...[["sub", "i32"] as const, ["div", "u32"] as const],
    ...[...floatTypes, ...integerTypes].map((dtype) => ["less", dtype] as const),
    ["logicalXor", "u8"] as const,
    ["notEqual", "f32"] as const,
  ])
    for (const { shape, a, b } of broadcasts)
      it(`${kind} of ${dtype} broadcasts [${shape}] with strides [${a}] and [${b}]`, async () => {
        const n = shape.reduce((product, extent) => product * extent, 1);
        const [placesA, placesB] = [stridedPlaces(shape, a), stridedPlaces(shape, b)];
        const { number } = types[dtype];
        const next = random(n);
        const values = [placesA, placesB].map((places) =>
          Array.from({ length: Math.max(...places) + 1 }, () => number(next())),
        );
        const pairs = placesA.map((place, i) => [values[0]![place]!, values[1]![placesB[i]!]!] as const);
        const type = resultType(kind, dtype);
        const strides = [a, b];
        for (const [at, atOutput] of [
          [0, 0],
          [0, 3],
          [1, 16],
          [1, 5],
        ] as const) {
          const [x, y] = values.map((list, side) => ({
            region: device().place(list, dtype, at * dtypeBytes[dtype]),
            strides: strides[side]!,
          }));
          const { region: output, read } = surrounded(n, type, atOutput * dtypeBytes[type]);
          device().run("binary", { dtype, kind, shape, n, a: x!, b: y!, output });
          assertResults(await read(), kind, dtype, pairs, `, ${at} and ${atOutput} into the buffers`);
        }
      });

  for (const dtype of operandTypes)
    it(`takes ${dtype} scalars on either side, up to the ends of the range`, async () => {
      const { special, number } = types[dtype];
      const next = random(6);
      const values = Array.from({ length: 37 }, (_, i) => special[i] ?? number(next()));
      const held = decode(encode(values, dtype), dtype);
      const n = values.length;
      // Scalars of floating-point data are f32.
      const scalars =
        dtype in integerFunctions ? special : [0, -0, -1, 1.5, Math.fround(1 + 2 ** -12), 2 ** -24];
      for (const steps of [0, 1]) {
        const operand = {
          region: device().place(values, dtype, steps * dtypeBytes[dtype]),
          strides: [1],
        };
        for (const kind of ["less", "notEqual", "sub", "div", "min"] as const) {
          if (!kindsOf(dtype).includes(kind)) continue;
          for (const scalar of scalars)
            for (const side of [0, 1]) {
              const sides: readonly BinaryInput<DeviceMemory>[] =
                side === 0 ? [{ scalar }, operand] : [operand, { scalar }];
              const { region: output, read } = surrounded(n, resultType(kind, dtype), 16 * (1 - steps));
              device().run("binary", { dtype, kind, shape: [n], n, a: sides[0]!, b: sides[1]!, output });
              const pairs = [...held].map(
                (x) => (side === 0 ? [scalar, x] : [x, scalar]) as [number, number],
              );
              assertResults(await read(), kind, dtype, pairs);
            }
        }
      }
    });

  for (const dtype of integerTypes)
    it(`may write ${dtype} over either operand or both, beside slices of the same memory`, async () => {
      const n = 37;
      const next = random(5);
      const values = Array.from({ length: 2 * n + 9 }, () => types[dtype].number(next()));
      for (const kind of ["sub", "div"] as const)
        for (const [atA, atB, atOutput] of [
          [0, n, 0],
          [n, 0, 0],
          [0, 0, 0],
          [1, 1, 1],
          [3, n + 3, n + 3],
          [4, 44, 4],
          [0, 9, 9 + n],
        ] as const) {
          const memory = device().upload(encode(values, dtype));
          const region = (element: number) => ({ memory, byteOffset: 4 * element, byteLength: 4 * n });
          device().run("binary", {
            ...{ dtype, kind, shape: [n], n, output: region(atOutput) },
            a: { region: region(atA), strides: [1] },
            b: { region: region(atB), strides: [1] },
          });
          const expected = values.slice();
          for (let i = 0; i < n; i++)
            expected[atOutput + i] = wanted(kind, dtype, values[atA + i]!, values[atB + i]!);
          const whole = { memory, byteOffset: 0, byteLength: 4 * values.length };
          assert.deepEqual([...(await device().numbers(whole, dtype))], expected);
        }
    });

  for (const dtype of [...floatTypes, ...integerTypes])
    it(`compares ${dtype} that share words and memory with the results`, async () => {
      const n = 37;
      const size = dtypeBytes[dtype];
      const next = random(8);
      const { number } = types[dtype];
      for (const [atA, atB, atOutput] of [
        // In bytes: the results right behind one operand, and in front of the other.
        [0, n * size + 60, n * size],
        [n * size + 60, 0, n * size + 3],
        [40, 40, 1],
        [40, 40, 3],
      ] as const) {
        const values = [0, 1].map(() => Array.from({ length: n }, () => number(next())));
        const image = noise(2 * n * size + 128);
        const bytes = (list: readonly number[]) => encode(list, dtype);
        image.set(bytes(values[0]!), atA);
        image.set(bytes(values[1]!), atB);
        const memory = device().upload(image);
        const operand = (byteOffset: number) => ({
          region: { memory, byteOffset, byteLength: n * size },
          strides: [1],
        });
        const output = { memory, byteOffset: atOutput, byteLength: n };
        device().run("binary", {
          ...{ dtype, kind: "less", shape: [n], n, output },
          ...{ a: operand(atA), b: operand(atB) },
        });
        const left = atA === atB ? values[1]! : values[0]!;
        const results = left.map((a, i) => wanted("less", dtype, a, values[1]![i]!));
        image.set(results, atOutput);
        assert.deepEqual(await device().download(memory, 0, image.length), image);
      }
    });
});
