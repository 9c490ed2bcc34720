import type { TunableOperation } from "../device/index.js";
import {
  type AttentionShape,
  attentionVariants,
  type ConvShape,
  convVariants,
  type GemmShape,
  gemmVariants,
  type ReduceLoads,
  reduceVariants,
} from "../kernels/index.js";

/** The facts on which the choice of a variant is based; gemm stands for batchedGemm too. */
interface TunableShapes {
  readonly gemm: GemmShape;
  readonly conv2d: ConvShape;
  readonly attention: AttentionShape;
  readonly reduce: ReduceLoads;
}

type Test = (value: unknown) => boolean;

interface FieldKind {
  readonly is: Test;
  readonly allowed: string;
}

const oneOf = (...values: readonly unknown[]): FieldKind => ({
  is: (value) => values.includes(value),
  allowed: values.join(", "),
});
const isCount: Test = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const count: FieldKind = { is: isCount, allowed: "a whole number from 0" };
const flag = oneOf(true, false);
const dtype = oneOf("f32", "f16");
/** Absent in JSON if it is undefined. */
const window: FieldKind = {
  is: (value) =>
    value === undefined ||
    (typeof value === "object" &&
      value !== null &&
      isCount((value as { side?: unknown }).side) &&
      isCount((value as { stride?: unknown }).stride)),
  allowed: "nothing, or a side and a stride",
};

/** Everything that a choice depends on, in the order of keys: a new field of a shape must be added here. */
export const shapeFields: {
  readonly [Operation in TunableOperation]: {
    readonly [Field in keyof TunableShapes[Operation]]-?: FieldKind;
  };
} = {
  gemm: {
    ...{ dtype, m: count, n: count, k: count, batch: count, transA: flag, transB: flag },
    ...{ vectorA: flag, vectorB: flag, wholeEights: flag },
  },
  conv2d: {
    ...{ dtype, batch: count, groups: count, groupOutputs: count, taps: count, pixels: count },
    ...{ pointwise: flag, window },
  },
  attention: {
    ...{ dtype, matrices: count, rows: count, keyLength: count, headSize: count, wholeEights: flag },
  },
  reduce: { dtype, along: oneOf("kept", "reduced"), wide: flag, length: count, outputs: count },
};

/** The names of the variants of each operation. */
export const tunableVariants: Readonly<Record<TunableOperation, readonly string[]>> = {
  gemm: gemmVariants.map(({ name }) => name),
  conv2d: convVariants.map(({ name }) => name),
  attention: attentionVariants.map(({ name }) => name),
  reduce: reduceVariants.map(({ name }) => name),
};

export const tunableOperations: readonly TunableOperation[] = Object.keys(
  shapeFields,
) as readonly TunableOperation[];

const fieldNames: Readonly<Record<TunableOperation, readonly string[]>> = {
  gemm: Object.keys(shapeFields.gemm),
  conv2d: Object.keys(shapeFields.conv2d),
  attention: Object.keys(shapeFields.attention),
  reduce: Object.keys(shapeFields.reduce),
};

/** The same text for the same choice, and another one for every other. */
export function shapeKey(operation: TunableOperation, shape: object): string {
  const values = shape as Readonly<Record<string, unknown>>;
  let key: string = operation;
  for (const name of fieldNames[operation]) {
    const value = values[name];
    key +=
      typeof value === "object"
        ? ` ${(value as { side: number }).side}/${(value as { stride: number }).stride}`
        : ` ${value}`;
  }
  return key;
}

/** Returns the fields of a shape by name, for people, without those that are false or absent. */
export function shapeText(shape: object): string {
  return Object.entries(shape)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name, value]) => (value === true ? name : `${name} ${wordOf(value)}`))
    .join(", ");
}

function wordOf(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
