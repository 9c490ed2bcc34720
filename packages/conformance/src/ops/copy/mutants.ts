import { type CopyProblem, type DType, elementTypes } from "@backplane/core";
import { load, type ReferenceMemory, storages, storeInto } from "../../elements.js";
import { mapped } from "../../kit/regions.js";
import { contiguousStrides } from "../../kit/shapes.js";
import type { Builder, Mutant } from "../../mutant.js";
import { type CopyPlaces, converted, forEachPlace } from "./formula.js";

type Problem = CopyProblem<ReferenceMemory>;

const f32 = Math.fround;

const isFloat = (dtype: DType): boolean => elementTypes[dtype].range === undefined;

/** Copies with a conversion, or places, of one's own. */
function copied(
  p: Problem,
  convert: (value: number, from: DType, to: DType) => number,
  places: CopyPlaces = p,
): void {
  const values = load(p.input, p.dtype);
  const store = storeInto(p.output, p.outputDtype);
  forEachPlace(places, (from, to) => store(to, convert(values[from]!, p.dtype, p.outputDtype)));
}

const places = (dtype: DType) =>
  `copy ${dtype}: keeps all bits, and all that lies between and around the results`;
const larger = (dtype: DType) => `copy ${dtype}: does so on larger shapes`;
const conversion = (dtype: DType) => `copy ${dtype}: becomes any other type, exactly`;

/** Defects of copy. */
export const copyMutants = ({ tampered, replaced }: Builder): readonly Mutant[] => {
  /** A mutant that converts some numbers another way. */
  const converter = (
    name: string,
    description: string,
    killedBy: readonly string[],
    convert: (value: number, from: DType, to: DType) => number | undefined,
  ): Mutant => ({
    ...{ name, description, killedBy, operation: "copy", defect: "numerics" },
    create: () =>
      replaced("copy", (p, run) => {
        if (p.dtype === p.outputDtype) return run(p);
        copied(p, (value, from, to) => convert(value, from, to) ?? converted(value, from, to));
      }),
  });
  return [
    {
      name: "reads contiguous elements whatever the strides",
      operation: "copy",
      defect: "stride",
      description: "A library that takes every tensor for contiguous.",
      killedBy: [places("f32"), places("u8")],
      create: () =>
        tampered("copy", (p) => ({ ...p, inputStrides: contiguousStrides(p.shape), inputStart: 0 })),
    },
    {
      name: "counts negative strides from the first place",
      operation: "copy",
      defect: "stride",
      description: "The place of element [0, ..., 0] is taken for the lowest one.",
      killedBy: [places("f32"), larger("f16")],
      create: () =>
        tampered("copy", (p) => ({
          ...p,
          inputStart: 0,
          inputStrides: p.inputStrides.map((stride) => Math.abs(stride)),
        })),
    },
    {
      name: "reads a repeated place once",
      operation: "copy",
      defect: "indexing",
      description: "A stride of 0 is taken for a stride that was left out.",
      killedBy: [larger("f32"), larger("u8")],
      create: () =>
        tampered("copy", (p) => ({
          ...p,
          inputStrides: p.inputStrides.map((stride, i) =>
            stride === 0 ? contiguousStrides(p.shape)[i]! : stride,
          ),
        })),
    },
    {
      name: "fills the gaps of its output",
      operation: "copy",
      defect: "edge",
      description: "Rows are stored in vectors, up to the next one.",
      killedBy: [places("f16"), larger("f32")],
      create: () =>
        replaced("copy", (p, run) => {
          p.output.memory.fill(0, p.output.byteOffset, p.output.byteOffset + p.output.byteLength);
          run(p);
        }),
    },
    {
      name: "writes the last word whole",
      operation: "copy",
      defect: "edge",
      description:
        "Elements of one or two bytes share words of four with what does not belong to the output.",
      killedBy: [places("f16"), places("u8")],
      create: () =>
        replaced("copy", (p, run) => {
          run(p);
          const { memory, byteOffset, byteLength } = p.output;
          const end = byteOffset + byteLength;
          memory.fill(0, end, Math.min(Math.ceil(end / 4) * 4, memory.length));
        }),
    },
    {
      name: "transposes whole tiles only",
      operation: "copy",
      defect: "edge",
      description: "What is left beside the last tile of 32 x 32 is not written.",
      killedBy: [larger("f32"), larger("f16"), larger("u8")],
      create: () =>
        tampered("copy", (p) => {
          const isTransposed = p.inputStrides.includes(1) && p.inputStrides.at(-1) !== 1;
          if (!isTransposed || p.n < 2 ** 14) return p;
          return { ...p, shape: p.shape.map((extent) => (extent > 32 ? extent - (extent % 32) : extent)) };
        }),
    },
    {
      name: "merges neighbouring axes that have room between them",
      operation: "copy",
      defect: "stride",
      description: "The output's rows follow one another, it seems, since those of the input do.",
      killedBy: [places("f32"), "copy f16: is undone by the opposite strides"],
      create: () => tampered("copy", (p) => ({ ...p, outputStrides: contiguousStrides(p.shape) })),
    },
    {
      name: "moves elements as numbers",
      operation: "copy",
      defect: "numerics",
      description: "Signalling NaNs and subnormal numbers do not survive a load and a store.",
      killedBy: [places("f32"), places("f16")],
      create: () =>
        replaced("copy", (p, run) => {
          if (p.dtype !== p.outputDtype || !isFloat(p.dtype)) return run(p);
          const smallest = storages[p.dtype].smallestNormal;
          copied(p, (value) => (Math.abs(value) < smallest ? 0 : value));
        }),
    },
    converter(
      "cuts digits off",
      "Halves are rounded towards zero.",
      [conversion("f32")],
      (value, from, to) => {
        if (from !== "f32" || to !== "f16" || !(Math.abs(value) > 2 ** -14 && Math.abs(value) < 65504))
          return undefined;
        const units = 2 ** (Math.floor(Math.log2(Math.abs(value))) - 10);
        return Math.trunc(value / units) * units;
      },
    ),
    converter(
      "rounds half away from zero",
      "bf16 made by adding half a unit to the bits of an f32.",
      [conversion("f32")],
      (value, from, to) => {
        if (from !== "f32" || to !== "bf16" || !Number.isFinite(value)) return undefined;
        const bits = elementTypes.f32.toBits(value) + 0x8000;
        return elementTypes.f32.fromBits((bits & 0xffff0000) >>> 0);
      },
    ),
    converter(
      "rounds integers twice",
      "To f32, and from there to bf16.",
      [conversion("i32"), conversion("u32")],
      (value, from, to) => (to === "bf16" && !isFloat(from) ? f32(value) : undefined),
    ),
    converter(
      "rounds to the nearest integer",
      "Instead of dropping the fraction.",
      [conversion("f32"), conversion("f16"), conversion("bf16")],
      (value, from, to) =>
        isFloat(from) && !isFloat(to) && Math.abs(value) < 2 ** 22
          ? converted(Math.round(value), from, to)
          : undefined,
    ),
    converter(
      "wraps floats around",
      "As integers do: 256 becomes 0.",
      [conversion("f32"), conversion("f16")],
      (value, from, to) =>
        isFloat(from) && to === "u8" && Number.isFinite(value) ? Math.trunc(value) & 0xff : undefined,
    ),
    converter(
      "saturates integers",
      "300 becomes 255 as u8, and -1 as u32 becomes 0.",
      [conversion("i32"), conversion("u32")],
      (value, from, to) => {
        const { range } = elementTypes[to];
        return isFloat(from) || range === undefined
          ? undefined
          : Math.min(Math.max(value, range[0]), range[1]);
      },
    ),
    converter(
      "makes the least integer of NaN",
      "As x86 does.",
      [conversion("f32"), conversion("f16"), conversion("bf16")],
      (value, _from, to) => (Number.isNaN(value) && to === "i32" ? -(2 ** 31) : undefined),
    ),
    converter(
      "takes unsigned integers for signed ones",
      "2^31 and above become negative.",
      [conversion("u32")],
      (value, from, to) => (from === "u32" && isFloat(to) ? value | 0 : undefined),
    ),
    converter(
      "flushes subnormal halves",
      "Numbers below 2^-14 become 0.",
      [conversion("f32"), conversion("f16"), "copy f16: becomes any other type, exactly, whatever its bits"],
      (value, from, to) =>
        (from === "f16" || to === "f16") && isFloat(from) && isFloat(to) && Math.abs(value) < 2 ** -14
          ? 0 * value
          : undefined,
    ),
    converter(
      "has no infinite halves",
      "Large numbers become 65504.",
      [conversion("f32"), conversion("i32")],
      (value, _from, to) => (to === "f16" && Math.abs(value) >= 65520 ? Math.sign(value) * 65504 : undefined),
    ),
    {
      name: "converts the first elements of the last conversion again",
      operation: "copy",
      defect: "lifecycle",
      description: "A staging area that is filled once for each shape.",
      killedBy: ["ordering: copy: uses its operands as they are at the call"],
      create: () => {
        const kept = new Map<string, CopyProblem<ReferenceMemory>["input"]>();
        return tampered("copy", (p) => {
          const key = `${p.dtype} ${p.shape} ${p.inputStrides}`;
          const first = kept.get(key) ?? mapped(p.input, p.dtype, (x) => x);
          kept.set(key, first);
          return { ...p, input: first };
        });
      },
    },
  ];
};
