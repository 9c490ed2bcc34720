import { type Activation, activations } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  f32x4,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { activationFunctions } from "../unary/index.js";
import { mapVectors } from "../vector/index.js";

/** The steps after finished sums, as parameters of kernels. */
export interface EpilogueParameters {
  /** Address of the bias, in f32; 0 if there is none. */
  readonly bias: number;
  /** Bytes from column to column of the bias: 4, or 0 if all columns share one. */
  readonly biasStep: number;
  /** A value of `activationCode`. */
  readonly activation: number;
}

export const epilogueTypes = { bias: "i32", biasStep: "i32", activation: "i32" } as const;

export const noEpilogue: EpilogueParameters = { bias: 0, biasStep: 0, activation: 0 };

export type EpilogueLocals = { readonly [Name in keyof EpilogueParameters]: Local<"i32"> };

/** Returns the code of an activation in parameters; 0 for none. */
export function activationCode(activation: Activation | undefined): number {
  return activation === undefined ? 0 : activations.indexOf(activation) + 1;
}

/** Whether there is anything to do. */
export function hasEpilogue({ bias, activation }: EpilogueLocals): Value<"i32"> {
  return i32.or(bias, activation);
}

/** Applies one activation to `count` f32 at `at`, in place. */
function activationFunction(module: ModuleBuilder, kind: Activation): FunctionReference {
  return module.shared(`activate_${kind}`, (label) =>
    module.function(label, { at: "i32", count: "i32" }, (f, { at, count }) => {
      const { emit, unroll } = activationFunctions[kind].f32!;
      // None of these kinds needs scratch.
      const compute = emit(f, at);
      const stream = { at, elements: elementsOf(f, "f32") };
      mapVectors(f, { count, inputs: [stream], output: stream, compute: (x) => compute(x!), unroll });
    }),
  );
}

/** Activations that only cut results off: the bias is added, and all of this done, in one pass. */
const bounds: Readonly<Partial<Record<Activation, { readonly low: number; readonly high: number }>>> = {
  relu: { low: 0, high: Number.POSITIVE_INFINITY },
  relu6: { low: 0, high: 6 },
};

/** What is left of an epilogue for single vectors: all but activations that do more than cut off. */
export interface BoundedEpilogue {
  /** 1 if the activation only cuts off, and else 0, also without one. */
  readonly isBounded: Local<"i32">;
  /** activation(sum + addend), or sum + addend if the activation does more. */
  readonly finish: (sum: Value<"v128">, addend: Value<"v128">) => Value<"v128">;
  /** The addend that changes nothing. */
  readonly nothing: Local<"v128">;
}

export function boundedEpilogue(f: FunctionBuilder, activation: Local<"i32">): BoundedEpilogue {
  const low = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  const high = f.let(f32x4.const(Number.POSITIVE_INFINITY));
  // x + -0 is x, also for x = -0; x + 0 makes 0 of it.
  const nothing = f.let(f32x4.const(-0));
  const zero = f.let(nothing);
  const isBounded = f.let(i32.const(0));
  for (const [index, kind] of activations.entries()) {
    const bound = bounds[kind];
    if (bound === undefined) continue;
    f.if(i32.eq(activation, index + 1), () => {
      f.set(low, f32x4.const(bound.low));
      f.set(high, f32x4.const(bound.high));
      f.set(zero, f32x4.const(0));
      f.set(isBounded, 1);
    });
  }
  // pmax and pmin keep a NaN of their first operand.
  const finish = (sum: Value<"v128">, addend: Value<"v128">): Value<"v128"> =>
    f32x4.pmin(f32x4.add(f32x4.pmax(f32x4.add(sum, addend), low), zero), high);
  return { isBounded, finish, nothing };
}

/** Rows of fewer columns are computed some columns at a time, down all rows: starting on a row would take longer than it. */
const narrowColumns = 32;
/** Vectors of them that are side by side. */
const narrowVectors = 4;

/**
 * row[j] = activation(row[j] + bias[j]) for `m` rows of `n` f32, `stride` bytes from row to row, in
 * place. For parts of a result that are still in the cache.
 */
export function epilogueFunction(module: ModuleBuilder): FunctionReference {
  const smooth = [...activations.entries()].filter(([, kind]) => bounds[kind] === undefined);
  const applied = smooth.map(([index, kind]) => ({
    code: index + 1,
    apply: activationFunction(module, kind),
  }));
  return module.shared("epilogue", (label) =>
    module.function(
      label,
      { row: "i32", stride: "i32", m: "i32", n: "i32", ...epilogueTypes },
      (f, { row, stride, m, n, bias, biasStep, activation }) => {
        const elements = elementsOf(f, "f32");
        const { isBounded, finish, nothing } = boundedEpilogue(f, activation);
        const hasColumns = f.let(i32.and(i32.ne(bias, 0), i32.ne(biasStep, 0)));
        const one = f.let(nothing);
        f.if(bias, () => f.if(i32.eqz(biasStep), () => f.set(one, v128.load32Splat(bias))));

        const narrow = (): void => {
          const left = f.let(n);
          const corner = f.let(row);
          const biasAt = f.let(bias);
          const columns = (vectors: number): void => {
            const addends = Array.from({ length: vectors }, () => f.let(one));
            f.if(hasColumns, () => {
              for (const [v, addend] of addends.entries()) f.set(addend, v128.load(biasAt, 16 * v));
              f.add(biasAt, 16 * vectors);
            });
            const at = f.let(corner);
            f.forRange(0, m, () => {
              const finished = addends.map((addend, v) => finish(v128.load(at, 16 * v), addend));
              if (vectors > 1) for (const [v, vector] of finished.entries()) f.store(at, vector, 16 * v);
              else {
                const [vector] = finished.map((value) => f.let(value)) as [Local<"v128">];
                f.if(
                  i32.geU(left, 4),
                  () => f.store(at, vector),
                  () => elements.storeFirst(at, vector, left),
                );
              }
              f.add(at, stride);
            });
            f.add(corner, 16 * vectors);
            f.set(left, i32.sub(left, 4 * vectors));
          };
          f.while(i32.geU(left, 4 * narrowVectors), () => columns(narrowVectors));
          f.while(i32.gtS(left, 0), () => columns(1));
        };
        const wide = (): void => {
          const at = f.let(row);
          f.forRange(0, m, () => {
            const output = { at: f.let(at), elements };
            const map = (addend: typeof output | Value<"v128">): void =>
              mapVectors(f, {
                ...{ count: n, inputs: [output, addend], output, unroll: 2 },
                compute: (sum, value) => finish(sum!, value!),
              });
            f.if(
              hasColumns,
              () => map({ at: f.let(bias), elements }),
              () => map(one),
            );
            f.add(at, stride);
          });
        };
        f.if(i32.or(bias, isBounded), () => f.if(i32.ltU(n, narrowColumns), narrow, wide));
        for (const { code, apply } of applied)
          f.if(i32.eq(activation, code), () => {
            const at = f.let(row);
            f.forRange(0, m, () => {
              f.call(apply, at, n);
              f.add(at, stride);
            });
          });
      },
    ),
  );
}
