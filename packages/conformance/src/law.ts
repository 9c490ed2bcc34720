import type {
  BinaryKind,
  Capabilities,
  ComputeBackend,
  DType,
  Numerics,
  OperationName,
  UnaryKind,
} from "@backplane/core";
import type { Arbitrary } from "fast-check";

/**
 * Which error bounds are asked for. `must`: those that hold for every backend. `tight`: those of
 * correctly rounded arithmetic too, which otherwise bind only a backend that declares it.
 */
export type Grade = "must" | "tight";

/** One sentence that every backend must satisfy, and how to try to refute it. */
export interface Law {
  /** What it is about: an operation, or a side of the contract such as `memory`. */
  readonly topic: string;
  /** The sentence. Unique within the topic and element type. */
  readonly name: string;
  readonly operation?: OperationName;
  readonly dtype?: DType;
  /** The grade of bound that it checks, where that is not `must`. */
  readonly grade?: Grade;
  /**
   * A promise of `capabilities.numerics` without which the law does not bind a backend. It is then
   * tried all the same, for the report, and its outcome is not held against anybody.
   */
  readonly promise?: NumericsPromise;
  /**
   * Why the law does not bind a backend, from nothing but what that backend declares; undefined
   * where it does. A law with an operation and element type that the backend does not support, or on
   * a promise that it does not make, is skipped before this is asked.
   */
  readonly exempt?: (capabilities: Capabilities, backend: ComputeBackend) => string | undefined;
  /** Whether it loses devices: skipped where the subject does not say how (`Subject.loseDevice`). */
  readonly needsLoss?: boolean;
  /** Throws where the law is broken. */
  readonly run: (context: LawContext) => Promise<void>;
}

export interface NumericsPromise {
  readonly flag: keyof Numerics;
  readonly value: string | boolean;
}

/** What a law works with while it runs. */
export interface LawContext {
  readonly law: Law;
  /** Initialised, shared by all laws. Leave it usable and free what you allocate. */
  readonly backend: ComputeBackend;
  /** What the backend is held to: as it declares, or stricter where the tight grade is asked for. */
  readonly numerics: Numerics;
  /** A fresh initialised instance, disposed of when the law ends. */
  readonly fresh: () => Promise<ComputeBackend>;
  /** A fresh instance before `init()`, disposed of when the law ends. */
  readonly unopened: () => Promise<ComputeBackend>;
  /** Makes a backend lose its device. Resolves when that has been done, not when it was noticed. */
  readonly loseDevice: (backend: ComputeBackend) => Promise<void>;
  /** Tries the property on random cases; on failure shrinks, and throws a `LawFailure`. Once per law. */
  readonly forAll: <Case>(
    arbitrary: Arbitrary<Case>,
    property: (value: Case) => Promise<void>,
    options?: ForAllOptions<Case>,
  ) => Promise<void>;
  /** Tries the property on each of a few fixed cases; throws a `LawFailure`. Instead of `forAll`. */
  readonly forEach: <Case>(
    cases: readonly Case[],
    property: (value: Case) => Promise<void>,
    options?: ForEachOptions,
  ) => Promise<void>;
  /**
   * Notes, for reports, how much of its tolerance a result used, and the extents of its shape along
   * the `shapeAxes` of the law's operation.
   */
  readonly observe: (errorOverTolerance: number, extents?: readonly number[]) => void;
  /** Notes, for reports, how far a function was off. */
  readonly observeUnits: (observation: UnitsObservation) => void;
  /** Of `fc.commands`, where a replay was asked for. */
  readonly replayPath: string | undefined;
}

/** The worst result of a function in f32, over one range of its argument. */
export interface UnitsObservation {
  readonly kind: UnaryKind | BinaryKind;
  /** Index of the range in what the backend declares; 0 where it declares none. */
  readonly range: number;
  /** Error in units in the last place, perhaps infinite. */
  readonly units: number;
  /** The arguments. */
  readonly at: readonly number[];
}

export interface ForAllOptions<Case> {
  /** Cases to try before the random ones. */
  readonly examples?: readonly Case[];
  /** Multiplies the number of random cases; below 1 for costly ones. Default 1. */
  readonly runs?: number;
  /** One line that shows a case, for cases that are no plain data. Default: a JavaScript literal. */
  readonly show?: (value: Case) => string;
}

export interface ForEachOptions {
  /** Quick mode tries only so many, the first ones. Default: all. */
  readonly quick?: number;
}

/** How to see a failure again; printed with it as one line of JSON. */
export interface Replay {
  /** As given by `lawId`. */
  readonly law: string;
  readonly seed: number;
  /** Where in the search the shrunk case lies. */
  readonly path?: string;
  readonly replayPath?: string;
}

/** A law that a backend has broken. The message has the case, what went wrong and the replay line. */
export class LawFailure extends Error {
  readonly replay: Replay;
  /** What went wrong, without the rest. */
  readonly reason: string;
  /** The smallest case found, as a JavaScript literal or a list of calls; undefined where there are no cases. */
  readonly shown: string | undefined;
  /** Whether `shown` is a literal that `checkCase` takes. */
  readonly isLiteral: boolean;

  constructor(replay: Replay, cause: unknown, shown?: string, isLiteral = false) {
    const reason = cause instanceof Error ? cause.message : String(cause ?? "");
    const lines = [
      replay.law,
      ...(shown === undefined ? [] : [`case: ${shown}`]),
      reason,
      `replay: ${JSON.stringify(replay)}`,
    ];
    super(lines.join("\n"), { cause });
    this.name = "LawFailure";
    this.replay = replay;
    this.reason = reason;
    this.shown = shown;
    this.isLiteral = isLiteral;
  }
}

/** Name of a law that is unique in the suite, such as `gemm f32: exact on integers`. */
export function lawId(law: Law): string {
  return `${law.topic}${law.dtype === undefined ? "" : ` ${law.dtype}`}: ${law.name}`;
}
