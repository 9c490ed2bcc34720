import { type BinaryKind, isComparison } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32, i32x4, type Local, type Value } from "../../wasm/index.js";
import { type ComputedType, type Elements, elementsOf, type FormType, formOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { mapVectors, Odometer, rowsOfChunk } from "../vector/index.js";
import { binaryFunctions } from "./functions.js";

/** Axes outside the innermost one that a kernel can walk along. */
export const outerAxes: number = 8;

type AxisKeys = `${"extent" | "stepA" | "stepB"}${number}`;

export type BinaryTypes = Readonly<
  Record<
    | "a"
    | "b"
    | "output"
    | "inner"
    | "rows"
    | "rowsPerChunk"
    | "chunkElements"
    | "chunksPerRow"
    | "repeats"
    | AxisKeys,
    "i32"
  > &
    Record<"scalar", "f32" | "i32">
>;

/** Values of `repeats`: which input is one element along the innermost axis. */
export const repeats = { none: 0, a: 1, b: 2, scalarA: 3, scalarB: 4 } as const;

const parameterTypes = (scalar: BinaryTypes["scalar"]) =>
  ({
    a: "i32",
    b: "i32",
    output: "i32",
    /** Extent of the innermost axis. */
    inner: "i32",
    /** Product of the other extents. */
    rows: "i32",
    /** Either whole rows are put together in one chunk, or one row is split into several. */
    rowsPerChunk: "i32",
    chunkElements: "i32",
    chunksPerRow: "i32",
    repeats: "i32",
    /** Replaces a or b, as `repeats` says. */
    scalar,
    ...Object.fromEntries(
      Array.from({ length: outerAxes }, (_, axis) => [
        [`extent${axis}`, "i32"],
        [`stepA${axis}`, "i32"],
        [`stepB${axis}`, "i32"],
      ]).flat() as [AxisKeys, "i32"][],
    ),
  }) as const as BinaryTypes;

const scalarTypes: Readonly<Record<FormType, BinaryTypes["scalar"]>> = {
  ...{ f32: "f32", i32: "i32", u32: "i32", u8: "i32" },
};
const splats = { f32: f32x4.splat, i32: i32x4.splat } as const;

/**
 * output = kind(a, b), with broadcasting: the outer axes are walked along with a byte step for each
 * input; along the innermost axis an input follows the output element by element, or repeats one
 * element. Throws if the kind does not have the type.
 */
export function binaryKernel(kind: BinaryKind, dtype: ComputedType | "u8"): Kernel<BinaryTypes> {
  const lanes = formOf(dtype);
  const { [lanes]: form } = binaryFunctions[kind];
  if (form === undefined) throw new TypeError(`binary ${kind} does not have ${dtype}`);
  const { emit, unroll } = form;
  return defineKernel<BinaryTypes>({
    name: `binary_${kind}_${dtype}`,
    parameters: parameterTypes(scalarTypes[lanes]),
    emit(f, { parameters, chunk }) {
      const { inner } = parameters;
      const elements = elementsOf(f, dtype);
      const results = isComparison(kind) ? elementsOf(f, "u8") : elements;
      const compute = emit(f);
      const splat = splats[scalarTypes[lanes]] as (scalar: Value) => Value<"v128">;
      const scalar = f.let(splat(parameters.scalar));

      const { row, rowEnd, begin, count } = rowsOfChunk(f, parameters, chunk);
      const axes = Array.from({ length: outerAxes }, (_, axis) => ({
        extent: parameters[`extent${axis}`]!,
        steps: [parameters[`stepA${axis}`]!, parameters[`stepB${axis}`]!],
      }));
      const odometer = new Odometer(f, axes, 2);
      odometer.seek(f.let(row));
      const [offsetA, offsetB] = odometer.offsets as [Local<"i32">, Local<"i32">];
      const beginBytes = f.let(i32.shl(begin, elements.shift));
      const beginResults = results === elements ? beginBytes : i32.shl(begin, results.shift);
      const output = f.let(
        i32.add(i32.add(parameters.output, beginResults), i32.shl(i32.mul(row, inner), results.shift)),
      );

      const emitRow = (inputs: readonly [Side, Side]): void => {
        mapVectors(f, {
          count,
          inputs: inputs.map((side) => operand(f, elements, side)),
          output: { at: output, elements: results },
          compute: (x, y) => compute(x!, y!),
          unroll: elements.converted ? 1 : unroll,
          parts: 2,
        });
        // mapVectors moves on by whole vectors.
        const overshoot = i32.and(i32.sub(0, count), 3);
        f.set(output, i32.sub(output, i32.shl(overshoot, results.shift)));
      };
      const follows = (base: Value<"i32">, offset: Value<"i32">): Side => ({
        follows: i32.add(i32.add(base, offset), beginBytes),
      });
      const a = follows(parameters.a, offsetA);
      const b = follows(parameters.b, offsetB);
      const oneA = { repeats: i32.add(parameters.a, offsetA) };
      const oneB = { repeats: i32.add(parameters.b, offsetB) };
      const forms: readonly (readonly [form: number, a: Side, b: Side])[] = [
        [repeats.none, a, b],
        [repeats.a, oneA, b],
        [repeats.b, a, oneB],
        [repeats.scalarA, { scalar }, b],
        [repeats.scalarB, a, { scalar }],
      ];
      f.forLocal(row, rowEnd, () => {
        for (const [form, x, y] of forms) f.if(i32.eq(parameters.repeats, form), () => emitRow([x, y]));
        odometer.next();
      });
    },
  });
}

type Side =
  | { readonly follows: Value<"i32"> }
  | { readonly repeats: Value<"i32"> }
  | { readonly scalar: Local<"v128"> };

function operand(f: FunctionBuilder, elements: Elements, side: Side) {
  if ("follows" in side) return { at: f.let(side.follows), elements };
  return "repeats" in side ? f.let(elements.loadSplat(side.repeats)) : side.scalar;
}
