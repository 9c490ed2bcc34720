import {
  type ComputeBackend,
  type Cost,
  costOf,
  type DeviceHandle,
  type FloatType,
  newHandle,
  type OperationArguments,
  type OperationName,
} from "@backplane/core";
import type { PeriodicData } from "../data.js";

/** Inputs by argument name, as the device holds them: already rounded to the case's element type. */
export type Inputs = Readonly<Record<string, PeriodicData>>;

export type Handles = Readonly<Record<string, DeviceHandle>>;

/** The exact value of one output element, in float64, and its allowed error. */
export interface Expected {
  readonly value: number;
  readonly tolerance: number;
}

/** The comparison of a case, and the intended outcome. */
export type Goal =
  /** The same problem by PyTorch, by time. */
  | { readonly against: "torch"; readonly atLeast: number }
  /** An aligned device copy, by bytes a second. */
  | { readonly against: "copy"; readonly atLeast: number }
  /** Another case on the same backend, by floating-point operations a second. */
  | { readonly against: "case"; readonly other: Case; readonly atLeast: number }
  /** A fixed time per operation: a limit, or the time that `by` took. */
  | {
      readonly against: "time";
      readonly microseconds: number;
      readonly by?: string;
      readonly atLeast: number;
    };

/** A computation to time at one size: its inputs, the way to run it, and a check of any element of its output. */
export interface Case {
  /** Unique within a table of cases. */
  readonly name: string;
  readonly operation: OperationName | "small operation" | "transfer";
  readonly dtype: FloatType;
  /** Elements of each input by argument name. */
  readonly inputs: Readonly<Record<string, number>>;
  /** Inputs that are whole numbers (i32) in [0, below). */
  readonly below?: Readonly<Record<string, number>>;
  /** Those of them that are bytes. */
  readonly bytes?: readonly string[];
  /** Inputs in f32, whatever the element type of the others. */
  readonly wide?: readonly string[];
  readonly output: Output;
  readonly cost: Cost;
  /**
   * Returns the function to time. The handles are those of `inputs`, and that of the output if it is on the device.
   */
  readonly prepare: (backend: ComputeBackend, handles: Handles, inputs: Inputs) => Prepared;
  readonly expected: (inputs: Inputs, index: number) => Expected;
  /** Terms that are summed to find one expected element. Default: half of the operations for each element of the output. */
  readonly terms?: number;
  /** The problem in plain data, for anchors. */
  readonly problem: Readonly<Record<string, unknown>>;
  /** Of random numbers: the share of them that is at most x. Those of other libraries are others, but follow it too. */
  readonly distribution?: (x: number) => number;
  readonly goal?: Goal;
  /** True: only if matrix units are in use. False: only if they are not. Default: everywhere. */
  readonly matrices?: boolean;
  /** The curve that it is a point of, and its place there. */
  readonly curve?: { readonly name: string; readonly x: number };
}

/** Results in these types can be compared. */
export type ResultType = FloatType | "i32" | "u8";

/** The place of the results. */
export interface Output {
  /** An argument of its own, or one of the inputs. */
  readonly argument: string;
  /** Number of elements written, all of which may be checked. */
  readonly elements: number;
  /** Elements between the first and the last of them, both included. Default: `elements`. */
  readonly extent?: number;
  /** Default: as the inputs. */
  readonly dtype?: ResultType;
  /** The place of one of them, in elements. Default: one after the other. */
  readonly place?: (index: number) => number;
}

export interface Prepared {
  readonly call: () => void | Promise<void>;
  /** Operations per call. Default 1. */
  readonly operations?: number;
  /** The output, if it is in host memory. */
  readonly host?: Float32Array;
  /** Gives back what the preparation has made. */
  readonly close?: () => void;
}

/** Options that every family of cases passes on. */
export interface CaseOptions {
  readonly goal?: Goal;
  readonly matrices?: boolean;
  readonly curve?: { readonly name: string; readonly x: number };
}

/** A case that calls one operation. */
export interface OperationCase<Name extends OperationName> extends CaseOptions {
  readonly name: string;
  readonly operation: Name;
  readonly dtype: FloatType;
  readonly inputs: Readonly<Record<string, number>>;
  readonly below?: Readonly<Record<string, number>>;
  readonly bytes?: readonly string[];
  readonly wide?: readonly string[];
  readonly output: Output;
  readonly args: (handles: Handles) => OperationArguments[Name];
  readonly expected: Case["expected"];
  readonly terms?: number;
  readonly problem: Case["problem"];
}

export function operationCase<Name extends OperationName>(spec: OperationCase<Name>): Case {
  const { args, ...rest } = spec;
  const names = [...Object.keys(spec.inputs), spec.output.argument];
  const cost = costOf(spec.operation, args(Object.fromEntries(names.map((name) => [name, newHandle()]))));
  return {
    ...rest,
    name: `${spec.operation} ${spec.dtype} ${spec.name}`,
    cost,
    prepare(backend, handles) {
      const bound = args(handles);
      const call = backend[spec.operation].bind(backend) as (args: OperationArguments[Name]) => void;
      return { call: () => call(bound) };
    },
    problem: { operation: spec.operation, dtype: spec.dtype, ...spec.problem },
  };
}

/** eps of the element type; twice the unit roundoff, since rounding may be other than to nearest. */
export const epsilon: Readonly<Record<FloatType, number>> = { f32: 2 ** -23, f16: 2 ** -10 };

/** Tolerance of a sum of `terms` products accumulated in f32 and stored in `dtype`. */
export function sumOfProducts(dtype: FloatType, value: number, magnitude: number, terms: number): Expected {
  return { value, tolerance: (terms + 3) * epsilon.f32 * magnitude + storage(dtype, value) };
}

/** Returns the error that rounding a result to its element type may add. */
export function storage(dtype: FloatType, value: number): number {
  return dtype === "f16" ? epsilon.f16 * Math.abs(value) + 2 ** -24 : 0;
}
