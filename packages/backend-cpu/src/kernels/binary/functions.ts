import type { Accuracy, BinaryKind } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32x4, type Value, v128 } from "../../wasm/index.js";
import type { FormType } from "../elements/index.js";
import { arctangentOf } from "../math/index.js";
import { shift } from "./bits.js";
import { division, integerRemainder } from "./division.js";
import { power } from "./power.js";
import { flooredQuotient, modulo, remainder } from "./remainder.js";

type Pairwise = (a: Value<"v128">, b: Value<"v128">) => Value<"v128">;

/** How one kind is computed on vectors of four lanes. */
export interface LaneFunction {
  /** Emits constants, to be called before the loop. */
  readonly emit: (f: FunctionBuilder) => Pairwise;
  /** Vectors per round of the loop. */
  readonly unroll: number;
}

/** One kind, for each type of lanes that it has. Results of comparisons, and truth values, are lanes of 1 or 0. */
export interface BinaryFunction extends Readonly<Partial<Record<FormType, LaneFunction>>> {
  /** The largest error of floats, as in core's `Accuracy`; 0.5 is correct rounding. "exact": nothing is rounded. */
  readonly units: number | "exact";
}

const short = (compute: Pairwise): LaneFunction => ({ emit: () => compute, unroll: 4 });
const long = (emit: LaneFunction["emit"]): LaneFunction => ({ emit, unroll: 1 });

/** The same for integers of either sign, and only of those. */
const bits = (compute: Pairwise): BinaryFunction => ({
  units: "exact",
  i32: short(compute),
  u32: short(compute),
});

/** Bytes, of which all but 0 are true. */
const logical = (combine: Pairwise): BinaryFunction => ({
  units: "exact",
  u8: {
    unroll: 4,
    emit(f) {
      const one = f.let(i32x4.const(1));
      return (a, b) => combine(i32x4.minU(a, one), i32x4.minU(b, one));
    },
  },
});

/** Integers wrap around, whatever their sign. */
const wrapping = (floats: Pairwise, integers: Pairwise): BinaryFunction => ({
  units: 0.5,
  f32: short(floats),
  i32: short(integers),
  u32: short(integers),
});

const comparison = (floats: Pairwise, signed: Pairwise, unsigned: Pairwise): BinaryFunction => {
  const truth = (compare: Pairwise) => short((a, b) => i32x4.shrU(compare(a, b), 31));
  return { units: "exact", f32: truth(floats), i32: truth(signed), u32: truth(unsigned) };
};

/** The one table of binary functions: kernels, operation, declared accuracy and tests are made from it. */
export const binaryFunctions: Readonly<Record<BinaryKind, BinaryFunction>> = {
  add: wrapping(f32x4.add, i32x4.add),
  sub: wrapping(f32x4.sub, i32x4.sub),
  mul: wrapping(f32x4.mul, i32x4.mul),
  div: {
    units: 0.5,
    f32: short(f32x4.div),
    i32: long(division("i32")),
    u32: long(division("u32")),
  },
  max: { units: "exact", f32: short(f32x4.max), i32: short(i32x4.maxS), u32: short(i32x4.maxU) },
  min: { units: "exact", f32: short(f32x4.min), i32: short(i32x4.minS), u32: short(i32x4.minU) },
  mod: {
    units: 0.5,
    f32: long(modulo),
    i32: long(integerRemainder("i32", "floor")),
    u32: long(integerRemainder("u32", "trunc")),
  },
  rem: {
    units: "exact",
    f32: long(remainder),
    i32: long(integerRemainder("i32", "trunc")),
    u32: long(integerRemainder("u32", "trunc")),
  },
  floorDiv: {
    units: 0.5,
    f32: long(flooredQuotient),
    i32: long(division("i32", "floor")),
    u32: long(division("u32")),
  },
  atan2: { units: 2.25, f32: long(arctangentOf) },
  pow: { units: 0.5, f32: long(power) },
  equal: comparison(f32x4.eq, i32x4.eq, i32x4.eq),
  notEqual: comparison(f32x4.ne, i32x4.ne, i32x4.ne),
  less: comparison(f32x4.lt, i32x4.ltS, i32x4.ltU),
  lessEqual: comparison(f32x4.le, i32x4.leS, i32x4.leU),
  greater: comparison(f32x4.gt, i32x4.gtS, i32x4.gtU),
  greaterEqual: comparison(f32x4.ge, i32x4.geS, i32x4.geU),
  and: bits(v128.and),
  or: bits(v128.or),
  xor: bits(v128.xor),
  shl: { units: "exact", i32: long(shift("shl")), u32: long(shift("shl")) },
  shr: { units: "exact", i32: long(shift("shrS")), u32: long(shift("shrU")) },
  logicalAnd: logical(v128.and),
  logicalOr: logical(v128.or),
  logicalXor: logical(v128.xor),
};

/** The kinds that an element type has. */
export function binaryKindsOf(form: FormType): readonly BinaryKind[] {
  return (Object.keys(binaryFunctions) as BinaryKind[]).filter(
    (kind) => binaryFunctions[kind][form] !== undefined,
  );
}

/** What `units` say, in the form of capabilities. */
export const binaryAccuracy: Accuracy["binary"] = Object.fromEntries(
  Object.entries(binaryFunctions).flatMap(([kind, { units }]) => (units === "exact" ? [] : [[kind, units]])),
);
