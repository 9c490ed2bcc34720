import type {
  ArithmeticKind,
  Capabilities,
  ComputeBackend,
  DType,
  Numerics,
  OperationName,
  UnaryKind,
} from "@backplane/core";
import type { Arbitrary } from "fast-check";

/**
 * Which error bounds are required. `must`: those that hold for every backend. `tight`: also those of
 * correctly rounded arithmetic, which otherwise bind only a backend that declares it.
 */
export type Grade = "must" | "tight";

/** One sentence that every backend must satisfy, and a way to try to refute it. */
export interface Law {
  /** The subject of the law: an operation, or a part of the contract such as `memory`. */
  readonly topic: string;
  /** The sentence. Unique within the topic and element type. */
  readonly name: string;
  readonly operation?: OperationName;
  readonly dtype?: DType;
  /** The grade of bound that it checks. Default: `must`. */
  readonly grade?: Grade;
  /**
   * The promise of `capabilities.numerics` that the law tests. The law does not bind a backend without this
   * promise: it is still tried for the report, but breaking it is no failure.
   */
  readonly promise?: NumericsPromise;
  /**
   * Returns why the law does not bind a backend, judged only by what that backend declares; undefined if it
   * binds. Not asked if the law is skipped for other reasons: the backend lacks the operation and element
   * type, or does not make the promise.
   */
  readonly exempt?: (capabilities: Capabilities, backend: ComputeBackend) => string | undefined;
  /** Whether it loses devices. Such a law is skipped if the subject has no `Subject.loseDevice`. */
  readonly needsLoss?: boolean;
  /** Throws if the law is broken. */
  readonly run: (context: LawContext) => Promise<void>;
}

/** The promises that laws test. The other one, `transformedConvolutions`, says which bound laws hold a backend to. */
export type NumericsFlag = Exclude<keyof Numerics, "transformedConvolutions">;

export interface NumericsPromise {
  readonly flag: NumericsFlag;
  readonly value: string | boolean;
}

/** The tools of a law while it runs. */
export interface LawContext {
  readonly law: Law;
  /** Initialised and shared by all laws. Leave it usable and free what you allocate. */
  readonly backend: ComputeBackend;
  /** The numerics required of the backend: as it declares, or stricter if the tight grade is required. */
  readonly numerics: Numerics;
  /** Returns a new initialised instance, which is disposed of when the law ends. */
  readonly fresh: () => Promise<ComputeBackend>;
  /** Returns a new instance before `init()`, which is disposed of when the law ends. */
  readonly unopened: () => Promise<ComputeBackend>;
  /** Makes a backend lose its device. Resolves when the device is lost, which may be before the backend notices. */
  readonly loseDevice: (backend: ComputeBackend) => Promise<void>;
  /**
   * Tries the property on random cases. On failure shrinks the case and throws a `LawFailure`. At most once per law.
   */
  readonly forAll: <Case>(
    arbitrary: Arbitrary<Case>,
    property: (value: Case) => Promise<void>,
    options?: ForAllOptions<Case>,
  ) => Promise<void>;
  /** Tries the property on each of a few fixed cases; throws a `LawFailure`. Replaces `forAll`. */
  readonly forEach: <Case>(
    cases: readonly Case[],
    property: (value: Case) => Promise<void>,
    options?: ForEachOptions,
  ) => Promise<void>;
  /**
   * Records for reports how much of its tolerance a result used, and the extents of its shape along the
   * `shapeAxes` of the law's operation.
   */
  readonly observe: (errorOverTolerance: number, extents?: readonly number[]) => void;
  /** Records for reports how large the error of a function was. */
  readonly observeUnits: (observation: UnitsObservation) => void;
  /** The path of `fc.commands` if this is a replay. */
  readonly replayPath: string | undefined;
}

/** The worst result of a function in f32 over one range of its argument. */
export interface UnitsObservation {
  readonly kind: UnaryKind | ArithmeticKind;
  /** Index of the range in the backend's declaration; 0 if it declares none. */
  readonly range: number;
  /** Error in units in the last place; may be infinite. */
  readonly units: number;
  /** The arguments. */
  readonly at: readonly number[];
}

export interface ForAllOptions<Case> {
  /** Cases to try before the random ones. */
  readonly examples?: readonly Case[];
  /** Multiplies the number of random cases; below 1 for costly ones. Default: 1. */
  readonly runs?: number;
  /** Returns one line that shows a case, for cases that are not plain data. Default: a JavaScript literal. */
  readonly show?: (value: Case) => string;
}

export interface ForEachOptions {
  /** Quick mode tries only this many cases, from the first on. Default: all. */
  readonly quick?: number;
}

/** The data needed to see a failure again. It is printed with the failure as one line of JSON. */
export interface Replay {
  /** As `lawId` returns it. */
  readonly law: string;
  readonly seed: number;
  /** The place of the shrunk case in the search. */
  readonly path?: string;
  readonly replayPath?: string;
}

/** A law that a backend broke. The message has the case, the error and the replay line. */
export class LawFailure extends Error {
  readonly replay: Replay;
  /** The error alone. */
  readonly reason: string;
  /** The smallest case found, as a JavaScript literal or a list of calls; undefined if the law has no cases. */
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

/** Returns the name of a law, unique in the suite, such as `gemm f32: exact on integers`. */
export function lawId(law: Law): string {
  return `${law.topic}${law.dtype === undefined ? "" : ` ${law.dtype}`}: ${law.name}`;
}
