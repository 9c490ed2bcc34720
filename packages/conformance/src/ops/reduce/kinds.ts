import { numberReduceKinds, type ReducedType, type ReduceKind, truthReduceKinds } from "@backplane/core";

/** Of floats alone. */
const floatKinds: readonly ReduceKind[] = ["mean", "logSumExp"];
const integerKinds = numberReduceKinds.filter((kind) => !floatKinds.includes(kind));

/** The kinds that each element type has. */
export const reduceKindsOf: Readonly<Record<ReducedType, readonly ReduceKind[]>> = {
  f32: numberReduceKinds,
  f16: numberReduceKinds,
  i32: integerKinds,
  u32: integerKinds,
  u8: truthReduceKinds,
};
