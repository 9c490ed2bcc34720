import { numberReduceKinds, type ReducedType, type ReduceKind, truthReduceKinds } from "@backplane/core";

/** Whole numbers have no mean. */
const integerKinds = numberReduceKinds.filter((kind) => kind !== "mean");

/** The kinds that each element type has. */
export const reduceKindsOf: Readonly<Record<ReducedType, readonly ReduceKind[]>> = {
  f32: numberReduceKinds,
  f16: numberReduceKinds,
  i32: integerKinds,
  u32: integerKinds,
  u8: truthReduceKinds,
};
