import type { Accuracy, BinaryKind, IntegerType } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32x4, type Value } from "../../wasm/index.js";
import type { LaneType } from "../elements/index.js";
import { division } from "./division.js";
import { power } from "./power.js";

type Pairwise = (a: Value<"v128">, b: Value<"v128">) => Value<"v128">;

/** How one kind is computed on vectors of four lanes. */
export interface LaneFunction {
  /** Emits constants, to be called before the loop. */
  readonly emit: (f: FunctionBuilder) => Pairwise;
  /** Vectors per round of the loop. */
  readonly unroll: number;
}

/** One kind, for each type of lanes that it has. Results of comparisons are lanes of 1 or 0. */
export interface BinaryFunction extends Readonly<Partial<Record<LaneType, LaneFunction>>> {
  readonly f32: LaneFunction;
  /** The largest error of floats, as in core's `Accuracy`; 0.5 is correct rounding. "exact": nothing is rounded. */
  readonly units: number | "exact";
}

const short = (compute: Pairwise): LaneFunction => ({ emit: () => compute, unroll: 4 });

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
    i32: { emit: division("i32"), unroll: 1 },
    u32: { emit: division("u32"), unroll: 1 },
  },
  max: { units: "exact", f32: short(f32x4.max), i32: short(i32x4.maxS), u32: short(i32x4.maxU) },
  min: { units: "exact", f32: short(f32x4.min), i32: short(i32x4.minS), u32: short(i32x4.minU) },
  pow: { units: 0.5, f32: { emit: power, unroll: 1 } },
  equal: comparison(f32x4.eq, i32x4.eq, i32x4.eq),
  notEqual: comparison(f32x4.ne, i32x4.ne, i32x4.ne),
  less: comparison(f32x4.lt, i32x4.ltS, i32x4.ltU),
  lessEqual: comparison(f32x4.le, i32x4.leS, i32x4.leU),
  greater: comparison(f32x4.gt, i32x4.gtS, i32x4.gtU),
  greaterEqual: comparison(f32x4.ge, i32x4.geS, i32x4.geU),
};

/** The kinds that an integer type has. */
export function integerKinds(type: IntegerType): readonly BinaryKind[] {
  return (Object.keys(binaryFunctions) as BinaryKind[]).filter(
    (kind) => binaryFunctions[kind][type] !== undefined,
  );
}

/** What `units` say, in the form of capabilities. */
export const binaryAccuracy: Accuracy["binary"] = Object.fromEntries(
  Object.entries(binaryFunctions).flatMap(([kind, { units }]) => (units === "exact" ? [] : [[kind, units]])),
);
