import {
  type ArgReduceKind,
  type DType,
  type FloatType,
  floatTypes,
  type IntegerType,
  integerTypes,
  type ReducedType,
  type ReduceKind,
  type ScanKind,
  type TruthReduceKind,
  truthReduceKinds,
} from "@backplane/core";
import { refuse } from "../errors.js";
import { contiguous } from "../lazy/fusion.js";
import { placeOf, Value } from "../value.js";
import { axesOf, axisOf } from "../view/shape.js";
import { operation, type TensorOperation } from "./operation.js";

export interface ReductionAttributes {
  /** Default: all. */
  readonly axes?: number | readonly number[] | undefined;
  /** Reduced axes stay, with extent 1. */
  readonly keepAxes?: boolean | undefined;
}

/** The element types that a kind has. */
function typesOf(kind: ReduceKind): readonly DType[] {
  if (truthReduceKinds.includes(kind as TruthReduceKind)) return ["u8"];
  return kind === "mean" || kind === "logSumExp" ? floatTypes : [...floatTypes, ...integerTypes];
}

function reduction(kind: ReduceKind): TensorOperation<ReductionAttributes> {
  const types = typesOf(kind);
  return operation(`reduce.${kind}`, ([x], { axes, keepAxes = false }) => {
    const { backend, dtype, shape } = x!;
    if (!types.includes(dtype))
      refuse(kind, "dtype", `is ${dtype}; allowed: ${types.join(", ")} (use cast)`, "UNSUPPORTED");
    const reduced = axesOf(kind, axes, shape.length);
    const kept = keepAxes
      ? shape.map((extent, axis) => (reduced.includes(axis) ? 1 : extent))
      : shape.filter((_, axis) => !reduced.includes(axis));
    const input = contiguous(x!);
    const result = Value.allocate(backend, dtype, kept);
    backend.reduce({
      kind,
      shape,
      axes: reduced,
      input,
      output: placeOf(result),
      dtype: dtype as ReducedType,
    });
    return result;
  });
}

/** Sums and the like, over some axes. */
export const reductions: Readonly<Record<ReduceKind, TensorOperation<ReductionAttributes>>> = {
  sum: reduction("sum"),
  mean: reduction("mean"),
  max: reduction("max"),
  min: reduction("min"),
  prod: reduction("prod"),
  logSumExp: reduction("logSumExp"),
  any: reduction("any"),
  all: reduction("all"),
};

/** The first place of the largest or smallest element along an axis, i32. */
export const argReduce: TensorOperation<{ readonly kind: ArgReduceKind; readonly axis: number }> = operation(
  "argReduce",
  ([x], { kind, axis }) => {
    const { backend, dtype, shape } = x!;
    const along = axisOf(kind, axis, shape.length);
    const input = contiguous(x!);
    const result = Value.allocate(backend, "i32", shape.toSpliced(along, 1));
    backend.argReduce({
      ...{ kind, shape, axis: along, input, output: placeOf(result) },
      dtype: dtype as FloatType | IntegerType,
    });
    return result;
  },
);

export interface ScanAttributes {
  readonly axis: number;
  readonly exclusive: boolean;
  readonly reverse: boolean;
}

function scanOf(kind: ScanKind): TensorOperation<ScanAttributes> {
  return operation(`scan.${kind}`, ([x], { axis, exclusive, reverse }) => {
    const { backend, dtype, shape } = x!;
    const along = axisOf("scan", axis, shape.length);
    const input = contiguous(x!);
    const result = Value.allocate(backend, dtype, shape);
    backend.scan({
      ...{ kind, shape, axis: along, exclusive, reverse, input, output: placeOf(result) },
      dtype: dtype as FloatType | IntegerType,
    });
    return result;
  });
}

/** Sums and the like of all elements so far, along an axis. */
export const scans: Readonly<Record<ScanKind, TensorOperation<ScanAttributes>>> = {
  sum: scanOf("sum"),
  prod: scanOf("prod"),
  max: scanOf("max"),
  min: scanOf("min"),
};
